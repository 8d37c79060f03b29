//! The model: two sides, the packets between them, registered memory, one ring, and possible
//! faults.

use std::collections::VecDeque;

use crate::mode::Mode;
use crate::recv::RecvLmt;
use crate::send::SendLmt;
use crate::table::{Action, Actions, Ending, Event, Window};

/// The case to explore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Case {
    /// Mode chosen by the receiver.
    pub mode: Mode,
    /// Units of the message; a ring holds two.
    pub total: u64,
    /// Units that the receive has room for.
    pub room: u64,
    /// Units of the first window.
    pub window: u64,
    /// Most faults that may occur.
    pub faults: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Side {
    Sender,
    Receiver,
}
use Side::{Receiver, Sender};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Packet {
    Rts(Option<Window>),
    CancelReq,
    CancelResp(bool),
    Data(u64),
    Lmt(Event),
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    Deliver(Side),
    Match,
    Answer(bool),
    End(Side, bool),
    Leave,
    Copy(Side),
    Cancel,
    Abandon(Side),
    Lose,
    Tell(Side),
}

impl Step {
    /// Returns true if the step comes by itself: without such a step the model is at rest.
    pub(super) fn is_due(&self) -> bool {
        !matches!(
            self,
            Step::Cancel | Step::Abandon(_) | Step::Lose | Step::End(_, false) | Step::Answer(false)
        )
    }
}

/// The state of one side, except for its machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct SideState {
    inbox: VecDeque<Packet>,
    /// Windows registered for the peer.
    regions: Vec<Window>,
    moving: Option<Window>,
    in_ring: bool,
    ended: Option<Ending>,
    /// True if it was told that the VC is lost.
    told: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    case: Case,
    send: SendLmt,
    /// The receiver, from the match on.
    recv: Option<RecvLmt>,
    /// The announced message, until the match.
    announced: Option<Option<Window>>,
    sides: [SideState; 2],
    /// The side that waits for the result of a registration or of mapping a ring.
    asked: Option<(Side, Option<Window>)>,
    faults: u8,
    lost: bool,
    cancelled: bool,
    /// True if the netmod holds the sender's memory (Null).
    with_netmod: bool,
    filled: u64,
    emptied: u64,
    /// Units in the receiver's memory: from the start, without gaps.
    arrived: u64,
    /// True if the ring's data is discarded.
    discarding: bool,
}

impl World {
    pub(super) fn new(case: Case) -> World {
        let get = (case.mode == Mode::Get).then_some(case.window);
        let (send, acts) = SendLmt::start(case.total, get);
        let mut w = World {
            case,
            send,
            recv: None,
            announced: None,
            sides: Default::default(),
            asked: None,
            faults: case.faults,
            lost: false,
            cancelled: false,
            with_netmod: false,
            filled: 0,
            emptied: 0,
            arrived: 0,
            discarding: false,
        };
        w.carry_out(Sender, acts.into_iter().collect()).expect("the first actions are possible");
        w
    }

    fn state(&mut self, side: Side) -> &mut SideState {
        &mut self.sides[side as usize]
    }

    fn is_live(&self, side: Side) -> bool {
        let machine = side == Sender || self.recv.is_some();
        machine && self.sides[side as usize].ended.is_none()
    }

