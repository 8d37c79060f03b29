//! Segments against a naive model: a datatype as the plain list of its bytes' offsets.

use core::ptr;

use proptest::prelude::*;

use super::*;

/// A datatype's description, from which both the datatype and the model are built.
#[derive(Clone, Debug)]
pub(super) enum Tree {
    Bytes(usize),
    Vector(usize, usize, i64, Box<Tree>),
    Indexed(Vec<(i64, usize)>, Box<Tree>),
    Structure(Vec<(i64, usize, Tree)>),
    Resized(i64, i64, Box<Tree>),
}

/// Offsets in packed order, and the bounds by MPI's definition (`None`: no bytes, no markers).
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    pub offs: Vec<i64>,
    bounds: Option<(i64, i64)>,
}

impl Model {
    pub fn extent(&self) -> i64 {
        self.bounds.map_or(0, |(lo, hi)| hi - lo)
    }

    fn add(&mut self, child: &Model, disp: i64) {
        self.offs.extend(child.offs.iter().map(|o| o + disp));
        if let Some((lo, hi)) = child.bounds {
            let (lo, hi) = (lo + disp, hi + disp);
            self.bounds = Some(self.bounds.map_or((lo, hi), |(a, b)| (a.min(lo), b.max(hi))));
        }
    }

    pub fn array(&self, count: usize) -> Model {
        let mut all = Model::default();
        for i in 0..count as i64 {
            all.add(self, i * self.extent());
        }
        all
    }
}

impl Tree {
    pub fn model(&self) -> Model {
        let mut m = Model::default();
        match self {
            Tree::Bytes(0) => {}
            Tree::Bytes(n) => {
                m = Model { offs: (0..*n as i64).collect(), bounds: Some((0, *n as i64)) };
            }
            Tree::Vector(count, blocklen, stride, child) => {
                let block = child.model().array(*blocklen);
                for i in 0..*count as i64 {
                    m.add(&block, i * stride);
                }
            }
            Tree::Indexed(blocks, child) => {
                let child = child.model();
                for (disp, count) in blocks {
                    m.add(&child.array(*count), *disp);
                }
            }
            Tree::Structure(fields) => {
                for (disp, count, child) in fields {
                    m.add(&child.model().array(*count), *disp);
                }
            }
            Tree::Resized(lb, extent, child) => {
                m = Model { bounds: Some((*lb, lb + extent)), ..child.model() };
            }
        }
        m
    }

    pub fn datatype(&self) -> Arc<Datatype> {
        match self {
            Tree::Bytes(n) => Datatype::contiguous(*n),
            Tree::Vector(count, blocklen, stride, child) => {
                Datatype::vector(*count, *blocklen, *stride, &child.datatype())
            }
            Tree::Indexed(blocks, child) => Datatype::indexed(blocks, &child.datatype()),
            Tree::Structure(fields) => {
                let fields: Vec<_> = fields.iter().map(|(d, n, child)| (*d, *n, child.datatype())).collect();
                Datatype::structure(&fields)
            }
            Tree::Resized(lb, extent, child) => Datatype::resized(*lb, *extent, &child.datatype()),
        }
        .unwrap()
    }
}

/// Displacements and strides; often small, so that blocks touch and overlap.
fn disp() -> impl Strategy<Value = i64> {
    prop_oneof![-8i64..9, -70i64..70]
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![0usize..10, Just(16), Just(24), Just(32), Just(64), Just(70)];
    leaf.prop_map(Tree::Bytes).prop_recursive(4, 24, 3, |child| {
        let boxed = child.clone().prop_map(Box::new);
        prop_oneof![
            (0usize..5, 0usize..4, disp(), boxed.clone())
                .prop_map(|(n, len, stride, c)| Tree::Vector(n, len, stride, c)),
            (prop::collection::vec((disp(), 0usize..4), 0..5), boxed.clone())
                .prop_map(|(blocks, c)| Tree::Indexed(blocks, c)),
            prop::collection::vec((disp(), 0usize..3, child), 0..4).prop_map(Tree::Structure),
            (disp(), 0i64..90, boxed).prop_map(|(lb, extent, c)| Tree::Resized(lb, extent, c)),
        ]
    })
}

/// Memory that just covers the offsets of a model, and the model's offsets into it.
pub(super) struct Memory {
    pub bytes: Vec<u8>,
    origin: i64,
    pub at: Vec<usize>,
}

