//! Builds the linked lists of work requests that C expects, in arrays on the stack.

#![allow(unsafe_code)]

use core::ffi::c_int;
use core::mem::MaybeUninit;

use hca::{Errno, PostError};
use libibverbs_sys::work::{ibv_recv_wr, ibv_send_wr};

use crate::error;

/// Maximum number of requests posted by one call.
pub(crate) const BATCH: usize = 16;

/// A C work request that can be linked to the next one.
pub(crate) trait Linked: Copy {
    fn link(&mut self, next: *mut Self);
}

impl Linked for ibv_send_wr {
    #[inline]
    fn link(&mut self, next: *mut Self) {
        self.next = next;
    }
}

impl Linked for ibv_recv_wr {
    #[inline]
    fn link(&mut self, next: *mut Self) {
        self.next = next;
    }
}

/// Posts a list. `convert` makes or refuses a request. `call` posts a linked list, and stores the
/// first request that the driver refuses.
///
/// A driver that fails without naming a request has refused the whole call.
#[inline]
pub(crate) fn post<T, W: Linked>(
    list: &[T],
    mut convert: impl FnMut(&T) -> Result<W, Errno>,
    mut call: impl FnMut(*mut W, *mut *mut W) -> c_int,
) -> Result<(), PostError> {
    let mut room = [const { MaybeUninit::<W>::uninit() }; BATCH];
    for (batch, requests) in list.chunks(BATCH).enumerate() {
        let from = batch * BATCH;
        let base: *mut W = room.as_mut_ptr().cast();
        let mut made = 0;
        let mut refused = None;
        for request in requests {
            match convert(request) {
                // SAFETY: a batch holds at most as many requests as the array; the pointer past the
                // last one is never dereferenced.
                Ok(mut wr) => unsafe {
                    wr.link(base.add(made + 1));
                    base.add(made).write(wr);
                    made += 1;
                },
                Err(errno) => {
                    refused = Some(PostError { at: from + made, errno });
                    break;
                }
            }
        }
        if made > 0 {
            let mut bad = core::ptr::null_mut();
            // SAFETY: that one was written just before.
            unsafe { (*base.add(made - 1)).link(core::ptr::null_mut()) };
            let done = call(base, &raw mut bad);
            if done != 0 {
                return Err(PostError { at: from + index_of(base, bad, made), errno: error::number(done) });
            }
        }
        if let Some(refused) = refused {
            return Err(refused);
        }
    }
    Ok(())
}

/// Returns the index of the request that a driver points to.
#[cold]
fn index_of<W>(base: *mut W, bad: *mut W, count: usize) -> usize {
    let at = bad.addr().wrapping_sub(base.addr()) / size_of::<W>();
    if bad.is_null() || at >= count { 0 } else { at }
}

#[cfg(test)]
#[path = "post_tests.rs"]
mod tests;
