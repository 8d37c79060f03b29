//! Endpoints that share a QP of XRC: how they join it, and how they leave one that another
//! endpoint's request has failed.
//!
//! If a process of the domain refuses a request, for example because it has died, the shared QP
//! goes to the error state, and all later requests are flushed. They were not executed, so the
//! other endpoints lose nothing: they get a new shared QP, join it, and post the flushed requests
//! again, in order, before any others. Meanwhile they accept no requests. If the peer's device does
//! not answer at all, it is unknown what was executed; then all endpoints of the QP fail.

use core::time::Duration;
use std::collections::VecDeque;

use hca::{Hca, SrqNum};
use netmod_core::{Time, VcId};
use netmod_framed::device::{Done, NewEndpoint};

use super::What;
use super::endpoint::{Endpoint, Endpoints, Results, store};
use super::join::{
    Answer, AnswerAction, Control, Hold, Join, JoinAction, JoinResult, answer_action, join_action,
};
use super::repost::RepostQueue;
use super::send_qp::{EndpointId, READS, Remote, Repost, SendQp, Stage};
use super::site::Site;
use super::targets::{Sender, reads};
use super::xrc_state::XrcState;
use crate::error::{PortError, Refused};
use crate::wire::{Address, Domain, XrcEndpoint};

/// Delay before an unanswered JOIN is repeated; doubled each time, up to the maximum.
const PAUSE: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Time that a closed endpoint has for its last frames before it has joined.
const LAST_WORDS: Duration = Duration::from_secs(2);

impl<H: Hca> Endpoints<H> {
    /// Makes an endpoint of XRC. `srq` is the queue in which its frames arrive.
    ///
    /// # Errors
    /// If there are no random numbers, or no domain.
    pub(super) fn open_shared(
        &mut self,
        site: &Site<H>,
        srq: SrqNum,
        vc: VcId,
    ) -> Result<NewEndpoint, PortError> {
        let Domain { file, .. } = site.domain().ok_or(PortError::NoDomain)?;
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(PortError::Random)?;
        let token = u64::from_le_bytes(random).max(1);
        let xrc_state = XrcState {
            token,
            peer: None,
            joined: false,
            flushing: false,
            carried: RepostQueue::default(),
            ask_at: Time::ZERO,
            pause: PAUSE,
            until: Time::NEVER,
            hold: None,
        };
        let says = XrcEndpoint { address: self.own, file, srq, token, mtu: site.attr.active_mtu }.to_bytes();
        let endpoint = self.add(vc, None, Some(xrc_state.into()));
        let (at, number) = (endpoint.id.at, endpoint.number());
        self.tokens.insert(token, at);
        Ok(NewEndpoint { number, says })
    }

    fn by_token(&self, token: u64) -> Option<EndpointId> {
        let at = *self.tokens.get(&token)?;
        Some(self.all.get(at as usize)?.as_ref()?.id)
    }

    /// Returns true if an XRC endpoint waits for something.
    #[inline]
    pub(super) fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns true if an endpoint waits for an answer of its peer.
    pub(super) fn waits_for_peer(&self, number: u64) -> bool {
        let endpoint = self.all.get(number as u32 as usize).and_then(Option::as_ref);
        let waiting = endpoint
            .filter(|endpoint| endpoint.number() == number && !endpoint.ready && endpoint.broken.is_none());
        waiting
            .and_then(|endpoint| endpoint.xrc_state.as_ref())
            .is_some_and(|xrc_state| xrc_state.peer.is_some() && !xrc_state.joined)
    }

    /// Advances the waiting XRC endpoints as far as possible now. Adds control messages for other
    /// ports to `outgoing`.
    #[cold]
    pub(super) fn settle(
        &mut self,
        site: &Site<H>,
        outgoing: &mut Vec<(Address, Control)>,
        results: &mut Results<'_>,
    ) {
        for id in core::mem::take(&mut self.pending) {
            if self.advance(site, id, outgoing, results) {
                self.pending.push(id);
            }
        }
    }

