//! Ends that share a lane of XRC: how they join it, and how they leave one that has failed for another end's sake.
//!
//! A request that is refused by one process of the domain, because that has died for instance, puts the lane into the error state, and all
//! requests behind it are flushed. They were not done, so the other ends lose nothing: they get a new lane, join it, and post again what was
//! flushed, in order, before anything else. Meanwhile they take nothing. If the peer's device does not answer at all it is not known what was
//! done; then all ends of the lane have failed.

use core::time::Duration;
use std::collections::VecDeque;

use hca::{Hca, SrqNum};
use netmod_core::{Time, VcId};
use netmod_framed::device::{Done, NewEnd, Refused};

use super::What;
use super::carried::Carried;
use super::end::{End, Ends, Told, place};
use super::join::{Answer, Hold, Join, Note, Said, Step, Wish, step, wish};
use super::lane::{Again, EndId, Lane, READS, Remote, Stage};
use super::site::Site;
use super::targets::{Sender, reads};
use crate::words::{Address, Domain, XrcEnd};

/// After so long an unanswered JOIN is sent again; doubled each time, up to the longest.
const PAUSE: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// So long an end that is closed tries to get its last words out before it has joined a lane.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// What an end of XRC has beside others.
#[derive(Debug)]
pub(super) struct Part {
    /// By which the peer names it.
    pub(super) token: u64,
    /// The peer's end, once it is known.
    pub(super) peer: Option<XrcEnd>,
    /// The peer holds the receiving queue pair of the lane, which therefore lives as long as the peer's end does.
    joined: bool,
    /// Requests of it are being flushed from the lane before.
    pub(super) flushing: bool,
    /// Requests that were flushed, to be posted before others.
    pub(super) carried: Carried<Again>,
    /// When JOIN is sent.
    ask_at: Time,
    pause: Duration,
    /// When it gives its last words up.
    until: Time,
    /// What it holds of the peer's lane.
    pub(super) hold: Option<Hold>,
}

impl Part {
    /// Whether the peer holds the receiving queue pair of the lane.
    pub(super) fn has_joined(&self) -> bool {
        self.joined
    }
}

