//! Endpoints of VCs, and the send QPs that carry their frames.
//!
//! An endpoint of a reliable connection has its own QP. Endpoints of XRC in one domain share a
//! sending QP: [`super::join`] defines how each joins its receiving QP, [`super::shared`] what
//! happens if it fails. An endpoint reports its first failure only, and none after it was closed:
//! buffers are returned, and nobody waits for more.

use core::fmt;
use std::collections::{HashMap, VecDeque};

use hca::{Hca, QpNum, SrqNum, Status};
use netmod_core::{Time, VcId};
use netmod_framed::device::{Done, NewEndpoint};

use super::What;
use super::join::Hold;
use super::send_qp::{EndpointId, Posted, READS, Remote, Repost, Request, SendQp, Stage};
use super::site::Site;
use super::targets::Targets;
use super::xrc_state::XrcState;
use crate::error::{PortError, Refused};
use crate::sizes::INLINE;
use crate::wire::{Address, Domain, RcEndpoint, XrcEndpoint};

/// Bit set in the numbers of endpoints, and clear in those of datagram addresses.
const IS_ENDPOINT: u64 = 1 << 63;

/// An endpoint.
pub(super) struct Endpoint {
    pub(super) id: EndpointId,
    /// Its VC.
    pub(super) vc: VcId,
    /// Its send QP; with XRC, one may have to be found.
    pub(super) send_qp: Option<u32>,
    /// With XRC, the destination queue of its frames.
    pub(super) srq: Option<SrqNum>,
    /// True if requests may be posted.
    pub(super) ready: bool,
    /// True if a request was posted.
    pub(super) used: bool,
    /// Cause of its failure.
    pub(super) broken: Option<Box<str>>,
    /// True if it is to be closed once no relevant request is in flight.
    pub(super) closing: bool,
    /// True if the process at the other side is dead.
    peer_dead: bool,
    /// Requests in flight on its current QP or the one before.
    pub(super) under_way: u32,
    /// Requests with an owner waiting, in flight or to be posted again.
    pub(super) lasting: u32,
    pub(super) xrc_state: Option<Box<XrcState>>,
}

impl Endpoint {
    #[cold]
    fn refuses(&self) -> Refused {
        let waits = self.xrc_state.as_ref().is_some_and(|xrc_state| xrc_state.peer.is_some());
        match &self.broken {
            Some(why) => Refused::Failed(PortError::Broken(why.clone())),
            None if self.closing => Refused::Failed(PortError::Closing),
            None if waits => Refused::Again,
            None => Refused::Failed(PortError::NotConnected),
        }
    }

    /// Returns true if a failure must be reported.
    pub(super) fn tells(&self) -> bool {
        self.broken.is_none() && !self.closing
    }

    pub(super) fn number(&self) -> u64 {
        IS_ENDPOINT | u64::from(self.id.generation) << 32 | u64::from(self.id.at)
    }
}

/// Results of ended requests: events to report, and freed buffers.
pub(super) struct Results<'a> {
    pub(super) found: &'a mut VecDeque<Done>,
    pub(super) free: &'a mut Vec<u32>,
}

/// All endpoints of a port, and their send QPs.
pub(super) struct Endpoints<H: Hca> {
    pub(super) all: Vec<Option<Endpoint>>,
    pub(super) send_qps: Vec<Option<SendQp<H>>>,
    /// Shared QPs that accept more endpoints.
    pub(super) current: HashMap<Domain, u32>,
    /// Endpoints of XRC by token.
    pub(super) tokens: HashMap<u64, u32>,
    pub(super) targets: Targets<H>,
    /// Endpoints of XRC that wait for something.
    pub(super) pending: Vec<EndpointId>,
    /// Number of the last shared QP.
    pub(super) numbers: u32,
    pub(super) now: Time,
    /// Destination of answers to this port.
    pub(super) own: Address,
    generations: u32,
    /// Completions that the completion queue still has room for.
    pub(super) room: u32,
    /// Maximum length of a frame that every QP can send inline.
    pub(super) inline: usize,
    /// Number of transfers in flight.
    pub(super) transfers: usize,
    /// True if a QP is draining.
    pub(super) draining: bool,
}

impl<H: Hca> fmt::Debug for Endpoints<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (endpoints, send_qps) =
            (self.all.iter().flatten().count(), self.send_qps.iter().flatten().count());
        write!(f, "{endpoints} endpoints on {send_qps} send QPs")
    }
}

