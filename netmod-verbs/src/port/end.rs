//! Ends: what frames of a VC are sent to, and the lanes that carry them.
//!
//! An end of a reliable connection has a lane of its own. Ends of XRC in one domain share a lane; `join` says how they get their part in
//! its receiving queue pair, and `shared` what becomes of them if it fails. Of an end that fails the first failure is told, of one that
//! was closed none: buffers come back, and nobody waits for more.

use core::fmt;
use std::collections::{HashMap, VecDeque};

use hca::{Hca, QpNum, SrqNum, Status};
use netmod_core::{Time, VcId};
use netmod_framed::device::{Done, NewEnd, Refused};

use super::join::Hold;
use super::lane::{Again, EndId, Lane, Posted, READS, Remote, Request, Stage};
use super::shared::Part;
use super::site::Site;
use super::targets::Targets;
use super::{INLINE, What};
use crate::words::{Address, Domain, RcEnd, XrcEnd};

/// Ends have this bit in their numbers, addresses of datagrams have not.
const IS_END: u64 = 1 << 63;

/// An end.
pub(super) struct End {
    pub(super) id: EndId,
    /// Whose it is.
    pub(super) vc: VcId,
    /// By which it sends; of XRC one may have to be found.
    pub(super) lane: Option<u32>,
    /// Of XRC: for which queue its frames are.
    pub(super) srq: Option<SrqNum>,
    /// Requests may be posted.
    pub(super) ready: bool,
    /// Something was.
    pub(super) used: bool,
    /// Why it is of no more use.
    pub(super) broken: Option<Box<str>>,
    /// It is closed as soon as nothing is under way that matters.
    pub(super) closing: bool,
    /// The process at its other side has died.
    buried: bool,
    /// Requests that its lane, or the one before, has under way.
    pub(super) under_way: u32,
    /// Requests that somebody waits for, under way or yet to be posted again.
    pub(super) lasting: u32,
    pub(super) part: Option<Box<Part>>,
}

impl End {
    #[cold]
    fn refuses(&self) -> Refused {
        let waits = self.part.as_ref().is_some_and(|part| part.peer.is_some());
        match &self.broken {
            Some(why) => Refused::Failed(why.to_string()),
            None if self.closing => Refused::Failed("the connection is being closed".into()),
            None if waits => Refused::Again,
            None => Refused::Failed("the connection is not made yet".into()),
        }
    }

    /// Whether the first failure is to be told.
    pub(super) fn tells(&self) -> bool {
        self.broken.is_none() && !self.closing
    }

    pub(super) fn number(&self) -> u64 {
        IS_END | u64::from(self.id.generation) << 32 | u64::from(self.id.at)
    }
}

/// What ends of requests lead to: what is told, and buffers that are free.
pub(super) struct Told<'a> {
    pub(super) found: &'a mut VecDeque<Done>,
    pub(super) free: &'a mut Vec<u32>,
}

/// All ends of a port, by place, and their lanes.
pub(super) struct Ends<H: Hca> {
    pub(super) all: Vec<Option<End>>,
    pub(super) lanes: Vec<Option<Lane<H>>>,
    /// Lanes of XRC that take more ends.
    pub(super) current: HashMap<Domain, u32>,
    /// Ends of XRC, by their tokens.
    pub(super) tokens: HashMap<u64, u32>,
    pub(super) targets: Targets<H>,
    /// Ends of XRC that wait for something.
    pub(super) restless: Vec<EndId>,
    /// Number of the last lane of XRC.
    pub(super) numbers: u32,
    pub(super) now: Time,
    /// Where answers to this port go.
    pub(super) own: Address,
    generations: u32,
    /// Completions that may still come before the completion queue is full.
    pub(super) room: u32,
    /// Longest frame that every lane can copy.
    pub(super) inline: usize,
    /// Transfers under way.
    pub(super) transfers: usize,
    /// A lane is draining.
    pub(super) draining: bool,
}

