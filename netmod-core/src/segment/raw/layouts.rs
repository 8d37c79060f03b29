//! Many random layouts against the plain list of their bytes, cut anywhere; and layouts that are
//! larger than any memory.

use std::env;

use super::tests::{Memory, Tree, noise};
use super::*;

/// Numbers from a seed (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `n`.
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// Returns a number from `lo` to `hi`.
    fn within(&mut self, lo: i64, hi: i64) -> i64 {
        lo + self.below((hi - lo + 1) as usize) as i64
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// Returns a distance for parts with this extent: dense, with a small gap, far, or backwards.
    fn distance(&mut self, extent: i64) -> i64 {
        match self.below(6) {
            0 => extent,
            1 | 2 => extent + self.pick(&[1, 4, 8, 16]),
            3 => self.pick(&[256, 320, 1024]),
            4 => -extent - self.within(0, 9),
            _ => self.within(-20, 40),
        }
    }

    fn leaf(&mut self) -> Tree {
        let short = self.below(70);
        Tree::Bytes(self.pick(&[1, 2, 4, 8, 8, 16, 32, 64, short, short, 130, 200]))
    }

    fn tree(&mut self, depth: usize) -> Tree {
        if depth == 0 {
            return self.leaf();
        }
        let child = self.tree(depth - 1);
        let (extent, size) = (child.model().extent(), child.model().offs.len());
        let many = 1 + 2000 / size.max(20);
        let count = self.below(many + 1);
        match self.below(7) {
            0 | 1 => Tree::Vector(count, 1 + self.below(2), self.distance(extent), Box::new(child)),
            2 => {
                let mut at = self.within(-50, 50);
                let blocks = (0..count).map(|_| {
                    at += self.distance(extent);
                    (at, self.below(3))
                });
                Tree::Indexed(blocks.collect(), Box::new(child))
            }
            3 => {
                let (mut at, len) = (0, 1 + self.below(2));
                let blocks = (0..count).map(|_| {
                    at += extent.abs() + self.pick(&[0, 8, 24]);
                    (at, len)
                });
                Tree::Indexed(blocks.collect(), Box::new(child))
            }
            4 | 5 => {
                let (mut at, mut fields) = (0, Vec::new());
                for _ in 0..self.below(6) {
                    let field = if self.below(4) == 0 { child.clone() } else { self.leaf() };
                    let next = self.distance(field.model().extent());
                    fields.push((at, self.below(3), field));
                    at += next;
                }
                Tree::Structure(fields)
            }
            _ => Tree::Resized(self.within(-9, 9), self.distance(extent), Box::new(child)),
        }
    }
}

/// Longest data of a layout in bytes.
const LONGEST: usize = 40_000;

/// Moves the data of one random layout in pieces that are cut anywhere, or everywhere if it is
/// short.
fn check(seed: u64) {
    let mut r = Random(seed);
    let depth = r.below(4);
    let tree = r.tree(depth);
    let one = tree.model();
    let most = LONGEST / one.offs.len().max(1);
    let some = 1 + r.below(4);
    let count = r.pick(&[1, 1, some, 9, 300, 1200]).min(most);
    let (all, ty) = (one.array(count), tree.datatype());
    let (mut mem, n) = (Memory::for_offsets(&all.offs, noise), all.offs.len());
    if r.below(2) == 0 {
        ty.compile();
    }
    let about = |what: &str| format!("{what}, seed {seed}: {count} of {tree:?}");
    let want = mem.packed();
    let mut seg = mem.segment(&ty, count);
    assert_eq!(seg.total(), n, "{}", about("total"));
    let mut cuts: Vec<usize> = (0..3).map(|_| r.below(n + 1)).collect();
    if n < 200 {
        cuts = (0..=n).collect();
    }
    for &cut in &cuts {
        let mut got = vec![0; n];
        for (at, end) in [(0, cut), (cut, n)] {
            seg.seek(at);
            assert_eq!(seg.pack(&mut got[at..end]), end - at, "{}", about("packed bytes"));
        }
        assert!(got == want, "{}", about(&format!("pack, cut at {cut}")));
    }
    for kind in [StoreKind::Cached, StoreKind::NonTemporal] {
        let (cut, mut got) = (cuts[cuts.len() / 2], vec![0; n]);
        seg.seek(0);
        // SAFETY: the room is that of `got`, in two parts.
        let two = unsafe {
            let head = seg.pack_raw(got.as_mut_ptr(), cut, kind);
            (head, seg.pack_raw(got.as_mut_ptr().wrapping_add(cut), n - cut, kind))
        };
        assert!(two == (cut, n - cut) && got == want, "{}", about(&format!("{kind:?} stores")));
    }
    let mut got = vec![0; n + 1];
    // SAFETY: the memory covers the elements.
    let packed = unsafe { ty.pack(mem.base(), count, &mut got) };
    assert!(packed == n && got[..n] == want, "{}", about("pack without a segment"));
    let origin = mem.bytes.as_ptr().addr();
    for &cut in &cuts {
        seg.seek(cut);
        let mut out = [IoVec::EMPTY; 8];
        let (vecs, bytes) = seg.next_iovecs(r.pick(&[1, 100, usize::MAX]), &mut out);
        let covered = out[..vecs].iter().flat_map(|v| (0..v.len).map(|i| v.base.addr() - origin + i));
        assert!(
            covered.eq(mem.at[cut..cut + bytes].iter().copied()),
            "{}",
            about(&format!("iovecs from {cut}"))
        );
        assert!(bytes > 0 || cut == n, "{}", about(&format!("no iovecs from {cut}")));
    }
    let data: Vec<u8> = want.iter().map(|b| !b).collect();
    for &cut in &cuts {
        let mut mem = Memory::for_offsets(&all.offs, |_| 0xEE);
        let mut want = mem.bytes.clone();
        for (&at, &value) in mem.at.iter().zip(&data) {
            want[at] = value;
        }
        if cut == n {
            // SAFETY: the memory covers the elements.
            let unpacked = unsafe { ty.unpack(mem.base(), count, &data) };
            assert_eq!(unpacked, n, "{}", about("unpacked bytes"));
        } else {
            let mut seg = mem.segment(&ty, count);
            for part in [&data[..cut], &data[cut..]] {
                assert_eq!(seg.unpack(RxBytes::from_slice(part)), part.len(), "{}", about("unpacked bytes"));
            }
        }
        mem.settle(0, &data, &mut want);
        assert!(mem.bytes == want, "{}", about(&format!("unpack, cut at {cut}")));
    }
}