#[inline]
fn get(all: &mut [Option<Endpoint>], number: u64) -> Option<&mut Endpoint> {
    all.get_mut(number as u32 as usize)?.as_mut().filter(|endpoint| endpoint.number() == number)
}

/// Stores an entry in a free slot of a table, and returns its index.
pub(super) fn store<T>(table: &mut Vec<Option<T>>, entry: T) -> u32 {
    let at = table.iter().position(Option::is_none).unwrap_or(table.len());
    if at == table.len() {
        table.push(None);
    }
    table[at] = Some(entry);
    at as u32
}

impl<H: Hca> Endpoints<H> {
    /// Makes an empty table for the port with this address. `room`: completion queue entries for
    /// its requests.
    pub(super) fn new(own: Address, room: u32) -> Endpoints<H> {
        Endpoints {
            all: Vec::new(),
            send_qps: Vec::new(),
            current: HashMap::new(),
            tokens: HashMap::new(),
            targets: Targets::default(),
            pending: Vec::new(),
            numbers: 0,
            now: Time::ZERO,
            own,
            generations: 0,
            room,
            inline: INLINE as usize,
            transfers: 0,
            draining: false,
        }
    }

    /// Returns true if a number is that of an endpoint rather than a datagram address.
    #[inline]
    pub(super) fn names(to: u64) -> bool {
        to & IS_ENDPOINT != 0
    }

    pub(super) fn endpoint(&mut self, id: EndpointId) -> Option<&mut Endpoint> {
        self.all.get_mut(id.at as usize)?.as_mut().filter(|endpoint| endpoint.id == id)
    }

    pub(super) fn send_qp(&mut self, at: u32) -> Option<&mut SendQp<H>> {
        self.send_qps.get_mut(at as usize)?.as_mut()
    }

    pub(super) fn add(
        &mut self,
        vc: VcId,
        send_qp: Option<u32>,
        xrc_state: Option<Box<XrcState>>,
    ) -> &mut Endpoint {
        self.generations = self.generations.wrapping_add(1) & 0x7fff_ffff;
        let generation = self.generations;
        let id = EndpointId { at: 0, generation };
        let endpoint = Endpoint {
            id,
            vc,
            send_qp,
            srq: None,
            ready: false,
            used: false,
            broken: None,
            closing: false,
            peer_dead: false,
            under_way: 0,
            lasting: 0,
            xrc_state,
        };
        let at = store(&mut self.all, endpoint);
        let endpoint = self.all[at as usize].as_mut().expect("it was put there");
        endpoint.id.at = at;
        endpoint
    }

    /// Makes a reliable connection that is ready to be connected.
    ///
    /// # Errors
    /// The device's error.
    pub(super) fn open(&mut self, site: &Site<H>, srq: &H::Srq, vc: VcId) -> Result<NewEndpoint, PortError> {
        let send_qp = SendQp::reliable(site, srq)?;
        let (qp, psn) = (send_qp.number(), send_qp.psn());
        let reads = READS.min(site.hca.device().max_qp_rd_atom);
        let says =
            RcEndpoint { location: site.location, qp, psn, mtu: site.attr.active_mtu, reads }.to_bytes();
        self.inline = self.inline.min(send_qp.inline());
        let send_qp = store(&mut self.send_qps, send_qp);
        Ok(NewEndpoint { number: self.add(vc, Some(send_qp), None).number(), says })
    }

    /// Connects an endpoint with a peer's.
    ///
    /// # Errors
    /// If the peer's description is invalid, or the device fails.
    pub(super) fn connect(&mut self, site: &Site<H>, number: u64, theirs: &[u8]) -> Result<(), PortError> {
        let endpoint = get(&mut self.all, number).ok_or(PortError::EndpointClosed)?;
        if let Some(xrc_state) = &mut endpoint.xrc_state {
            let theirs = XrcEndpoint::parse(theirs).ok_or(PortError::NotXrc)?;
            site.route(&theirs.address.location)?;
            endpoint.srq = Some(theirs.srq);
            xrc_state.peer = Some(theirs);
            self.pending.push(endpoint.id);
            return Ok(());
        }
        let theirs = RcEndpoint::parse(theirs).ok_or(PortError::EndpointVersion)?;
        let ah = site.route(&theirs.location)?;
        let RcEndpoint { qp, psn, mtu, reads, .. } = theirs;
        let send_qp = endpoint.send_qp.and_then(|send_qp| self.send_qps.get_mut(send_qp as usize)?.as_mut());
        send_qp.ok_or(PortError::EndpointClosed)?.connect(site, &Remote { qp, psn, ah, mtu, reads })?;
        endpoint.ready = true;
        Ok(())
    }

