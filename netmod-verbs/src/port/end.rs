//! Ends of reliable connections: queue pairs, and what is under way on each.
//!
//! Requests of a queue pair complete in order, so that a completion covers all before it; short frames, which are copied when they
//! are posted, ask for one only now and then. Of an end that fails the first failure is told, of one that was closed none: buffers
//! come back, and nobody waits for more.

use core::fmt;
use std::collections::VecDeque;

use netmod_core::VcId;
use netmod_frames::device::{Done, NewEnd, Refused};
use netmod_hca::{
    Access, AhAttr, Data, Error, Hca, ModifyQp, Mtu, Qp as _, QpCap, QpInit, QpKind, QpNum, SendFlags,
    SendOp, SendWr, Status, To, ToRtr, ToRts, errno,
};

use super::{DEPTH, INLINE, Of, What, refused};
use crate::words::{BITS_24, RcEnd};

/// Of so many requests that are copied one asks for a completion.
const SIGNAL_EVERY: u32 = 16;
/// Ends have this bit in their numbers, addresses of datagrams have not.
const IS_END: u64 = 1 << 63;
/// Reads that a queue pair has under way, or takes, at most.
const READS: u8 = 16;
/// 34 ms until an answer is missed, which devices may make four times as long: with all repetitions less than what an owner waits who
/// takes memory back.
const TIMEOUT: u8 = 13;
/// So often a request is repeated.
const RETRIES: u8 = 7;
/// A request that meets no receive is repeated without end: the peer lives, as its device has answered.
const RNR_RETRIES: u8 = 7;
/// 0.64 ms until it is.
const RNR_TIMER: u8 = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Made, and not connected.
    New,
    Connected,
    /// It has failed, and that was told.
    Broken,
}

struct End<H: Hca> {
    qp: H::Qp,
    /// Tells numbers apart that have had the same place.
    generation: u32,
    psn: u32,
    state: State,
    /// It is closed as soon as nothing is under way that matters.
    closing: bool,
    /// Nothing is sent or received any more, and what has completed is being taken.
    draining: bool,
    depth: u32,
    /// Requests under way, the oldest first, and the number of that.
    under_way: VecDeque<What>,
    first: u32,
    /// How many of them, the last ones, have asked for no completion.
    silent: u32,
    /// Whose it is.
    vc: VcId,
}

/// All ends of a port, by place.
pub(super) struct Ends<H: Hca> {
    all: Vec<Option<End<H>>>,
    generations: u32,
    /// Longest frame that every end can copy.
    inline: usize,
    /// Transfers under way.
    transfers: usize,
    /// An end is draining.
    draining: bool,
}

impl<H: Hca> Default for Ends<H> {
    fn default() -> Self {
        Ends { all: Vec::new(), generations: 0, inline: INLINE as usize, transfers: 0, draining: false }
    }
}

impl<H: Hca> fmt::Debug for Ends<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ends", self.count())
    }
}

fn is_lasting(what: &What) -> bool {
    *what != What::Inline
}

impl<H: Hca> End<H> {
    fn next(&self) -> u32 {
        self.first.wrapping_add(self.under_way.len() as u32)
    }

    /// Whether nothing is under way that anybody waits for.
    fn is_quiet(&self) -> bool {
        !self.under_way.iter().any(is_lasting)
    }

    /// Everything under way is given up, as completions will say.
    fn flush(&self) {
        if let Err(why) = self.qp.modify(&ModifyQp::Err) {
            tracing::warn!(%why, "a queue pair cannot be given up; it is closed");
        }
    }

