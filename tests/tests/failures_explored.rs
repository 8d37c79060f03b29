//! Failures and receives from any source against a model: every sequence of a few steps, and longer
//! random ones.

use std::collections::VecDeque;

use ch3_shim::pkt::{Packet, ShortData};
use ch3_shim::tagmatch::Envelope;
use ch3_shim::{ANY_SOURCE, ANY_TAG, Device, Error, RawReq};
use netmod_tests::loopback::Rng;
use netmod_tests::scripted::Script;
use netmod_tests::sys::Area;

/// Peers of the device; rank 0 is itself.
const PEERS: [u32; 2] = [1, 2];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// A receive from any source.
    Post,
    /// A peer sends, if it lives.
    Send(u32),
    /// This process sends to itself.
    SendSelf,
    Die(u32),
    /// A dead peer connects in a new incarnation.
    Return(u32),
    /// This side gives a dead peer another chance.
    Reconnect(u32),
    Acknowledge,
    /// Tests the receive that was posted first.
    Test,
}

const STEPS: [Step; 11] = [
    Step::Post,
    Step::Send(1),
    Step::Send(2),
    Step::SendSelf,
    Step::Die(1),
    Step::Die(2),
    Step::Return(1),
    Step::Reconnect(2),
    Step::Acknowledge,
    Step::Test,
    Step::Test,
];

/// Expected knowledge of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    Alive,
    Failed { acknowledged: bool },
}

struct World {
    script: Script,
    dev: Device,
    peers: [Peer; 2],
    /// Receives that were not used up, and who should have served them.
    receives: VecDeque<(RawReq, Option<u32>)>,
    /// Messages without a receive.
    unexpected: VecDeque<u32>,
}

impl World {
    fn new() -> World {
        let (script, dev) = Script::device(3, true);
        World { script, dev, peers: [Peer::Alive; 2], receives: VecDeque::new(), unexpected: VecDeque::new() }
    }

    fn arrives(&mut self, from: u32) {
        match self.receives.iter_mut().find(|(_, by)| by.is_none()) {
            Some((_, by)) => *by = Some(from),
            None => self.unexpected.push_back(from),
        }
    }

    fn step(&mut self, step: Step) -> Result<(), String> {
        let world = self.dev.world();
        let at = |rank: u32| rank as usize - 1;
        match step {
            Step::Post => {
                let memory = Area::new(vec![0; 4]).contig();
                let req =
                    self.dev.irecv_raw(memory, ANY_SOURCE, ANY_TAG, world).map_err(|e| e.to_string())?;
                self.receives.push_back((req, self.unexpected.pop_front()));
            }
            Step::Send(rank) if self.peers[at(rank)] == Peer::Alive => {
                let data = ShortData::new(&[rank as u8]).ok_or("too long")?;
                let env = Envelope::new(0, rank as i32, 1);
                self.script.send(rank, &Packet::EagerShort { env, ready: false, data }.emit());
                self.script.play(&mut self.dev);
                self.arrives(rank);
            }
            Step::SendSelf => {
                self.dev.send(&[0], 0, 1, world).map_err(|e| e.to_string())?;
                self.arrives(0);
            }
            Step::Die(rank) if self.peers[at(rank)] == Peer::Alive => {
                self.script.die(rank);
                self.script.play(&mut self.dev);
                self.peers[at(rank)] = Peer::Failed { acknowledged: false };
            }
            Step::Return(rank) if self.peers[at(rank)] != Peer::Alive => {
                self.script.connect(rank);
                self.script.play(&mut self.dev);
                self.peers[at(rank)] = Peer::Alive;
            }
            Step::Reconnect(rank) if self.peers[at(rank)] != Peer::Alive => {
                self.dev.reconnect(rank).map_err(|e| e.to_string())?;
                self.peers[at(rank)] = Peer::Alive;
            }
            Step::Acknowledge => {
                let got: Vec<u32> = self.dev.ack_failures().iter().map(|f| f.peer.rank).collect();
                let want = self.unacknowledged();
                if got != want {
                    return Err(format!("acknowledged {got:?} instead of {want:?}"));
                }
                for p in &mut self.peers {
                    if let Peer::Failed { acknowledged } = p {
                        *acknowledged = true;
                    }
                }
            }
            Step::Test => return self.test(),
            Step::Send(_) | Step::Die(_) | Step::Return(_) | Step::Reconnect(_) => {}
        }
        Ok(())
    }

    fn unacknowledged(&self) -> Vec<u32> {
        let news = |r: &&u32| self.peers[**r as usize - 1] == Peer::Failed { acknowledged: false };
        PEERS.iter().filter(news).copied().collect()
    }

    fn test(&mut self) -> Result<(), String> {
        let Some((req, by)) = self.receives.front().copied() else { return Ok(()) };
        let news = self.unacknowledged();
        let got = self.dev.test_raw(req);
        let (right, over) = match (by, news.first()) {
            (Some(rank), _) => (matches!(got, Ok(Some(s)) if s.source == rank as i32), true),
            (None, Some(first)) => {
                let right = matches!(&got, Err(Error::PendingFailed { rank, others, .. })
                    if rank == first && others + 1 == news.len());
                (right && !self.dev.is_finished(req), false)
            }
            (None, None) if !self.peers.contains(&Peer::Alive) => (matches!(got, Err(Error::Peer(_))), true),
            (None, None) => (got == Ok(None), false),
        };
        if over {
            self.receives.pop_front();
        }
        if right {
            Ok(())
        } else {
            Err(format!("{got:?}, expected by {by:?}, news {news:?}, {:?}", self.peers))
        }
    }

    /// Checks what must hold after every step.
    fn check(&self) -> Result<(), String> {
        let failed: Vec<u32> = self.dev.failed().iter().map(|f| f.peer.rank).collect();
        let want: Vec<u32> =
            PEERS.iter().filter(|r| self.peers[**r as usize - 1] != Peer::Alive).copied().collect();
        if failed != want {
            return Err(format!("failed {failed:?} instead of {want:?}"));
        }
        let open = self.receives.iter().filter(|(_, by)| by.is_none()).count();
        let (posted, live) = (self.dev.posted_len(), self.dev.live_requests());
        if (posted, live, self.dev.unexpected_len()) != (open, self.receives.len(), self.unexpected.len()) {
            return Err(format!("{posted} posted, {live} live, instead of {open}, {}", self.receives.len()));
        }
        Ok(())
    }
}

fn play(steps: &[Step]) {
    let mut world = World::new();
    for (i, step) in steps.iter().enumerate() {
        if let Err(e) = world.step(*step).and_then(|()| world.check()) {
            panic!("step {i} of {steps:?}: {e}");
        }
    }
}

/// All sequences of so many steps, the first of which posts a receive (without one little can
/// happen).
#[test]
fn every_short_sequence() {
    const LENGTH: u32 = 4;
    let kinds = STEPS.len() - 1;
    let mut count = 0;
    for number in 0..kinds.pow(LENGTH) {
        let mut rest = number;
        let mut steps = vec![Step::Post];
        for _ in 0..LENGTH {
            steps.push(STEPS[rest % kinds]);
            rest /= kinds;
        }
        steps.push(Step::Test);
        play(&steps);
        count += 1;
    }
    netmod_models::state_space(module_path!(), format_args!("sequences of {LENGTH} steps"), count);
    assert_eq!(count, 10_000);
}

#[test]
fn long_random_sequences() {
    for seed in 0..400 {
        let mut rng = Rng::seeded(seed, 3);
        let steps: Vec<Step> = (0..60).map(|_| STEPS[rng.below(STEPS.len())]).collect();
        play(&steps);
    }
}
