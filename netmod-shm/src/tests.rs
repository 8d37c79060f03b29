//! Two netmods of one process, and what a peer that writes nonsense brings about.

use crate::config::ShmConfig;
use netmod_core::{
    Arm, Card, CardWriter, Core, Event, Events, GroupId, Module, Netmod, PeerName, PollOrder, Pollers, RxBuf,
    SendBuf, Time, Vc, VcError, VcErrorKind, VcId, VcLife,
};

use crate::ShmNetmod;
use crate::channel::{AWAITED_PIECE, Channel};
use crate::netmod::{CHECK, Ending};
use crate::ring::{MAX_RING, RingMem, WHOLE_PAYLOAD};

/// Two ranks with a VC each.
pub(crate) struct Pair {
    pub(crate) nets: [ShmNetmod; 2],
    pub(crate) cores: [Core; 2],
    pub(crate) vcs: [VcId; 2],
    folder: std::path::PathBuf,
}

impl Drop for Pair {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Pair {
    pub(crate) fn new(name: &str) -> Pair {
        let folder = format!("/dev/shm/test-netmod-rma-{}-{name}", std::process::id());
        std::fs::create_dir(&folder).expect("a folder");
        let cfg = ShmConfig { dir: folder.clone(), ..ShmConfig::default() };
        let name = |rank| PeerName { group: GroupId([3; 16]), rank };
        let mut nets = [0, 1].map(|rank| ShmNetmod::new(&cfg, name(rank), 2, 2, None, Pollers::UNKNOWN));
        let cards: Vec<Card> = nets
            .iter_mut()
            .map(|n| {
                n.join_job([1; 32], Pollers::UNKNOWN).expect("a job key is taken");
                let mut w = CardWriter::new();
                n.business_card(&mut w).expect("a section");
                Card::parse(&w.finish()).expect("a card")
            })
            .collect();
        let mut cores = [Core::new(4), Core::new(4)];
        let vcs = [0, 1].map(|i: usize| {
            let peer = name(1 - i as u32);
            let vc = cores[i].add_vc(Vc::new(peer, 0));
            nets[i].vc_init(&mut cores[i], vc, peer, Some(&cards[1 - i])).expect("vc_init");
            vc
        });
        Pair { nets, cores, vcs, folder: folder.into() }
    }
}

/// Returns what rank 0 finds in some polls, and what it has received.
fn polls(p: &mut Pair) -> (Vec<Event>, Vec<u8>) {
    let (mut found, mut bytes, mut events) = (Vec::new(), Vec::new(), Events::default());
    for _ in 0..20 {
        p.nets[0].poll(&mut p.cores[0], PollOrder::InFirst, Time::ZERO, &mut events).expect("a poll");
        while let Some(ev) = events.pop() {
            match ev {
                Event::Rx { buf, .. } => {
                    buf.bytes().append_to(&mut bytes);
                    p.nets[0].release(buf);
                }
                other => found.push(other),
            }
        }
    }
    (found, bytes)
}

/// Rank 1 sends a header and `data`, and tells of it.
fn send(p: &mut Pair, data: &'static [u8]) {
    let (net, core) = (&mut p.nets[1], &mut p.cores[1]);
    let sent = net.i_start_contig_msg(core, p.vcs[1], &[1; 32], SendBuf::from_static(data)).expect("a send");
    if let Some(req) = sent {
        core.detach(req);
    }
    let mut events = Events::default();
    net.poll(core, PollOrder::OutFirst, Time::ZERO, &mut events).expect("a poll");
}

#[test]
fn nonsense_in_a_ring_takes_the_vc_down_once_and_for_good() {
    let mut p = Pair::new("nonsense");
    send(&mut p, &[7; 10]);
    let (found, bytes) = polls(&mut p);
    assert!(matches!(found[..], [Event::Up { .. }]), "{found:?}");
    assert_eq!(bytes, [&[1; 32][..], &[7; 10]].concat());
    // The third cell of the ring, behind the beginning and the message: of no kind that there is.
    let slot = p.nets[0].segment.as_ref().expect("a segment").me();
    let ring = p.nets[1].channels[slot].tx.as_ref().expect("a ring");
    ring.mem.set_control(2, 3 << 32 | 99);
    let (found, bytes) = polls(&mut p);
    let [Event::Down { error, .. }] = &found[..] else { panic!("{found:?}") };
    assert_eq!(error.kind(), VcErrorKind::Protocol);
    assert!(error.to_string().contains("no known kind"), "{error}");
    assert!(bytes.is_empty());
    // Later messages are not read again from the start.
    send(&mut p, &[8; 100]);
    let (found, bytes) = polls(&mut p);
    assert!(found.is_empty() && bytes.is_empty(), "{found:?} {bytes:?}");
}

/// Returns what both ranks find in some polls.
fn both_poll(p: &mut Pair) -> [Vec<Event>; 2] {
    let (mut found, mut events) = ([Vec::new(), Vec::new()], Events::default());
    for i in [0, 1].repeat(20) {
        p.nets[i].poll(&mut p.cores[i], PollOrder::InFirst, Time::ZERO, &mut events).expect("a poll");
        while let Some(ev) = events.pop() {
            match ev {
                Event::Rx { buf, .. } => p.nets[i].release(buf),
                other => found[i].push(other),
            }
        }
    }
    found
}

fn abort(p: &mut Pair, rank: usize) {
    let why = VcError::new(VcErrorKind::Aborted, None, "a test gives it up");
    p.nets[rank].vc_abort(&mut p.cores[rank], p.vcs[rank], why);
}

/// Rank 0 gives up a VC by which it has sent nothing.
#[test]
fn the_peer_learns_that_a_vc_was_given_up() {
    for has_sent in [false, true] {
        let mut p = Pair::new(if has_sent { "given-up" } else { "unused" });
        if has_sent {
            send(&mut p, &[7; 10]);
            let (found, _) = polls(&mut p);
            assert!(matches!(found[..], [Event::Up { .. }]), "{found:?}");
        }
        abort(&mut p, 0);
        let [own, theirs] = both_poll(&mut p);
        assert!(matches!(own[..], [Event::Down { .. }]), "{own:?}");
        let Some(Event::Down { error, .. }) = theirs.last() else { panic!("{theirs:?}") };
        assert_eq!(error.kind(), VcErrorKind::Lost);
        assert!(error.to_string().contains("the peer has given up the connection"), "{error}");
        assert!(both_poll(&mut p).iter().all(Vec::is_empty));
    }
}

/// Neither goes on to tell the other what both know.
#[test]
fn two_that_give_up_each_other_are_silent_afterwards() {
    let mut p = Pair::new("both-give-up");
    abort(&mut p, 0);
    abort(&mut p, 1);
    let found = both_poll(&mut p);
    assert!(found.iter().all(|f| matches!(f[..], [Event::Down { .. }])), "{found:?}");
    for (i, peer) in [(0, 1), (1, 0)] {
        let slot = p.nets[peer].segment.as_ref().expect("a segment").me();
        // The beginning and the end of one stream.
        assert_eq!(p.nets[i].channels[slot].tx.as_ref().expect("a ring").next_cell(), 2);
    }
}

/// The first long message since a poll is written so that its reader can begin early; one behind it
/// is not. A poll that wants one message brings all pieces of that and nothing of the other.
#[test]
fn a_long_message_that_may_be_waited_for_begins_with_a_short_piece() {
    let mut p = Pair::new("pieces");
    send(&mut p, &[7; 10]);
    polls(&mut p);
    let data = pattern(3 * AWAITED_PIECE);
    for _ in 0..2 {
        let (net, core) = (&mut p.nets[1], &mut p.cores[1]);
        let sent = net.i_start_contig_msg(core, p.vcs[1], &[1; 32], SendBuf::from_static(data));
        assert_eq!(sent.expect("a send"), None, "there is room");
    }
    let awaited = [32, AWAITED_PIECE, 2 * AWAITED_PIECE];
    p.cores[0].want(1);
    for expected in [&awaited[..], &[32, data.len()]] {
        let mut events = Events::default();
        p.nets[0].poll(&mut p.cores[0], PollOrder::InFirst, Time::ZERO, &mut events).expect("a poll");
        let (mut lens, mut bytes) = (Vec::new(), Vec::new());
        while let Some(Event::Rx { buf, .. }) = events.pop() {
            lens.push(buf.bytes().len());
            buf.bytes().append_to(&mut bytes);
            p.nets[0].release(buf);
        }
        assert_eq!(lens, expected);
        assert_eq!(bytes, [&[1; 32][..], data].concat());
    }
}

/// Two messages since a poll have a cell each, so that neither is read behind the other; those
/// behind them go together. A poll ends behind as many as are wanted.
#[test]
fn a_poll_brings_what_is_wanted() {
    let mut p = Pair::new("wanted");
    send(&mut p, &[7; 10]);
    polls(&mut p);
    for data in [&[1; 8][..], &[2; 8], &[3; 8], &[4; 8]] {
        let (net, core) = (&mut p.nets[1], &mut p.cores[1]);
        let sent = net.i_start_contig_msg(core, p.vcs[1], &[1; 32], SendBuf::from_static(data));
        assert_eq!(sent.expect("a send"), None, "there is room");
    }
    let mut brought = Vec::new();
    for wanted in [1, 1, 1, usize::MAX] {
        p.cores[0].want(wanted);
        let mut events = Events::default();
        p.nets[0].poll(&mut p.cores[0], PollOrder::InFirst, Time::ZERO, &mut events).expect("a poll");
        let mut lens = Vec::new();
        while let Some(Event::Rx { buf, .. }) = events.pop() {
            lens.push(buf.bytes().len());
            p.nets[0].release(buf);
        }
        brought.push(lens);
    }
    assert_eq!(brought, [vec![40], vec![40], vec![80], vec![]]);
}

/// A poll that brings the rest of a message brings nothing that is not wanted behind it.
#[test]
fn the_rest_of_a_message_comes_alone() {
    let mut p = Pair::new("rest");
    send(&mut p, &[7; 10]);
    polls(&mut p);
    let room = p.cores[1].vc(p.vcs[1]).expect("a VC").room();
    assert!(room > 0, "the connection is there");
    // More than a poll brings, and both find room at once.
    let long = vec![1; room].leak();
    for data in [&*long, &[2; 100]] {
        let (net, core) = (&mut p.nets[1], &mut p.cores[1]);
        let sent = net.i_start_contig_msg(core, p.vcs[1], &[1; 32], SendBuf::from_static(data));
        assert_eq!(sent.expect("a send"), None, "there is room");
    }
    let mut brought = Vec::new();
    for wanted in [1, 0, 0] {
        p.cores[0].want(wanted);
        let mut events = Events::default();
        p.nets[0].poll(&mut p.cores[0], PollOrder::InFirst, Time::ZERO, &mut events).expect("a poll");
        let mut bytes = 0;
        while let Some(Event::Rx { buf, .. }) = events.pop() {
            bytes += buf.bytes().len();
            p.nets[0].release(buf);
        }
        brought.push(bytes);
    }
    assert!(brought[0] < 32 + room, "{brought:?}");
    assert_eq!((brought[0] + brought[1], brought[2]), (32 + room, 132), "{brought:?}");
}

/// A message that its sender has not finished is no message: the VC goes down with the half of it.
#[test]
fn half_a_message_of_a_dead_peer_is_followed_by_its_loss() {
    let mut p = Pair::new("half");
    // More than the ring holds: what was written is there, and the rest never comes.
    send(&mut p, vec![5; MAX_RING].leak());
    assert!(p.nets[1].channels.iter().any(|l| l.streams.writing), "it has begun");
    kill_rank_1(&mut p);
    let (found, bytes) = polls_of_the_dead(&mut p);
    assert!((32..MAX_RING).contains(&bytes.len()), "{} bytes", bytes.len());
    let [Event::Up { .. }, Event::Down { error, .. }] = &found[..] else { panic!("{found:?}") };
    assert_eq!(error.kind(), VcErrorKind::Lost);
}

/// A killed process announces nothing.
fn kill_rank_1(p: &mut Pair) {
    let Pair { nets, .. } = p;
    let slot = nets[1].segment.as_ref().expect("a segment").me();
    nets[1].ending = Ending::Over;
    let nobody = PeerName { group: GroupId([4; 16]), rank: 0 };
    nets[1] = ShmNetmod::new(&ShmConfig::default(), nobody, 1, 1, None, Pollers::UNKNOWN);
    assert!(!nets[0].segment.as_ref().expect("a segment").lives(slot));
}

/// Like [`polls`], until rank 0 knows that rank 1 is dead: all bytes come before that.
fn polls_of_the_dead(p: &mut Pair) -> (Vec<Event>, Vec<u8>) {
    let (mut found, bytes) = polls(p);
    // The next look at the locks tells that nobody writes any more.
    let mut events = Events::default();
    let later = Time::ZERO + 2 * CHECK;
    p.nets[0].poll(&mut p.cores[0], PollOrder::InFirst, later, &mut events).expect("a poll");
    assert!(events.is_empty());
    let (more, rest) = polls(p);
    found.extend(more);
    assert!(rest.is_empty());
    (found, bytes)
}

/// One rank sends a header and `data`, the other polls: where in its memory it has come, and the
/// last buffer of it.
fn one_way(p: &mut Pair, from: usize, data: &'static [u8]) -> (usize, RxBuf) {
    let (net, core) = (&mut p.nets[from], &mut p.cores[from]);
    let sent =
        net.i_start_contig_msg(core, p.vcs[from], &[1; 32], SendBuf::from_static(data)).expect("a send");
    if let Some(req) = sent {
        core.detach(req);
    }
    let mut events = Events::default();
    net.poll(core, PollOrder::OutFirst, Time::ZERO, &mut events).expect("a poll");
    let (net, core) = (&mut p.nets[1 - from], &mut p.cores[1 - from]);
    let (mut bytes, mut last) = (Vec::new(), None);
    for _ in 0..5 {
        net.poll(core, PollOrder::InFirst, Time::ZERO, &mut events).expect("a poll");
        while let Some(event) = events.pop() {
            let Event::Rx { buf, .. } = event else { continue };
            buf.bytes().append_to(&mut bytes);
            if let Some(before) = last.replace(buf) {
                net.release(before);
            }
        }
    }
    assert_eq!(bytes, [&[1; 32][..], data].concat());
    let last = last.expect("a message");
    (last.bytes().as_ptr().addr(), last)
}

/// Ranks that take turns write over what they have read, but not over what is still on loan.
#[test]
fn answers_are_written_over_questions_that_were_read() {
    let mut p = Pair::new("token_line");
    let turn = |p: &mut Pair, from: usize, value: u8| {
        let (place, buf) = one_way(p, from, vec![value; 16].leak());
        p.nets[1 - from].release(buf);
        place
    };
    // Each makes its ring.
    turn(&mut p, 0, 0);
    turn(&mut p, 1, 1);
    // The lines of the messages to either rank are one line, as the two ranks have mapped it.
    let (at_higher, at_lower) = (turn(&mut p, 0, 2), turn(&mut p, 1, 3));
    assert_eq!((turn(&mut p, 0, 4), turn(&mut p, 1, 5)), (at_higher, at_lower));
    let (place, on_loan) = one_way(&mut p, 0, &[6; 16]);
    assert_eq!(place, at_higher);
    assert_ne!(turn(&mut p, 1, 7), at_lower, "what it would be written over is on loan");
    assert_ne!(turn(&mut p, 0, 8), at_higher, "the other has it");
    let mut bytes = Vec::new();
    on_loan.bytes().append_to(&mut bytes);
    assert_eq!(bytes, [&[1; 32][..], &[6; 16]].concat());
    p.nets[1].release(on_loan);
    assert_eq!(turn(&mut p, 1, 9), at_lower);
    assert_eq!(turn(&mut p, 0, 10), at_higher);
    // A payload that does not fit into the line lies in the payload buffer, which they also use in
    // turn.
    let long = |p: &mut Pair, from: usize, data: &'static [u8]| {
        let (place, buf) = one_way(p, from, data);
        p.nets[1 - from].release(buf);
        place
    };
    let (at_lower, at_higher) = (long(&mut p, 1, &[11; 25]), long(&mut p, 0, &[12; 25]));
    assert_eq!(long(&mut p, 1, &[13; 3000]), at_lower);
    assert_eq!(long(&mut p, 0, &[14; 1000]), at_higher);
    let (place, on_loan) = one_way(&mut p, 1, &[15; 1000]);
    assert_eq!(place, at_lower);
    assert_ne!(long(&mut p, 0, &[16; 1000]), at_higher, "what it would be written over is on loan");
    let mut bytes = Vec::new();
    on_loan.bytes().append_to(&mut bytes);
    assert_eq!(bytes, [15; 1000]);
    p.nets[0].release(on_loan);
    assert_eq!(long(&mut p, 0, &[17; 1000]), at_higher);
    assert_eq!(long(&mut p, 1, &[18; 1000]), at_lower);
}

