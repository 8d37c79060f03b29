//! Both queues against plain vectors that are searched from the front.

mod model;

use super::*;
use model::{Op, Pair};
use proptest::prelude::*;

/// Decodes a number into an operation over a small alphabet, so that equal envelopes, wildcards
/// and stale keys abound.
fn op(code: u64, sources: u64, tags: u64) -> Op {
    let pick = |shift: u32, bound: u64| (code >> shift) % bound;
    let context = pick(8, 2) as u32;
    let wild = pick(16, 16);
    let mut source = pick(24, sources) as i32;
    let mut tag = pick(32, tags) as i32;
    let envelope = Envelope::new(context, source, tag);
    if wild & 3 == 3 {
        source = ANY_SOURCE;
    }
    if wild >> 2 == 3 {
        tag = ANY_TAG;
    }
    let pattern = Pattern::new(context, source, tag);
    let nth = pick(40, 64) as usize;
    match pick(0, 17) {
        0..=4 => Op::Post(pattern),
        5..=8 => Op::TakePosted(envelope),
        9 => Op::Cancel(nth),
        10..=12 => Op::Push(envelope),
        13 => Op::TakeUnexpected(pattern),
        14 => Op::Probe(pattern),
        15 => Op::TakeAgain(envelope),
        _ => Op::Remove(nth),
    }
}

#[test]
fn a_million_operations() {
    let mut random = 0x1234_5678_u64;
    for (sources, tags, wild) in [(1, 1, true), (2, 3, true), (4, 40, true), (2, 3, false)] {
        let mut pair = Pair::new();
        let kept = if wild { u64::MAX } else { !(15 << 16) };
        for step in 0..400_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(9);
            let mixed = random ^ random >> 29;
            pair.apply(op(mixed & kept, sources, tags));
            if pair.len() > 200 {
                pair.drain(mixed as u32 % 2);
            }
            if step % 500 == 0 {
                pair.check_all();
            }
        }
        pair.check_all();
        assert!(wild || pair.again > 1_000, "{} receives were taken the short way", pair.again);
    }
}