    /// Advances one endpoint; returns true if it still waits for something.
    fn advance(
        &mut self,
        site: &Site<H>,
        id: EndpointId,
        outgoing: &mut Vec<(Address, Control)>,
        results: &mut Results<'_>,
    ) -> bool {
        let now = self.now;
        let Some(endpoint) = self.endpoint(id) else { return false };
        let closing = endpoint.closing;
        let (Some(xrc_state), None) = (&mut endpoint.xrc_state, &endpoint.broken) else { return false };
        let Some(peer) = xrc_state.peer else { return false };
        if closing {
            xrc_state.until = xrc_state.until.min(now + LAST_WORDS);
            if xrc_state.carried.is_empty() && !xrc_state.flushing {
                return false;
            }
            if now >= xrc_state.until && !xrc_state.flushing {
                self.give_up(id, "the connection was closed before its shared QP was replaced", results);
                return false;
            }
        }
        let Some(at) =
            endpoint.send_qp.map_or_else(|| self.find_shared_qp(site, id, peer.domain(), results), Some)
        else {
            return false;
        };
        self.ask(site, id, at, &peer, outgoing);
        let connected = self.send_qp(at).is_some_and(|send_qp| send_qp.stage == Stage::Connected);
        let Some(endpoint) = self.endpoint(id) else { return false };
        let Some(xrc_state) = &endpoint.xrc_state else { return false };
        if connected && xrc_state.joined && !xrc_state.flushing && !self.repost(id, at, results) {
            // It posts directly from now on.
            let Some(endpoint) = self.endpoint(id) else { return false };
            endpoint.ready = endpoint.broken.is_none();
        }
        let Some(endpoint) = self.endpoint(id).filter(|endpoint| endpoint.broken.is_none()) else {
            return false;
        };
        endpoint
            .xrc_state
            .as_ref()
            .is_some_and(|xrc_state| !xrc_state.joined || xrc_state.flushing || !xrc_state.carried.is_empty())
    }

    /// Finds or makes the shared QP of a domain, for an endpoint that has none.
    fn find_shared_qp(
        &mut self,
        site: &Site<H>,
        id: EndpointId,
        domain: Domain,
        results: &mut Results<'_>,
    ) -> Option<u32> {
        let at = match self.current.get(&domain) {
            Some(at) => {
                let at = *at;
                self.send_qp(at)?.users += 1;
                at
            }
            None => {
                self.numbers = self.numbers.wrapping_add(1);
                match SendQp::shared(site, self.numbers) {
                    Ok(send_qp) => {
                        self.inline = self.inline.min(send_qp.inline());
                        let at = store(&mut self.send_qps, send_qp);
                        self.current.insert(domain, at);
                        at
                    }
                    Err(why) => {
                        self.give_up(id, &format!("no queue pair for XRC: {why}"), results);
                        return None;
                    }
                }
            }
        };
        let endpoint = self.endpoint(id)?;
        endpoint.send_qp = Some(at);
        if let Some(xrc_state) = &mut endpoint.xrc_state {
            (xrc_state.ask_at, xrc_state.pause) = (Time::ZERO, PAUSE);
        }
        Some(at)
    }

    /// Sends a JOIN if it is due.
    fn ask(
        &mut self,
        site: &Site<H>,
        id: EndpointId,
        at: u32,
        peer: &XrcEndpoint,
        outgoing: &mut Vec<(Address, Control)>,
    ) {
        let now = self.now;
        let Some(send_qp) = self.send_qp(at) else { return };
        let (ini, psn) = (send_qp.number(), send_qp.psn());
        let Some(shared) = &send_qp.shared else { return };
        let (number, tgt) = (shared.number, shared.tgt);
        let Some(xrc_state) = self.endpoint(id).and_then(|endpoint| endpoint.xrc_state.as_mut()) else {
            return;
        };
        if xrc_state.joined || now < xrc_state.ask_at {
            return;
        }
        xrc_state.ask_at = now + xrc_state.pause;
        xrc_state.pause = (xrc_state.pause * 2).min(PAUSE_MAX);
        let join = Join {
            mtu: site.attr.active_mtu.min(peer.mtu),
            reads: READS.min(site.hca.device().max_qp_init_rd_atom),
            send_qp: number,
            to: peer.token,
            from: xrc_state.token,
            address: self.own,
            ini,
            psn,
            tgt,
        };
        outgoing.push((peer.address, Control::Join(join)));
    }

