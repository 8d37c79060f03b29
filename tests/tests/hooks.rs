//! A device calls one hook of its netmod for each kind of send.

use ch3_shim::pkt::{CookieLen, Packet};
use ch3_shim::{Device, Mode, RawReq};
use netmod_core::{Datatype, Segment};
use netmod_tests::scripted::{Hooks, Script, parse};
use netmod_tests::sys::Area;

/// Bytes of a message that does not fit into a header, and is eager.
const BYTES: usize = 4000;
/// A request of the peer's.
const THEIRS: u64 = 7 << 32;

/// A device, and memory for a message in one piece or in several.
struct Sender {
    script: Script,
    dev: Device,
    memory: Area,
    pieces: bool,
}

impl Sender {
    fn new(pieces: bool, eager_max: usize, window: usize) -> Sender {
        let (script, dev) = Script::device_with(2, true, None, |cfg| {
            cfg.eager_max = eager_max;
            cfg.eager_window = window;
            cfg.rts_max = 1;
            cfg.lmt = "null";
        });
        Sender { script, dev, memory: Area::new(vec![1; 2 * BYTES]), pieces }
    }

    fn message(&self) -> Segment {
        let byte = Datatype::contiguous(1).expect("a byte");
        let (count, every) = if self.pieces { (10, BYTES / 5) } else { (1, 2 * BYTES) };
        let rows = Datatype::vector(count, BYTES / count, every as i64, &byte).expect("a vector");
        self.memory.typed(0, &rows, 1)
    }

    fn isend(&mut self, mode: Mode) -> RawReq {
        let (message, world) = (self.message(), self.dev.world());
        let req = self.dev.isend_raw(message, 1, 1, world, mode).expect("isend");
        self.script.play(&mut self.dev);
        req
    }

    /// The packets that the peer has been sent, each with its data.
    fn sent(&self) -> Vec<(Packet, Vec<u8>)> {
        parse(&self.script.received(1))
    }

    fn answer(&mut self, packet: &Packet) {
        self.script.send(1, &packet.emit());
        self.script.play(&mut self.dev);
    }
}

fn of(pieces: bool) -> Hooks {
    let (i_send_contig, send_noncontig) = if pieces { (0, 1) } else { (1, 0) };
    Hooks { i_send_contig, send_noncontig, ..Hooks::default() }
}

const STARTED: Hooks = Hooks { i_start_contig_msg: 1, i_send_contig: 0, send_noncontig: 0 };

/// No request exists as long as it may not be needed.
#[test]
fn what_is_eager_makes_no_request_if_it_lies_in_one_piece() {
    for pieces in [false, true] {
        let mut s = Sender::new(pieces, 64 << 10, 1 << 20);
        let req = s.isend(Mode::Standard);
        assert_eq!(s.script.hooks(), if pieces { of(true) } else { STARTED });
        s.dev.wait_raw(req).expect("a send");
    }
    let mut s = Sender::new(false, 64 << 10, 1 << 20);
    let byte = s.memory.typed(0, &Datatype::contiguous(1).expect("a byte"), 1);
    let world = s.dev.world();
    let req = s.dev.isend_raw(byte, 1, 1, world, Mode::Standard).expect("isend");
    s.script.play(&mut s.dev);
    assert_eq!(s.script.hooks(), STARTED);
    s.dev.wait_raw(req).expect("a send");
}

/// Its request is named in its packet.
#[test]
fn what_is_synchronous_goes_with_its_request() {
    for pieces in [false, true] {
        let mut s = Sender::new(pieces, 64 << 10, 1 << 20);
        let req = s.isend(Mode::Sync);
        assert_eq!(s.script.hooks(), of(pieces));
        let [(Packet::Eager { sreq, .. }, data)] = &s.sent()[..] else { panic!("not an eager message") };
        assert_eq!(data.len(), BYTES);
        s.answer(&Packet::EagerSyncAck { sreq: *sreq });
        s.dev.wait_raw(req).expect("a send");
    }
}

#[test]
fn the_data_of_a_rendezvous_goes_with_its_request() {
    for pieces in [false, true] {
        let mut s = Sender::new(pieces, 0, 1 << 20);
        let req = s.isend(Mode::Standard);
        assert_eq!(s.script.hooks(), STARTED, "RTS");
        let [(Packet::Rts { sreq, .. }, _)] = &s.sent()[..] else { panic!("not an RTS") };
        let data_sz = BYTES as u64;
        s.answer(&Packet::Cts { sreq: *sreq, rreq: THEIRS, data_sz, cookie_len: CookieLen::NONE });
        assert_eq!(s.script.hooks(), of(pieces), "data");
        assert_eq!(s.sent().last().map(|(_, data)| data.len()), Some(BYTES));
        s.dev.wait_raw(req).expect("a send");
    }
}

/// A message that has waited for room at its receiver has a request by then.
#[test]
fn what_has_waited_goes_with_its_request() {
    for pieces in [false, true] {
        let mut s = Sender::new(pieces, 64 << 10, 16 << 10);
        let mut sends = Vec::new();
        while s.dev.stats().sends_waited == 0 {
            sends.push(s.isend(Mode::Standard));
            assert!(sends.len() < 10, "the window holds four of them, and one may be announced");
        }
        s.script.hooks();
        s.answer(&Packet::Credit { want: false, bytes: 8000, slots: 0 });
        assert_eq!(s.script.hooks(), of(pieces));
        let last = sends.pop().expect("the one that has waited");
        s.dev.wait_raw(last).expect("a send");
    }
}
