//! The interface itself: handles and numbers of the library as they are.

use core::ffi::c_int;

use netmod_mpi::Status;
use netmod_mpi::handle::{Comm, Datatype, File, Keyval, Win};
use netmod_mpi_common::Abi;
use netmod_mpi_common::convert::{CFile, MpiStatus};
use netmod_mpi_common::imp::convert::file_of_number;

/// The interface of MPICH.
#[derive(Debug)]
pub struct Interface;

impl Abi for Interface {
    type Handle = c_int;
    type File = CFile;
    type Status = MpiStatus;
    const VERSION: (c_int, c_int) = (4, 1);
    const NAME: &'static str = "ABI of MPICH";
    const EMPTY_STATUS: MpiStatus = MpiStatus::EMPTY;

    fn comm(comm: Comm) -> c_int {
        comm.0 as c_int
    }

    fn file(file: File) -> CFile {
        file_of_number(file.0 as c_int)
    }

    fn win(win: Win) -> c_int {
        win.0 as c_int
    }

    fn datatype(datatype: Datatype) -> c_int {
        datatype.0 as c_int
    }

    fn keyval(keyval: Keyval) -> c_int {
        keyval.0 as c_int
    }

    fn attribute(_keyval: Keyval, value: i64) -> i64 {
        value
    }

    fn code_out(code: c_int) -> c_int {
        code
    }

    fn code_in(code: c_int) -> c_int {
        code
    }

    fn read_status(status: &MpiStatus) -> Status {
        status.read()
    }

    fn contents(_combiner: c_int, _integers: &mut [c_int]) {}
}
