//! Balanced dimensions of a grid (`MPI_Dims_create`).

use core::ops::RangeInclusive;

use crate::error::{Class, MpiError, Result};

/// Sets the dimensions that are 0 so that the grid has `nnodes` cells. The greatest and the least
/// of them differ as little as possible, and their order does not increase; the others stay.
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
    let found = if free > 0 { balanced(rest, free) } else { Vec::new() };
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

/// Returns the greatest number whose power is not above `n`.
fn root(n: i32, count: usize) -> i32 {
    let near = f64::from(n).powf(1.0 / count as f64) as i32;
    let fits = |d: &i32| i64::from(*d).checked_pow(count as u32).is_some_and(|p| p <= i64::from(n));
    (1..=near + 1).rev().find(fits).unwrap_or(1)
}

/// Returns `count` factors of `n`, the greatest first. Of those whose greatest and least differ as
/// little as possible these have the greatest least one, then the greatest next one, and so on.
fn balanced(n: i32, count: usize) -> Vec<i32> {
    if count == 1 {
        return vec![n];
    }
    let divisors = divisors(n);
    // From the least on.
    let mut best = vec![1; count - 1];
    best.push(n);
    for greatest in divisors.iter().copied().filter(|d| *d >= root(n, count)) {
        let (rest, difference) = (n / greatest, best[count - 1] - best[0]);
        // The others cannot all be above this.
        if greatest - root(rest, count - 1).min(greatest) > difference {
            break;
        }
        let mut found = Vec::with_capacity(count);
        let range = (greatest - difference).max(1)..=greatest;
        if ascending(rest, count - 1, range, &divisors, &mut found) {
            found.push(greatest);
            if greatest - found[0] < difference || found > best {
                best = found;
            }
        }
    }
    best.reverse();
    best
}

/// Writes `n` as a product of `count` divisors of a range, the least of them as great as it can be,
/// then the next one. Returns false if there is none.
fn ascending(
    n: i32,
    count: usize,
    range: RangeInclusive<i32>,
    divisors: &[i32],
    found: &mut Vec<i32>,
) -> bool {
    if count == 1 {
        let fits = range.contains(&n);
        found.extend(fits.then_some(n));
        return fits;
    }
    let most = root(n, count).min(*range.end());
    for d in divisors.iter().rev().copied().filter(|d| (*range.start()..=most).contains(d) && n % d == 0) {
        found.push(d);
        if ascending(n / d, count - 1, d..=*range.end(), divisors, found) {
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
        assert_eq!(dims(5040, vec![0, 0, 0]), Ok(vec![21, 16, 15]), "rather than 20, 18, 14");
        assert_eq!(dims(7488, vec![0, 0, 0]), Ok(vec![26, 18, 16]), "rather than 24, 24, 13");
        assert_eq!(dims(98784, vec![0; 5]), Ok(vec![14, 14, 9, 8, 7]), "rather than 14, 12, 12, 7, 7");
        assert_eq!(dims(64, vec![0; 6]), Ok(vec![2; 6]));
        assert_eq!(dims(1 << 30, vec![0; 4]), Ok(vec![256, 256, 128, 128]));
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
            let grids = (1..=n).flat_map(|a| (1..=a).map(move |b| (a, b)));
            let grids = grids.filter(|(a, b)| n % (a * b) == 0 && n / (a * b) <= *b);
            // The least difference, then the greatest least dimension.
            let best = grids.map(|(a, b)| (a - n / (a * b), -n / (a * b))).min();
            assert_eq!(Some((d[0] - d[2], -d[2])), best, "{n}: {d:?}");
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
