//! The interface, as functions of the program and the user's codes of errors see it.

use core::ffi::c_int;

use netmod_mpi::Status as Told;
use netmod_mpi::datatype::Combiner;
use netmod_mpi::handle::{Comm, Datatype, File, Keyval, Win};
use netmod_mpi_common::Abi;

use crate::codes::{code_in, code_out};
use crate::convert::{Handle, Status};
use crate::handles::Kind;
use crate::numbers;

/// The interface of the standard.
#[derive(Debug)]
pub struct Interface;

impl Abi for Interface {
    type Handle = Handle;
    type File = Handle;
    type Status = Status;
    const VERSION: (c_int, c_int) = (5, 0);
    const NAME: &'static str = "ABI of the standard 1.0";
    const EMPTY_STATUS: Status = Status::EMPTY;

    fn comm(comm: Comm) -> Handle {
        Kind::COMM.handle(comm.0)
    }

    fn file(file: File) -> Handle {
        Kind::FILE.handle(file.0)
    }

    fn win(win: Win) -> Handle {
        Kind::WIN.handle(win.0)
    }

    fn datatype(datatype: Datatype) -> Handle {
        Kind::DATATYPE.handle(datatype.0)
    }

    fn keyval(keyval: Keyval) -> c_int {
        numbers::keyval_out(keyval.0 as c_int)
    }

    fn attribute(keyval: Keyval, value: i64) -> i64 {
        let translate: fn(c_int) -> c_int = match keyval {
            Keyval::HOST | Keyval::IO => numbers::rank_out,
            Keyval::LASTUSEDCODE => code_out,
            Keyval::WIN_CREATE_FLAVOR => numbers::flavor_out,
            Keyval::WIN_MODEL => numbers::model_out,
            _ => return value,
        };
        c_int::try_from(value).map_or(value, |number| translate(number).into())
    }

    #[inline]
    fn code_out(code: c_int) -> c_int {
        code_out(code)
    }

    fn code_in(code: c_int) -> c_int {
        code_in(code)
    }

    fn read_status(status: &Status) -> Told {
        status.inner().read()
    }

    fn contents(combiner: c_int, integers: &mut [c_int]) {
        // The last one of both is the order.
        let Some((order, before)) = integers.split_last_mut() else { return };
        if combiner == Combiner::Subarray as c_int {
            *order = numbers::order_out(*order);
        } else if combiner == Combiner::Darray as c_int {
            *order = numbers::order_out(*order);
            // Size, rank and number of dimensions come first; the sizes of the array only if they
            // are not among the large counts. Then there are three arrays.
            let Some(dims) = before.get(2).and_then(|n| usize::try_from(*n).ok()) else { return };
            let from = before.len().saturating_sub(3 * dims);
            for (at, value) in before[from..].iter_mut().take(2 * dims).enumerate() {
                let translate = if at < dims { numbers::distribution_out } else { numbers::darg_out };
                *value = translate(*value);
            }
        }
    }
}
