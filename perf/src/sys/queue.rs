//! A queue pair of a reliable connection with two buffers of its own, called as directly as it can be: a floor for who builds on verbs.
//!
//! All memory that requests use is owned here, and freed only when the device has let go of it, so that what is offered is safe. What
//! arrives is not looked at while requests are under way.

use hca::{
    Access, AhAttr, Completion, Cq as _, Data, GidEntry, GlobalRoute, Hca, LinkLayer, ModifyQp, Mr as _, Mtu,
    Piece, Qp as _, QpCap, QpInit, QpKind, QpNum, RecvWr, SendFlags, SendOp, SendWr, Sge, To, ToRtr, ToRts,
    errno,
};

use super::PageBuf;
use super::buffers::{Buffers, Remote};

/// Requests of each kind under way at most.
const DEPTH: u32 = 64;
/// Bytes that are sent inline at most.
const INLINE: u32 = 256;
/// Of so many requests that are copied one asks for a completion.
const SIGNAL_EVERY: u32 = 16;
/// Completions that are taken at once.
const BATCH: usize = 16;
/// Reads under way.
const READS: u8 = 16;
/// 67 ms until an answer is missed, and so often a request is repeated.
const TIMEOUT: u8 = 14;
const RETRIES: u8 = 7;
/// 0.01 ms until a request is repeated that has met no receive, without end.
const RNR_TIMER: u8 = 1;
const BITS_24: u32 = 0x00ff_ffff;
/// Bytes in which a side says where it is.
pub(crate) const WORDS: usize = 29;

/// In the numbers of requests: a receive; somebody waits for it. The rest is how many requests of the send queue it covers.
const RECEIVE: u64 = 1 << 63;
const WAITED_FOR: u64 = 1 << 62;

/// A buffer and its registration. The registration goes first.
struct Region<H: Hca> {
    mr: Option<H::Mr>,
    buf: PageBuf,
}

impl<H: Hca> Region<H> {
    fn sge(&self, len: usize) -> Option<Sge> {
        let mr = self.mr.as_ref().filter(|_| len <= self.buf.len())?;
        Some(Sge { addr: mr.addr(), len: u32::try_from(len).ok()?, lkey: mr.lkey() })
    }
}

impl<H: Hca> AsMut<[u8]> for Region<H> {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.buf
    }
}

impl<H: Hca> Drop for Region<H> {
    fn drop(&mut self) {
        if let Some(Err((mr, _))) = self.mr.take().map(hca::Mr::deregister) {
            // What the device may still use stays.
            core::mem::forget((mr, core::mem::replace(&mut self.buf, PageBuf::new(1))));
        }
    }
}

/// See the module. The queue pair goes before the memory that it uses.
pub(crate) struct Queue<H: Hca> {
    qp: H::Qp,
    cq: H::Cq,
    buffers: Buffers<Region<H>>,
    hca: H,
    port: u8,
    gid: GidEntry,
    psn: u32,
    depth: u32,
    inline: usize,
    /// Requests of the send queue whose places are not free, the last ones of them that have asked for no completion, and those that somebody
    /// waits for.
    under_way: u32,
    silent: u32,
    waited_for: u32,
}

impl<H: Hca> core::fmt::Debug for Queue<H> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Queue")
            .field("device", &self.hca.name())
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

fn text(e: &hca::Error) -> String {
    e.to_string()
}

impl<H: Hca> Queue<H> {
    /// Makes a queue pair on a port of a device, with packets from that GID.
    ///
    /// # Errors
    /// Which call failed, and why.
    pub(crate) fn open(hca: H, port: u8, gid: GidEntry, psn: u32) -> Result<Queue<H>, String> {
        let device = *hca.device();
        let depth = DEPTH.min(device.max_qp_wr);
        let cq = hca.create_cq((2 * depth).min(device.max_cqe), 0, None).map_err(|e| text(&e))?;
        let kind = QpKind::Rc { send_cq: &cq, recv_cq: &cq, srq: None };
        let make = |max_inline| {
            let cap = QpCap {
                max_send_wr: depth,
                max_recv_wr: depth,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline,
            };
            hca.create_qp(&QpInit { kind, cap, signal_all: false })
        };
        // Devices do not say how much they can send inline: they refuse.
        let made = [INLINE, 128, 64, 0].into_iter().find_map(|inline| match make(inline) {
            Err(e) if e.errno == errno::EINVAL && inline > 0 => None,
            made => Some(made),
        });
        let qp = made.ok_or("no queue pair")?.map_err(|e| text(&e))?;
        let access = Access { remote_atomic: false, ..Access::ALL };
        qp.modify(&ModifyQp::Init { port, pkey_index: 0, access }).map_err(|e| text(&e))?;
        let inline = qp.cap().max_inline as usize;
        Ok(Queue {
            qp,
            cq,
            buffers: Buffers::none(),
            hca,
            port,
            gid,
            psn: psn & BITS_24,
            depth,
            inline,
            under_way: 0,
            silent: 0,
            waited_for: 0,
        })
    }

