//! Datatypes compared with the type maps that MPI defines, written out.

use std::sync::Arc;

use super::array::{
    DISTRIBUTE_BLOCK, DISTRIBUTE_CYCLIC, DISTRIBUTE_DFLT_DARG, DISTRIBUTE_NONE, ORDER_C, ORDER_FORTRAN,
};
use super::basic::{BASICS, basic};
use super::{Combiner, Contents, Darray, Form, TypeDesc};
use crate::error::Class;
use crate::handle::Datatype;

const INT: Datatype = Datatype(0x4c00_0405);
const DOUBLE: Datatype = Datatype(0x4c00_080b);
const CHAR: Datatype = Datatype(0x4c00_0101);

fn named(handle: Datatype) -> Arc<TypeDesc> {
    Arc::new(TypeDesc::named(basic(handle).unwrap()))
}

/// A type map: displacement and size of each basic element, and the markers of bounds.
#[derive(Clone, Debug, Default)]
struct Map {
    data: Vec<(i64, usize)>,
    lb: Option<i64>,
    ub: Option<i64>,
    /// End of the parts with their padding, which counts if no marker does.
    end: Option<i64>,
    align: usize,
}

impl Map {
    fn basic(handle: Datatype) -> Map {
        let b = basic(handle).unwrap();
        Map { data: vec![(0, b.size)], end: Some(b.size as i64), align: b.align, ..Map::default() }
    }

    fn lb(&self) -> i64 {
        self.lb.or(self.data.iter().map(|d| d.0).min()).unwrap_or(0)
    }

    fn ub(&self) -> i64 {
        self.ub.or(self.end).unwrap_or(0)
    }

    fn extent(&self) -> i64 {
        self.ub() - self.lb()
    }

    fn add(&mut self, disp: i64, other: &Map) {
        self.data.extend(other.data.iter().map(|(d, s)| (d + disp, *s)));
        let mark = |a: Option<i64>, b: Option<i64>, pick: fn(i64, i64) -> i64| match (a, b) {
            (Some(a), Some(b)) => Some(pick(a, b + disp)),
            (a, b) => a.or(b.map(|b| b + disp)),
        };
        self.lb = mark(self.lb, other.lb, i64::min);
        self.ub = mark(self.ub, other.ub, i64::max);
        self.end = mark(self.end, other.end, i64::max);
        self.align = self.align.max(other.align);
    }

    fn blocks(list: &[(i64, i64, &Map)]) -> Map {
        let mut all = Map::default();
        for (disp, count, child) in list {
            for i in 0..*count {
                all.add(disp + i * child.extent(), child);
            }
        }
        all
    }

    fn padded(mut self) -> Map {
        let extent = (self.extent() as usize).next_multiple_of(self.align.max(1)) as i64;
        self.end = self.end.map(|_| self.lb() + extent);
        self
    }

    /// The bytes of data in packed order.
    fn bytes(&self) -> Vec<i64> {
        self.data.iter().flat_map(|(d, s)| (0..*s as i64).map(move |i| d + i)).collect()
    }
}

/// The bytes of `count` elements in packed order, as a segment visits them.
#[allow(unsafe_code)]
fn visited(desc: &TypeDesc, count: usize) -> Vec<i64> {
    let span = desc.layout.span(count).unwrap();
    let len = usize::try_from(span.end - span.start).unwrap();
    let mut found: Vec<usize> = vec![0; desc.size() * count];
    // The place of a byte, one digit at a time.
    for digit in 0..3 {
        let mut memory: Vec<u8> = (0..len).map(|i| (i >> (8 * digit)) as u8).collect();
        let base = memory.as_mut_ptr().wrapping_offset(-(span.start as isize));
        let mut packed = vec![0; found.len()];
        // SAFETY: the memory has the whole span, and lives until the pack is over.
        let n = unsafe { netmod_core::Segment::typed(base, &desc.layout, count) }.pack(&mut packed);
        assert_eq!(n, packed.len());
        found.iter_mut().zip(&packed).for_each(|(f, p)| *f |= usize::from(*p) << (8 * digit));
    }
    found.into_iter().map(|f| f as i64 + span.start).collect()
}

