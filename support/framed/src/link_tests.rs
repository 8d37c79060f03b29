//! Tests of a connection's windows and numbers.

use netmod_core::{Data, SendBuf};

use super::*;

fn open(window: u32) -> Open {
    Open::new(Dest { port: 0, addr: 0 }, Slot { number: 1, token: 2 }, 16 << 10, window)
}

/// Two ends, and the frames between them.
struct Pair {
    a: Open,
    b: Open,
    window: u32,
}

impl Pair {
    fn new(window: u32) -> Pair {
        Pair { a: open(window), b: open(window), window }
    }

    /// A sends as much as its window allows, in frames of `len`; B takes it all. Returns the number
    /// of frames.
    fn burst(&mut self, len: usize) -> usize {
        let mut n = 0;
        while self.a.room() >= len {
            let h = self.a.header();
            self.a.data_sent(len);
            assert_eq!(self.b.on_data(h.seq, len, self.window), Ok(()));
            n += 1;
        }
        n
    }

    fn credit(&mut self) {
        let h = self.b.credit();
        self.b.credit_sent();
        assert_eq!(self.a.on_returned(h.returned), Ok(true));
    }
}

#[test]
fn a_window_is_never_exceeded_and_comes_back() {
    for (window, len, frames) in [(1024, 56, 1024), (1024, 255, 1024), (1024, 256, 512), (280, 16 << 10, 4)] {
        let mut p = Pair::new(window);
        // Far enough for the counts on the wire to wrap.
        for _ in 0..400 {
            assert_eq!(p.burst(len), frames, "window {window}, {len} bytes");
            assert!(!p.a.is_idle() && p.b.owes_credit(window));
            p.credit();
            assert!(p.a.is_idle() && !p.b.owes_credit(window));
        }
    }
}

#[test]
fn a_frame_that_is_missing_is_noticed() {
    let mut p = Pair::new(1024);
    p.burst(5000);
    p.credit();
    let lost = p.a.header();
    p.a.data_sent(100);
    let next = p.a.header();
    assert_eq!(p.b.on_data(next.seq, 100, 1024), Err(Wrong::Gap));
    assert_eq!(p.b.on_data(lost.seq, 100, 1024), Ok(()));
    assert_eq!(p.b.on_data(lost.seq, 100, 1024), Err(Wrong::Gap), "twice the same");
}

#[test]
fn a_peer_that_gives_back_or_sends_too_much_is_found_out() {
    let mut a = open(1024);
    a.data_sent(100);
    a.data_sent(600);
    assert_eq!(a.on_returned(5), Err(Wrong::Returned));
    assert_eq!(a.on_returned(4), Ok(true));
    assert_eq!(a.on_returned(4), Ok(false));
    assert_eq!(a.on_returned(3), Err(Wrong::Returned), "less than before");
    let mut b = open(1024);
    for seq in 0..10 {
        assert_eq!(b.on_data(seq, 255, 10), Ok(()));
    }
    assert_eq!(b.on_data(10, 0, 10), Err(Wrong::Window));
}

#[test]
fn messages_are_copied_in_pieces_of_any_length() {
    static DATA: [u8; 200] = [7; 200];
    let mut core = Core::new(2);
    let req = core.add_req(netmod_core::Request::default());
    for piece in [32, 33, 50, 231, 232, 233] {
        let mut m = Message::new([3; HDR_LEN], Data::Contig(SendBuf::from_static(&DATA)), req);
        let mut all = Vec::new();
        loop {
            let mut out = vec![0; piece];
            let (n, end) = copy_message(&mut m, &mut core, &mut out);
            assert!(n > 0 || end);
            all.extend_from_slice(&out[..n]);
            if end {
                break;
            }
        }
        assert_eq!(all, [&[3; 32][..], &DATA[..]].concat());
    }
    let mut m = Message::new([3; HDR_LEN], Data::None, req);
    assert_eq!(copy_message(&mut m, &mut core, &mut [0; 31]), (0, false), "a header is not cut");
    assert!(!m.started());
}

#[test]
fn a_credit_tells_what_is_missing_and_asks() {
    let mut p = Pair::new(1024);
    p.burst(5000);
    assert_eq!(p.b.on_count(p.a.credit().seq), Ok(()));
    // The last frame is lost, and no other follows.
    p.credit();
    p.a.data_sent(100);
    assert_eq!(p.b.on_count(p.a.credit().seq), Err(Wrong::Gap));
    // A question is due at once, and asked once; so is the answer.
    assert!(!p.a.credit().ask && !p.a.owes_credit(1024));
    p.a.probing = true;
    assert!(p.a.credit().ask && p.a.owes_credit(1024));
    p.a.credit_sent();
    assert!(!p.a.credit().ask && !p.a.owes_credit(1024));
    p.b.asked = true;
    assert!(!p.b.credit().ask && p.b.owes_credit(1024));
    p.b.credit_sent();
    assert!(!p.b.owes_credit(1024));
}

/// If each frame fills a buffer, as many frames of any length may be in flight as there are buffers
/// in the window, and a quarter of it is still enough for a frame.
#[test]
fn where_frames_fill_buffers_short_ones_take_as_much() {
    for (window, theirs, len, frames) in [
        (1024, 8 << 10, 56, 31),
        (1024, 8 << 10, 8 << 10, 31),
        (16, 8 << 10, 16, 4),
        (16, 1 << 10, 16, 4),
        (1024, 1 << 20, 16, 4),
    ] {
        let cost = cost(theirs, window);
        let open = || {
            let open = Open::new(Dest { port: 0, addr: 0 }, Slot { number: 1, token: 2 }, theirs, window);
            open.costing(cost, cost)
        };
        let mut p = Pair { a: open(), b: open(), window };
        for _ in 0..400 {
            assert_eq!(p.burst(len), frames, "window {window}, buffers of {theirs}, {len} bytes");
            assert!(p.a.room() < p.a.frame && p.b.owes_credit(window));
            p.credit();
            assert!(p.a.is_idle() && p.a.room() >= p.a.frame);
        }
    }
}