/// Bytes that differ from place to place.
fn pattern(len: usize) -> &'static [u8] {
    (0..len).map(|i| (i % 251) as u8).collect::<Vec<u8>>().leak()
}

/// Two ranks that use the token line, after a message each way; rank 0 has it.
fn alternating(name: &str) -> Pair {
    let mut p = Pair::new(name);
    for from in [0, 1, 0, 1] {
        let (_, buf) = one_way(&mut p, from, &[3; 8]);
        p.nets[1 - from].release(buf);
    }
    p
}

/// The channel of a rank with the other.
fn channel(p: &mut Pair, rank: usize) -> &mut Channel {
    let peer = p.nets[1 - rank].segment.as_ref().expect("a segment").me();
    &mut p.nets[rank].channels[peer]
}

/// Payloads go with the token line if its buffer is so long. Longer ones go by the ring, and the
/// token line stays in place.
#[test]
fn payloads_go_with_the_token_line_as_far_as_they_fit() {
    let mut p = alternating("payloads");
    let longest = channel(&mut p, 0).tx.as_ref().expect("a ring").mem.payload() as usize;
    assert!(longest > 16_000, "{longest}");
    let mut from = 0;
    for len in [100, WHOLE_PAYLOAD, WHOLE_PAYLOAD + 1, 12_345, longest - 1, longest, longest + 1] {
        let (_, buf) = one_way(&mut p, from, pattern(len));
        p.nets[1 - from].release(buf);
        let went = channel(&mut p, 1 - from).token_line.is_here();
        assert_eq!(went, len <= longest, "{len} bytes");
        assert_ne!(went, channel(&mut p, from).token_line.is_here());
        if went {
            from = 1 - from;
        }
    }
}

