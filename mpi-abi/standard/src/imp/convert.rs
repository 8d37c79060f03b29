//! Handles as numbers. A handle is a number below 1024, or one of the library's.

use core::ffi::c_int;

use crate::convert::Handle;

/// Functions between handles of a kind and their numbers.
macro_rules! numbers {
    ($($to:ident $from:ident)*) => {
        $(
            pub(crate) fn $to(handle: Handle) -> c_int {
                handle.0 as c_int
            }

            pub(crate) fn $from(number: c_int) -> Handle {
                Handle(number as u32 as usize)
            }
        )*
    };
}

numbers! {
    comm_toint comm_fromint
    errhandler_toint errhandler_fromint
    file_toint file_fromint
    group_toint group_fromint
    info_toint info_fromint
    message_toint message_fromint
    op_toint op_fromint
    request_toint request_fromint
    session_toint session_fromint
    type_toint type_fromint
    win_toint win_fromint
}
