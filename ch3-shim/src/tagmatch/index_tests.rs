//! The index by itself: against a map, under churn, and with hostile keys.

use std::collections::HashMap;

use super::*;

const SEED: [u64; 3] = [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, 0x5555_1234];

fn key(context: u32, source: i32, tag: i32) -> Key {
    Key { source_tag: u64::from(source.cast_unsigned()) | u64::from(tag.cast_unsigned()) << 32, context }
}

/// Returns the number of entries that a probe for `key` looks at.
fn probe_len(index: &Index, key: Key) -> usize {
    let mask = index.entries.len() - 1;
    let hash = index.seed.hash(key);
    let home = (hash >> index.shift) as usize & mask;
    let (mut at, mut len) = (home, 1);
    loop {
        let entry = index.entries[at];
        if entry == EMPTY || entry & !index.node_mask == index.mark(hash) {
            return len;
        }
        at = (at + 1) & mask;
        len += 1;
    }
}

fn check_counts(index: &Index) {
    let count = |pred: fn(u32) -> bool| index.entries.iter().filter(|e| pred(**e)).count();
    assert_eq!(index.live, count(|entry| entry < GAP));
    assert_eq!(index.used, count(|entry| entry != EMPTY));
    assert!(index.used <= index.limit && index.limit <= index.load.limit(index.entries.len()));
}

#[test]
fn against_a_map_under_churn() {
    churn(Load::Dense, 2_048);
    churn(Load::Sparse, 4_096);
}

/// The table never has more than so many entries.
fn churn(load: Load, most: usize) {
    let keys: Vec<Key> = (0..600).map(|i| key(i % 3, i as i32 / 7, i as i32)).collect();
    let mut index = Index::new(Seed::from_words(SEED), load);
    let mut model: HashMap<u32, ()> = HashMap::new();
    let mut random = 1u64;
    for round in 0..200_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // Waves: mostly insertions, then mostly removals.
        let insert = (random >> 40) % 10 < if round / 2_000 % 2 == 0 { 7 } else { 3 };
        let node = (random >> 33) as u32 % keys.len() as u32;
        let key = keys[node as usize];
        let key_of = |node: u32| keys[node as usize];
        if insert {
            let before = index.find_or_insert(key, node, key_of);
            assert_eq!(before.is_some(), model.insert(node, ()).is_some());
        } else {
            let found = index.find(key, key_of);
            assert_eq!(found.map(|(_, node)| node), model.remove(&node).map(|()| node));
            if let Some((at, _)) = found {
                index.remove(at);
            }
        }
        assert_eq!(index.live, model.len());
        if round % 1_000 == 0 {
            check_counts(&index);
            for node in 0..keys.len() as u32 {
                let found = index.find(keys[node as usize], key_of);
                assert_eq!(found.is_some(), model.contains_key(&node));
            }
            let mut nodes: Vec<u32> = index.nodes().collect();
            nodes.sort_unstable();
            let mut expected: Vec<u32> = model.keys().copied().collect();
            expected.sort_unstable();
            assert_eq!(nodes, expected);
        }
    }
    assert!(index.capacity() <= most, "{} entries", index.capacity());
}

#[test]
fn node_numbers_may_outgrow_the_bits_they_have() {
    let keys: Vec<Key> = (0..100).map(|i| key(0, 0, i)).collect();
    let mut index = Index::new(Seed::from_words(SEED), Load::Dense);
    let stride = 7_919u32;
    let key_of = |node: u32| keys[(node / stride) as usize];
    for i in 0..100 {
        assert_eq!(index.find_or_insert(keys[i as usize], i * stride, key_of), None);
    }
    assert!(index.node_mask > MIN_NODE_MASK);
    for i in 0..100 {
        let found = index.find(keys[i as usize], key_of).map(|(_, node)| node);
        assert_eq!(found, Some(i * stride));
    }
    // A replacement can be what needs more bits.
    let far = 1 << 22;
    let key_of = |node: u32| {
        if node == far { keys[3] } else { keys[(node / stride) as usize] }
    };
    let (at, _) = index.find(keys[3], key_of).expect("was inserted");
    index.replace(at, far, key_of);
    for i in 0..100 {
        let found = index.find(keys[i as usize], key_of).map(|(_, node)| node);
        assert_eq!(found, Some(if i == 3 { far } else { i * stride }));
    }
    check_counts(&index);
}