fn check(desc: &TypeDesc, map: &Map, what: &str) {
    assert_eq!(desc.size(), map.bytes().len(), "{what}: size");
    assert_eq!((desc.lb(), desc.extent()), (map.lb(), map.extent()), "{what}: bounds");
    let bytes = map.bytes();
    if let (Some(lo), Some(hi)) = (bytes.iter().min(), bytes.iter().max()) {
        assert_eq!((desc.true_lb(), desc.true_extent()), (*lo, hi + 1 - lo), "{what}: true bounds");
    }
    let two: Vec<i64> = bytes.iter().copied().chain(bytes.iter().map(|b| b + map.extent())).collect();
    assert_eq!(visited(desc, 2), two, "{what}: bytes");
    assert_eq!(desc.signature.elements(), map.data.len() as u64, "{what}: elements");
    let (mut before, mut elements) = (0, 0);
    for (_, size) in map.data.iter().chain(&map.data) {
        assert_eq!(desc.elements_of(before), Some(elements), "{what}: elements in {before} bytes");
        if *size > 1 {
            assert_eq!(desc.elements_of(before + 1), None, "{what}: elements in {before} + 1 bytes");
        }
        before += *size as u64;
        elements += 1;
    }
}

/// A generator of small numbers.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, n: i64) -> i64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as i64 % n
    }
}

fn random(d: &mut Dice, depth: u32) -> (Arc<TypeDesc>, Map) {
    if depth == 0 {
        let handle = [INT, DOUBLE, CHAR][d.roll(3) as usize];
        return (named(handle), Map::basic(handle));
    }
    let (t, m) = random(d, depth - 1);
    let n = d.roll(4) as usize;
    let lens: Vec<i64> = (0..n).map(|_| d.roll(3)).collect();
    let disps: Vec<i64> = (0..n).map(|_| d.roll(9) - 4).collect();
    let (count, len, stride) = (d.roll(4), d.roll(4), d.roll(9) - 4);
    let every = |step: i64| Map::blocks(&(0..count).map(|i| (i * step, len, &m)).collect::<Vec<_>>());
    let listed = |unit: i64, same: Option<i64>| {
        let one = |(l, p): (&i64, &i64)| (p * unit, same.unwrap_or(*l), &m);
        Map::blocks(&lens.iter().zip(&disps).map(one).collect::<Vec<_>>())
    };
    let form = Form::Int;
    let (desc, map) = match d.roll(10) {
        0 => (TypeDesc::contiguous(count, &t, form), Map::blocks(&[(0, count, &m)])),
        1 => (TypeDesc::vector(count, len, stride, &t, form), every(stride * m.extent())),
        2 => (TypeDesc::hvector(count, len, stride * 5, &t, form), every(stride * 5)),
        3 => (TypeDesc::indexed(&lens, &disps, &t, form), listed(m.extent(), None)),
        4 => (TypeDesc::hindexed(&lens, &disps, &t, form), listed(1, None)),
        5 => (TypeDesc::indexed_block(len, &disps, &t, form), listed(m.extent(), Some(len))),
        6 => (TypeDesc::hindexed_block(len, &disps, &t, form), listed(1, Some(len))),
        7 => (Ok(TypeDesc::dup(&t, form)), m.clone()),
        8 => {
            let (lb, extent) = (stride, d.roll(40));
            let map = Map { lb: Some(lb), ub: Some(lb + extent), ..m.clone() };
            (TypeDesc::resized(lb, extent, &t, form), map)
        }
        _ => {
            let (u, o) = random(d, depth - 1);
            let at = 8 + d.roll(60);
            let map = Map::blocks(&[(disps.len() as i64, len, &m), (at, count, &o)]);
            let desc = TypeDesc::structure(&[len, count], &[disps.len() as i64, at], &[t, u], form);
            let map = if map.ub.is_none() { map.padded() } else { map };
            (desc, map)
        }
    };
    (Arc::new(desc.unwrap()), map)
}

#[test]
fn random_types_are_their_type_maps() {
    let mut d = Dice(88_172_645_463_325_252);
    let mut seen = 0;
    while seen < 3000 {
        let depth = 1 + d.roll(3) as u32;
        let (t, m) = random(&mut d, depth);
        if m.data.len() < 400 {
            check(&t, &m, &format!("type {seen}: {m:?}"));
            seen += 1;
        }
    }
}