    /// Closes an endpoint once its requests in flight have ended: arrived, or failed, which takes
    /// about a second if the peer does not answer. This side's last frame may be queued behind
    /// transfers.
    pub(super) fn close(&mut self, number: u64) {
        let Some(endpoint) = get(&mut self.all, number) else { return };
        endpoint.closing = true;
        let id = endpoint.id;
        if endpoint.xrc_state.is_some() && !self.pending.contains(&id) {
            self.pending.push(id);
        }
        self.sweep(id);
    }

    /// Closes an endpoint whose peer has died. A QP that leads only to dead peers is flushed:
    /// otherwise a device would retry for a second or more, and use the memory of transfers
    /// meanwhile.
    pub(super) fn declare_dead(&mut self, number: u64) {
        let Some(endpoint) = get(&mut self.all, number) else { return };
        endpoint.peer_dead = true;
        let at = endpoint.send_qp;
        self.close(number);
        let Some(at) =
            at.filter(|at| !self.all.iter().flatten().any(|e| e.send_qp == Some(*at) && !e.peer_dead))
        else {
            return;
        };
        self.retire(at);
        if let Some(send_qp) = self.send_qp(at).filter(|send_qp| !send_qp.draining && send_qp.under_way() > 0)
        {
            send_qp.flush();
        }
    }

    /// Closes a closing endpoint if it is quiet.
    pub(super) fn sweep(&mut self, id: EndpointId) {
        if self.endpoint(id).is_none_or(|endpoint| !endpoint.closing || endpoint.lasting > 0) {
            return;
        }
        let Some(endpoint) = self.all[id.at as usize].take() else { return };
        if let Some(xrc_state) = endpoint.xrc_state {
            self.tokens.remove(&xrc_state.token);
            if let Some(Hold { tgt, .. }) = xrc_state.hold {
                self.targets.release(tgt);
            }
        }
        if let Some(send_qp) = endpoint.send_qp {
            self.leave(id, send_qp);
        }
    }

    /// Removes an endpoint from its QP.
    pub(super) fn leave(&mut self, id: EndpointId, at: u32) {
        if let Some(send_qp) = self.send_qp(at) {
            send_qp.leave(id);
            self.sweep_qp(at);
        }
    }

    /// Starts draining an unused QP. Closing it discards its unpolled completions. Those include
    /// completions of receives, whose buffers would be lost.
    pub(super) fn sweep_qp(&mut self, at: u32) {
        let Some(send_qp) = self.send_qp(at).filter(|send_qp| send_qp.users == 0) else { return };
        let quiet =
            if send_qp.stage == Stage::Flushing { send_qp.under_way() == 0 } else { send_qp.is_quiet() };
        let (new, idle) = (send_qp.stage == Stage::New, quiet && !send_qp.draining);
        if !new && idle {
            send_qp.draining = true;
            send_qp.flush();
            self.draining = true;
        }
        self.retire(at);
        if new {
            self.send_qps[at as usize] = None;
        }
    }

    /// Returns true if a QP waits for the completion queue to become empty.
    #[inline]
    pub(super) fn is_draining(&self) -> bool {
        self.draining
    }

    /// Closes drained QPs, after the completion queue was empty.
    pub(super) fn drained(&mut self) {
        for slot in &mut self.send_qps {
            if let Some(send_qp) = slot.as_ref().filter(|send_qp| send_qp.draining) {
                self.room += send_qp.under_way();
                *slot = None;
            }
        }
        self.draining = false;
    }

    /// Returns the maximum length of an inline frame, for all endpoints.
    pub(super) fn inline_max(&self) -> usize {
        self.inline
    }

    /// Returns true if a request can be posted.
    pub(super) fn has_room(&mut self, number: u64) -> bool {
        let Some(endpoint) = get(&mut self.all, number) else { return true };
        if !endpoint.ready {
            // A request that fails immediately needs no room.
            return !matches!(endpoint.refuses(), Refused::Again);
        }
        let send_qp = endpoint.send_qp.and_then(|send_qp| self.send_qps.get(send_qp as usize)?.as_ref());
        send_qp.is_none_or(SendQp::has_room)
    }