/// Rank 1 sends a payload of 16,000 bytes with the token line, of which `filled` are there.
fn send_part(p: &mut Pair, data: &'static [u8], filled: usize) {
    let (net, core) = (&mut p.nets[1], &mut p.cores[1]);
    let sent = net.i_start_contig_msg(core, p.vcs[1], &[1; 32], SendBuf::from_static(data));
    assert_eq!(sent.expect("a send"), None);
    assert!(!channel(p, 1).token_line.is_here());
    fill(p, filled);
}

/// Says that so much of the payload is there.
fn fill(p: &mut Pair, filled: usize) {
    channel(p, 1).tx.as_mut().expect("a ring").go_on_filling(filled);
}

/// A sender may be interrupted between two parts: its peer reads on later, and may sleep meanwhile.
#[test]
fn a_payload_arrives_part_by_part() {
    let mut p = alternating("parts");
    let data = pattern(16_000);
    let (_, buf) = one_way(&mut p, 0, &[4; 8]);
    p.nets[1].release(buf);
    send_part(&mut p, data, 4096);
    let (_, mut bytes) = polls(&mut p);
    assert_eq!(bytes, [&[1; 32][..], &data[..4096]].concat());
    // An answer would be written over it: it goes by the ring.
    assert!(!channel(&mut p, 0).token_line.is_here());
    assert_eq!(p.nets[0].arm(&mut p.cores[0]), Arm::Armed);
    p.nets[0].disarm();
    // Its sender rings behind the last part only, but may be seen before.
    let sleeper = p.nets[0].segment.as_ref().expect("a segment").me();
    p.nets[1].ring_bell(sleeper);
    for filled in [8000, 8000, 12_000] {
        fill(&mut p, filled);
        let (_, more) = polls(&mut p);
        bytes.extend(more);
        assert_eq!(bytes.len(), 32 + filled);
    }
    fill(&mut p, 16_000);
    assert_eq!(p.nets[0].arm(&mut p.cores[0]), Arm::Busy, "a part is there");
    bytes.extend(polls(&mut p).1);
    assert_eq!(bytes, [&[1; 32][..], data].concat());
    assert!(channel(&mut p, 0).token_line.is_here());
}