    fn reads(&self) -> u8 {
        READS.min(self.hca.device().max_qp_rd_atom)
    }

    /// What the peer must know to connect.
    ///
    /// # Errors
    /// What the device says.
    pub(crate) fn words(&self) -> Result<[u8; WORDS], String> {
        let attr = self.hca.port(self.port).map_err(|e| text(&e))?;
        let mut out = [0; WORDS];
        out[..4].copy_from_slice(&self.qp.number().0.to_le_bytes());
        out[4..8].copy_from_slice(&self.psn.to_le_bytes());
        out[8..10].copy_from_slice(&attr.lid.to_le_bytes());
        (out[10], out[11]) = (attr.active_mtu as u8, self.reads());
        out[12] = u8::from(attr.link_layer == LinkLayer::Ethernet);
        out[13..].copy_from_slice(&self.gid.gid.0);
        Ok(out)
    }

    /// Connects with a peer by its words.
    ///
    /// # Errors
    /// What is wrong with them, or what the device says.
    pub(crate) fn connect(&mut self, theirs: &[u8; WORDS]) -> Result<(), String> {
        let word =
            |at: usize| u32::from_le_bytes([theirs[at], theirs[at + 1], theirs[at + 2], theirs[at + 3]]);
        let attr = self.hca.port(self.port).map_err(|e| text(&e))?;
        let ethernet = attr.link_layer == LinkLayer::Ethernet;
        if ethernet != (theirs[12] != 0) {
            return Err(
                "one side's link is Ethernet, the other's InfiniBand; NETMOD_VERBS_DEVICE chooses".into()
            );
        }
        let mtu = Mtu::of_code(theirs[10].into()).ok_or("the other side has no MTU")?;
        let mut dgid = self.gid.gid;
        dgid.0.copy_from_slice(&theirs[13..]);
        let far = ethernet || dgid.0[..8] != self.gid.gid.0[..8];
        let sgid_index = self.gid.index;
        let route = GlobalRoute { dgid, sgid_index, hop_limit: 64, traffic_class: 0, flow_label: 0 };
        let ah = AhAttr {
            port: self.port,
            dlid: u16::from_le_bytes([theirs[8], theirs[9]]),
            sl: 0,
            src_path_bits: 0,
            grh: far.then_some(route),
        };
        let rtr = ToRtr {
            path_mtu: mtu.min(attr.active_mtu),
            dest_qp: QpNum(word(0)),
            rq_psn: word(4),
            max_dest_rd_atomic: self.reads(),
            min_rnr_timer: RNR_TIMER,
            ah,
            alt: None,
        };
        let rts = ToRts {
            sq_psn: self.psn,
            timeout: TIMEOUT,
            retry_cnt: RETRIES,
            rnr_retry: 7,
            max_rd_atomic: READS.min(self.hca.device().max_qp_init_rd_atom).min(theirs[11]),
            alt: None,
            path_mig_state: None,
        };
        self.qp.modify(&ModifyQp::Rtr(rtr)).map_err(|e| text(&e))?;
        self.qp.modify(&ModifyQp::Rts(rts)).map_err(|e| text(&e))
    }

    /// Requests of each kind that can be under way.
    pub(crate) fn depth(&self) -> usize {
        self.depth as usize
    }

    /// Receives that have completed, of all time.
    #[inline]
    pub(crate) fn received(&self) -> u64 {
        self.buffers.received()
    }

    /// Whether nothing is under way that uses memory.
    #[inline]
    pub(crate) fn is_sent(&self) -> bool {
        self.waited_for == 0
    }

    /// Both buffers, what is sent and what was received, when nothing is under way.
    ///
    /// # Errors
    /// If something is, or there are none yet.
    pub(crate) fn buffers(&mut self) -> Result<(&mut [u8], &mut [u8]), String> {
        let sent = self.is_sent();
        self.buffers.bytes(sent)
    }

