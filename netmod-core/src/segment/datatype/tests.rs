//! Refusals of datatypes, and their normalisation.

use super::*;

fn bytes(n: usize) -> Arc<Datatype> {
    Datatype::contiguous(n).unwrap()
}

#[test]
fn sizes_that_overflow_are_refused() {
    let size = |r: Result<Arc<Datatype>, DatatypeError>| matches!(r.unwrap_err(), DatatypeError::Size { .. });
    let half = bytes(isize::MAX as usize / 2 + 1);
    assert!(size(Datatype::contiguous(usize::MAX)));
    assert!(size(Datatype::contiguous(isize::MAX as usize + 1)));
    assert!(size(Datatype::vector(2, 1, 0, &half)));
    assert!(size(Datatype::vector(1, usize::MAX, 0, &bytes(1))));
    assert!(size(Datatype::vector(usize::MAX, usize::MAX, 0, &bytes(3))));
    assert!(size(Datatype::indexed(&[(0, 1), (0, 1)], &half)));
    assert!(size(Datatype::indexed(&[(0, usize::MAX)], &bytes(1))));
    assert!(size(Datatype::structure(&[(0, 1, bytes(1)), (0, 2, half.clone())])));
    assert!(matches!(half.span(2), Err(DatatypeError::Size { .. })));
    assert!(Datatype::contiguous(isize::MAX as usize).is_ok());
}

#[test]
fn displacements_that_overflow_are_refused() {
    let range =
        |r: Result<Arc<Datatype>, DatatypeError>| matches!(r.unwrap_err(), DatatypeError::Range { .. });
    let one = bytes(1);
    assert!(range(Datatype::vector(3, 1, i64::MAX / 2 + 1, &one)));
    assert!(range(Datatype::vector(4, 1, i64::MIN / 2, &one)));
    assert!(range(Datatype::vector(isize::MAX as usize, 1, i64::MIN, &one)));
    assert!(range(Datatype::indexed(&[(i64::MAX, 1)], &one)));
    assert!(range(Datatype::indexed(&[(i64::MIN, 1), (0, 1)], &one)));
    assert!(range(Datatype::structure(&[(i64::MIN, 1, one.clone()), (i64::MAX - 1, 1, bytes(1))])));
    assert!(range(Datatype::resized(i64::MAX, 1, &one)));
    assert!(range(Datatype::resized(i64::MIN, -1, &one)));
    let wide = Datatype::resized(0, i64::MAX, &one).unwrap();
    assert_eq!(wide.span(1).unwrap(), 0..1);
    assert!(matches!(wide.span(2), Err(DatatypeError::Range { .. })));
}

#[test]
fn empty_children_are_not_bounded_by_memory() {
    let none = bytes(0);
    let many = Datatype::vector(usize::MAX, usize::MAX, i64::MIN, &none).unwrap();
    assert_eq!((many.size(), many.extent()), (0, 0));
    assert_eq!(many.span(usize::MAX).unwrap(), 0..0);
    let marked = Datatype::resized(-4, 12, &none).unwrap();
    assert_eq!((marked.lower_bound(), marked.upper_bound()), (-4, 8));
    assert!(matches!(marked.span(usize::MAX), Err(DatatypeError::Range { .. })));
}

#[test]
fn nesting_is_bounded() {
    let mut ty = bytes(1);
    for _ in 1..MAX_DEPTH {
        ty = Datatype::vector(1, 1, 3, &ty).unwrap();
    }
    let depth =
        |r: Result<Arc<Datatype>, DatatypeError>| matches!(r.unwrap_err(), DatatypeError::Depth { .. });
    assert!(depth(Datatype::vector(1, 1, 3, &ty)));
    assert!(depth(Datatype::indexed(&[(0, 1)], &ty)));
    assert!(depth(Datatype::structure(&[(0, 1, bytes(1)), (0, 0, ty.clone())])));
    assert!(depth(Datatype::resized(0, 1, &ty)));
}

#[test]
fn messages_name_constructor_and_way_out() {
    let text = Datatype::vector(2, 1, i64::MAX, &bytes(2)).unwrap_err().to_string();
    assert!(text.contains("vector") && text.contains("in bytes?"), "{text}");
    let text = bytes(isize::MAX as usize).span(2).unwrap_err().to_string();
    assert!(text.contains("array of a datatype") && text.contains("smaller"), "{text}");
}

#[test]
fn regular_layouts_become_the_same() {
    let four = bytes(4);
    let vector = Datatype::vector(3, 1, 16, &four).unwrap();
    let indexed = Datatype::indexed(&[(0, 1), (16, 1), (32, 1)], &four).unwrap();
    assert_eq!(vector.body.node, indexed.body.node);
    let wide = Datatype::resized(0, 16, &four).unwrap();
    let array = Datatype::vector(3, 1, 16, &wide).unwrap();
    assert_eq!(vector.body.node, array.body.node);
    let twice = Datatype::vector(2, 3, 48, &wide).unwrap();
    assert_eq!(twice.body.node, Datatype::vector(6, 1, 16, &four).unwrap().body.node);
    let dense = Datatype::vector(5, 2, 8, &four).unwrap();
    assert_eq!(dense.body.node, bytes(40).body.node);
    assert!(dense.is_contiguous() && !vector.is_contiguous());
    let touching = Datatype::structure(&[(0, 2, four.clone()), (8, 1, bytes(8))]).unwrap();
    assert_eq!(touching.body.node, bytes(16).body.node);
}

#[test]
fn equal_parts_at_equal_distances_repeat() {
    let pair = Datatype::structure(&[(0, 1, bytes(4)), (8, 1, bytes(8)), (16, 1, bytes(3))]).unwrap();
    let wide = Datatype::resized(0, 24, &pair).unwrap();
    let vector = Datatype::vector(3, 1, 24, &pair).unwrap();
    let fields = Datatype::structure(&[(0, 1, pair.clone()), (24, 1, wide.clone()), (48, 1, pair)]).unwrap();
    assert_eq!(fields.body.node, vector.body.node);
    assert_eq!(Datatype::indexed(&[(0, 2), (48, 1)], &wide).unwrap().body.node, vector.body.node);
}

#[test]
fn strided_parts_go_on_in_their_neighbours() {
    let four = bytes(4);
    let wide = Datatype::resized(0, 16, &four).unwrap();
    let blocks = Datatype::indexed(&[(0, 2), (32, 3), (80, 1)], &wide).unwrap();
    assert_eq!(blocks.body.node, Datatype::vector(6, 1, 16, &four).unwrap().body.node);
    let apart = Datatype::indexed(&[(0, 2), (40, 3)], &wide).unwrap();
    assert_ne!(apart.body.node, Datatype::vector(5, 1, 16, &four).unwrap().body.node);
}