/// Sets of keys that a peer would try, and those that programs use. With any seed, the mean
/// probe of each must be short.
#[test]
fn regular_and_hostile_keys_spread() {
    const N: i32 = 20_000;
    let strided = |bits: u32| (0..N).map(move |i| key(5, 1, i.wrapping_shl(bits))).collect();
    let mut sets: Vec<(String, Vec<Key>)> =
        (0..17).map(|bits| (format!("tags << {bits}"), strided(bits))).collect();
    sets.push(("sources".into(), (0..N).map(|i| key(5, i, 3)).collect()));
    sets.push(("contexts".into(), (0..N as u32).map(|i| key(i, 2, 3)).collect()));
    sets.push(("grid".into(), (0..N).map(|i| key(5, i / 141, i % 141)).collect()));
    sets.push(("equal sums".into(), (0..N).map(|i| key(5, i, -i)).collect()));
    sets.push(("equal words".into(), (0..N).map(|i| key(i as u32, i, i)).collect()));
    sets.push(("negative".into(), (0..N).map(|i| key(5, -1, i32::MIN + i)).collect()));
    let mut random = 7u64;
    for _ in 0..8 {
        let words = [(); 3].map(|()| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(3);
            random ^ random >> 31
        });
        for (name, keys) in &sets {
            let mut index = Index::new(Seed::from_words(words), Load::Dense);
            for (node, key) in (0..).zip(keys) {
                index.find_or_insert(*key, node, |node| keys[node as usize]);
            }
            let lens = keys.iter().map(|key| probe_len(&index, *key));
            let (sum, max) = lens.fold((0, 0), |(sum, max), len| (sum + len, len.max(max)));
            let mean = sum as f64 / keys.len() as f64;
            assert!(mean < 3.0, "{name}: mean probe {mean}");
            assert!(max < 400, "{name}: longest probe {max}");
        }
    }
}

/// Keys that all have one home under one seed are spread by another: what a peer could learn of
/// one process is of no use against the next.
#[test]
fn collisions_do_not_carry_over_to_another_seed() {
    let known = Seed::from_words(SEED);
    let colliding: Vec<Key> =
        (0..2_000_000).map(|tag| key(1, 1, tag)).filter(|key| known.hash(*key) >> 54 == 0).collect();
    assert!(colliding.len() > 1_000, "{} keys collide", colliding.len());
    let mean = |seed| {
        let mut index = Index::new(seed, Load::Dense);
        for (node, key) in (0..).zip(&colliding) {
            index.find_or_insert(*key, node, |node| colliding[node as usize]);
        }
        let sum: usize = colliding.iter().map(|key| probe_len(&index, *key)).sum();
        sum as f64 / colliding.len() as f64
    };
    assert!(mean(known) > 50.0, "the attack works if the seed is known");
    assert!(mean(Seed::random()) < 10.0);
}

#[test]
fn random_seeds_differ() {
    let key = key(1, 2, 3);
    let hashes: std::collections::HashSet<u64> = (0..100).map(|_| Seed::random().hash(key)).collect();
    assert_eq!(hashes.len(), 100);
}

/// A table of the program's own receives stays sparse until it is large.
#[test]
fn a_sparse_table_is_no_fuller_than_allowed_and_no_larger_than_needed() {
    for n in [10, 1_000, 10_000, 100_000] {
        let keys: Vec<Key> = (0..n).map(|i| key(0, 1, i)).collect();
        let key_of = |node: u32| keys[node as usize];
        let mut index = Index::new(Seed::from_words(SEED), Load::Sparse);
        for node in 0..n as u32 {
            index.find_or_insert(key_of(node), node, key_of);
        }
        let (live, len) = (index.live, index.capacity());
        assert_eq!(live, n as usize);
        let most = if len <= SPARSE_MAX { 3.0 / 8.0 } else { 5.0 / 8.0 };
        assert!((0.14..=most).contains(&(live as f64 / len as f64)), "{live} of {len}");
    }
}
