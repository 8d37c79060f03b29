use std::collections::{BTreeSet, HashSet, VecDeque};

use hca::Gid;

use super::*;
use crate::wire::PortLocation;

fn address(number: u32) -> Address {
    let mut gid = [7; 16];
    gid[15] = number as u8;
    let location = PortLocation { ethernet: true, lid: 0, gid: Gid(gid) };
    Address { location, qp: QpNum(number + 2), qkey: 3, xrc: true }
}

fn join(send_qp: u32, tgt: Option<u32>) -> Join {
    Join {
        mtu: Mtu::B1024,
        reads: 9,
        send_qp,
        to: 0x1817_1615_1413_1211,
        from: 0x2827_2625_2423_2221,
        address: address(1),
        ini: QpNum(0x0033_3231),
        psn: 0x0043_4241,
        tgt: tgt.map(QpNum),
    }
}

#[test]
fn golden_bytes() {
    let note = Control::Join(join(0x0403_0201, Some(0x0053_5251)));
    let mut want = vec![129, 1, 3, 9, 1, 2, 3, 4];
    want.extend(0x11..=0x18);
    want.extend(0x21..=0x28);
    want.extend(address(1).to_bytes());
    want.extend([0x31, 0x32, 0x33, 0, 0x41, 0x42, 0x43, 0, 0x51, 0x52, 0x53, 0]);
    assert_eq!(note.to_bytes(), want);
    assert_eq!(Control::parse(&want), Some(note));
    let result =
        [JoinResult::Held(QpNum(0x0023_2221), 7), JoinResult::Gone, JoinResult::Unknown, JoinResult::Cannot];
    for (code, result) in (1..).zip(result) {
        let note = Control::Answer(Answer { result, send_qp: 0x0403_0201, to: 0x1817_1615_1413_1211 });
        let mut want = vec![130, 1, code, 0, 1, 2, 3, 4];
        want.extend(0x11..=0x18);
        want.extend([0; 4]);
        if code == 1 {
            want[3] = 7;
            want[16..].copy_from_slice(&[0x21, 0x22, 0x23, 0]);
        }
        assert_eq!(note.to_bytes(), want);
        assert_eq!(Control::parse(&want), Some(note));
        assert!(Control::is_one(want[0]));
        for len in 0..want.len() {
            assert_eq!(Control::parse(&want[..len]), None, "{len}");
        }
    }
}

#[test]
fn invalid_bytes_are_rejected() {
    let bytes = Control::Join(join(1, None)).to_bytes();
    for len in 0..bytes.len() {
        assert_eq!(Control::parse(&bytes[..len]), None, "{len}");
    }
    for (at, value) in [(0, 1), (0, 131), (1, 2), (2, 0), (2, 6), (24, 2), (55, 1), (59, 1), (60, 1), (63, 1)]
    {
        let mut b = bytes.clone();
        b[at] = value;
        assert_eq!(Control::parse(&b), None, "{at}: {value}");
    }
    let mut b = bytes;
    b[52..56].fill(0);
    assert_eq!(Control::parse(&b), None, "no queue pair");
    for code in [0, 5] {
        let mut b = Control::Answer(Answer { result: JoinResult::Gone, send_qp: 1, to: 2 }).to_bytes();
        b[2] = code;
        assert_eq!(Control::parse(&b), None, "{code}");
    }
}

#[test]
fn the_last_lane_counts_and_its_first_wish_is_final() {
    let hold = |send_qp, tgt| Hold { of: address(1), send_qp, tgt: QpNum(tgt) };
    let held = Some(hold(5, 20));
    assert_eq!(join_action(None, &join(5, None)), JoinAction::Make);
    assert_eq!(join_action(None, &join(5, Some(20))), JoinAction::Open(QpNum(20)));
    assert_eq!(join_action(held.as_ref(), &join(5, None)), JoinAction::Report(QpNum(20)), "asked again");
    assert_eq!(join_action(held.as_ref(), &join(5, Some(20))), JoinAction::Report(QpNum(20)));
    assert_eq!(
        join_action(held.as_ref(), &join(5, Some(21))),
        JoinAction::Open(QpNum(21)),
        "it came too late"
    );
    assert_eq!(join_action(held.as_ref(), &join(6, None)), JoinAction::Make, "a new shared QP");
    assert_eq!(join_action(held.as_ref(), &join(4, None)), JoinAction::Ignore);
    assert_eq!(join_action(held.as_ref(), &join(4, Some(9))), JoinAction::Ignore);
    let wrapped = Some(hold(u32::MAX, 20));
    assert_eq!(join_action(wrapped.as_ref(), &join(0, None)), JoinAction::Make);
    let other = Some(Hold { of: address(2), ..hold(9, 20) });
    assert_eq!(
        join_action(other.as_ref(), &join(1, None)),
        JoinAction::Make,
        "another process has its own numbers"
    );
}

/// A shared QP, two peers of its domain, and messages in flight. The peers number the receiving QPs
/// that they make.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    send_qp: u32,
    tgt: Option<QpNum>,
    joined: [bool; 2],
    holds: [Option<(u32, QpNum)>; 2],
    alive: [bool; 2],
    /// JOINs and ANSWERs in flight.
    to: [VecDeque<(u32, Option<QpNum>)>; 2],
    back: [VecDeque<(u32, JoinResult)>; 2],
    asked: [u8; 2],
    made: u32,
    renewed: u32,
}

const ASKS: u8 = 2;
const UNDER_WAY: usize = 2;

impl World {
    fn new() -> World {
        World {
            send_qp: 1,
            tgt: None,
            joined: [false; 2],
            holds: [None; 2],
            alive: [true; 2],
            to: Default::default(),
            back: Default::default(),
            asked: [0; 2],
            made: 0,
            renewed: 0,
        }
    }