    /// Posts a request.
    ///
    /// # Errors
    /// If it cannot be posted now, or the endpoint has failed.
    #[inline]
    pub(super) fn post(&mut self, number: u64, request: Request<'_>) -> Result<(), Refused> {
        let Some(endpoint) = get(&mut self.all, number) else {
            return Err(Refused::Failed(PortError::ConnectionClosed));
        };
        if !endpoint.ready || endpoint.closing {
            return Err(endpoint.refuses());
        }
        if self.room == 0 {
            return Err(Refused::Again);
        }
        let at = endpoint.send_qp.unwrap_or(u32::MAX);
        let Some(send_qp) = self.send_qps.get_mut(at as usize).and_then(Option::as_mut) else {
            return Err(Refused::Failed(PortError::ConnectionFailed));
        };
        send_qp.post(at, (endpoint.id, endpoint.srq, endpoint.vc), request)?;
        self.room -= 1;
        endpoint.used = true;
        endpoint.under_way += 1;
        endpoint.lasting += u32::from(request.what != What::Inline);
        self.transfers += usize::from(matches!(request.what, What::Transfer { .. }));
        Ok(())
    }

    /// Handles the completion of a request, which completes all earlier ones of its QP. Returns
    /// false if it is of no QP, or was handled already.
    #[inline]
    pub(super) fn completed(
        &mut self,
        at: u32,
        number: u32,
        qp: u32,
        (status, why): (Status, &str),
        results: &mut Results<'_>,
    ) -> bool {
        let send_qp = self.send_qp(at).filter(|send_qp| send_qp.number().0 == qp);
        let Some(n) = send_qp.and_then(|send_qp| send_qp.ended_with(number)) else { return false };
        self.room += n;
        let flushing = self.send_qp(at).is_some_and(|send_qp| send_qp.stage == Stage::Flushing);
        for _ in 0..n - 1 {
            // No request after a refused one succeeds.
            if flushing { self.failed(at, status, why, results) } else { self.succeeded(at, results) }
        }
        if status.is_success() {
            self.succeeded(at, results);
        } else {
            self.failed(at, status, why, results);
        }
        if self.send_qp(at).is_some_and(|send_qp| send_qp.users == 0) {
            self.sweep_qp(at);
        }
        true
    }

    #[inline]
    fn succeeded(&mut self, at: u32, results: &mut Results<'_>) {
        let popped = self.send_qp(at).and_then(|send_qp| send_qp.pop(false));
        if let Some((posted, _)) = popped {
            self.ended(&posted, Ok(()), results);
        }
    }

    /// Handles the failure or flush of a QP's oldest request.
    #[cold]
    fn failed(&mut self, at: u32, status: Status, why: &str, results: &mut Results<'_>) {
        let Some(send_qp) = self.send_qp(at) else { return };
        let shared = send_qp.shared.is_some() && !send_qp.draining;
        let stage = send_qp.stage;
        if stage == Stage::Flushing
            && let Some((posted, again)) = send_qp.pop(true)
        {
            return self.flushed(&posted, again, why, results);
        }
        let Some((posted, _)) = send_qp.pop(false) else { return };
        send_qp.stage = Stage::Broken;
        self.ended(&posted, Err(why), results);
        match stage {
            Stage::Connected if shared && concerns_one(status) => self.renew(at),
            Stage::Connected if shared => self.lost(at, why, results),
            _ => {}
        }
    }

    /// Queues a flushed request for another QP, unless its endpoint has failed.
    fn flushed(&mut self, posted: &Posted, again: Option<Repost>, why: &str, results: &mut Results<'_>) {
        let endpoint = self.endpoint(posted.endpoint).filter(|endpoint| endpoint.broken.is_none());
        let xrc_state = endpoint.and_then(|endpoint| {
            endpoint.under_way -= 1;
            let none_left = endpoint.under_way == 0;
            let xrc_state = endpoint.xrc_state.as_mut()?;
            xrc_state.flushing &= !none_left;
            Some(xrc_state)
        });
        match (xrc_state, again) {
            (Some(xrc_state), Some(again)) => xrc_state.carried.flushed(again),
            _ => self.ended(posted, Err(why), results),
        }
    }