    /// The request at the head has ended.
    fn ended(&mut self, result: Result<(), &str>, found: &mut VecDeque<Done>) {
        let Some(what) = self.under_way.pop_front() else { return };
        self.first = self.first.wrapping_add(1);
        self.silent = self.silent.min(self.under_way.len() as u32);
        let tell = self.state != State::Broken && !self.closing;
        let failed = result.err().filter(|_| tell).map(str::to_owned);
        if result.is_err() {
            self.state = State::Broken;
        }
        match (what, failed) {
            (What::Inline, None) => {}
            (What::Inline, Some(why)) => found.push_back(Done::Lost { vc: self.vc, why }),
            (What::Send { vc, .. }, None) => found.push_back(Done::Sent { vc }),
            (What::Send { vc, .. }, Some(why)) => found.push_back(Done::SendFailed { vc, why }),
            (What::Transfer { number }, failed) => {
                let result = result.map_err(str::to_owned);
                found.push_back(Done::Transfer { number, result });
                // With a transfer the whole connection has failed.
                found.extend(failed.map(|why| Done::Lost { vc: self.vc, why }));
            }
        }
    }
}

/// A request for an end.
pub(super) struct Request<'a> {
    pub(super) op: SendOp,
    pub(super) data: Data<'a>,
    pub(super) what: What,
}

impl<H: Hca> Ends<H> {
    /// Whether a number is that of an end, and not of an address.
    #[inline]
    pub(super) fn names(to: u64) -> bool {
        to & IS_END != 0
    }

    #[inline]
    fn get(&mut self, number: u64) -> Option<&mut End<H>> {
        let end = self.all.get_mut(number as u32 as usize)?.as_mut()?;
        (number == IS_END | u64::from(end.generation) << 32 | u64::from(number as u32)).then_some(end)
    }

    /// Ends that are open, or are being closed.
    pub(super) fn count(&self) -> usize {
        self.all.iter().flatten().count()
    }

    /// Makes a queue pair that is ready to be connected.
    ///
    /// # Errors
    /// What the device says.
    pub(super) fn open(
        &mut self,
        hca: &H,
        cq: &H::Cq,
        srq: &H::Srq,
        (port, pkey_index): (u8, u16),
        vc: VcId,
        says: impl FnOnce(QpNum, u32, u8) -> RcEnd,
    ) -> Result<NewEnd, String> {
        let device = hca.device();
        let mut random = [0; 4];
        getrandom::fill(&mut random).map_err(|e| format!("no random numbers: {e}"))?;
        let psn = u32::from_le_bytes(random) & BITS_24;
        let kind = QpKind::Rc { send_cq: cq, recv_cq: cq, srq: Some(srq) };
        let make = |max_inline| {
            let max_send_wr = DEPTH.min(device.max_qp_wr);
            let cap = QpCap { max_send_wr, max_recv_wr: 0, max_send_sge: 1, max_recv_sge: 0, max_inline };
            hca.create_qp(&QpInit { kind, cap, signal_all: false })
        };
        // Devices do not say how much they can send inline: they refuse.
        let made = [INLINE, 128, 64, 0].into_iter().find_map(|inline| match make(inline) {
            Err(e) if e.errno == errno::EINVAL && inline > 0 => None,
            made => Some(made),
        });
        let qp = made.ok_or("no queue pair")?.map_err(|e: Error| e.to_string())?;
        let access =
            Access { local_write: true, remote_write: true, remote_read: true, remote_atomic: false };
        qp.modify(&ModifyQp::Init { port, pkey_index, access }).map_err(|e| e.to_string())?;
        let says = says(qp.number(), psn, READS.min(device.max_qp_rd_atom)).to_bytes();
        let at = self.all.iter().position(Option::is_none).unwrap_or(self.all.len());
        if at == self.all.len() {
            self.all.push(None);
        }
        self.generations = self.generations.wrapping_add(1) & 0x7fff_ffff;
        let cap = qp.cap();
        self.inline = self.inline.min(cap.max_inline as usize);
        self.all[at] = Some(End {
            generation: self.generations,
            psn,
            state: State::New,
            closing: false,
            draining: false,
            depth: cap.max_send_wr.min(DEPTH),
            under_way: VecDeque::with_capacity(DEPTH as usize),
            first: 0,
            silent: 0,
            vc,
            qp,
        });
        Ok(NewEnd { number: IS_END | u64::from(self.generations) << 32 | at as u64, says })
    }

