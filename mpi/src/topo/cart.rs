//! Cartesian grids.

use crate::consts::PROC_NULL;
use crate::error::{Class, MpiError, Result};

/// A grid of processes, in row-major order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cart {
    /// Processes in each dimension.
    pub dims: Vec<i32>,
    /// True for the dimensions that are closed to a ring.
    pub periods: Vec<bool>,
}

fn bad(class: Class, text: String) -> Box<MpiError> {
    MpiError::new(class, text)
}

impl Cart {
    /// Creates a grid that has at most `size` cells. With a dimension that is 0 it has none, as in
    /// MPICH.
    ///
    /// # Errors
    /// Arrays of different lengths, a negative dimension, or too many cells.
    pub fn new(dims: &[i32], periods: &[bool], size: usize) -> Result<Cart> {
        if dims.len() != periods.len() {
            let text =
                format!("{} dimensions and {} periods: there must be as many", dims.len(), periods.len());
            return Err(bad(Class::ARG, text));
        }
        if let Some((i, d)) = dims.iter().enumerate().find(|(_, d)| **d < 0) {
            return Err(bad(Class::DIMS, format!("dimension {i} is {d}: it must not be negative")));
        }
        let cells = dims.iter().try_fold(1usize, |all, d| all.checked_mul(*d as usize));
        if cells.is_none_or(|cells| cells > size) && !dims.contains(&0) {
            let text =
                format!("a grid of {dims:?} has more cells than the communicator has processes ({size})");
            return Err(bad(Class::DIMS, text));
        }
        Ok(Cart { dims: dims.to_vec(), periods: periods.to_vec() })
    }

    /// Number of cells.
    pub fn cells(&self) -> i32 {
        // The other dimensions of an empty grid may be of any size.
        if self.dims.contains(&0) { 0 } else { self.dims.iter().product() }
    }

    /// Returns the coordinates of a rank.
    ///
    /// # Errors
    /// A rank that is not in the grid.
    pub fn coords(&self, rank: i32) -> Result<Vec<i32>> {
        if !(0..self.cells()).contains(&rank) {
            return Err(bad(
                Class::RANK,
                format!("rank {rank} is not in the grid of {} cells", self.cells()),
            ));
        }
        let mut coords = vec![0; self.dims.len()];
        let mut left = rank;
        for (c, d) in coords.iter_mut().zip(&self.dims).rev() {
            *c = left % d;
            left /= d;
        }
        Ok(coords)
    }

    /// Returns the coordinate in a dimension, around the end if that is a ring; `None` outside.
    fn wrapped(&self, dim: usize, coord: i32) -> Option<i32> {
        let d = self.dims[dim];
        if self.periods[dim] { Some(coord.rem_euclid(d)) } else { (0..d).contains(&coord).then_some(coord) }
    }

    /// Returns the rank at coordinates, which may be out of range in dimensions that are rings.
    ///
    /// # Errors
    /// Too few coordinates, or one that is outside of the grid.
    pub fn rank(&self, coords: &[i32]) -> Result<i32> {
        if coords.len() < self.dims.len() {
            let text = format!("{} coordinates for {} dimensions", coords.len(), self.dims.len());
            return Err(bad(Class::ARG, text));
        }
        let mut rank = 0;
        for (i, c) in coords.iter().enumerate().take(self.dims.len()) {
            let text = || {
                format!("coordinate {i} is {c}: that dimension is no ring and has {} processes", self.dims[i])
            };
            rank = rank * self.dims[i] + self.wrapped(i, *c).ok_or_else(|| bad(Class::ARG, text()))?;
        }
        Ok(rank)
    }

    /// Returns the neighbour of a rank at a distance in one dimension; [`PROC_NULL`] outside.
    fn neighbour(&self, rank: i32, dim: usize, by: i32) -> Result<i32> {
        let mut coords = self.coords(rank)?;
        let moved = i64::from(coords[dim]) + i64::from(by);
        let d = i64::from(self.dims[dim]);
        // Around a ring any number of times, without overflow.
        let moved = if self.periods[dim] { moved.rem_euclid(d) } else { moved };
        match i32::try_from(moved).ok().and_then(|c| self.wrapped(dim, c)) {
            Some(c) => {
                coords[dim] = c;
                self.rank(&coords)
            }
            None => Ok(PROC_NULL),
        }
    }

    /// Returns the source and the destination of a shift (`MPI_Cart_shift`).
    ///
    /// # Errors
    /// A dimension or rank that the grid does not have.
    pub fn shift(&self, rank: i32, direction: i32, disp: i32) -> Result<(i32, i32)> {
        let dim = usize::try_from(direction).ok().filter(|d| *d < self.dims.len()).ok_or_else(|| {
            let text = format!("direction {direction} is none of the {} dimensions", self.dims.len());
            bad(Class::ARG, text)
        })?;
        let back = disp.checked_neg().unwrap_or(i32::MAX);
        Ok((self.neighbour(rank, dim, back)?, self.neighbour(rank, dim, disp)?))
    }