impl<H: Hca> fmt::Debug for Ends<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ends, lanes) = (self.all.iter().flatten().count(), self.lanes.iter().flatten().count());
        write!(f, "{ends} ends on {lanes} lanes")
    }
}

#[inline]
fn get(all: &mut [Option<End>], number: u64) -> Option<&mut End> {
    all.get_mut(number as u32 as usize)?.as_mut().filter(|end| end.number() == number)
}

/// A free place in a table.
pub(super) fn place<T>(table: &mut Vec<Option<T>>, entry: T) -> u32 {
    let at = table.iter().position(Option::is_none).unwrap_or(table.len());
    if at == table.len() {
        table.push(None);
    }
    table[at] = Some(entry);
    at as u32
}

impl<H: Hca> Ends<H> {
    /// None yet, at the port of this address. `room`: entries of the completion queue for their requests.
    pub(super) fn new(own: Address, room: u32) -> Ends<H> {
        Ends {
            all: Vec::new(),
            lanes: Vec::new(),
            current: HashMap::new(),
            tokens: HashMap::new(),
            targets: Targets::default(),
            restless: Vec::new(),
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

    /// Whether a number is that of an end, and not of an address.
    #[inline]
    pub(super) fn names(to: u64) -> bool {
        to & IS_END != 0
    }

    pub(super) fn end(&mut self, id: EndId) -> Option<&mut End> {
        self.all.get_mut(id.at as usize)?.as_mut().filter(|end| end.id == id)
    }

    pub(super) fn lane(&mut self, at: u32) -> Option<&mut Lane<H>> {
        self.lanes.get_mut(at as usize)?.as_mut()
    }

    pub(super) fn add(&mut self, vc: VcId, lane: Option<u32>, part: Option<Box<Part>>) -> &mut End {
        self.generations = self.generations.wrapping_add(1) & 0x7fff_ffff;
        let generation = self.generations;
        let id = EndId { at: 0, generation };
        let end = End {
            id,
            vc,
            lane,
            srq: None,
            ready: false,
            used: false,
            broken: None,
            closing: false,
            buried: false,
            under_way: 0,
            lasting: 0,
            part,
        };
        let at = place(&mut self.all, end);
        let end = self.all[at as usize].as_mut().expect("it was put there");
        end.id.at = at;
        end
    }

    /// Makes a reliable connection that is ready to be connected.
    ///
    /// # Errors
    /// What the device says.
    pub(super) fn open(&mut self, site: &Site<H>, srq: &H::Srq, vc: VcId) -> Result<NewEnd, String> {
        let lane = Lane::reliable(site, srq)?;
        let (qp, psn) = (lane.number(), lane.psn());
        let reads = READS.min(site.hca.device().max_qp_rd_atom);
        let says = RcEnd { place: site.place, qp, psn, mtu: site.attr.active_mtu, reads }.to_bytes();
        self.inline = self.inline.min(lane.inline());
        let lane = place(&mut self.lanes, lane);
        Ok(NewEnd { number: self.add(vc, Some(lane), None).number(), says })
    }

    /// Connects an end with a peer's.
    ///
    /// # Errors
    /// What is wrong with the peer's word of its end, or what the device says.
    pub(super) fn connect(&mut self, site: &Site<H>, number: u64, theirs: &[u8]) -> Result<(), String> {
        let end = get(&mut self.all, number).ok_or("the end is closed")?;
        if let Some(part) = &mut end.part {
            let theirs =
                XrcEnd::parse(theirs).ok_or("its end is none of XRC in this version of netmod verbs")?;
            site.way(&theirs.address.place)?;
            end.srq = Some(theirs.srq);
            part.peer = Some(theirs);
            self.restless.push(end.id);
            return Ok(());
        }
        let theirs = RcEnd::parse(theirs).ok_or("its end is none of this version of netmod verbs")?;
        let ah = site.way(&theirs.place)?;
        let RcEnd { qp, psn, mtu, reads, .. } = theirs;
        let lane = end.lane.and_then(|lane| self.lanes.get_mut(lane as usize)?.as_mut());
        lane.ok_or("the end is closed")?.connect(site, &Remote { qp, psn, ah, mtu, reads })?;
        end.ready = true;
        Ok(())
    }

    /// Closes an end when what is under way has ended: arrived, or failed, which takes a second or so if the peer does not answer. The last
    /// word of this side may be behind transfers.
    pub(super) fn close(&mut self, number: u64) {
        let Some(end) = get(&mut self.all, number) else { return };
        end.closing = true;
        let id = end.id;
        if end.part.is_some() && !self.restless.contains(&id) {
            self.restless.push(id);
        }
        self.sweep(id);
    }

    /// Closes an end whose peer has died. A lane that leads to dead peers only is given up: a device tries for a second or more to
    /// reach them, and uses the memory of transfers as long.
    pub(super) fn bury(&mut self, number: u64) {
        let Some(end) = get(&mut self.all, number) else { return };
        end.buried = true;
        let at = end.lane;
        self.close(number);
        let Some(at) = at.filter(|at| !self.all.iter().flatten().any(|e| e.lane == Some(*at) && !e.buried))
        else {
            return;
        };
        self.retire(at);
        if let Some(lane) = self.lane(at).filter(|lane| !lane.draining && lane.under_way() > 0) {
            lane.flush();
        }
    }

    /// Closes an end that is closing, and quiet.
    pub(super) fn sweep(&mut self, id: EndId) {
        if self.end(id).is_none_or(|end| !end.closing || end.lasting > 0) {
            return;
        }
        let Some(end) = self.all[id.at as usize].take() else { return };
        if let Some(part) = end.part {
            self.tokens.remove(&part.token);
            if let Some(Hold { tgt, .. }) = part.hold {
                self.targets.release(tgt);
            }
        }
        if let Some(lane) = end.lane {
            self.leave(id, lane);
        }
    }

    /// An end sends by a lane no more.
    pub(super) fn leave(&mut self, id: EndId, at: u32) {
        if let Some(lane) = self.lane(at) {
            lane.leave(id);
            self.sweep_lane(at);
        }
    }

    /// Begins to drain a lane that nobody uses. With a queue pair that is closed its completions are forgotten, those of receives among them,
    /// whose buffers nobody would have any more.
    pub(super) fn sweep_lane(&mut self, at: u32) {
        let Some(lane) = self.lane(at).filter(|lane| lane.users == 0) else { return };
        let quiet = if lane.stage == Stage::Flushing { lane.under_way() == 0 } else { lane.is_quiet() };
        let (new, idle) = (lane.stage == Stage::New, quiet && !lane.draining);
        if !new && idle {
            lane.draining = true;
            lane.flush();
            self.draining = true;
        }
        self.retire(at);
        if new {
            self.lanes[at as usize] = None;
        }
    }

    /// Whether a lane waits for the completion queue to be empty.
    #[inline]
    pub(super) fn is_draining(&self) -> bool {
        self.draining
    }

    /// The completion queue was empty: lanes that have drained are closed.
    pub(super) fn drained(&mut self) {
        for place in &mut self.lanes {
            if let Some(lane) = place.as_ref().filter(|lane| lane.draining) {
                self.room += lane.under_way();
                *place = None;
            }
        }
        self.draining = false;
    }

    /// Longest frame that can be copied, of any end.
    pub(super) fn inline_max(&self) -> usize {
        self.inline
    }

    /// Whether there is room for a request.
    pub(super) fn has_room(&mut self, number: u64) -> bool {
        let Some(end) = get(&mut self.all, number) else { return true };
        if !end.ready {
            // What fails at once needs no room.
            return !matches!(end.refuses(), Refused::Again);
        }
        let lane = end.lane.and_then(|lane| self.lanes.get(lane as usize)?.as_ref());
        lane.is_none_or(Lane::has_room)
    }

    /// Posts a request.
    ///
    /// # Errors
    /// If it does not go.
    #[inline]
    pub(super) fn post(&mut self, number: u64, request: Request<'_>) -> Result<(), Refused> {
        let Some(end) = get(&mut self.all, number) else {
            return Err(Refused::Failed("the connection is closed".into()));
        };
        if !end.ready || end.closing {
            return Err(end.refuses());
        }
        if self.room == 0 {
            return Err(Refused::Again);
        }
        let at = end.lane.unwrap_or(u32::MAX);
        let Some(lane) = self.lanes.get_mut(at as usize).and_then(Option::as_mut) else {
            return Err(Refused::Failed("the connection has failed".into()));
        };
        lane.post(at, (end.id, end.srq, end.vc), request)?;
        self.room -= 1;
        end.used = true;
        end.under_way += 1;
        end.lasting += u32::from(request.what != What::Inline);
        self.transfers += usize::from(matches!(request.what, What::Transfer { .. }));
        Ok(())
    }

    /// A request has completed, and with it all before it. False if it is of no lane, or was told already.
    #[inline]
    pub(super) fn completed(
        &mut self,
        at: u32,
        number: u32,
        qp: u32,
        (status, why): (Status, &str),
        told: &mut Told<'_>,
    ) -> bool {
        let lane = self.lane(at).filter(|lane| lane.number().0 == qp);
        let Some(n) = lane.and_then(|lane| lane.ended_with(number)) else { return false };
        self.room += n;
        let flushing = self.lane(at).is_some_and(|lane| lane.stage == Stage::Flushing);
        for _ in 0..n - 1 {
            // Behind a request that was refused nothing succeeds.
            if flushing { self.failed(at, status, why, told) } else { self.succeeded(at, told) }
        }
        if status.is_success() {
            self.succeeded(at, told);
        } else {
            self.failed(at, status, why, told);
        }
        if self.lane(at).is_some_and(|lane| lane.users == 0) {
            self.sweep_lane(at);
        }
        true
    }

    #[inline]
    fn succeeded(&mut self, at: u32, told: &mut Told<'_>) {
        let popped = self.lane(at).and_then(|lane| lane.pop(false));
        if let Some((posted, _)) = popped {
            self.ended(&posted, Ok(()), told);
        }
    }

    /// The oldest request of a lane has failed, or was flushed.
    #[cold]
    fn failed(&mut self, at: u32, status: Status, why: &str, told: &mut Told<'_>) {
        let Some(lane) = self.lane(at) else { return };
        let shared = lane.shared.is_some() && !lane.draining;
        let stage = lane.stage;
        if stage == Stage::Flushing
            && let Some((posted, again)) = lane.pop(true)
        {
            return self.flushed(&posted, again, why, told);
        }
        let Some((posted, _)) = lane.pop(false) else { return };
        lane.stage = Stage::Broken;
        self.ended(&posted, Err(why), told);
        match stage {
            Stage::Connected if shared && concerns_one(status) => self.renew(at),
            Stage::Connected if shared => self.lost(at, why, told),
            _ => {}
        }
    }

    /// A request that was flushed goes by another lane, unless its end has failed.
    fn flushed(&mut self, posted: &Posted, again: Option<Again>, why: &str, told: &mut Told<'_>) {
        let end = self.end(posted.end).filter(|end| end.broken.is_none());
        let part = end.and_then(|end| {
            end.under_way -= 1;
            let none_left = end.under_way == 0;
            let part = end.part.as_mut()?;
            part.flushing &= !none_left;
            Some(part)
        });
        match (part, again) {
            (Some(part), Some(again)) => part.carried.flushed(again),
            _ => self.ended(posted, Err(why), told),
        }
    }

    /// A request has ended.
    #[inline]
    pub(super) fn ended(&mut self, posted: &Posted, result: Result<(), &str>, told: &mut Told<'_>) {
        let mut failed = None;
        let mut closing = false;
        if let Some(end) = self.end(posted.end) {
            end.under_way = end.under_way.saturating_sub(1);
            end.lasting -= u32::from(posted.what != What::Inline);
            closing = end.closing;
            if let Err(why) = result {
                failed = end.tells().then(|| why.to_owned());
                end.ready = false;
                end.broken.get_or_insert_with(|| why.into());
            }
        }
        self.tell(posted.what, posted.vc, result, failed, told);
        if closing {
            self.sweep(posted.end);
        }
    }

    /// Says how a request has ended. `failed`: what the VC is to hear of that.
    #[inline]
    pub(super) fn tell(
        &mut self,
        what: What,
        of: VcId,
        result: Result<(), &str>,
        failed: Option<String>,
        told: &mut Told<'_>,
    ) {
        match what {
            What::Inline => told.found.extend(failed.map(|why| Done::Lost { vc: of, why })),
            What::Send { buffer, vc } => {
                told.free.push(buffer);
                told.found.push_back(match failed {
                    None => Done::Sent { vc },
                    Some(why) => Done::SendFailed { vc, why },
                });
            }
            What::Transfer { number } => {
                self.transfers = self.transfers.saturating_sub(1);
                let result = result.map_err(str::to_owned);
                told.found.push_back(Done::Transfer { number, result });
                // With a transfer the whole connection has failed.
                told.found.extend(failed.map(|why| Done::Lost { vc: of, why }));
            }
        }
    }

    /// A queue pair has failed, as an event says.
    pub(super) fn broken(&mut self, qp: QpNum, why: &str, told: &mut Told<'_>) {
        let of = |lane: &Option<Lane<H>>| lane.as_ref().is_some_and(|lane| lane.number() == qp);
        match self.lanes.iter().position(of) {
            Some(at) => self.lost(at as u32, why, told),
            // Who sends to a receiving queue pair of XRC hears of it, and asks for another one.
            None if self.targets.knows(qp) => tracing::debug!(why, "a receiving queue pair has failed"),
            None => {}
        }
    }

    /// A lane has failed, and with it all ends that it may have carried something for.
    #[cold]
    pub(super) fn lost(&mut self, at: u32, why: &str, told: &mut Told<'_>) {
        let Some(lane) = self.lane(at).filter(|lane| lane.users > 0) else { return };
        let was_new = lane.stage == Stage::New;
        lane.stage = Stage::Broken;
        self.retire(at);
        self.move_out(at, |_, part| !part.has_joined());
        let of = |end: &&End| end.lane == Some(at);
        let ends: Vec<EndId> = self.all.iter().flatten().filter(of).map(|end| end.id).collect();
        for id in ends {
            let Some(end) = self.end(id) else { continue };
            // Who has sent nothing hears of it when there is something to send: it may never be.
            let tell = end.tells() && (end.used || end.part.is_none() && !was_new);
            let vc = end.vc;
            self.give_up(id, why, told);
            if tell {
                told.found.push_back(Done::Lost { vc, why: why.into() });
            }
        }
    }

    /// The device has failed.
    pub(super) fn all_broken(&mut self, why: &str, told: &mut Told<'_>) {
        for at in 0..self.lanes.len() {
            self.lost(at as u32, why, told);
        }
        let ends: Vec<EndId> = self.all.iter().flatten().map(|end| end.id).collect();
        ends.into_iter().for_each(|id| self.give_up(id, why, told));
    }

    /// Transfers under way.
    pub(super) fn transfers(&self) -> usize {
        self.transfers
    }

    pub(super) fn clear(&mut self) {
        self.all.clear();
        self.lanes.clear();
        self.current.clear();
        self.tokens.clear();
        self.restless.clear();
        self.targets.clear();
        self.transfers = 0;
    }
}

/// Whether a failure is an answer to one request, or was found before it left: what was behind it was not done then, and another end's
/// requests are none the worse for it.
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
