//! The layer above the netmod in a schedule: takes messages as they come, and looks at each byte.

use std::collections::{HashMap, VecDeque};

use netmod_core::{
    Card, Core, DataAvail, Event, Header, Io, Netmod, OnDone, Outcome, PacketFault, ReqId, Request, RxBytes,
    Upper, VcError, VcId,
};

use crate::memory::{Area, Pieces};
use crate::rng::{Rng, pattern, seeded, shape};

/// First byte of the headers.
const MESSAGE: u8 = 1;

/// The header of a message: who sends it, which one it is, how long it is.
pub fn header(from: usize, number: u32, len: usize) -> Header {
    let mut hdr = [0; 32];
    hdr[0] = MESSAGE;
    hdr[1] = from as u8;
    hdr[4..8].copy_from_slice(&number.to_le_bytes());
    hdr[8..16].copy_from_slice(&(len as u64).to_le_bytes());
    hdr
}

/// What the data of a message is made from.
pub fn seed_of(from: usize, to: usize, number: u32) -> u64 {
    (from as u64) << 40 | (to as u64) << 32 | u64::from(number)
}

/// A receive under way.
#[derive(Debug)]
struct Receiving {
    from: usize,
    number: u32,
    len: usize,
    pieces: VecDeque<Pieces>,
    full: Vec<Pieces>,
}

/// What the layer knows of one peer.
#[derive(Debug, Default)]
pub struct Peer {
    /// Its VC, as long as the netmod has it in charge.
    pub vc: Option<VcId>,
    pub card: Option<Card>,
    /// Numbers of the messages that came, in order.
    pub got: Vec<u32>,
    /// The VC is down.
    pub down: bool,
    /// Why it went down, each time.
    pub downs: Vec<String>,
    /// The netmod was told to terminate, and has not.
    pub terminating: bool,
    /// It was told to. A VC that was down by then, though that was not known yet, ends with a word of both.
    pub asked: bool,
}

/// The layer of one rank.
#[derive(Debug)]
pub struct Layer {
    pub me: usize,
    pub rng: Rng,
    /// The netmod is being finalized.
    pub ending: bool,
    pub peers: Vec<Peer>,
    receiving: HashMap<ReqId, Receiving>,
    /// What sends that are asked for more still have.
    pub more: HashMap<ReqId, VecDeque<Pieces>>,
    /// Ends of one-sided transfers, by number.
    pub ended: HashMap<u64, Result<(), VcError>>,
    /// What was lent, for as long as there are netmods.
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
            more: HashMap::new(),
            ended: HashMap::new(),
            lent: Vec::new(),
        }
    }

    fn peer_of(&self, vc: VcId) -> usize {
        self.peers.iter().position(|p| p.vc == Some(vc)).expect("an event of a VC that is in charge")
    }

    /// Where a message of so many bytes goes: in one to three segments, with or without gaps.
    fn places(&mut self, len: usize) -> VecDeque<Pieces> {
        let mut out = VecDeque::new();
        let mut left = len;
        for i in (0..1 + self.rng.below(3)).rev() {
            let n = if i == 0 { left } else { self.rng.below(left as u64 + 1) as usize };
            let (piece, gap) = shape(&mut self.rng);
            let pieces = Pieces::new(n, piece, gap);
            self.lent.push(pieces.area().clone());
            out.push_back(pieces);
            left -= n;
        }
        out
    }

    /// Receives that have begun and not ended. After a VC went down there is none of its.
    pub fn open_receives(&self, core: &Core) -> usize {
        self.receiving.keys().filter(|req| !core.is_finished(**req)).count()
    }

    /// The next segment of a receive; at the end its bytes are looked at.
    fn next(&mut self, core: &mut Core, req: ReqId) -> DataAvail {
        let r = self.receiving.get_mut(&req).expect("a receive under way");
        if let Some(pieces) = r.pieces.pop_front() {
            core.reqs.get_mut(req).expect("a live request").seg = pieces.segment();
            r.full.push(pieces);
            return DataAvail::More;
        }
        let r = self.receiving.remove(&req).expect("a receive under way");
        let data: Vec<u8> = r.full.iter().flat_map(Pieces::data).collect();
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
        DataAvail::Complete
    }
}

impl<N: Netmod> Upper<N> for Layer {
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
        let mut pieces = self.places(len);
        let first = pieces.pop_front().expect("a first segment");
        let mut request = Request::new(Some(vc), first.segment());
        request.on_done = OnDone::Upper;
        let req = io.core.reqs.insert(request);
        self.receiving.insert(req, Receiving { from, number, len, pieces, full: vec![first] });
        let mut used = 0;
        loop {
            let request = io.core.reqs.get_mut(req).expect("a live request");
            used += request.seg.unpack(rest.skip(used));
            if !request.seg.is_done() {
                io.core.set_recv_active(vc, req);
                return Ok(used);
            }
            if self.next(io.core, req) == DataAvail::Complete {
                io.core.finish(req, Outcome::Done);
                io.core.take(req);
                return Ok(used);
            }
        }
    }

    fn on_data_avail(&mut self, io: &mut Io<'_, N>, _vc: VcId, req: ReqId) -> DataAvail {
        if let Some(more) = self.more.get_mut(&req) {
            return match more.pop_front() {
                Some(pieces) => {
                    io.core.reqs.get_mut(req).expect("a live request").seg = pieces.segment();
                    DataAvail::More
                }
                None => DataAvail::Complete,
            };
        }
        self.next(io.core, req)
    }

    fn on_event(&mut self, io: &mut Io<'_, N>, event: Event) {
        match event {
            Event::Terminated { vc } => {
                let peer = self.peer_of(vc);
                let p = &mut self.peers[peer];
                assert!(p.asked || self.ending, "nobody has asked for an end of VC {peer}");
                (p.asked, p.terminating, p.down) = (false, false, false);
                // Who ends a connection in the middle of a message gives that up.
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
                // A VC that was down is of use again when its peer has come.
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