#[test]
fn predefined_types() {
    for b in BASICS {
        let t = TypeDesc::named(b);
        assert_eq!((t.size(), t.extent()), (b.size, b.extent() as i64), "{}", b.name);
        assert_eq!(t.envelope.combiner, Combiner::Named);
    }
    let pair = named(Datatype(0x8c00_0001));
    assert_eq!((pair.size(), pair.extent(), pair.true_extent()), (12, 16, 12));
    assert_eq!(pair.elements_of(8), Some(1));
    assert_eq!(pair.count_of(24), Some(2));
    assert_eq!(pair.count_of(23), None);
}

#[test]
fn a_struct_is_padded_as_by_a_compiler() {
    let t =
        TypeDesc::structure(&[1, 1, 3], &[0, 8, 16], &[named(INT), named(DOUBLE), named(CHAR)], Form::Int);
    let t = t.unwrap();
    assert_eq!((t.size(), t.extent(), t.true_extent()), (15, 24, 19));
}

/// The elements of an array that a subarray or darray has, by their definition.
fn picked(sizes: &[i64], order: i32, has: impl Fn(&[i64]) -> bool) -> Vec<i64> {
    let total: i64 = sizes.iter().product();
    let index = |mut at: i64| {
        let mut v = vec![0; sizes.len()];
        let mut dims: Vec<usize> = (0..sizes.len()).collect();
        if order == ORDER_C {
            dims.reverse();
        }
        for i in dims {
            v[i] = at % sizes[i];
            at /= sizes[i];
        }
        v
    };
    (0..total).filter(|at| has(&index(*at))).collect()
}

fn check_array(t: &TypeDesc, old: i64, total: i64, elements: &[i64], what: &str) {
    assert_eq!((t.lb(), t.extent()), (0, total * old), "{what}");
    let bytes: Vec<i64> = elements.iter().flat_map(|e| (0..old).map(move |i| e * old + i)).collect();
    assert_eq!(visited(t, 1), bytes, "{what}");
}

#[test]
fn subarrays_are_their_definition() {
    let int = named(INT);
    for order in [ORDER_C, ORDER_FORTRAN] {
        let (sizes, subs, starts) = ([4, 5, 6], [2, 3, 4], [1, 0, 2]);
        let t = TypeDesc::subarray(&sizes, &subs, &starts, order, &int, Form::Int).unwrap();
        let has = |v: &[i64]| (0..3).all(|i| (starts[i]..starts[i] + subs[i]).contains(&v[i]));
        check_array(&t, 4, 120, &picked(&sizes, order, has), &format!("order {order}"));
    }
    let e = TypeDesc::subarray(&[4], &[2], &[3], ORDER_C, &int, Form::Int).unwrap_err();
    assert_eq!(e.class, Class::ARG);
}

#[test]
fn darrays_are_their_definition() {
    let int = named(INT);
    let gsizes = [7, 5, 9];
    let psizes = [2, 1, 3];
    let kinds = [
        [
            (DISTRIBUTE_BLOCK, DISTRIBUTE_DFLT_DARG),
            (DISTRIBUTE_NONE, DISTRIBUTE_DFLT_DARG),
            (DISTRIBUTE_CYCLIC, 2),
        ],
        [(DISTRIBUTE_CYCLIC, DISTRIBUTE_DFLT_DARG), (DISTRIBUTE_CYCLIC, 3), (DISTRIBUTE_BLOCK, 4)],
        [(DISTRIBUTE_CYCLIC, 3), (DISTRIBUTE_BLOCK, 5), (DISTRIBUTE_CYCLIC, 4)],
    ];
    for (kind, order) in kinds.iter().flat_map(|k| [(k, ORDER_C), (k, ORDER_FORTRAN)]) {
        let mut all = Vec::new();
        for rank in 0..6 {
            let coords = [rank / 3, 0, rank % 3];
            let owner = |i: usize, at: i64| {
                let p = psizes[i] as i64;
                match kind[i] {
                    (DISTRIBUTE_BLOCK, DISTRIBUTE_DFLT_DARG) => at / ((gsizes[i] + p - 1) / p),
                    (DISTRIBUTE_BLOCK, len) => at / i64::from(len),
                    (DISTRIBUTE_CYCLIC, DISTRIBUTE_DFLT_DARG) => at % p,
                    (DISTRIBUTE_CYCLIC, len) => at / i64::from(len) % p,
                    _ => 0,
                }
            };
            let has = |v: &[i64]| (0..3).all(|i| owner(i, v[i]) == i64::from(coords[i]));
            let args = Darray {
                size: 6,
                rank,
                gsizes: &gsizes,
                distribs: &kind.map(|k| k.0),
                dargs: &kind.map(|k| k.1),
                psizes: &psizes,
                order,
            };
            let t = TypeDesc::darray(&args, &int, Form::Int).unwrap();
            let elements = picked(&gsizes, order, has);
            check_array(&t, 4, 315, &elements, &format!("{kind:?} order {order} rank {rank}"));
            all.extend(elements);
        }
        all.sort_unstable();
        assert_eq!(all, (0..315).collect::<Vec<i64>>(), "every element has one owner");
    }
}