    /// Posts flushed requests as far as there is room; returns true if some are left.
    fn repost(&mut self, id: EndpointId, at: u32, results: &mut Results<'_>) -> bool {
        while self.room > 0 {
            let endpoint = self.all.get_mut(id.at as usize).and_then(Option::as_mut);
            let Some(endpoint) = endpoint.filter(|endpoint| endpoint.id == id) else { return false };
            let who = (id, endpoint.srq, endpoint.vc);
            let Some(xrc_state) = &mut endpoint.xrc_state else { return false };
            let Some(again) = xrc_state.carried.front() else { return false };
            let Some(send_qp) = self.send_qps.get_mut(at as usize).and_then(Option::as_mut) else {
                return true;
            };
            match send_qp.post(at, who, again.request()) {
                Ok(()) => {
                    xrc_state.carried.posted();
                    endpoint.under_way += 1;
                    self.room -= 1;
                }
                Err(Refused::Again) => return true,
                Err(Refused::Failed(why)) => {
                    self.give_up(id, &why.to_string(), results);
                    return false;
                }
            }
        }
        self.endpoint(id)
            .and_then(|endpoint| endpoint.xrc_state.as_ref())
            .is_some_and(|xrc_state| !xrc_state.carried.is_empty())
    }

    /// Handles another port's JOIN.
    pub(super) fn asked(&mut self, site: &Site<H>, join: &Join) -> Option<Answer> {
        let answer = |result| Some(Answer { result, send_qp: join.send_qp, to: join.from });
        let Some(id) = self.by_token(join.to) else { return answer(JoinResult::Unknown) };
        let xrc_state = self.all[id.at as usize].as_mut()?.xrc_state.as_mut()?;
        let taken = match join_action(xrc_state.hold.as_ref(), join) {
            JoinAction::Ignore => return None,
            JoinAction::Report(tgt) => return answer(JoinResult::Held(tgt, reads(site))),
            JoinAction::Open(tgt) => match self.targets.open(site, tgt) {
                Ok(()) => tgt,
                Err(why) => {
                    tracing::debug!(%why, "a receiving queue pair of XRC cannot be opened");
                    return answer(JoinResult::Gone);
                }
            },
            JoinAction::Make => {
                let sender = Sender { address: join.address, ini: join.ini, psn: join.psn };
                let made = site
                    .route(&join.address.location)
                    .and_then(|ah| self.targets.make(site, sender, ah, join.mtu));
                match made {
                    Ok(tgt) => tgt,
                    Err(why) => {
                        tracing::warn!(%why, "no receiving queue pair of XRC");
                        return answer(JoinResult::Cannot);
                    }
                }
            }
        };
        let hold = Hold { of: join.address, send_qp: join.send_qp, tgt: taken };
        if let Some(old) = xrc_state.hold.replace(hold) {
            self.targets.release(old.tgt);
        }
        answer(JoinResult::Held(taken, reads(site)))
    }

    /// Handles another port's ANSWER.
    pub(super) fn answered(&mut self, site: &Site<H>, answer: &Answer, results: &mut Results<'_>) {
        let Some(id) = self.by_token(answer.to) else { return };
        let Some(endpoint) = self.endpoint(id).filter(|endpoint| endpoint.broken.is_none()) else { return };
        let Some((at, xrc_state)) = endpoint.send_qp.zip(endpoint.xrc_state.as_mut()) else { return };
        let Some(peer) = xrc_state.peer.filter(|_| !xrc_state.joined) else { return };
        let Some(shared) = self.send_qp(at).and_then(|send_qp| send_qp.shared.as_ref()) else { return };
        if shared.number != answer.send_qp {
            return;
        }
        match answer_action(shared.tgt, answer.result) {
            AnswerAction::Connect(tgt, reads) => {
                let Some(send_qp) = self.send_qp(at) else { return };
                let connected = site.route(&peer.address.location).and_then(|ah| {
                    send_qp.connect(site, &Remote { qp: tgt, psn: 0, ah, mtu: peer.mtu, reads })
                });
                if let Err(why) = connected {
                    let why = why.to_string();
                    self.give_up(id, &why, results);
                    return self.lost(at, &why, results);
                }
                if let Some(shared) = &mut send_qp.shared {
                    shared.tgt = Some(tgt);
                }
                self.joined(id);
            }
            AnswerAction::Joined => self.joined(id),
            AnswerAction::AskAgain => {
                if let Some(xrc_state) = self.endpoint(id).and_then(|endpoint| endpoint.xrc_state.as_mut()) {
                    xrc_state.ask_at = Time::ZERO;
                }
            }
            AnswerAction::Leave => {
                self.retire(at);
                self.move_out(at, |endpoint, _| endpoint.id == id);
            }
            AnswerAction::Fail(why) => self.give_up(id, why, results),
        }
    }