/// `NETMOD_TEST_LAYOUTS` is the number of layouts; `NETMOD_TEST_SEED` checks one alone.
#[test]
fn random_layouts() {
    let number = |name| env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    match number("NETMOD_TEST_SEED") {
        Some(seed) => check(seed),
        None => {
            let few = if cfg!(miri) { 10 } else { 4000 };
            (0..number("NETMOD_TEST_LAYOUTS").unwrap_or(few)).for_each(check);
        }
    }
}

/// Packs and unpacks 40 bytes around `pos` of a type whose byte there is `off` from the base;
/// `near` has the distances of the bytes from there.
fn check_far(ty: &Arc<Datatype>, count: usize, pos: usize, off: i64, near: &[isize]) {
    let mut memory: Vec<u8> = (0..400).map(noise).collect();
    let before = memory.clone();
    let here = memory.as_mut_ptr().wrapping_add(200);
    // SAFETY: of the elements only the bytes near the position are used, and they are in `memory`,
    // which is not accessed meanwhile.
    let mut seg = unsafe { Segment::typed(here.wrapping_offset(-off as isize), ty, count) };
    seg.seek(pos);
    let mut got = vec![0; near.len()];
    assert_eq!(seg.pack(&mut got), near.len());
    let at = |d: &isize| 200usize.wrapping_add_signed(*d);
    let want: Vec<u8> = near.iter().map(|d| before[at(d)]).collect();
    assert_eq!(got, want, "{pos} of {ty:?}");
    seg.seek(pos);
    let data: Vec<u8> = want.iter().map(|b| !b).collect();
    assert_eq!(seg.unpack(RxBytes::from_slice(&data)), near.len());
    let mut want = before;
    near.iter().for_each(|d| want[at(d)] = !want[at(d)]);
    assert_eq!(memory, want, "{pos} of {ty:?}");
}

#[test]
fn counts_and_offsets_beyond_32_bits() {
    let int = Datatype::contiguous(4).unwrap();
    let many = 1usize << 40;
    let near: Vec<isize> = (0..40).map(|i| i / 4 * 8 + i % 4).collect();
    let vector = Datatype::vector(many, 1, 8, &int).unwrap();
    let pos = (1 << 39) * 4;
    check_far(&vector, 1, pos, 1 << 42, &near);
    // In the middle of a block.
    let middle: Vec<isize> = near[3..].iter().map(|d| d - 3).collect();
    check_far(&vector, 1, pos + 3, (1 << 42) + 3, &middle);
    let wide = Datatype::resized(0, 8, &int).unwrap();
    check_far(&wide, many, pos, 1 << 42, &near);
    let back = Datatype::vector(many, 1, -8, &int).unwrap();
    let backwards: Vec<isize> = (0..40).map(|i| -(i / 4 * 8) + i % 4).collect();
    check_far(&back, 1, pos, -(1 << 42), &backwards);
    let far = [(1 << 40, 1), ((1 << 40) + 8, 1), ((1 << 40) + 20, 1), ((1 << 40) + 24, 2), (-(1 << 40), 1)];
    let indexed = Datatype::indexed(&far, &int).unwrap();
    check_far(&indexed, 1, 0, 1 << 40, &[0, 1, 2, 3, 8, 9, 10, 11, 20, 21, 22, 23, 24, 25, 26, 27]);
    let long: Vec<(i64, usize)> = (0..100).map(|i| ((1 << 40) + i * i * 8, 1)).collect();
    let long = Datatype::indexed(&long, &int).unwrap();
    check_far(&long, 1, 4, (1 << 40) + 8, &[0, 1, 2, 3, 24, 25, 26, 27, 64, 65, 66, 67, 120, 121]);
    check_far(&long, 7, 5, (1 << 40) + 9, &[0, 1, 2, 23, 24, 25, 26, 63]);
}