#[test]
fn contents_are_the_arguments() {
    let int = named(INT);
    let made = |form| TypeDesc::hindexed(&[1, 2], &[30, -7], &int, form).unwrap();
    let of = |form| made(form).envelope;
    let e = of(Form::Int);
    assert_eq!(e.combiner, Combiner::Hindexed);
    assert_eq!(e.contents(), Contents { integers: vec![2, 1, 2], addresses: vec![30, -7], counts: vec![] });
    assert!(Arc::ptr_eq(&made(Form::Int).parts[0], &int));
    let large = Contents { integers: vec![], addresses: vec![], counts: vec![2, 1, 2, 30, -7] };
    assert_eq!(of(Form::Count).contents(), large);
    let sub = TypeDesc::subarray(&[4, 5], &[2, 2], &[0, 1], ORDER_C, &int, Form::Count).unwrap();
    let want = Contents { integers: vec![2, ORDER_C], addresses: vec![], counts: vec![4, 5, 2, 2, 0, 1] };
    assert_eq!(sub.envelope.contents(), want);
}

#[test]
fn bad_arguments_have_mpis_class() {
    let int = named(INT);
    let class = |r: crate::error::Result<TypeDesc>| r.unwrap_err().class;
    assert_eq!(class(TypeDesc::contiguous(-1, &int, Form::Int)), Class::COUNT);
    assert_eq!(class(TypeDesc::vector(1, -1, 1, &int, Form::Int)), Class::ARG);
    assert_eq!(class(TypeDesc::contiguous(i64::MAX, &int, Form::Count)), Class::COUNT);
    assert_eq!(class(TypeDesc::hvector(3, 1, i64::MAX, &int, Form::Int)), Class::ARG);
    assert_eq!(class(TypeDesc::indexed(&[1], &[0, 1], &int, Form::Int)), Class::ARG);
    assert_eq!(class(TypeDesc::subarray(&[], &[], &[], ORDER_C, &int, Form::Int)), Class::ARG);
    assert_eq!(class(TypeDesc::subarray(&[2], &[1], &[0], 3, &int, Form::Int)), Class::ARG);
}

#[test]
fn markers_of_mpi_1_set_one_bound_each() {
    let (int, lb, ub) = (named(INT), named(Datatype(0x4c00_0010)), named(Datatype(0x4c00_0011)));
    let made = |displs: &[i64], parts: &[Arc<TypeDesc>]| {
        let made = TypeDesc::structure(&vec![1; displs.len()], displs, parts, Form::Int).unwrap();
        ((made.lb(), made.extent(), made.size()), Arc::new(made))
    };
    let (bounds, both) = made(&[-3, 0, 6], &[lb.clone(), int.clone(), ub.clone()]);
    assert_eq!(bounds, (-3, 9, 4));
    assert_eq!(made(&[10], std::slice::from_ref(&lb)).0, (10, -10, 0), "without data the other bound is 0");
    assert_eq!(made(&[0, 9], &[int.clone(), ub.clone()]).0, (0, 9, 4), "no padding behind a marker");
    assert_eq!(made(&[-5, 0], &[lb, int.clone()]).0, (-5, 12, 4), "padded to whole integers");
    // A bound that was set counts alone, also that of a part.
    assert_eq!(made(&[100, 0], &[int, both.clone()]).0, (-3, 9, 8));
    let row = TypeDesc::contiguous(3, &both, Form::Int).unwrap();
    assert_eq!((row.lb(), row.extent(), row.true_lb(), row.true_extent()), (-3, 27, 0, 22));
}
