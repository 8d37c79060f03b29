use std::collections::{BTreeSet, HashSet, VecDeque};

use hca::Gid;

use super::*;
use crate::words::Place;

fn address(number: u32) -> Address {
    let mut gid = [7; 16];
    gid[15] = number as u8;
    let place = Place { ethernet: true, lid: 0, gid: Gid(gid) };
    Address { place, qp: QpNum(number + 2), qkey: 3, xrc: true }
}

fn join(lane: u32, tgt: Option<u32>) -> Join {
    Join {
        mtu: Mtu::B1024,
        reads: 9,
        lane,
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
    let note = Note::Join(join(0x0403_0201, Some(0x0053_5251)));
    let mut want = vec![129, 1, 3, 9, 1, 2, 3, 4];
    want.extend(0x11..=0x18);
    want.extend(0x21..=0x28);
    want.extend(address(1).to_bytes());
    want.extend([0x31, 0x32, 0x33, 0, 0x41, 0x42, 0x43, 0, 0x51, 0x52, 0x53, 0]);
    assert_eq!(note.to_bytes(), want);
    assert_eq!(Note::parse(&want), Some(note));
    let said = [Said::Held(QpNum(0x0023_2221), 7), Said::Gone, Said::Unknown, Said::Cannot];
    for (code, said) in (1..).zip(said) {
        let note = Note::Answer(Answer { said, lane: 0x0403_0201, to: 0x1817_1615_1413_1211 });
        let mut want = vec![130, 1, code, 0, 1, 2, 3, 4];
        want.extend(0x11..=0x18);
        want.extend([0; 4]);
        if code == 1 {
            want[3] = 7;
            want[16..].copy_from_slice(&[0x21, 0x22, 0x23, 0]);
        }
        assert_eq!(note.to_bytes(), want);
        assert_eq!(Note::parse(&want), Some(note));
        assert!(Note::is_one(want[0]));
        for len in 0..want.len() {
            assert_eq!(Note::parse(&want[..len]), None, "{len}");
        }
    }
}

#[test]
fn what_cannot_be_used_is_none() {
    let bytes = Note::Join(join(1, None)).to_bytes();
    for len in 0..bytes.len() {
        assert_eq!(Note::parse(&bytes[..len]), None, "{len}");
    }
    for (at, value) in [(0, 1), (0, 131), (1, 2), (2, 0), (2, 6), (24, 2), (55, 1), (59, 1), (60, 1), (63, 1)]
    {
        let mut b = bytes.clone();
        b[at] = value;
        assert_eq!(Note::parse(&b), None, "{at}: {value}");
    }
    let mut b = bytes;
    b[52..56].fill(0);
    assert_eq!(Note::parse(&b), None, "no queue pair");
    for code in [0, 5] {
        let mut b = Note::Answer(Answer { said: Said::Gone, lane: 1, to: 2 }).to_bytes();
        b[2] = code;
        assert_eq!(Note::parse(&b), None, "{code}");
    }
}

#[test]
fn the_last_lane_counts_and_its_first_wish_is_final() {
    let hold = |lane, tgt| Hold { of: address(1), lane, tgt: QpNum(tgt) };
    let held = Some(hold(5, 20));
    assert_eq!(wish(None, &join(5, None)), Wish::Make);
    assert_eq!(wish(None, &join(5, Some(20))), Wish::Open(QpNum(20)));
    assert_eq!(wish(held.as_ref(), &join(5, None)), Wish::Say(QpNum(20)), "asked again");
    assert_eq!(wish(held.as_ref(), &join(5, Some(20))), Wish::Say(QpNum(20)));
    assert_eq!(wish(held.as_ref(), &join(5, Some(21))), Wish::Open(QpNum(21)), "it came too late");
    assert_eq!(wish(held.as_ref(), &join(6, None)), Wish::Make, "a new lane");
    assert_eq!(wish(held.as_ref(), &join(4, None)), Wish::Old);
    assert_eq!(wish(held.as_ref(), &join(4, Some(9))), Wish::Old);
    let wrapped = Some(hold(u32::MAX, 20));
    assert_eq!(wish(wrapped.as_ref(), &join(0, None)), Wish::Make);
    let other = Some(Hold { of: address(2), ..hold(9, 20) });
    assert_eq!(wish(other.as_ref(), &join(1, None)), Wish::Make, "another process has its own numbers");
}

/// A lane and two peers of its domain, and notes under way. Receiving queue pairs are numbered by their makers.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    lane: u32,
    tgt: Option<QpNum>,
    joined: [bool; 2],
    holds: [Option<(u32, QpNum)>; 2],
    alive: [bool; 2],
    /// JOINs and ANSWERs under way.
    to: [VecDeque<(u32, Option<QpNum>)>; 2],
    back: [VecDeque<(u32, Said)>; 2],
    asked: [u8; 2],
    made: u32,
    renewed: u32,
}