/// The part of a payload that a dead peer has written arrives, and then the VC is lost.
#[test]
fn part_of_a_payload_of_a_dead_peer_is_followed_by_its_loss() {
    let mut p = alternating("dead");
    let (_, buf) = one_way(&mut p, 0, &[4; 8]);
    p.nets[1].release(buf);
    send_part(&mut p, pattern(16_000), 4096);
    kill_rank_1(&mut p);
    let (found, bytes) = polls_of_the_dead(&mut p);
    assert_eq!(bytes.len(), 32 + 4096);
    let [Event::Down { error, .. }] = &found[..] else { panic!("{found:?}") };
    assert_eq!(error.kind(), VcErrorKind::Lost);
}

/// A fill that goes back is nonsense.
#[test]
fn a_payload_that_shrinks_takes_the_vc_down() {
    let mut p = alternating("shrinks");
    let (_, buf) = one_way(&mut p, 0, &[4; 8]);
    p.nets[1].release(buf);
    send_part(&mut p, pattern(16_000), 4096);
    assert_eq!(polls(&mut p).1.len(), 32 + 4096);
    fill(&mut p, 4000);
    let (found, bytes) = polls(&mut p);
    let [Event::Down { error, .. }] = &found[..] else { panic!("{found:?}") };
    assert!(error.kind() == VcErrorKind::Protocol && bytes.is_empty(), "{error}");
}