    /// Returns the grid of the dimensions that remain, and for a rank the number of its grid among
    /// all and its rank there (`MPI_Cart_sub`).
    ///
    /// # Errors
    /// Too few flags; a rank that is not in the grid.
    pub fn sub(&self, remain: &[bool], rank: i32) -> Result<(Cart, i32, i32)> {
        if remain.len() < self.dims.len() {
            let text = format!("{} flags for {} dimensions", remain.len(), self.dims.len());
            return Err(bad(Class::ARG, text));
        }
        let coords = self.coords(rank)?;
        let (mut grid, mut which, mut place) = (Cart { dims: Vec::new(), periods: Vec::new() }, 0, 0);
        for (i, c) in coords.iter().enumerate() {
            if remain[i] {
                grid.dims.push(self.dims[i]);
                grid.periods.push(self.periods[i]);
                place = place * self.dims[i] + c;
            } else {
                which = which * self.dims[i] + c;
            }
        }
        Ok((grid, which, place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Cart {
        Cart::new(&[3, 2, 4], &[true, false, true], 24).unwrap()
    }

    #[test]
    fn ranks_and_coordinates_are_inverse() {
        let g = grid();
        for rank in 0..24 {
            let coords = g.coords(rank).unwrap();
            assert_eq!(g.rank(&coords), Ok(rank));
            assert_eq!(g.rank(&[coords[0] - 3, coords[1], coords[2] + 8]), Ok(rank), "around the rings");
        }
        assert_eq!(g.coords(23), Ok(vec![2, 1, 3]));
        assert_eq!(g.coords(24).unwrap_err().class, Class::RANK);
        assert_eq!(g.rank(&[0, 2, 0]).unwrap_err().class, Class::ARG);
        assert_eq!(g.rank(&[0]).unwrap_err().class, Class::ARG);
    }

    #[test]
    fn shifts_go_around_rings_and_end_elsewhere() {
        let g = grid();
        assert_eq!(g.shift(0, 0, 1), Ok((16, 8)));
        assert_eq!(g.shift(0, 1, 1), Ok((PROC_NULL, 4)));
        assert_eq!(g.shift(4, 1, 1), Ok((0, PROC_NULL)));
        assert_eq!(g.shift(0, 2, -1), Ok((1, 3)));
        assert_eq!(g.shift(0, 2, 4), Ok((0, 0)));
        assert_eq!(g.shift(5, 0, 0), Ok((5, 5)));
        assert!(g.shift(0, 2, i32::MIN).is_ok() && g.shift(0, 1, i32::MIN).is_ok());
        assert_eq!(g.shift(0, 3, 1).unwrap_err().class, Class::ARG);
        assert_eq!(g.shift(0, -1, 1).unwrap_err().class, Class::ARG);
    }

    #[test]
    fn a_grid_falls_apart_into_slices() {
        let g = grid();
        let mut seen = std::collections::BTreeSet::new();
        for rank in 0..24 {
            let (slice, which, place) = g.sub(&[true, false, true], rank).unwrap();
            assert_eq!(slice, Cart::new(&[3, 4], &[true, true], 12).unwrap());
            let c = g.coords(rank).unwrap();
            assert_eq!((which, slice.coords(place).unwrap()), (c[1], vec![c[0], c[2]]));
            assert!(seen.insert((which, place)), "one process in each cell");
        }
        let (point, which, place) = g.sub(&[false; 3], 17).unwrap();
        assert_eq!((point.cells(), which, place), (1, 17, 0));
    }

    #[test]
    fn bad_grids_are_refused() {
        let class = |dims: &[i32], periods: &[bool]| Cart::new(dims, periods, 6).unwrap_err().class;
        assert_eq!(class(&[7], &[true]), Class::DIMS);
        assert_eq!(class(&[2, -1], &[true, true]), Class::DIMS);
        assert_eq!(class(&[i32::MAX; 4], &[true; 4]), Class::DIMS);
        assert_eq!(class(&[2], &[]), Class::ARG);
        assert_eq!(Cart::new(&[], &[], 6).unwrap().cells(), 1);
    }

    #[test]
    fn a_grid_may_be_empty() {
        for dims in [[0, 2, 3], [i32::MAX, i32::MAX, 0], [0, i32::MAX, i32::MAX]] {
            let grid = Cart::new(&dims, &[true; 3], 6).unwrap();
            assert_eq!(grid.cells(), 0);
            assert_eq!(grid.coords(0).unwrap_err().class, Class::RANK);
        }
    }
}