    fn joined(&mut self, id: EndpointId) {
        if let Some(xrc_state) = self.endpoint(id).and_then(|endpoint| endpoint.xrc_state.as_mut()) {
            xrc_state.joined = true;
        }
    }

    /// Makes a shared QP accept no more endpoints.
    pub(super) fn retire(&mut self, at: u32) {
        self.current.retain(|_, current| *current != at);
    }

    /// Replaces a shared QP that has failed because of one endpoint.
    #[cold]
    pub(super) fn renew(&mut self, at: u32) {
        if let Some(send_qp) = self.send_qp(at) {
            send_qp.stage = Stage::Flushing;
        }
        self.retire(at);
        self.move_out(at, |_, _| true);
        tracing::info!("a shared QP of XRC has failed because of one endpoint; the others get a new one");
    }

    /// Moves endpoints from a shared QP to another one.
    pub(super) fn move_out(&mut self, at: u32, which: impl Fn(&Endpoint, &XrcState) -> bool) {
        let mut moved = Vec::new();
        for endpoint in self.all.iter_mut().flatten().filter(|endpoint| endpoint.send_qp == Some(at)) {
            let Some(mut xrc_state) = endpoint.xrc_state.take() else { continue };
            if endpoint.broken.is_none() && which(endpoint, &xrc_state) {
                (endpoint.send_qp, endpoint.ready) = (None, false);
                xrc_state.joined = false;
                // An endpoint that is still being flushed from the QP before has posted nothing
                // since.
                if !xrc_state.flushing {
                    xrc_state.carried.qp_failed();
                }
                xrc_state.flushing = endpoint.under_way > 0;
                moved.push(endpoint.id);
            }
            endpoint.xrc_state = Some(xrc_state);
        }
        for id in moved {
            if !self.pending.contains(&id) {
                self.pending.push(id);
            }
            self.leave(id, at);
        }
    }

    /// Fails an endpoint, and reports the requests that it has not posted again as failed.
    #[cold]
    pub(super) fn give_up(&mut self, id: EndpointId, why: &str, results: &mut Results<'_>) {
        let Some(endpoint) = self.endpoint(id) else { return };
        let mut tells = endpoint.tells();
        endpoint.ready = false;
        endpoint.broken.get_or_insert_with(|| why.into());
        let vc = endpoint.vc;
        let carried = endpoint.xrc_state.as_mut().map(|xrc_state| xrc_state.carried.drain());
        for again in carried.into_iter().flatten() {
            let failed = core::mem::take(&mut tells).then(|| why.to_owned());
            self.fail_carried(id, vc, again.what, why, failed, results);
        }
        self.sweep(id);
    }

    fn fail_carried(
        &mut self,
        id: EndpointId,
        vc: VcId,
        what: What,
        why: &str,
        failed: Option<String>,
        results: &mut Results<'_>,
    ) {
        if let Some(endpoint) = self.endpoint(id) {
            endpoint.lasting -= u32::from(what != What::Inline);
        }
        self.tell(what, vc, Err(why), failed, results);
    }

    /// Removes a transfer from those to be posted again.
    pub(super) fn cancel(&mut self, number: u64, found: &mut VecDeque<Done>) {
        let is = |again: &Repost| again.what == What::Transfer { number };
        let mut ended = Vec::new();
        for endpoint in self.all.iter_mut().flatten() {
            let Some(xrc_state) = &mut endpoint.xrc_state else { continue };
            let n = xrc_state.carried.give_up(is);
            endpoint.lasting -= n as u32;
            ended.extend((0..n).map(|_| endpoint.id));
        }
        let mut free = Vec::new();
        for id in ended {
            let results = &mut Results { found, free: &mut free };
            let vc = VcId::from_wire(0);
            self.tell(What::Transfer { number }, vc, Err("it was cancelled"), None, results);
            self.sweep(id);
        }
    }
}