/// A message that came with the token line for a VC that sleeps is rung for, as any.
#[test]
fn the_token_line_wakes_its_rank() {
    let mut p = Pair::new("asleep");
    for from in [0, 1, 0, 1] {
        let (_, buf) = one_way(&mut p, from, &[3; 8]);
        p.nets[1 - from].release(buf);
    }
    assert_eq!(p.nets[1].arm(&mut p.cores[1]), Arm::Armed);
    let rings = p.nets[0].stats().rings;
    let (_, buf) = one_way(&mut p, 0, &[4; 8]);
    p.nets[1].release(buf);
    assert_eq!(p.nets[0].stats().rings, rings + 1);
    // And what is there already keeps a rank from sleeping.
    let (net, core) = (&mut p.nets[1], &mut p.cores[1]);
    let sent = net.i_start_contig_msg(core, p.vcs[1], &[1; 32], SendBuf::from_static(&[5; 8]));
    assert_eq!(sent.expect("a send"), None);
    net.flush(core);
    assert_eq!(p.nets[0].arm(&mut p.cores[0]), Arm::Busy);
}

/// Messages behind the first one since a poll arrive although their sender makes no further call.
#[test]
fn gathered_messages_arrive_without_a_further_call_of_the_sender() {
    let mut p = Pair::new("gathered");
    send(&mut p, &[1; 8]);
    polls(&mut p);
    let (net, core) = (&mut p.nets[1], &mut p.cores[1]);
    for value in [&[2; 8], &[3; 8], &[4; 8]] {
        let sent = net.i_start_contig_msg(core, p.vcs[1], &[1; 32], SendBuf::from_static(value));
        assert_eq!(sent.expect("a send"), None);
    }
    let (_, bytes) = polls(&mut p);
    let expected: Vec<u8> = [2, 3, 4].iter().flat_map(|v| [&[1; 32][..], &[*v; 8]].concat()).collect();
    assert_eq!(bytes, expected);
    // The piece goes on where it was, and is closed by whatever follows.
    let (net, core) = (&mut p.nets[1], &mut p.cores[1]);
    let sent = net.i_start_contig_msg(core, p.vcs[1], &[1; 32], SendBuf::from_static(&[5; 8]));
    assert_eq!(sent.expect("a send"), None);
    send(&mut p, &[6; 100]);
    let (_, bytes) = polls(&mut p);
    assert_eq!(bytes, [&[1; 32][..], &[5; 8], &[1; 32], &[6; 100]].concat());
}