impl Memory {
    pub fn for_offsets(offs: &[i64], fill: impl Fn(usize) -> u8) -> Memory {
        let lo = offs.iter().copied().min().unwrap_or(0);
        let hi = offs.iter().copied().max().map_or(0, |o| o + 1);
        let bytes = (0..(hi - lo) as usize).map(fill).collect();
        Memory { bytes, origin: -lo, at: offs.iter().map(|o| (o - lo) as usize).collect() }
    }

    /// Returns the address of the elements.
    pub fn base(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr().wrapping_offset(self.origin as isize)
    }

    pub fn segment(&mut self, ty: &Arc<Datatype>, count: usize) -> Segment {
        let base = self.base();
        // SAFETY: the memory covers every offset of the type, and outlives the segment in each
        // test, which does not access it meanwhile.
        unsafe { Segment::typed(base, ty, count) }
    }

    pub fn packed(&self) -> Vec<u8> {
        self.at.iter().map(|&i| self.bytes[i]).collect()
    }

    /// Makes a byte that is described more than once what it has become, if that is one of the
    /// values that `data` has for it from `start` on.
    pub fn settle(&self, start: usize, data: &[u8], want: &mut [u8]) {
        for (&at, &value) in self.at.iter().zip(data).skip(start) {
            if self.bytes[at] == value {
                want[at] = value;
            }
        }
    }
}

pub(super) fn noise(i: usize) -> u8 {
    (i.wrapping_mul(2_654_435_761) >> 7) as u8
}

