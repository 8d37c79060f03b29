//! Balanced dimensions of a grid (`MPI_Dims_create`).

use crate::error::{Class, MpiError, Result};

/// Sets the dimensions that are 0 so that the grid has `nnodes` cells. They are as close to each
/// other as possible, in an order that does not increase; the others stay.
///
/// # Errors
/// A number of nodes that is not positive, a negative dimension, or given dimensions whose product
/// does not divide the number of nodes.
pub fn dims_create(nnodes: i32, dims: &mut [i32]) -> Result<()> {
    if nnodes < 1 {
        return Err(MpiError::new(Class::ARG, format!("nnodes is {nnodes}: a grid has at least one cell")));
    }
    if let Some((i, d)) = dims.iter().enumerate().find(|(_, d)| **d < 0) {
        let text = format!("dimension {i} is {d}: it is to be 0, to be set, or positive");
        return Err(MpiError::new(Class::DIMS, text));
    }
    let given = dims.iter().filter(|d| **d > 0).try_fold(1i32, |all, d| all.checked_mul(*d));
    let rest = given.filter(|g| nnodes % g == 0).map(|g| nnodes / g);
    let free = dims.iter().filter(|d| **d == 0).count();
    let Some(rest) = rest.filter(|rest| free > 0 || *rest == 1) else {
        let text = format!("no grid of {nnodes} cells has the dimensions {dims:?}, where 0 is free");
        return Err(MpiError::new(Class::DIMS, text));
    };
    let mut found = Vec::with_capacity(free);
    if free > 0 {
        factor(rest, free, rest, &divisors(rest), &mut found);
    }
    for (d, value) in dims.iter_mut().filter(|d| **d == 0).zip(found) {
        *d = value;
    }
    Ok(())
}

/// Returns the divisors of a number, the least first.
fn divisors(n: i32) -> Vec<i32> {
    let small: Vec<i32> =
        (1..).take_while(|d| i64::from(*d).pow(2) <= i64::from(n)).filter(|d| n % d == 0).collect();
    let large = small.iter().rev().map(|d| n / d).filter(|d| i64::from(*d).pow(2) > i64::from(n));
    small.iter().copied().chain(large).collect()
}

/// Writes `n` as a product of `count` divisors up to `max`, the greatest of them as small as it can
/// be, then the next one. Returns false if there is none.
fn factor(n: i32, count: usize, max: i32, divisors: &[i32], found: &mut Vec<i32>) -> bool {
    if count == 1 {
        if n <= max {
            found.push(n);
        }
        return n <= max;
    }
    // The greatest of `count` factors is at least this root.
    let root = f64::from(n).powf(1.0 / count as f64).floor() as i32;
    for d in divisors.iter().filter(|d| **d >= root.max(1) && **d <= max && n % **d == 0) {
        found.push(*d);
        if factor(n / d, count - 1, *d, divisors, found) {
            return true;
        }
        found.pop();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dims(nnodes: i32, mut dims: Vec<i32>) -> core::result::Result<Vec<i32>, Class> {
        dims_create(nnodes, &mut dims).map_err(|e| e.class)?;
        Ok(dims)
    }

    #[test]
    fn grids_are_balanced() {
        // The examples of the standard.
        assert_eq!(dims(6, vec![0, 0]), Ok(vec![3, 2]));
        assert_eq!(dims(7, vec![0, 0]), Ok(vec![7, 1]));
        assert_eq!(dims(6, vec![0, 3, 0]), Ok(vec![2, 3, 1]));
        assert_eq!(dims(7, vec![0, 3, 0]), Err(Class::DIMS));
        assert_eq!(dims(12, vec![0, 0]), Ok(vec![4, 3]));
        assert_eq!(dims(16, vec![0, 0, 0]), Ok(vec![4, 2, 2]));
        assert_eq!(dims(24, vec![0, 0, 0]), Ok(vec![4, 3, 2]));
        assert_eq!(dims(60, vec![0, 0, 0]), Ok(vec![5, 4, 3]));
        assert_eq!(dims(72, vec![0, 0, 0]), Ok(vec![6, 4, 3]));
        assert_eq!(dims(1, vec![0, 0]), Ok(vec![1, 1]));
        assert_eq!(dims(1, vec![]), Ok(vec![]));
        assert_eq!(dims(8, vec![2, 4]), Ok(vec![2, 4]));
        assert_eq!(dims(i32::MAX, vec![0, 0]), Ok(vec![i32::MAX, 1]));
    }

    #[test]
    fn every_grid_has_its_cells_and_no_grid_is_better() {
        for n in 1..=200 {
            let d = dims(n, vec![0, 0, 0]).unwrap();
            assert_eq!(d.iter().product::<i32>(), n);
            assert!(d.is_sorted_by(|a, b| a >= b), "{d:?}");
            let best = (1..=n).filter(|a| n % a == 0).find(|a| {
                let rest = n / a;
                (1..=rest).any(|b| rest % b == 0 && b <= *a && rest / b <= *a)
            });
            assert_eq!(Some(d[0]), best, "{n}: {d:?}");
        }
    }

    #[test]
    fn bad_grids_are_refused() {
        assert_eq!(dims(0, vec![0]), Err(Class::ARG));
        assert_eq!(dims(4, vec![-1, 0]), Err(Class::DIMS));
        assert_eq!(dims(4, vec![2]), Err(Class::DIMS));
        assert_eq!(dims(4, vec![]), Err(Class::DIMS));
        assert_eq!(dims(4, vec![i32::MAX, i32::MAX, 0]), Err(Class::DIMS));
    }
}