/// A rank that sleeps is woken by the first message for it, not by its sender's next call.
#[test]
fn a_sleeping_rank_is_rung_for_at_once() {
    let mut p = Pair::new("rung");
    send(&mut p, &[1; 8]);
    polls(&mut p);
    assert_eq!(p.nets[0].arm(&mut p.cores[0]), Arm::Armed);
    let (net, core) = (&mut p.nets[1], &mut p.cores[1]);
    let (rings, wakes) = (net.stats().rings, net.stats().wakes);
    let sent = net.i_start_contig_msg(core, p.vcs[1], &[1; 32], SendBuf::from_static(&[2; 8]));
    assert_eq!(sent.expect("a send"), None);
    assert_eq!((net.stats().rings, net.stats().wakes), (rings + 1, wakes + 1));
    let (_, bytes) = polls(&mut p);
    assert_eq!(bytes, [&[1; 32][..], &[2; 8]].concat());
}

#[test]
fn a_stream_that_goes_on_is_progress_of_its_sender() {
    let mut p = Pair::new("stream");
    let [mut to, mut from] = [0, 0];
    let data: &'static [u8] = vec![7; 8 << 20].leak();
    send(&mut p, data);
    let mut events = Events::default();
    // Long after all is known that a poll without a receiver could find.
    for _ in 0..100 {
        p.nets[1].poll(&mut p.cores[1], PollOrder::InFirst, Time::ZERO, &mut events).expect("a poll");
        while events.pop().is_some() {}
    }
    events.take_progress();
    while to < data.len() {
        p.nets[1].poll(&mut p.cores[1], PollOrder::InFirst, Time::ZERO, &mut events).expect("a poll");
        assert!(!events.take_progress(), "a full ring is no progress");
        let (_, bytes) = polls(&mut p);
        to += bytes.len();
        p.nets[1].poll(&mut p.cores[1], PollOrder::InFirst, Time::ZERO, &mut events).expect("a poll");
        from += usize::from(events.take_progress());
    }
    assert!(from > 1, "the ring holds less than the message");
}
