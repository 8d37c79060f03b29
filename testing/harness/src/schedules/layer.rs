//! The layer above the netmod in a schedule: takes messages as they arrive, and checks each byte.

use std::collections::{HashMap, HashSet};

use netmod_core::{
    Card, Core, DataAvail, Event, Header, Io, Netmod, OnDone, Outcome, PacketFault, ReqId, Request, RxBytes,
    Upper, VcError, VcId,
};

use crate::rng::Rng;
use crate::schedules::data::{pattern, seeded, shape};
use crate::schedules::memory::{Area, Pieces};

/// First byte of the headers.
const MESSAGE: u8 = 1;

/// Makes the header of a message: its sender, number and length.
pub fn header(from: usize, number: u32, len: usize) -> Header {
    let mut hdr = [0; 32];
    hdr[0] = MESSAGE;
    hdr[1] = from as u8;
    hdr[4..8].copy_from_slice(&number.to_le_bytes());
    hdr[8..16].copy_from_slice(&(len as u64).to_le_bytes());
    hdr
}

/// Returns the seed of a message's data.
pub fn seed_of(from: usize, to: usize, number: u32) -> u64 {
    (from as u64) << 40 | (to as u64) << 32 | u64::from(number)
}

/// A receive in progress.
#[derive(Debug)]
struct Receiving {
    from: usize,
    number: u32,
    len: usize,
    memory: Pieces,
}

/// State of one peer.
#[derive(Debug, Default)]
pub struct Peer {
    /// The peer's VC, while the netmod has it.
    pub vc: Option<VcId>,
    pub card: Option<Card>,
    /// Numbers of the received messages, in order.
    pub got: Vec<u32>,
    /// True if the VC is down.
    pub down: bool,
    /// Causes of its failures.
    pub downs: Vec<String>,
    /// True while the netmod is terminating the VC.
    pub terminating: bool,
    /// True after termination was requested. A VC that was down by then, which was not known yet,
    /// ends with both events.
    pub asked: bool,
}

/// The layer of one rank.
#[derive(Debug)]
pub struct Layer {
    pub me: usize,
    pub rng: Rng,
    /// True while the netmod is being finalized.
    pub ending: bool,
    pub peers: Vec<Peer>,
    receiving: HashMap<ReqId, Receiving>,
    /// Sends whose owner waits for the completion.
    pub told: HashSet<ReqId>,
    /// Results of one-sided transfers, by number.
    pub ended: HashMap<u64, Result<(), VcError>>,
    /// Lent memory, kept for as long as there are netmods.
    pub lent: Vec<Area>,
}

impl Layer {
    pub fn new(me: usize, ranks: usize, seed: u64) -> Layer {
        Layer {
            me,
            rng: seeded(seed),
            ending: false,
            peers: (0..ranks).map(|_| Peer::default()).collect(),
            receiving: HashMap::new(),
            told: HashSet::new(),
            ended: HashMap::new(),
            lent: Vec::new(),
        }
    }

    fn peer_of(&self, vc: VcId) -> usize {
        self.peers.iter().position(|p| p.vc == Some(vc)).expect("an event of a VC that is in charge")
    }

    /// Allocates memory for a message, with or without gaps.
    fn allocate(&mut self, len: usize) -> Pieces {
        let (piece, gap) = shape(&mut self.rng);
        let pieces = Pieces::new(len, piece, gap);
        self.lent.push(pieces.area().clone());
        pieces
    }

    /// Returns the number of unfinished receives. Checks that failed VCs have none.
    pub fn open_receives(&self, core: &Core) -> usize {
        self.receiving.keys().filter(|req| !core.is_finished(**req)).count()
    }

    /// Checks the bytes of a complete receive.
    fn received(&mut self, req: ReqId) {
        let r = self.receiving.remove(&req).expect("a receive under way");
        let data: Vec<u8> = r.memory.data();
        let right = pattern(seed_of(r.from, self.me, r.number), r.len);
        assert!(data == right, "message {} from {} to {} is not what was sent", r.number, r.from, self.me);
        let got = &mut self.peers[r.from].got;
        assert!(
            got.last().is_none_or(|last| *last < r.number),
            "message {} from {} to {} came after {got:?}",
            r.number,
            r.from,
            self.me
        );
        got.push(r.number);
    }
}

// SAFETY: requests are finished when their data has moved, or the netmod has handed them back.
#[allow(unsafe_code)]
unsafe impl<N: Netmod> Upper<N> for Layer {
    fn packet(
        &mut self,
        io: &mut Io<'_, N>,
        vc: VcId,
        hdr: &Header,
        rest: RxBytes<'_>,
    ) -> Result<usize, PacketFault> {
        assert_eq!(hdr[0], MESSAGE, "a header that nobody sent: {hdr:?}");
        let from = usize::from(hdr[1]);
        assert_eq!(from, self.peer_of(vc), "a message of another peer's");
        let number = u32::from_le_bytes(hdr[4..8].try_into().expect("four bytes"));
        let len = u64::from_le_bytes(hdr[8..16].try_into().expect("eight bytes")) as usize;
        let memory = self.allocate(len);
        let mut request = Request::new(Some(vc), memory.segment());
        request.on_done = OnDone::Upper;
        let used = request.seg.unpack(rest);
        let whole = request.seg.is_done();
        let req = io.core.add_req(request);
        self.receiving.insert(req, Receiving { from, number, len, memory });
        if whole {
            self.received(req);
            io.core.finish(req, Outcome::Done);
            io.core.take(req);
        } else {
            io.core.set_recv_active(vc, req);
        }
        Ok(used)
    }

    fn on_data_avail(&mut self, _: &mut Io<'_, N>, _: VcId, req: ReqId) -> DataAvail {
        if !self.told.remove(&req) {
            self.received(req);
        }
        DataAvail::Complete
    }

    fn on_event(&mut self, io: &mut Io<'_, N>, event: Event) {
        match event {
            Event::Terminated { vc } => {
                let peer = self.peer_of(vc);
                let p = &mut self.peers[peer];
                assert!(p.asked || self.ending, "nobody has asked for an end of VC {peer}");
                (p.asked, p.terminating, p.down) = (false, false, false);
                // Ending a connection in the middle of a message abandons the message.
                self.receiving.retain(|_, r| r.from != peer);
            }
            Event::Down { vc, error } => {
                let peer = self.peer_of(vc);
                let p = &mut self.peers[peer];
                assert!(!p.down, "VC {peer} of {} is down already: {error}, {:?}", self.me, p.downs);
                p.down = true;
                p.terminating = false;
                p.downs.push(error.to_string());
            }
            Event::Up { vc } => {
                // A VC that was down is usable again when its peer has connected.
                let peer = self.peer_of(vc);
                self.peers[peer].down = false;
            }
            Event::NeedCard { vc } => {
                let peer = self.peer_of(vc);
                let card = self.peers[peer].card.clone().expect("the peer's card");
                io.netmod.set_card(io.core, vc, Ok(&card));
            }
            Event::RmaDone { op, result, .. } => {
                let before = self.ended.insert(op, result);
                assert!(before.is_none(), "transfer {op} of {} has ended twice", self.me);
            }
            Event::NewPeer { peer, .. } => panic!("{peer} has a VC already"),
            _ => {}
        }
    }
}
