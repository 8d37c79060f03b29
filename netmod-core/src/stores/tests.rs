use super::*;

/// Runs copies of `n` bytes, whose times `cost` returns by kind and number; returns the kinds.
fn ways(
    stores: &mut Stores,
    count: usize,
    n: usize,
    cost: impl Fn(StoreKind, usize) -> u64,
) -> Vec<StoreKind> {
    ways_within(CONTIGUOUS, stores, count, n, cost)
}

fn ways_within(
    limits: Limits,
    stores: &mut Stores,
    count: usize,
    n: usize,
    cost: impl Fn(StoreKind, usize) -> u64,
) -> Vec<StoreKind> {
    (0..count)
        .map(|i| {
            if let Stage::Pause(left @ 1..) = &mut stores.stage {
                *left -= 1;
                return stores.kind;
            }
            let kind = stores.tried();
            stores.took(n, cost(kind, i) * n as u64 / LINE, limits);
            kind
        })
        .collect()
}

fn share(ways: &[StoreKind], kind: StoreKind) -> f64 {
    ways.iter().filter(|w| **w == kind).count() as f64 / ways.len() as f64
}

/// Nanoseconds per line between cores with and without a shared L3 cache; non-temporal stores take
/// 4.
fn costs(cached: u64) -> impl Fn(StoreKind, usize) -> u64 {
    move |kind, _| if kind == StoreKind::Cached { cached } else { 4 }
}

#[test]
fn lines_that_are_near_never_go_past_the_caches() {
    let ways = ways(&mut Stores::default(), 100_000, 8 << 10, costs(4));
    assert_eq!(share(&ways, StoreKind::Cached), 1.0);
}

/// Stores are slow, but non-temporal ones do not save what the reader pays: the data comes from
/// memory.
#[test]
fn cold_data_goes_by_way_of_the_caches() {
    let mut stores = Stores::default();
    let ways = ways(&mut stores, 100_000, 8 << 10, |kind, _| if kind == StoreKind::Cached { 14 } else { 10 });
    assert_eq!(stores.kind, StoreKind::Cached);
    assert!(share(&ways, StoreKind::NonTemporal) < 0.07, "{}", share(&ways, StoreKind::NonTemporal));
}

/// Nanoseconds per line that also gather the data.
#[test]
fn scattered_data_goes_past_the_caches_by_what_the_stores_save() {
    for (cached, wanted) in [(4, StoreKind::Cached), (8, StoreKind::NonTemporal)] {
        let cost = |kind, _| if kind == StoreKind::Cached { cached } else { 5 };
        let mut stores = Stores::default();
        ways_within(SCATTERED, &mut stores, 200, 8 << 10, cost);
        assert_eq!(stores.kind, wanted, "{cached}");
        let mut stores = Stores::default();
        ways(&mut stores, 200, 8 << 10, cost);
        assert_eq!(stores.kind, StoreKind::Cached, "without a gap");
    }
}

#[test]
fn lines_that_are_far_go_past_the_caches_soon_and_nearly_always() {
    let mut stores = Stores::default();
    let first = ways(&mut stores, 100, 16 << 10, costs(25));
    assert_eq!(stores.kind, StoreKind::NonTemporal);
    assert_eq!(first[99], StoreKind::NonTemporal);
    let later = ways(&mut stores, 100_000, 16 << 10, costs(25));
    assert!(share(&later, StoreKind::NonTemporal) > 0.99, "{}", share(&later, StoreKind::NonTemporal));
}

/// A process moves to another core: the kind is learnt anew, within as many copies as a long pause
/// has.
#[test]
fn what_changes_is_noticed() {
    let mut stores = Stores::default();
    for round in 0..10 {
        ways(&mut stores, 2 * MOST_PAUSE as usize, 8 << 10, costs(25));
        assert_eq!(stores.kind, StoreKind::NonTemporal, "{round}");
        ways(&mut stores, 2 * MOST_PAUSE as usize, 8 << 10, costs(4));
        assert_eq!(stores.kind, StoreKind::Cached, "{round}");
    }
}

/// Some copies take long because the process was interrupted.
#[test]
fn interruptions_say_nothing() {
    let mut stores = Stores::default();
    let ways = ways(&mut stores, 100_000, 8 << 10, |kind, i| match (i % 3, kind) {
        (0, _) => 4,
        (_, StoreKind::Cached) => 10_000,
        (_, StoreKind::NonTemporal) => 4,
    });
    assert_eq!(share(&ways, StoreKind::Cached), 1.0);
}

/// The first cached stores after non-temporal ones are fast, since no core has the lines.
#[test]
fn a_trial_that_deceives_is_made_less_and_less_often() {
    let mut stores = Stores::default();
    let mut past = 0;
    let mut since = 0;
    for _ in 0..100_000 {
        let fast = since < 8;
        let kind = ways(&mut stores, 1, 8 << 10, costs(if fast { 3 } else { 15 }))[0];
        since = if kind == StoreKind::NonTemporal { 0 } else { since + 1 };
        past += usize::from(kind == StoreKind::NonTemporal);
    }
    assert!(past > 90_000, "{past}");
}

#[test]
fn short_copies_use_cached_stores() {
    let mut stores = Stores { kind: StoreKind::NonTemporal, ..Stores::default() };
    assert_eq!(stores.copy(LEAST - 1, |kind| kind), StoreKind::Cached);
    let learnt =
        if Processor::here() == Processor::Other { StoreKind::Cached } else { StoreKind::NonTemporal };
    assert_eq!(stores.copy(LEAST, |kind| kind), learnt);
}

/// At every length and offset, either kind writes the same bytes, and none beside them.
#[test]
fn both_kinds_copy_the_same() {
    let from: Vec<u8> = (0..600).map(|i| (i * 7 + i / 256) as u8).collect();
    for kind in [StoreKind::Cached, StoreKind::NonTemporal] {
        for at in 0..70 {
            for n in [0, 1, 15, 16, 63, 64, 65, 127, 128, 300, 400] {
                let mut to = vec![0xee; 600];
                // SAFETY: both vectors have more bytes than that.
                unsafe { store(from.as_ptr().add(at / 3), to.as_mut_ptr().add(at), n, kind) };
                assert_eq!(to[at..at + n], from[at / 3..at / 3 + n]);
                assert!(to[..at].iter().chain(&to[at + n..]).all(|b| *b == 0xee));
            }
        }
    }
}