    /// Ends a request.
    #[inline]
    pub(super) fn ended(&mut self, posted: &Posted, result: Result<(), &str>, results: &mut Results<'_>) {
        let mut failed = None;
        let mut closing = false;
        if let Some(endpoint) = self.endpoint(posted.endpoint) {
            endpoint.under_way = endpoint.under_way.saturating_sub(1);
            endpoint.lasting -= u32::from(posted.what != What::Inline);
            closing = endpoint.closing;
            if let Err(why) = result {
                failed = endpoint.tells().then(|| why.to_owned());
                endpoint.ready = false;
                endpoint.broken.get_or_insert_with(|| why.into());
            }
        }
        self.tell(posted.what, posted.vc, result, failed, results);
        if closing {
            self.sweep(posted.endpoint);
        }
    }

    /// Reports the end of a request. `failed`: the cause to report to the VC.
    #[inline]
    pub(super) fn tell(
        &mut self,
        what: What,
        of: VcId,
        result: Result<(), &str>,
        failed: Option<String>,
        results: &mut Results<'_>,
    ) {
        match what {
            What::Inline => results.found.extend(failed.map(|why| Done::Lost { vc: of, why })),
            What::Send { buffer, vc } => {
                results.free.push(buffer);
                results.found.push_back(match failed {
                    None => Done::Sent { vc },
                    Some(why) => Done::SendFailed { vc, why },
                });
            }
            What::Transfer { number } => {
                self.transfers = self.transfers.saturating_sub(1);
                results.found.push_back(match result {
                    Ok(()) => Done::Transfer { number },
                    Err(why) => Done::TransferFailed { number, why: why.to_owned() },
                });
                // A failed transfer fails the whole connection.
                results.found.extend(failed.map(|why| Done::Lost { vc: of, why }));
            }
        }
    }

    /// Handles a queue pair's failure reported by an event.
    pub(super) fn broken(&mut self, qp: QpNum, why: &str, results: &mut Results<'_>) {
        let of = |send_qp: &Option<SendQp<H>>| send_qp.as_ref().is_some_and(|send_qp| send_qp.number() == qp);
        match self.send_qps.iter().position(of) {
            Some(at) => self.lost(at as u32, why, results),
            // The sender to a receiving queue pair of XRC notices, and asks for another one.
            None if self.targets.knows(qp) => tracing::debug!(why, "a receiving queue pair has failed"),
            None => {}
        }
    }

    /// Handles the failure of a QP, which fails all endpoints whose requests may be affected.
    #[cold]
    pub(super) fn lost(&mut self, at: u32, why: &str, results: &mut Results<'_>) {
        let Some(send_qp) = self.send_qp(at).filter(|send_qp| send_qp.users > 0) else { return };
        let was_new = send_qp.stage == Stage::New;
        send_qp.stage = Stage::Broken;
        self.retire(at);
        self.move_out(at, |_, xrc_state| !xrc_state.has_joined());
        let of = |endpoint: &&Endpoint| endpoint.send_qp == Some(at);
        let endpoints: Vec<EndpointId> =
            self.all.iter().flatten().filter(of).map(|endpoint| endpoint.id).collect();
        for id in endpoints {
            let Some(endpoint) = self.endpoint(id) else { continue };
            // An endpoint that has sent nothing learns of the failure when it sends, which may be
            // never.
            let tell = endpoint.tells() && (endpoint.used || endpoint.xrc_state.is_none() && !was_new);
            let vc = endpoint.vc;
            self.give_up(id, why, results);
            if tell {
                results.found.push_back(Done::Lost { vc, why: why.into() });
            }
        }
    }

    /// Fails all endpoints because the device has failed.
    pub(super) fn all_broken(&mut self, why: &str, results: &mut Results<'_>) {
        for at in 0..self.send_qps.len() {
            self.lost(at as u32, why, results);
        }
        let endpoints: Vec<EndpointId> = self.all.iter().flatten().map(|endpoint| endpoint.id).collect();
        endpoints.into_iter().for_each(|id| self.give_up(id, why, results));
    }

    /// Returns the number of transfers in flight.
    pub(super) fn transfers(&self) -> usize {
        self.transfers
    }

    pub(super) fn clear(&mut self) {
        self.all.clear();
        self.send_qps.clear();
        self.current.clear();
        self.tokens.clear();
        self.pending.clear();
        self.targets.clear();
        self.transfers = 0;
    }
}

/// Returns true if a failure concerns one request only: the peer has answered it, or it was found
/// before sending. Requests behind it were not executed, so other endpoints lose nothing.
fn concerns_one(status: Status) -> bool {
    matches!(
        status,
        Status::RemInvReqErr
            | Status::RemAccessErr
            | Status::RemOpErr
            | Status::LocLenErr
            | Status::LocProtErr
            | Status::LocAccessErr
    )
}