fn config() -> ProptestConfig {
    let cases = if cfg!(miri) { 16 } else { 1500 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

const MAX_MODEL: usize = 1 << 15;

proptest! {
    #![proptest_config(config())]

    #[test]
    fn bounds_and_sizes_agree(tree in tree(), count in 0usize..4) {
        let (model, ty) = (tree.model(), tree.datatype());
        prop_assert_eq!(ty.size(), model.offs.len());
        prop_assert_eq!(ty.extent(), model.extent());
        let (lo, hi) = model.bounds.unwrap_or((0, 0));
        prop_assert_eq!((ty.lower_bound(), ty.upper_bound()), (lo, hi));
        let all = model.array(count);
        let span = ty.span(count).unwrap();
        prop_assert_eq!(span.start, all.offs.iter().copied().min().unwrap_or(0));
        prop_assert_eq!(span.end, all.offs.iter().copied().max().map_or(0, |o| o + 1));
        let two = model.array(2).offs;
        prop_assert_eq!(ty.is_contiguous(), two.windows(2).all(|w| w[1] == w[0] + 1));
    }

    #[test]
    fn pack_in_pieces(
        tree in tree(),
        count in 0usize..4,
        pieces in prop::collection::vec(1usize..90, 1..20),
        cut in prop::option::of(0usize..400),
    ) {
        let (all, ty) = (tree.model().array(count), tree.datatype());
        prop_assume!(all.offs.len() <= MAX_MODEL);
        let mut mem = Memory::for_offsets(&all.offs, noise);
        let mut want = mem.packed();
        let mut seg = mem.segment(&ty, count);
        prop_assert_eq!(seg.total(), want.len());
        if let Some(cut) = cut {
            want.truncate(cut);
            seg.truncate(cut);
        }
        let mut got = Vec::new();
        for (i, &piece) in pieces.iter().cycle().enumerate() {
            prop_assert_eq!(seg.pos(), got.len());
            prop_assert_eq!(seg.remaining(), want.len() - got.len());
            prop_assert_eq!(seg.is_done(), got.len() == want.len());
            let n = if i % 2 == 0 {
                let mut buf = vec![0; piece];
                let n = seg.pack(&mut buf);
                got.extend_from_slice(&buf[..n]);
                n
            } else {
                seg.pack_vec(piece, &mut got)
            };
            prop_assert_eq!(n, piece.min(n + seg.remaining()));
            if seg.is_done() {
                break;
            }
        }
        prop_assert_eq!(got, want);
    }

    #[test]
    fn unpack_in_pieces_touches_nothing_else(
        tree in tree(),
        count in 0usize..4,
        start in any::<prop::sample::Index>(),
        pieces in prop::collection::vec(1usize..90, 1..20),
    ) {
        let (all, ty) = (tree.model().array(count), tree.datatype());
        prop_assume!(all.offs.len() <= MAX_MODEL);
        let mut mem = Memory::for_offsets(&all.offs, |_| 0xEE);
        let data: Vec<u8> = (0..all.offs.len()).map(noise).collect();
        let start = start.index(data.len() + 1);
        let mut want = mem.bytes.clone();
        for i in start..data.len() {
            want[mem.at[i]] = data[i];
        }
        let mut seg = mem.segment(&ty, count);
        seg.seek(start);
        for piece in pieces.iter().cycle() {
            let at = seg.pos();
            let end = data.len().min(at + piece);
            prop_assert_eq!(seg.unpack(RxBytes::from_slice(&data[at..end])), end - at);
            if seg.is_done() {
                break;
            }
        }
        prop_assert_eq!(seg.unpack(RxBytes::from_slice(&[1, 2, 3])), 0);
        mem.settle(start, &data, &mut want);
        prop_assert_eq!(mem.bytes, want);
    }

    #[test]
    fn iovecs_cover_the_same_bytes(
        tree in tree(),
        count in 0usize..4,
        start in any::<prop::sample::Index>(),
        limits in prop::collection::vec((1usize..90, 1usize..9), 1..20),
    ) {
        let (all, ty) = (tree.model().array(count), tree.datatype());
        prop_assume!(all.offs.len() <= MAX_MODEL);
        let mut mem = Memory::for_offsets(&all.offs, noise);
        let at = mem.at.clone();
        let mut seg = mem.segment(&ty, count);
        let origin = mem.bytes.as_ptr().addr();
        seg.seek(start.index(at.len() + 1));
        for &(max_bytes, max_iov) in limits.iter().cycle() {
            let mut out = [IoVec::EMPTY; 8];
            let out = &mut out[..max_iov.min(8)];
            let pos = seg.pos();
            let (n, bytes) = seg.next_iovecs(max_bytes, out);
            prop_assert_eq!(seg.pos(), pos);
            prop_assert!(out[..n].iter().all(|v| v.len > 0));
            let covered: Vec<usize> = out[..n]
                .iter()
                .flat_map(|v| (0..v.len).map(move |i| v.base.addr() + i - origin))
                .collect();
            prop_assert_eq!(&covered[..], &at[pos..pos + bytes]);
            for w in out[..n].windows(2) {
                prop_assert!(w[0].base.addr() + w[0].len != w[1].base.addr());
            }
            prop_assert!(bytes == max_bytes.min(seg.remaining()) || n == out.len());
            let contiguous = at[pos..].windows(2).all(|w| w[1] == w[0] + 1);
            match seg.as_contig() {
                Some((ptr, len)) => {
                    prop_assert!(contiguous);
                    prop_assert_eq!(len, seg.remaining());
                    prop_assert!(len == 0 || ptr.addr() - origin == at[pos]);
                }
                None => prop_assert!(!contiguous),
            }
            if seg.is_done() {
                prop_assert_eq!((n, bytes), (0, 0));
                break;
            }
            prop_assert!(bytes > 0);
            seg.advance(bytes);
        }
    }

    #[test]
    fn lists_of_pieces(
        lens in prop::collection::vec(0usize..20, 0..8),
        pieces in prop::collection::vec(1usize..30, 1..9),
        start in any::<prop::sample::Index>(),
    ) {
        let mut objects: Vec<Vec<u8>> =
            lens.iter().enumerate().map(|(k, &n)| (0..n).map(|i| noise(i + 100 * k)).collect()).collect();
        let flat = objects.concat();
        let list = |objects: &mut Vec<Vec<u8>>| -> Vec<IoVec> {
            objects.iter_mut().map(|o| IoVec { base: o.as_mut_ptr(), len: o.len() }).collect()
        };
        // SAFETY: the objects outlive the segment and are not accessed before its last use.
        let mut seg = unsafe { Segment::iovecs(list(&mut objects)) };
        prop_assert_eq!(seg.total(), flat.len());
        let start = start.index(flat.len() + 1);
        seg.seek(start);
        let mut got = Vec::new();
        for &piece in pieces.iter().cycle() {
            let mut out = [IoVec::EMPTY; 2];
            let (n, bytes) = seg.next_iovecs(piece, &mut out);
            prop_assert_eq!(out[..n].iter().map(|v| v.len).sum::<usize>(), bytes);
            prop_assert!(bytes == piece.min(seg.remaining()) || n == 2);
            if bytes > 0 {
                // SAFETY: this is the first byte of a piece that the segment describes.
                prop_assert_eq!(unsafe { *out[0].base }, flat[seg.pos()]);
            }
            seg.pack_vec(piece, &mut got);
            if seg.is_done() {
                break;
            }
        }
        prop_assert_eq!(&got[..], &flat[start..]);
        // SAFETY: as above.
        let mut seg = unsafe { Segment::iovecs(list(&mut objects)) };
        let data: Vec<u8> = flat.iter().map(|b| !b).collect();
        let mut at = 0;
        for &piece in pieces.iter().cycle() {
            at += seg.unpack(RxBytes::from_slice(&data[at..data.len().min(at + piece)]));
            if seg.is_done() {
                break;
            }
        }
        prop_assert_eq!(objects.concat(), data);
    }
}

/// Every block length with a copy loop of its own, and some without.
#[test]
fn vectors_of_small_blocks() {
    for len in (1..=33).chain([64, 65, 100]) {
        let child = Datatype::contiguous(len).unwrap();
        let ty = Datatype::vector(37, 1, len as i64 + 3, &child).unwrap();
        let offs: Vec<i64> =
            (0..37).flat_map(|b| (0..len).map(move |i| (b * (len + 3) + i) as i64)).collect();
        let mut mem = Memory::for_offsets(&offs, noise);
        let want = mem.packed();
        let mut got = vec![0; want.len()];
        let mut seg = mem.segment(&ty, 1);
        let head = want.len() / 2 + 1;
        assert_eq!(seg.pack(&mut got[..head]), head);
        assert_eq!(seg.pack(&mut got[head..]), want.len() - head);
        assert_eq!(got, want, "blocks of {len}");
    }
}

/// Packs and unpacks elements as a whole.
fn check_whole(tree: &Tree, count: usize) {
    let (all, ty) = (tree.model().array(count), tree.datatype());
    let mut mem = Memory::for_offsets(&all.offs, noise);
    let mut packed = vec![0; all.offs.len()];
    assert_eq!(mem.segment(&ty, count).pack(&mut packed), packed.len());
    assert_eq!(packed, mem.packed(), "{count} of {tree:?}");
    let mut want = vec![0xEE; mem.bytes.len()];
    mem.at.iter().zip(&packed).for_each(|(&at, &byte)| want[at] = byte);
    mem.bytes.fill(0xEE);
    assert_eq!(mem.segment(&ty, count).unpack(RxBytes::from_slice(&packed)), packed.len());
    assert_eq!(mem.bytes, want, "{count} of {tree:?}");
}

/// Every two short lengths have a loop of their own.
#[test]
fn elements_of_short_runs() {
    for first in 1..=17 {
        for second in 1..=17 {
            let at = [0, first as i64 + 3, (first + second) as i64 + 5];
            let mut fields = vec![
                (at[0], 1, Tree::Bytes(first)),
                (at[1], 1, Tree::Bytes(second)),
                (at[2], 1, Tree::Bytes(5)),
            ];
            check_whole(&Tree::Structure(fields.clone()), 4);
            fields.truncate(2);
            check_whole(&Tree::Structure(fields), 5);
        }
    }
}

/// Short rows have a loop for each number of blocks.
#[test]
fn rows_of_small_blocks() {
    for (len, stride) in [(4, 9), (8, 16), (8, -11), (12, 13)] {
        for count in 2..=10 {
            let row = Tree::Vector(count, 1, stride, Box::new(Tree::Bytes(len)));
            let rows = Tree::Resized(0, 200, Box::new(row));
            check_whole(&Tree::Vector(7, 1, 200, Box::new(rows.clone())), 1);
            check_whole(&rows, 3);
        }
    }
}

#[test]
fn contiguous_segments_copy_and_clamp() {
    let mut mem = *b"0123456789";
    // SAFETY: `mem` outlives the segment and is not accessed meanwhile.
    let mut seg = unsafe { Segment::contig(mem.as_mut_ptr(), 10) };
    seg.truncate(8);
    seg.advance(3);
    assert_eq!(seg.as_contig(), Some((mem.as_mut_ptr().wrapping_add(3), 5)));
    // SAFETY: as above.
    let mut seg = unsafe { Segment::contig(mem.as_mut_ptr(), 10) };
    seg.truncate(8);
    seg.seek(3);
    let mut two = [0; 2];
    assert_eq!((seg.pack(&mut two), &two), (2, b"34"));
    assert_eq!(seg.unpack(RxBytes::from_slice(b"abcdef")), 3);
    assert!(seg.is_done());
    seg.seek(usize::MAX);
    seg.advance(usize::MAX);
    assert_eq!((seg.pos(), seg.remaining(), seg.total()), (8, 0, 8));
    seg.truncate(2);
    assert_eq!((seg.pos(), seg.total()), (2, 2));
    assert_eq!(&mem, b"01234abc89");
}

#[test]
fn empty_segments() {
    const EMPTY: Segment = Segment::empty();
    assert_eq!(EMPTY.total(), 0);
    let gap = Datatype::resized(0, 100, &Datatype::contiguous(0).unwrap()).unwrap();
    // SAFETY: no bytes are described.
    let none = unsafe {
        [
            Segment::default(),
            Segment::contig(ptr::null_mut(), 0),
            Segment::typed(ptr::null_mut(), &gap, 5),
            Segment::typed(ptr::null_mut(), &Datatype::contiguous(8).unwrap(), 0),
            Segment::iovecs(vec![IoVec::EMPTY; 3]),
        ]
    };
    for mut seg in none {
        assert!(seg.is_done());
        assert_eq!(seg.pack(&mut [0; 4]), 0);
        assert_eq!(seg.unpack(RxBytes::from_slice(&[1])), 0);
        assert_eq!(seg.next_iovecs(9, &mut [IoVec::EMPTY]), (0, 0));
        let (ptr, len) = seg.as_contig().unwrap();
        assert!(!ptr.is_null() && len == 0);
    }
}

#[test]
fn one_piece_is_contiguous_whatever_its_type() {
    let mut mem = [7u8; 64];
    let int = Datatype::contiguous(4).unwrap();
    let rows = Datatype::vector(4, 2, 8, &int).unwrap();
    let apart = Datatype::vector(4, 1, 8, &int).unwrap();
    let base = mem.as_mut_ptr();
    // SAFETY: `mem` outlives the segments; both types span at most 32 bytes an element.
    let (one, mut other) = unsafe { (Segment::typed(base, &rows, 2), Segment::typed(base, &apart, 1)) };
    assert!(matches!(one.layout, Layout::Contig));
    assert_eq!(one.as_contig(), Some((base, 64)));
    assert_eq!(other.as_contig(), None);
    other.seek(12);
    assert_eq!(other.as_contig(), Some((base.wrapping_add(24), 4)));
}

#[test]
fn past_the_caches_arrives_the_same() {
    let src: Vec<u8> = (0..400u32).map(|i| (i * 7 + 3) as u8).collect();
    for at in 0..65 {
        for len in [0, 1, 15, 63, 64, 65, 127, 128, 200, 300] {
            let (mut got, mut want) = ([0xaa_u8; 400], [0xaa_u8; 400]);
            want[at..at + len].copy_from_slice(&src[at % 7..][..len]);
            // SAFETY: `got` outlives the segment and is not accessed meanwhile.
            let mut seg = unsafe { Segment::contig(got.as_mut_ptr().add(at), len) };
            // In two parts, and with more bytes than remain.
            let (a, b) = (&src[at % 7..][..len / 3], &src[at % 7..][len / 3..]);
            let n = seg.unpack_nontemporal(RxBytes::from_slice(a));
            assert_eq!((n, seg.unpack_nontemporal(RxBytes::from_slice(b))), (len / 3, len - len / 3));
            assert!(seg.is_done());
            assert_eq!(got, want, "{len} bytes at {at}");
        }
    }
    let (mut got, int) = ([0u8; 24], Datatype::contiguous(4).unwrap());
    let apart = Datatype::vector(3, 1, 8, &int).unwrap();
    // SAFETY: as above; the type spans 20 bytes.
    let mut seg = unsafe { Segment::typed(got.as_mut_ptr(), &apart, 1) };
    assert_eq!(seg.unpack_nontemporal(RxBytes::from_slice(&[9; 30])), 12);
    assert_eq!(got, [9, 9, 9, 9, 0, 0, 0, 0, 9, 9, 9, 9, 0, 0, 0, 0, 9, 9, 9, 9, 0, 0, 0, 0]);
}

#[test]
fn segments_are_small_and_can_move_between_threads() {
    fn send<T: Send>() -> usize {
        size_of::<T>()
    }
    assert!(send::<Segment>() <= 48);
}