const ASKS: u8 = 2;
const UNDER_WAY: usize = 2;

impl World {
    fn new() -> World {
        World {
            lane: 1,
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
        self.to[p].push_back((self.lane, self.tgt));
    }

    fn new_lane(&mut self) {
        self.lane += 1;
        self.tgt = None;
        self.joined = [false; 2];
        self.asked = [0; 2];
        self.renewed += 1;
    }

    /// A JOIN arrives.
    fn take_join(&mut self, p: usize, (lane, tgt): (u32, Option<QpNum>)) {
        let hold = self.holds[p].map(|(lane, tgt)| Hold { of: address(1), lane, tgt });
        let said = match wish(hold.as_ref(), &join(lane, tgt.map(|t| t.0))) {
            Wish::Old => return,
            Wish::Say(tgt) => Said::Held(tgt, 1),
            Wish::Make => {
                self.made += 1;
                let tgt = QpNum(10 + self.made);
                self.holds[p] = Some((lane, tgt));
                Said::Held(tgt, 1)
            }
            Wish::Open(tgt) if self.exists(tgt) => {
                self.holds[p] = Some((lane, tgt));
                Said::Held(tgt, 1)
            }
            Wish::Open(_) => Said::Gone,
        };
        if self.back[p].len() < UNDER_WAY {
            self.back[p].push_back((lane, said));
        }
    }

    /// An ANSWER arrives.
    fn take_answer(&mut self, p: usize, (lane, said): (u32, Said)) {
        if lane != self.lane || self.joined[p] {
            return;
        }
        match step(self.tgt, said) {
            Step::Connect(tgt, _) => {
                self.tgt = Some(tgt);
                self.joined[p] = true;
            }
            Step::Joined => self.joined[p] = true,
            // It asks as often as it takes.
            Step::AskAgain => self.asked[p] = 0,
            Step::Leave => self.new_lane(),
            Step::Fail(_) => panic!("nobody has said so"),
        }
    }

    /// All that may happen next. Notes come twice, late or not at all, and in any order.
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
            // A process dies, once; a request for it fails, and the lane is renewed.
            if self.alive == [true, true] && self.renewed == 0 {
                add(&|w| w.alive[p] = false);
            }
        }
        if self.alive != [true, true] && self.renewed == 0 && self.tgt.is_some() {
            add(&World::new_lane);
        }
        out
    }

    /// Whoever has joined holds what the lane is connected to, as long as it lives.
    fn check(&self) {
        for p in 0..2 {
            if self.joined[p] && self.alive[p] {
                let holds = self.holds[p].map(|(lane, tgt)| (lane, Some(tgt)));
                assert_eq!(holds, Some((self.lane, self.tgt)), "{self:?}");
            }
        }
    }

    /// From here on notes arrive. Everybody who lives joins.
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

/// Whatever is lost, doubled or late, and whoever dies: no end takes itself for joined that is not, and all that live join.
#[test]
fn all_orders_end_well() {
    let mut seen = HashSet::from([World::new()]);
    let mut open = VecDeque::from([World::new()]);
    let (mut most, mut gone) = (0, false);
    while let Some(world) = open.pop_front() {
        world.check();
        world.clone().ends_well();
        most = most.max(world.made);
        gone |= world.back.iter().flatten().any(|(_, said)| *said == Said::Gone);
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
    let lanes: BTreeSet<u32> = seen.iter().map(|w| w.lane).collect();
    assert!(lanes.len() > 1, "{lanes:?}");
}