    /// Connects an end with a peer's.
    ///
    /// # Errors
    /// What the device says.
    pub(super) fn connect(
        &mut self,
        number: u64,
        theirs: &RcEnd,
        ah: AhAttr,
        mtu: Mtu,
        (reads_out, reads_in): (u8, u8),
    ) -> Result<(), String> {
        let end = self.get(number).ok_or("the end is closed")?;
        if end.state != State::New {
            return Err("the end is connected already".into());
        }
        let rtr = ToRtr {
            path_mtu: mtu.min(theirs.mtu),
            dest_qp: theirs.qp,
            rq_psn: theirs.psn,
            max_dest_rd_atomic: reads_in.min(READS),
            min_rnr_timer: RNR_TIMER,
            ah,
        };
        let rts = ToRts {
            sq_psn: end.psn,
            timeout: TIMEOUT,
            retry_cnt: RETRIES,
            rnr_retry: RNR_RETRIES,
            max_rd_atomic: reads_out.min(READS).min(theirs.reads),
        };
        end.qp.modify(&ModifyQp::Rtr(rtr)).map_err(|e| e.to_string())?;
        end.qp.modify(&ModifyQp::Rts(rts)).map_err(|e| e.to_string())?;
        end.state = State::Connected;
        Ok(())
    }

    /// Closes an end when what is under way has ended: arrived, or failed, which takes a second or so if the peer does not answer. The last
    /// word of this side may be behind transfers.
    pub(super) fn close(&mut self, number: u64) {
        let Some(end) = self.get(number) else { return };
        end.closing = true;
        self.sweep(number as u32);
    }

    /// Begins to drain an end that is closing, and quiet. With a queue pair that is closed its completions are forgotten, those of
    /// receives among them, whose buffers nobody would have any more.
    fn sweep(&mut self, at: u32) {
        let Some(place) = self.all.get_mut(at as usize) else { return };
        let Some(end) = place.as_mut().filter(|end| end.closing && end.is_quiet()) else { return };
        if end.state == State::New {
            *place = None;
        } else if !end.draining {
            end.draining = true;
            end.flush();
            self.draining = true;
        }
    }

    /// Whether an end waits for the completion queue to be empty.
    #[inline]
    pub(super) fn is_draining(&self) -> bool {
        self.draining
    }

    /// The completion queue was empty: ends that have drained are closed. Places in the queue that are free again.
    pub(super) fn drained(&mut self) -> u32 {
        let mut freed = 0;
        for place in &mut self.all {
            if let Some(end) = place.as_ref().filter(|end| end.draining) {
                freed += end.under_way.len() as u32;
                *place = None;
            }
        }
        self.draining = false;
        freed
    }

    /// Longest frame that can be copied, of any end.
    pub(super) fn inline_max(&self) -> usize {
        self.inline
    }

    /// Whether there is room for a request.
    pub(super) fn has_room(&mut self, number: u64) -> bool {
        self.get(number).is_none_or(|end| (end.under_way.len() as u32) < end.depth)
    }

