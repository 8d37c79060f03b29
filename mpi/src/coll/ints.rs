//! Lists of integers for all processes of a communicator, for the library's own needs.

#![allow(unsafe_code)]

use super::call::Call;
use super::task::Running;
use crate::datatype::{Blocks, Buf};
use crate::error::Result;
use crate::handle::{Comm, Datatype};
use crate::instance::Mpi;

/// `MPI_INT`.
const INT: Datatype = Datatype(0x4c00_0405);

impl Mpi {
    /// Returns the lists that the processes of a communicator give, in the order of ranks.
    ///
    /// # Errors
    /// A bad handle; a message that failed.
    pub(crate) fn gather_ints(&self, comm: Comm, mine: &[i32]) -> Result<Vec<Vec<i32>>> {
        let n = self.comm_size(comm)? as usize;
        let mut mine = mine.to_vec();
        let mut len = mine.len() as i32;
        let mut lens = vec![0i32; n];
        // SAFETY: both live until the operation is over, which is when `run` returns.
        let (send, recv) =
            unsafe { (Buf::new((&raw mut len).cast(), 1, INT), Buf::new(lens.as_mut_ptr().cast(), 1, INT)) };
        self.run(comm, Call::Allgather { send, recv })?;
        let counts: Vec<i64> = lens.iter().map(|l| i64::from(*l)).collect();
        let displs: Vec<i64> = (0..n).map(|i| counts[..i].iter().sum()).collect();
        let mut all = vec![0i32; counts.iter().sum::<i64>() as usize];
        // SAFETY: as above; the blocks are the parts of the list.
        let (send, recv) = unsafe {
            (
                Buf::new(mine.as_mut_ptr().cast(), i64::from(len), INT),
                Blocks::new(all.as_mut_ptr().cast(), counts.as_slice(), displs.as_slice(), INT),
            )
        };
        self.run(comm, Call::Allgatherv { send, recv })?;
        let list = |(at, len): (&i64, &i64)| all[*at as usize..(at + len) as usize].to_vec();
        Ok(displs.iter().zip(&counts).map(list).collect())
    }

    /// Runs an operation of all processes to its end.
    fn run(&self, comm: Comm, call: Call) -> Result<()> {
        self.run_operation(|objects, form| Running::new(objects, form, objects.comms.core_of(comm)?, &call))
    }
}