    /// Makes buffers of so many bytes in the place of the old ones.
    ///
    /// # Errors
    /// If something is under way, or they cannot be registered.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<(), String> {
        let sent = self.is_sent();
        let access = Access { remote_atomic: false, ..Access::ALL };
        self.buffers.replace(sent, |_| {
            let mut buf = PageBuf::new(bytes);
            // SAFETY: the memory stays until the registration has ended, or for ever; and it is looked at only while no request uses it, but for
            // what a peer does that is asked to by this very measurement.
            let mr = unsafe { self.hca.register(buf.as_mut_ptr(), buf.len(), access) };
            Ok(Region { mr: Some(mr.map_err(|e| text(&e))?), buf })
        })
    }

    /// Where a peer finds what is sent, and what is received into.
    pub(crate) fn exposed(&mut self) -> Option<[Remote; 2]> {
        let [send, recv] = self.buffers.regions()?;
        let at = |region: &Region<H>| region.mr.as_ref().map(|mr| (mr.addr(), u64::from(mr.rkey())));
        Some([at(send)?, at(recv)?])
    }

    /// Posts a receive of up to so many bytes.
    ///
    /// # Errors
    /// What the device says; too many under way, or a message that is too long.
    pub(crate) fn post(&mut self, len: usize) -> Result<(), String> {
        let sge = self.buffers.regions().and_then(|[_, recv]| recv.sge(len));
        let Some(sge) = sge.filter(|_| self.buffers.receiving() < u64::from(self.depth)) else {
            return Err("a receive too many, or too long".into());
        };
        let wr = RecvWr { wr_id: RECEIVE, sges: core::slice::from_ref(&sge) };
        self.qp.post_recv(&[wr]).map_err(|e| format!("ibv_post_recv: {}", e.errno))?;
        self.buffers.posted();
        Ok(())
    }

    #[inline]
    fn start(&mut self, op: SendOp, which: usize, len: usize) -> Result<bool, String> {
        if self.under_way == self.depth {
            return Ok(false);
        }
        let Some(region) = self.buffers.regions().map(|regions| &regions[which]) else {
            return Err("there are no buffers".into());
        };
        let sge = region.sge(len).ok_or("the buffer is too short")?;
        let copied = op == SendOp::Send && len <= self.inline;
        let piece = copied.then(|| Piece::new(&region.buf[..len]));
        let data = match &piece {
            Some(piece) => Data::Inline(core::slice::from_ref(piece)),
            None => Data::Registered(core::slice::from_ref(&sge)),
        };
        let signaled = !copied || self.silent + 1 == SIGNAL_EVERY || self.under_way + 1 == self.depth;
        let covers = u64::from(self.silent + 1);
        let wr = SendWr {
            wr_id: if copied { covers } else { covers | WAITED_FOR },
            op,
            data,
            flags: SendFlags { signaled, ..SendFlags::NONE },
            to: To::Peer,
        };
        self.qp.post_send(&[wr]).map_err(|e| format!("ibv_post_send: {}", e.errno))?;
        self.under_way += 1;
        self.silent = if signaled { 0 } else { self.silent + 1 };
        self.waited_for += u32::from(!copied);
        Ok(true)
    }

    /// Sends so many bytes; false if that does not go now.
    ///
    /// # Errors
    /// What the device says.
    #[inline]
    pub(crate) fn send(&mut self, len: usize) -> Result<bool, String> {
        self.start(SendOp::Send, 0, len)
    }

    /// Reads so many bytes of the peer's memory into what is received into; false if that does not go now.
    ///
    /// # Errors
    /// What the device says.
    #[inline]
    pub(crate) fn read(&mut self, len: usize, (addr, key): Remote) -> Result<bool, String> {
        self.start(SendOp::RdmaRead { addr, rkey: key as u32 }, 1, len)
    }

    /// Writes so many bytes of what is sent into the peer's memory; false if that does not go now.
    ///
    /// # Errors
    /// What the device says.
    #[inline]
    pub(crate) fn write(&mut self, len: usize, (addr, key): Remote) -> Result<bool, String> {
        self.start(SendOp::RdmaWrite { addr, rkey: key as u32 }, 0, len)
    }

    /// Makes progress; whether something has completed.
    ///
    /// # Errors
    /// If a request failed.
    #[inline]
    pub(crate) fn poll(&mut self) -> Result<bool, String> {
        let mut entries = [Completion::EMPTY; BATCH];
        let n = self.cq.poll(&mut entries).map_err(|e| text(&e))?;
        for entry in &entries[..n] {
            if !entry.status.is_success() {
                self.buffers.fail();
                return Err(format!("a request failed: {:?}", entry.status));
            }
            if entry.wr_id & RECEIVE != 0 {
                self.buffers.arrived();
            } else {
                self.waited_for -= u32::from(entry.wr_id & WAITED_FOR != 0);
                self.under_way -= entry.wr_id as u32;
            }
        }
        Ok(n > 0)
    }
}