    /// Returns the steps that can happen next.
    pub(super) fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let spare = self.faults > 0;
        if self.asked.is_some() {
            steps.push(Step::Answer(true));
            if spare {
                steps.push(Step::Answer(false));
            }
            return steps;
        }
        for side in [Sender, Receiver] {
            let p = &self.sides[side as usize];
            if !p.inbox.is_empty() && !p.told {
                steps.push(Step::Deliver(side));
            }
            if p.moving.is_some() {
                steps.push(Step::End(side, true));
                if spare {
                    steps.push(Step::End(side, false));
                }
            }
            if self.is_live(side) && p.in_ring && self.can_copy(side) {
                steps.push(Step::Copy(side));
            }
            if self.is_live(side) && spare {
                steps.push(Step::Abandon(side));
            }
            if self.lost && !p.told {
                steps.push(Step::Tell(side));
            }
        }
        if self.announced.is_some() && !self.sides[1].told {
            steps.push(Step::Match);
        }
        if self.with_netmod {
            steps.push(Step::Leave);
        }
        if spare && !self.cancelled && self.is_live(Sender) {
            steps.push(Step::Cancel);
        }
        if spare && !self.lost {
            steps.push(Step::Lose);
        }
        steps
    }

    fn can_copy(&self, side: Side) -> bool {
        match side {
            Sender => self.filled - self.emptied < 2,
            Receiver => self.filled > self.emptied,
        }
    }

    pub(super) fn take(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Answer(ok) => self.answer(ok),
            Step::Deliver(side) => self.deliver(side),
            Step::Match => {
                let Some(first) = self.announced.take() else { return Ok(()) };
                let (recv, acts) = RecvLmt::start(self.case.room, self.case.mode, self.case.window, first);
                self.recv = Some(recv);
                self.carry_out(Receiver, acts.into_iter().collect())
            }
            Step::End(side, wanted) => {
                let Some(w) = self.state(side).moving.take() else { return Ok(()) };
                self.faults -= u8::from(!wanted);
                let there = &self.sides[1 - side as usize].regions;
                let ok = wanted && there.iter().any(|r| r.index == w.index && r.at == w.at && r.len >= w.len);
                if wanted && !ok && self.is_live(side) && self.is_live(self.other(side)) {
                    return Err(format!("{w:?} is moved, and is not registered"));
                }
                if self.sides[Receiver as usize].ended == Some(Ending::Done) {
                    return Err("memory is written after the receive was done".into());
                }
                if ok {
                    if self.arrived != w.at {
                        return Err(format!("{w:?} is moved after {} units", self.arrived));
                    }
                    self.arrived += w.len;
                }
                self.tell(side, Event::Ended(ok))
            }
            Step::Leave => {
                self.with_netmod = false;
                let room = self.case.room;
                self.post(Sender, Packet::Data(room));
                self.tell(Sender, Event::Moved)
            }
            Step::Copy(side) => {
                match side {
                    Sender => {
                        self.filled += 1;
                        self.emptied += u64::from(self.discarding);
                    }
                    Receiver => {
                        self.emptied += 1;
                        self.arrived += 1;
                    }
                }
                self.tell(side, Event::Copied(1))
            }
            Step::Cancel => {
                self.faults -= 1;
                self.cancelled = true;
                self.post(Sender, Packet::CancelReq);
                Ok(())
            }
            Step::Abandon(side) => {
                self.faults -= 1;
                self.tell(side, Event::Abandon)
            }
            Step::Lose => {
                self.faults -= 1;
                self.lose();
                Ok(())
            }
            Step::Tell(side) => {
                let side_state = self.state(side);
                side_state.told = true;
                side_state.inbox.clear();
                if side == Receiver {
                    self.announced = None;
                }
                if side == Sender {
                    self.with_netmod = false;
                }
                if self.is_live(side) { self.tell(side, Event::Lost) } else { Ok(()) }
            }
        }
    }

    fn other(&self, side: Side) -> Side {
        if side == Sender { Receiver } else { Sender }
    }

    fn lose(&mut self) {
        self.lost = true;
    }

    fn post(&mut self, from: Side, packet: Packet) {
        if !self.lost {
            let to = self.other(from);
            self.state(to).inbox.push_back(packet);
        }
    }

    fn deliver(&mut self, side: Side) -> Result<(), String> {
        let Some(packet) = self.state(side).inbox.pop_front() else { return Ok(()) };
        match packet {
            Packet::Rts(first) => {
                self.announced = Some(first);
                Ok(())
            }
            Packet::CancelReq => {
                let ack = self.announced.take().is_some();
                self.post(Receiver, Packet::CancelResp(ack));
                Ok(())
            }
            Packet::CancelResp(true) if self.is_live(Sender) => self.tell(Sender, Event::Withdrawn),
            Packet::CancelResp(_) => Ok(()),
            Packet::Data(len) if self.is_live(Receiver) => {
                self.tell(Receiver, Event::Data(len))?;
                self.arrived += len;
                self.tell(Receiver, Event::Moved)
            }
            Packet::Data(_) => Ok(()),
            Packet::Lmt(event) if !self.is_live(side) => {
                if side == Receiver && RecvLmt::answer_when_gone(event) == Some(Action::SendAbort) {
                    self.post(Receiver, Packet::Lmt(Event::Abort));
                }
                Ok(())
            }
            Packet::Lmt(event) => self.tell(side, event),
        }
    }

    fn tell(&mut self, side: Side, event: Event) -> Result<(), String> {
        let acts = match (side, &mut self.recv) {
            (Sender, _) => self.send.on(event),
            (Receiver, Some(recv)) => recv.on(event),
            (Receiver, None) => return Err(format!("{event:?} before the match")),
        };
        let acts: Actions = acts.map_err(|e| format!("{side:?} takes {event:?} for a fault: {e}"))?;
        self.carry_out(side, acts.into_iter().collect())
    }

    fn answer(&mut self, ok: bool) -> Result<(), String> {
        let Some((side, region)) = self.asked.take() else { return Ok(()) };
        self.faults -= u8::from(!ok);
        match region {
            Some(w) => {
                if ok {
                    self.state(side).regions.push(w);
                    if self.state(side).regions.len() > 2 {
                        return Err("three windows are registered".into());
                    }
                }
                self.tell(side, Event::Registered(ok))
            }
            None => self.tell(side, Event::Attached(ok)),
        }
    }

    fn carry_out(&mut self, side: Side, mut acts: VecDeque<Action>) -> Result<(), String> {
        while let Some(act) = acts.pop_front() {
            if let Some(ended) = self.sides[side as usize].ended {
                return Err(format!("{act:?} after {ended:?}"));
            }
            let lmt = |event| Packet::Lmt(event);
            match act {
                Action::SendRts(first) => self.post(side, Packet::Rts(first)),
                Action::SendCts(mode, first) => {
                    self.post(side, lmt(Event::Cts { mode, total: self.case.room, first }));
                }
                Action::SendWindow(w) => self.post(side, lmt(Event::Window(w))),
                Action::SendWindowAck(i) => self.post(side, lmt(Event::WindowAck(i))),
                Action::SendRefuse => self.post(side, lmt(Event::Refused)),
                Action::SendAbort => self.post(side, lmt(Event::Abort)),
                Action::SendDone => self.post(side, lmt(Event::Done)),
                Action::Register(..) | Action::Attach if !acts.is_empty() => {
                    return Err(format!("{acts:?} behind {act:?}, which is a question"));
                }
                Action::Register(w, _) => self.asked = Some((side, Some(w))),
                Action::Attach => self.asked = Some((side, None)),
                Action::Deregister(i) => {
                    let regions = &mut self.state(side).regions;
                    let n = regions.len();
                    regions.retain(|r| r.index != i);
                    if regions.len() + 1 != n {
                        return Err(format!("window {i} is deregistered, and is not registered"));
                    }
                }
                Action::Move(w) => {
                    if self.state(side).moving.replace(w).is_some() {
                        return Err("two moves at once".into());
                    }
                }
                Action::Copy(_) => self.state(side).in_ring = true,
                Action::LeaveRing => self.state(side).in_ring = false,
                Action::SendData(_) => self.with_netmod = true,
                // Discarded data is still taken out of the ring, or off the wire.
                Action::Discard => {
                    self.discarding = true;
                    self.emptied = self.filled;
                }
                Action::Sever => {
                    self.with_netmod = false;
                    self.lose();
                }
                Action::Finish(ending) => self.finish(side, ending)?,
            }
        }
        Ok(())
    }

    /// Returns the request's memory to its owner: nothing may use it any more.
    fn finish(&mut self, side: Side, ending: Ending) -> Result<(), String> {
        let (arrived, room) = (self.arrived, self.case.room);
        let with_netmod = side == Sender && self.with_netmod && ending != Ending::Lost;
        let side_state = self.state(side);
        if !side_state.regions.is_empty() {
            return Err(format!("{side:?} is over, and {:?} are registered", side_state.regions));
        }
        if side_state.moving.is_some() || with_netmod {
            return Err(format!("{side:?} is over while its data moves"));
        }
        side_state.ended = Some(ending);
        side_state.in_ring = false;
        if side == Receiver && ending == Ending::Done && arrived != room {
            return Err(format!("the receive is done with {arrived} of {room} units"));
        }
        Ok(())
    }

    /// Checks a state in which nothing happens any more.
    pub(super) fn check_end(&self) -> Result<(), String> {
        let [sender, receiver] = [self.sides[0].ended, self.sides[1].ended];
        if sender.is_none() || (self.recv.is_some() && receiver.is_none()) {
            return Err("nothing happens any more, and a side is not over".into());
        }
        // A failed registration costs speed or the transfer, but nothing else.
        if self.case.faults == self.faults && (sender, receiver) != (Some(Ending::Done), Some(Ending::Done)) {
            return Err(format!("nothing went wrong, and it ended with {sender:?} and {receiver:?}"));
        }
        Ok(())
    }
}