/// Every sequence of six operations over two envelopes and four patterns.
#[test]
fn all_short_sequences() {
    let (a, b) = (Envelope::new(0, 0, 0), Envelope::new(0, 0, 1));
    let patterns = [
        Pattern::new(0, 0, 0),
        Pattern::new(0, 0, ANY_TAG),
        Pattern::new(0, ANY_SOURCE, 0),
        Pattern::new(0, ANY_SOURCE, ANY_TAG),
    ];
    let posted: Vec<Op> = patterns
        .into_iter()
        .map(Op::Post)
        .chain([Op::TakePosted(a), Op::TakePosted(b), Op::TakeAgain(a), Op::Cancel(0)])
        .collect();
    let unexpected: Vec<Op> = patterns
        .into_iter()
        .map(Op::TakeUnexpected)
        .chain([Op::Push(a), Op::Push(b), Op::Remove(0)])
        .collect();
    for alphabet in [posted, unexpected] {
        let mut sequences = 0usize;
        for len in 1..=6u32 {
            for number in 0..alphabet.len().pow(len) {
                let mut pair = Pair::with_seed();
                let mut rest = number;
                for _ in 0..len {
                    pair.apply(alphabet[rest % alphabet.len()]);
                    rest /= alphabet.len();
                }
                pair.check_all();
                sequences += 1;
            }
        }
        assert_eq!(sequences, (1..=6).map(|len| alphabet.len().pow(len)).sum::<usize>());
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 500,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_sequences(
        codes in prop::collection::vec(any::<u64>(), 1..400),
        sources in 1u64..4,
        tags in 1u64..8,
    ) {
        let mut pair = Pair::new();
        for code in codes {
            pair.apply(op(code, sources, tags));
        }
        pair.check_all();
    }
}

#[test]
fn the_first_posted_wins_across_classes() {
    let mut queue = PostedQueue::new();
    queue.post(Pattern::new(1, ANY_SOURCE, 7), 'a');
    queue.post(Pattern::new(1, 3, 7), 'b');
    queue.post(Pattern::new(1, 3, ANY_TAG), 'c');
    queue.post(Pattern::new(1, ANY_SOURCE, ANY_TAG), 'd');
    queue.post(Pattern::new(1, 3, 7), 'e');
    queue.post(Pattern::new(2, ANY_SOURCE, ANY_TAG), 'f');
    let message = Envelope::new(1, 3, 7);
    assert_eq!(queue.peek_match(&message), Some('a'));
    let taken: String = std::iter::from_fn(|| queue.take_match(&message)).collect();
    assert_eq!(taken, "abcde");
    assert_eq!(queue.len(), 1);
}

/// A pattern that waits beside another may not keep the other from the short way for ever.
#[test]
fn what_is_posted_again_and_again_is_in_no_index() {
    let mut queue = PostedQueue::new();
    let (waits, comes) = (Pattern::new(1, 2, 3), Pattern::new(1, 2, 4));
    queue.post(waits, 0);
    assert_eq!(queue.row_pattern(), Some(waits));
    for n in 1..5 {
        queue.post(comes, n);
        assert_eq!(queue.row_pattern(), Some(if n == 1 { waits } else { comes }));
        assert_eq!(queue.take_match(&comes.to_envelope()), Some(n));
    }
    assert_eq!(queue.take_match(&waits.to_envelope()), Some(0));
    assert_eq!(queue.row_pattern(), None);
    let alone = Pattern::new(1, 2, 5);
    queue.post(alone, 5);
    assert_eq!(queue.row_pattern(), Some(alone));
}

#[test]
fn wild_values_in_an_envelope_are_literal() {
    let mut posted = PostedQueue::new();
    posted.post(Pattern::new(1, 0, 0), 'a');
    posted.post(Pattern::new(1, 5, ANY_TAG), 'b');
    posted.post(Pattern::new(1, ANY_SOURCE, 6), 'c');
    assert_eq!(posted.take_match(&Envelope::new(1, 0, ANY_TAG)), None);
    assert_eq!(posted.take_match(&Envelope::new(1, ANY_SOURCE, 0)), None);
    assert_eq!(posted.take_match(&Envelope::new(1, 5, ANY_TAG)), Some('b'));
    assert_eq!(posted.take_match(&Envelope::new(1, ANY_SOURCE, 6)), Some('c'));
    let mut unexpected = UnexpectedQueue::new();
    unexpected.push(Envelope::new(1, 5, ANY_TAG), 'x');
    assert_eq!(unexpected.take_match(&Pattern::new(1, 5, 0)), None);
    let taken = unexpected.take_match(&Pattern::new(1, 5, ANY_TAG));
    assert_eq!(taken, Some((Envelope::new(1, 5, ANY_TAG), 'x')));
}

#[test]
fn stale_keys_name_nothing() {
    let mut posted = PostedQueue::new();
    let pattern = Pattern::new(1, 2, 3);
    let old = posted.post(pattern, 1);
    assert_eq!(posted.cancel(old), Some(1));
    let new = posted.post(pattern, 2);
    assert_eq!(posted.cancel(old), None);
    assert_eq!(posted.cancel(new), Some(2));
    assert_eq!(posted.cancel(new), None);

    let mut unexpected = UnexpectedQueue::new();
    let envelope = Envelope::new(1, 2, 3);
    let old = unexpected.push(envelope, 1);
    assert_eq!(unexpected.remove(old), Some(1));
    let new = unexpected.push(envelope, 2);
    assert_eq!(unexpected.remove(old), None);
    assert_eq!(unexpected.get_mut(old), None);
    *unexpected.get_mut(new).expect("waits") += 1;
    assert_eq!(unexpected.get(new), Some((envelope, &3)));
}

#[test]
fn one_of_several_messages_is_found_by_its_content() {
    let mut queue = UnexpectedQueue::new();
    let envelope = Envelope::new(1, 2, 3);
    for sreq in [10, 11, 12] {
        queue.push(envelope, sreq);
    }
    queue.push(Envelope::new(1, 2, 4), 13);
    let key = queue.find_exact(&envelope, |sreq| *sreq == 11);
    assert_eq!(key.and_then(|key| queue.remove(key)), Some(11));
    assert_eq!(queue.find_exact(&envelope, |sreq| *sreq == 13), None);
    let any = Pattern::new(1, 2, ANY_TAG);
    let left: Vec<i32> = std::iter::from_fn(|| queue.take_match(&any).map(|(_, s)| s)).collect();
    assert_eq!(left, [10, 12, 13]);
}

/// Memory is that of the greatest length, whatever passes through, and in whatever way.
#[test]
fn steady_state_needs_no_more_memory() {
    let mut posted = PostedQueue::new();
    let mut unexpected = UnexpectedQueue::new();
    for round in 0..2_000 {
        // New tags in every round; each tag twice, so that lists are longer than one.
        let tag_of = |i: i32| round * 50 + i / 2;
        let keys: Vec<PostedKey> =
            (0..100).map(|i| posted.post(Pattern::new(1, i % 2, tag_of(i)), i)).collect();
        posted.post(Pattern::new(1, ANY_SOURCE, tag_of(0)), 100);
        for i in 0..100 {
            unexpected.push(Envelope::new(1, i % 2, tag_of(i)), i);
        }
        for i in (0..100).rev() {
            if i % 5 == 0 {
                assert_eq!(posted.cancel(keys[i as usize]), Some(i));
            } else {
                assert!(posted.take_match(&Envelope::new(1, i % 2, tag_of(i))).is_some());
            }
            let source = if i % 4 < 2 { ANY_SOURCE } else { i % 2 };
            let tag = if i % 3 == 0 { ANY_TAG } else { tag_of(i) };
            unexpected.take_match(&Pattern::new(1, source, tag));
        }
        posted.drain_matching(|_, _| true);
        unexpected.drain_matching(|_, _| true);
        assert!(posted.is_empty() && unexpected.is_empty());
        // The seed decides how many gaps a table has, so one may grow once, and late.
        let now = posted.capacity() + unexpected.capacity();
        assert!(now < 5_000, "round {round}: {now}");
    }
}

#[test]
fn the_benchmarks_measure_something() {
    use bench::{Form, Order};
    for order in [Order::Random, Order::InOrder, Order::Dependent] {
        for form in Form::ALL {
            assert!(bench::posted(form, order, 20, 1_000) > 0.0);
            assert!(bench::unexpected(form, order, 20, 1_000) > 0.0);
        }
    }
    assert!(bench::fresh_tags(20, 1_000) > 0.0);
    assert!(bench::no_match(20, 1_000) > 0.0);
}