impl<H: Hca> Ends<H> {
    /// Makes an end of XRC. `srq` is the queue in which its frames arrive.
    ///
    /// # Errors
    /// If there are no random numbers, or no domain.
    pub(super) fn open_shared(&mut self, site: &Site<H>, srq: SrqNum, vc: VcId) -> Result<NewEnd, String> {
        let Domain { file, .. } = site.domain().ok_or("there is no XRC domain")?;
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|e| format!("no random numbers: {e}"))?;
        let token = u64::from_le_bytes(random).max(1);
        let part = Part {
            token,
            peer: None,
            joined: false,
            flushing: false,
            carried: Carried::default(),
            ask_at: Time::ZERO,
            pause: PAUSE,
            until: Time::NEVER,
            hold: None,
        };
        let says = XrcEnd { address: self.own, file, srq, token, mtu: site.attr.active_mtu }.to_bytes();
        let end = self.add(vc, None, Some(part.into()));
        let (at, number) = (end.id.at, end.number());
        self.tokens.insert(token, at);
        Ok(NewEnd { number, says })
    }

    fn by_token(&self, token: u64) -> Option<EndId> {
        let at = *self.tokens.get(&token)?;
        Some(self.all.get(at as usize)?.as_ref()?.id)
    }

    /// Whether an end of XRC waits for something.
    #[inline]
    pub(super) fn is_restless(&self) -> bool {
        !self.restless.is_empty()
    }

    /// Whether an end waits for an answer of its peer.
    pub(super) fn waits_for_peer(&self, number: u64) -> bool {
        let end = self.all.get(number as u32 as usize).and_then(Option::as_ref);
        let waiting = end.filter(|end| end.number() == number && !end.ready && end.broken.is_none());
        waiting.and_then(|end| end.part.as_ref()).is_some_and(|part| part.peer.is_some() && !part.joined)
    }

    /// Does for ends of XRC what can be done now. What is to be said to other ports is added to `say`.
    #[cold]
    pub(super) fn settle(&mut self, site: &Site<H>, say: &mut Vec<(Address, Note)>, told: &mut Told<'_>) {
        for id in core::mem::take(&mut self.restless) {
            if self.advance(site, id, say, told) {
                self.restless.push(id);
            }
        }
    }

    /// The same for one; whether it still waits for something.
    fn advance(
        &mut self,
        site: &Site<H>,
        id: EndId,
        say: &mut Vec<(Address, Note)>,
        told: &mut Told<'_>,
    ) -> bool {
        let now = self.now;
        let Some(end) = self.end(id) else { return false };
        let closing = end.closing;
        let (Some(part), None) = (&mut end.part, &end.broken) else { return false };
        let Some(peer) = part.peer else { return false };
        if closing {
            part.until = part.until.min(now + LAST_WORDS);
            if part.carried.is_empty() && !part.flushing {
                return false;
            }
            if now >= part.until && !part.flushing {
                self.give_up(id, "the connection was closed before its lane was renewed", told);
                return false;
            }
        }
        let Some(at) = end.lane.map_or_else(|| self.find_lane(site, id, peer.domain(), told), Some) else {
            return false;
        };
        self.ask(site, id, at, &peer, say);
        let connected = self.lane(at).is_some_and(|lane| lane.stage == Stage::Connected);
        let Some(end) = self.end(id) else { return false };
        let Some(part) = &end.part else { return false };
        if connected && part.joined && !part.flushing && !self.repost(id, at, told) {
            // It posts by itself from now on.
            let Some(end) = self.end(id) else { return false };
            end.ready = end.broken.is_none();
        }
        let Some(end) = self.end(id).filter(|end| end.broken.is_none()) else { return false };
        end.part.as_ref().is_some_and(|part| !part.joined || part.flushing || !part.carried.is_empty())
    }

    /// The lane of a domain, for an end that has none.
    fn find_lane(&mut self, site: &Site<H>, id: EndId, domain: Domain, told: &mut Told<'_>) -> Option<u32> {
        let at = match self.current.get(&domain) {
            Some(at) => {
                let at = *at;
                self.lane(at)?.users += 1;
                at
            }
            None => {
                self.numbers = self.numbers.wrapping_add(1);
                match Lane::shared(site, self.numbers) {
                    Ok(lane) => {
                        self.inline = self.inline.min(lane.inline());
                        let at = place(&mut self.lanes, lane);
                        self.current.insert(domain, at);
                        at
                    }
                    Err(why) => {
                        self.give_up(id, &format!("no queue pair for XRC: {why}"), told);
                        return None;
                    }
                }
            }
        };
        let end = self.end(id)?;
        end.lane = Some(at);
        if let Some(part) = &mut end.part {
            (part.ask_at, part.pause) = (Time::ZERO, PAUSE);
        }
        Some(at)
    }

    /// Sends JOIN if that is due.
    fn ask(&mut self, site: &Site<H>, id: EndId, at: u32, peer: &XrcEnd, say: &mut Vec<(Address, Note)>) {
        let now = self.now;
        let Some(lane) = self.lane(at) else { return };
        let (ini, psn) = (lane.number(), lane.psn());
        let Some(shared) = &lane.shared else { return };
        let (number, tgt) = (shared.number, shared.tgt);
        let Some(part) = self.end(id).and_then(|end| end.part.as_mut()) else { return };
        if part.joined || now < part.ask_at {
            return;
        }
        part.ask_at = now + part.pause;
        part.pause = (part.pause * 2).min(PAUSE_MAX);
        let join = Join {
            mtu: site.attr.active_mtu.min(peer.mtu),
            reads: READS.min(site.hca.device().max_qp_init_rd_atom),
            lane: number,
            to: peer.token,
            from: part.token,
            address: self.own,
            ini,
            psn,
            tgt,
        };
        say.push((peer.address, Note::Join(join)));
    }

    /// Posts what was flushed, as far as there is room; whether something is left.
    fn repost(&mut self, id: EndId, at: u32, told: &mut Told<'_>) -> bool {
        while self.room > 0 {
            let end = self.all.get_mut(id.at as usize).and_then(Option::as_mut);
            let Some(end) = end.filter(|end| end.id == id) else { return false };
            let who = (id, end.srq, end.vc);
            let Some(part) = &mut end.part else { return false };
            let Some(again) = part.carried.front() else { return false };
            let Some(lane) = self.lanes.get_mut(at as usize).and_then(Option::as_mut) else { return true };
            match lane.post(at, who, again.request()) {
                Ok(()) => {
                    part.carried.posted();
                    end.under_way += 1;
                    self.room -= 1;
                }
                Err(Refused::Again) => return true,
                Err(Refused::Failed(why)) => {
                    self.give_up(id, &why, told);
                    return false;
                }
            }
        }
        self.end(id).and_then(|end| end.part.as_ref()).is_some_and(|part| !part.carried.is_empty())
    }

    /// Another port asks.
    pub(super) fn asked(&mut self, site: &Site<H>, join: &Join) -> Option<Answer> {
        let answer = |said| Some(Answer { said, lane: join.lane, to: join.from });
        let Some(id) = self.by_token(join.to) else { return answer(Said::Unknown) };
        let part = self.all[id.at as usize].as_mut()?.part.as_mut()?;
        let taken = match wish(part.hold.as_ref(), join) {
            Wish::Old => return None,
            Wish::Say(tgt) => return answer(Said::Held(tgt, reads(site))),
            Wish::Open(tgt) => match self.targets.open(site, tgt) {
                Ok(()) => tgt,
                Err(why) => {
                    tracing::debug!(why, "a receiving queue pair of XRC cannot be opened");
                    return answer(Said::Gone);
                }
            },
            Wish::Make => {
                let sender = Sender { address: join.address, ini: join.ini, psn: join.psn };
                let made = site
                    .way(&join.address.place)
                    .and_then(|ah| self.targets.make(site, sender, ah, join.mtu));
                match made {
                    Ok(tgt) => tgt,
                    Err(why) => {
                        tracing::warn!(why, "no receiving queue pair of XRC");
                        return answer(Said::Cannot);
                    }
                }
            }
        };
        let hold = Hold { of: join.address, lane: join.lane, tgt: taken };
        if let Some(old) = part.hold.replace(hold) {
            self.targets.release(old.tgt);
        }
        answer(Said::Held(taken, reads(site)))
    }

    /// Another port answers.
    pub(super) fn answered(&mut self, site: &Site<H>, answer: &Answer, told: &mut Told<'_>) {
        let Some(id) = self.by_token(answer.to) else { return };
        let Some(end) = self.end(id).filter(|end| end.broken.is_none()) else { return };
        let Some((at, part)) = end.lane.zip(end.part.as_mut()) else { return };
        let Some(peer) = part.peer.filter(|_| !part.joined) else { return };
        let Some(shared) = self.lane(at).and_then(|lane| lane.shared.as_ref()) else { return };
        if shared.number != answer.lane {
            return;
        }
        match step(shared.tgt, answer.said) {
            Step::Connect(tgt, reads) => {
                let Some(lane) = self.lane(at) else { return };
                let connected = site
                    .way(&peer.address.place)
                    .and_then(|ah| lane.connect(site, &Remote { qp: tgt, psn: 0, ah, mtu: peer.mtu, reads }));
                if let Err(why) = connected {
                    self.give_up(id, &why, told);
                    return self.lost(at, &why, told);
                }
                if let Some(shared) = &mut lane.shared {
                    shared.tgt = Some(tgt);
                }
                self.joined(id);
            }
            Step::Joined => self.joined(id),
            Step::AskAgain => {
                if let Some(part) = self.end(id).and_then(|end| end.part.as_mut()) {
                    part.ask_at = Time::ZERO;
                }
            }
            Step::Leave => {
                self.retire(at);
                self.move_out(at, |end, _| end.id == id);
            }
            Step::Fail(why) => self.give_up(id, why, told),
        }
    }

    fn joined(&mut self, id: EndId) {
        if let Some(part) = self.end(id).and_then(|end| end.part.as_mut()) {
            part.joined = true;
        }
    }

    /// A lane takes no more ends.
    pub(super) fn retire(&mut self, at: u32) {
        self.current.retain(|_, current| *current != at);
    }

    /// A lane has failed for one end's sake: the others get a new one.
    #[cold]
    pub(super) fn renew(&mut self, at: u32) {
        if let Some(lane) = self.lane(at) {
            lane.stage = Stage::Flushing;
        }
        self.retire(at);
        self.move_out(at, |_, _| true);
        tracing::info!("a lane of XRC has failed for one of its ends; the others get a new one");
    }

    /// Ends of a lane get another one.
    pub(super) fn move_out(&mut self, at: u32, which: impl Fn(&End, &Part) -> bool) {
        let mut moved = Vec::new();
        for end in self.all.iter_mut().flatten().filter(|end| end.lane == Some(at)) {
            let Some(mut part) = end.part.take() else { continue };
            if end.broken.is_none() && which(end, &part) {
                (end.lane, end.ready) = (None, false);
                part.joined = false;
                // One that is still being flushed from the lane before has posted nothing since.
                if !part.flushing {
                    part.carried.lane_failed();
                }
                part.flushing = end.under_way > 0;
                moved.push(end.id);
            }
            end.part = Some(part);
        }
        for id in moved {
            if !self.restless.contains(&id) {
                self.restless.push(id);
            }
            self.leave(id, at);
        }
    }

    /// An end has failed. What it has not posted again is told to have failed.
    #[cold]
    pub(super) fn give_up(&mut self, id: EndId, why: &str, told: &mut Told<'_>) {
        let Some(end) = self.end(id) else { return };
        let mut tells = end.tells();
        end.ready = false;
        end.broken.get_or_insert_with(|| why.into());
        let vc = end.vc;
        let carried = end.part.as_mut().map(|part| part.carried.drain());
        for again in carried.into_iter().flatten() {
            let failed = core::mem::take(&mut tells).then(|| why.to_owned());
            self.end_carried(id, vc, again.what, why, failed, told);
        }
        self.sweep(id);
    }

    fn end_carried(
        &mut self,
        id: EndId,
        vc: VcId,
        what: What,
        why: &str,
        failed: Option<String>,
        told: &mut Told<'_>,
    ) {
        if let Some(end) = self.end(id) {
            end.lasting -= u32::from(what != What::Inline);
        }
        self.tell(what, vc, Err(why), failed, told);
    }

    /// A transfer is not to be posted again.
    pub(super) fn cancel(&mut self, number: u64, found: &mut VecDeque<Done>) {
        let is = |again: &Again| again.what == What::Transfer { number };
        let mut ended = Vec::new();
        for end in self.all.iter_mut().flatten() {
            let Some(part) = &mut end.part else { continue };
            let n = part.carried.give_up(is);
            end.lasting -= n as u32;
            ended.extend((0..n).map(|_| end.id));
        }
        let mut free = Vec::new();
        for id in ended {
            let told = &mut Told { found, free: &mut free };
            let vc = VcId::from_wire(0);
            self.tell(What::Transfer { number }, vc, Err("it was taken back"), None, told);
            self.sweep(id);
        }
    }
}