    /// Posts a request.
    ///
    /// # Errors
    /// If it does not go.
    #[inline]
    pub(super) fn post(&mut self, number: u64, request: Request<'_>) -> Result<(), Refused> {
        let Some(end) = self.get(number) else {
            return Err(Refused::Failed("the connection is closed".into()));
        };
        if end.state != State::Connected || end.closing {
            return Err(Refused::Failed("the connection has failed".into()));
        }
        let n = end.under_way.len() as u32;
        if n >= end.depth {
            return Err(Refused::Again);
        }
        let signaled = is_lasting(&request.what) || end.silent + 1 >= SIGNAL_EVERY || n + 1 >= end.depth;
        let wr = SendWr {
            wr_id: Of::End(number as u32, end.next()).wr_id(),
            op: request.op,
            data: request.data,
            flags: SendFlags { signaled, ..SendFlags::NONE },
            to: To::Peer,
        };
        if let Err(e) = end.qp.post_send(&[wr]) {
            let why = Error::new("ibv_post_send", "a reliable connection", e.errno);
            return Err(if e.errno == errno::ENOMEM { Refused::Again } else { refused(&why) });
        }
        let transfers = usize::from(matches!(request.what, What::Transfer { .. }));
        end.under_way.push_back(request.what);
        end.silent = if signaled { 0 } else { end.silent + 1 };
        self.transfers += transfers;
        Ok(())
    }

    /// A request has completed, and with it all before it. Places in the completion queue that are free again; `None` if it is of
    /// no end, or was told already.
    pub(super) fn completed(
        &mut self,
        at: u32,
        number: u32,
        qp: u32,
        status: Status,
        found: &mut VecDeque<Done>,
        mut free: impl FnMut(&What),
    ) -> Option<u32> {
        let end = self.all.get_mut(at as usize)?.as_mut().filter(|end| end.qp.number().0 == qp)?;
        let before = number.wrapping_sub(end.first);
        if before >= end.under_way.len() as u32 {
            return None;
        }
        let transfers =
            |found: &VecDeque<Done>| found.iter().filter(|d| matches!(d, Done::Transfer { .. })).count();
        let told = transfers(found);
        for _ in 0..before {
            end.under_way.front().into_iter().for_each(&mut free);
            end.ended(Ok(()), found);
        }
        end.under_way.front().into_iter().for_each(&mut free);
        if status.is_success() {
            end.ended(Ok(()), found);
        } else {
            end.ended(Err(meaning(status)), found);
        }
        self.transfers = self.transfers.saturating_sub(transfers(found) - told);
        self.sweep(at);
        Some(before + 1)
    }

    /// A queue pair has failed, as an event says.
    pub(super) fn broken(&mut self, qp: QpNum, why: &str) -> Option<Done> {
        let end = self.all.iter_mut().flatten().find(|end| end.qp.number() == qp)?;
        let tell = end.state == State::Connected && !end.closing;
        end.state = State::Broken;
        tell.then(|| Done::Lost { vc: end.vc, why: why.into() })
    }

    /// The device has failed.
    pub(super) fn all_broken(&mut self, why: &str) -> Vec<Done> {
        let qps: Vec<QpNum> = self.all.iter().flatten().map(|end| end.qp.number()).collect();
        qps.into_iter().filter_map(|qp| self.broken(qp, why)).collect()
    }

    /// Transfers under way.
    pub(super) fn transfers(&self) -> usize {
        self.transfers
    }

    pub(super) fn clear(&mut self) {
        self.all.clear();
        self.transfers = 0;
    }
}

/// What a status means to a person who looks for the cause.
fn meaning(status: Status) -> &'static str {
    match status {
        Status::RetryExcErr => {
            "the peer's device does not answer (retry count exceeded); is its host up, and the fabric between?"
        }
        Status::RnrRetryExcErr => "the peer has no receive buffer (RNR retry count exceeded)",
        Status::RemAccessErr => {
            "the peer's device permits no access to its memory there (remote access error)"
        }
        Status::RemInvReqErr => "the peer's device takes the request for invalid (remote invalid request)",
        Status::RemOpErr => "the peer's device could not do it (remote operation error)",
        Status::LocLenErr => "a message is too long for its memory (local length error)",
        Status::LocProtErr => "local memory is not registered for it (local protection error)",
        Status::WrFlushErr => "the queue pair has failed before (flushed)",
        Status::FatalErr => "the device has failed (fatal error)",
        _ => "the device reports an error",
    }
}