    fn exists(&self, tgt: QpNum) -> bool {
        (0..2).any(|p| self.alive[p] && self.holds[p].is_some_and(|(_, held)| held == tgt))
    }

    fn ask(&mut self, p: usize) {
        self.to[p].push_back((self.send_qp, self.tgt));
    }

    fn new_shared_qp(&mut self) {
        self.send_qp += 1;
        self.tgt = None;
        self.joined = [false; 2];
        self.asked = [0; 2];
        self.renewed += 1;
    }

    /// Delivers a JOIN.
    fn take_join(&mut self, p: usize, (send_qp, tgt): (u32, Option<QpNum>)) {
        let hold = self.holds[p].map(|(send_qp, tgt)| Hold { of: address(1), send_qp, tgt });
        let result = match join_action(hold.as_ref(), &join(send_qp, tgt.map(|t| t.0))) {
            JoinAction::Ignore => return,
            JoinAction::Report(tgt) => JoinResult::Held(tgt, 1),
            JoinAction::Make => {
                self.made += 1;
                let tgt = QpNum(10 + self.made);
                self.holds[p] = Some((send_qp, tgt));
                JoinResult::Held(tgt, 1)
            }
            JoinAction::Open(tgt) if self.exists(tgt) => {
                self.holds[p] = Some((send_qp, tgt));
                JoinResult::Held(tgt, 1)
            }
            JoinAction::Open(_) => JoinResult::Gone,
        };
        if self.back[p].len() < UNDER_WAY {
            self.back[p].push_back((send_qp, result));
        }
    }

    /// Delivers an ANSWER.
    fn take_answer(&mut self, p: usize, (send_qp, result): (u32, JoinResult)) {
        if send_qp != self.send_qp || self.joined[p] {
            return;
        }
        match answer_action(self.tgt, result) {
            AnswerAction::Connect(tgt, _) => {
                self.tgt = Some(tgt);
                self.joined[p] = true;
            }
            AnswerAction::Joined => self.joined[p] = true,
            // It asks as often as needed.
            AnswerAction::AskAgain => self.asked[p] = 0,
            AnswerAction::Leave => self.new_shared_qp(),
            AnswerAction::Fail(_) => panic!("no ANSWER says so"),
        }
    }

    /// Returns all possible next states. Messages may be duplicated, delayed, lost and reordered.
    fn nexts(&self) -> Vec<World> {
        let mut out = Vec::new();
        let mut add = |f: &dyn Fn(&mut World)| {
            let mut next = self.clone();
            f(&mut next);
            out.push(next);
        };
        for p in 0..2 {
            if !self.joined[p] && self.asked[p] < ASKS && self.to[p].len() < UNDER_WAY {
                add(&|w| {
                    w.asked[p] += 1;
                    w.ask(p);
                });
            }
            for i in 0..self.to[p].len() {
                let note = self.to[p][i];
                if self.alive[p] {
                    add(&|w| w.take_join(p, note));
                }
                add(&|w| {
                    w.to[p].remove(i);
                });
            }
            for i in 0..self.back[p].len() {
                let note = self.back[p][i];
                add(&|w| w.take_answer(p, note));
                add(&|w| {
                    w.back[p].remove(i);
                });
            }
            // A process dies, once; a request to it fails, and the shared QP is replaced.
            if self.alive == [true, true] && self.renewed == 0 {
                add(&|w| w.alive[p] = false);
            }
        }
        if self.alive != [true, true] && self.renewed == 0 && self.tgt.is_some() {
            add(&World::new_shared_qp);
        }
        out
    }

    /// Checks that a live peer whose endpoint has joined holds what the shared QP is connected to.
    fn check(&self) {
        for p in 0..2 {
            if self.joined[p] && self.alive[p] {
                let holds = self.holds[p].map(|(send_qp, tgt)| (send_qp, Some(tgt)));
                assert_eq!(holds, Some((self.send_qp, self.tgt)), "{self:?}");
            }
        }
    }

    /// Delivers all messages from here on, and checks that all live peers join.
    fn ends_well(mut self) {
        for _ in 0..8 {
            for p in (0..2).filter(|p| self.alive[*p]).collect::<Vec<_>>() {
                while let Some(note) = self.to[p].pop_front() {
                    self.take_join(p, note);
                }
                while let Some(note) = self.back[p].pop_front() {
                    self.take_answer(p, note);
                }
                if !self.joined[p] {
                    self.ask(p);
                }
                self.check();
            }
        }
        assert!((0..2).all(|p| self.joined[p] || !self.alive[p]), "{self:?}");
    }
}

/// With any loss, duplication, delay or death: no endpoint wrongly believes that it has joined, and
/// all live ones join.
#[test]
fn all_orders_end_well() {
    let mut seen = HashSet::from([World::new()]);
    let mut open = VecDeque::from([World::new()]);
    let (mut most, mut gone) = (0, false);
    while let Some(world) = open.pop_front() {
        world.check();
        world.clone().ends_well();
        most = most.max(world.made);
        gone |= world.back.iter().flatten().any(|(_, result)| *result == JoinResult::Gone);
        if world.made > 3 || world.renewed > 1 {
            continue;
        }
        for next in world.nexts() {
            if seen.insert(next.clone()) {
                open.push_back(next);
            }
        }
    }
    netmod_models::state_space(module_path!(), "two ends that join", seen.len());
    assert!(seen.len() > 10_000 && most > 2 && gone, "{} states, {most} made, gone: {gone}", seen.len());
    let send_qps: BTreeSet<u32> = seen.iter().map(|w| w.send_qp).collect();
    assert!(send_qps.len() > 1, "{send_qps:?}");
}
