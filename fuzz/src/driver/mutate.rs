//! Mutations of inputs.

use netmod_harness::Rng;

/// Longest input in bytes.
const MAX_INPUT: usize = 1 << 16;
/// Most mutations of one input.
const MAX_STEPS: u64 = 4;
/// Numbers at which lengths and counters go wrong.
const EDGES: [u64; 12] = [
    0,
    1,
    2,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0xffff_ffff_ffff_ffff,
];
/// Bytes with a meaning in texts.
const MARKS: &[u8] = b"=;, \t\n\r\0.:~-_/\"\\[]{}()0189azAZ#%\x80\xff";

/// Returns a mutation of a random input of the corpus.
pub(super) fn mutate(rng: &mut Rng, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut input = corpus.get(rng.index(corpus.len())).cloned().unwrap_or_default();
    for _ in 0..rng.range(1, MAX_STEPS) {
        step(rng, &mut input, corpus);
    }
    input.truncate(MAX_INPUT);
    input
}

fn step(rng: &mut Rng, input: &mut Vec<u8>, corpus: &[Vec<u8>]) {
    let at = rng.index(input.len() + 1);
    match rng.below(10) {
        0 => input.truncate(at),
        1 => {
            let range = range(rng, input.len());
            input.drain(range);
        }
        2 => {
            let bytes: Vec<u8> = (0..rng.range(1, 9)).map(|_| rng.word() as u8).collect();
            insert(input, at, &bytes);
        }
        3 => {
            let copy = input[range(rng, input.len())].to_vec();
            insert(input, at, &copy);
        }
        4 => {
            // The beginning of this one and the end of another one.
            if let Some(other) = corpus.get(rng.index(corpus.len())) {
                input.truncate(at);
                input.extend_from_slice(&other[rng.index(other.len() + 1)..]);
            }
        }
        5 => {
            if let Some(other) = corpus.get(rng.index(corpus.len())) {
                insert(input, at, &other[range(rng, other.len())]);
            }
        }
        6 => insert(input, at, &[rng.pick(MARKS)]),
        7 => overwrite(rng, input),
        8 => change(input, at, |b| b ^ 1 << rng.below(8)),
        _ => {
            let new = if rng.one_in(2) { rng.pick(MARKS) } else { rng.word() as u8 };
            change(input, at, |_| new);
        }
    }
}

fn range(rng: &mut Rng, len: usize) -> std::ops::Range<usize> {
    let start = rng.index(len + 1);
    start..start + rng.index(len - start + 1)
}

fn insert(input: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if input.len() + bytes.len() <= MAX_INPUT {
        input.splice(at..at, bytes.iter().copied());
    }
}

fn change(input: &mut [u8], at: usize, to: impl FnOnce(u8) -> u8) {
    if let Some(byte) = input.get_mut(at) {
        *byte = to(*byte);
    }
}

/// Overwrites an integer of 1 to 8 bytes by an edge, by the input's length, or by one that differs
/// little.
fn overwrite(rng: &mut Rng, input: &mut [u8]) {
    let width = 1 << rng.below(4);
    let start = rng.index(input.len().saturating_sub(width) + 1);
    let len = input.len() as u64;
    let Some(place) = input.get_mut(start..start + width) else { return };
    let mut old = [0; 8];
    old[..width].copy_from_slice(place);
    let old = u64::from_le_bytes(old);
    let new = match rng.below(4) {
        0 => rng.pick(&EDGES),
        1 => len.wrapping_sub(rng.below(9)),
        2 => old.wrapping_add(rng.range(1, 8)),
        _ => old.wrapping_sub(rng.range(1, 8)),
    };
    let (mut little, big) = (new.to_le_bytes(), new.to_be_bytes());
    if rng.one_in(4) {
        little[..width].copy_from_slice(&big[8 - width..]);
    }
    place.copy_from_slice(&little[..width]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_of_all_lengths_are_mutated() {
        let corpus = [vec![], vec![1], vec![7; MAX_INPUT]];
        let mut rng = Rng::new(5);
        for _ in 0..2_000 {
            assert!(mutate(&mut rng, &corpus).len() <= MAX_INPUT);
        }
        assert!(mutate(&mut rng, &[]).len() <= MAX_INPUT);
    }

    #[test]
    fn every_byte_of_an_input_is_reached() {
        let mut rng = Rng::new(1);
        let seed = [(1..9).collect::<Vec<u8>>()];
        let mut left: Vec<usize> = (0..8).collect();
        for _ in 0..10_000 {
            let new = mutate(&mut rng, &seed);
            left.retain(|&at| new.get(at) == seed[0].get(at));
        }
        assert!(left.is_empty(), "{left:?}");
    }
}
