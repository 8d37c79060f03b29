//! Non-blocking calls of libpmix: their arguments, which it reads on its own thread until the
//! callback, so that they live as long.

// Pointers that libpmix keeps.
#![allow(unsafe_code)]

use std::ffi::{CString, c_void};
use std::sync::Arc;

use super::{FenceNb, GetNb, Info, OPERATION_SUCCEEDED, Operation, Proc, Value, copy_of};
use crate::pmix::value::{SUCCESS, Status};

/// A call that is not over.
pub(super) struct Asked {
    operation: Arc<Operation>,
    proc: Proc,
    /// The key of a lookup.
    key: CString,
    how: Info,
}

impl Asked {
    pub(super) fn new(operation: &Arc<Operation>, proc: Proc, key: CString, how: Info) -> Box<Asked> {
        Box::new(Asked { operation: Arc::clone(operation), proc, key, how })
    }

    /// Starts a fence of the process or processes, which ends in [`Operation::finish`].
    ///
    /// # Errors
    /// If it does not start; then it does not end either.
    ///
    /// # Safety
    /// The function is that of libpmix.
    pub(super) unsafe fn fence(self: Box<Asked>, begin: FenceNb) -> Result<(), Status> {
        let asked = Box::into_raw(self);
        // SAFETY: the callback takes `asked` back, once, after libpmix has read the arguments.
        let status = unsafe {
            begin(&raw const (*asked).proc, 1, &raw const (*asked).how, 1, fence_done, asked.cast())
        };
        if status == SUCCESS {
            return Ok(());
        }
        // SAFETY: with any other status the callback will not be called, so `asked` is still ours.
        let asked = unsafe { Box::from_raw(asked) };
        if status != OPERATION_SUCCEEDED {
            return Err(status);
        }
        asked.operation.finish(SUCCESS);
        Ok(())
    }

    /// Starts a lookup of the process's key, which ends in [`Operation::finish_lookup`].
    ///
    /// # Errors
    /// If it does not start; then it does not end either.
    ///
    /// # Safety
    /// The function is that of libpmix.
    pub(super) unsafe fn lookup(self: Box<Asked>, begin: GetNb) -> Result<(), Status> {
        let asked = Box::into_raw(self);
        // SAFETY: the callback takes `asked` back, once, after libpmix has read the arguments.
        let status = unsafe {
            let key = (*asked).key.as_ptr();
            begin(&raw const (*asked).proc, key, &raw const (*asked).how, 1, lookup_done, asked.cast())
        };
        if status == SUCCESS {
            return Ok(());
        }
        // SAFETY: with any other status the callback will not be called, so `asked` is still ours.
        drop(unsafe { Box::from_raw(asked) });
        Err(status)
    }
}

unsafe extern "C" fn fence_done(status: Status, data: *mut c_void) {
    // SAFETY: `data` is what `fence` has passed for this one call.
    let asked = unsafe { Box::from_raw(data.cast::<Asked>()) };
    asked.operation.finish(status);
}

unsafe extern "C" fn lookup_done(status: Status, value: *mut Value, data: *mut c_void) {
    // SAFETY: `data` is what `lookup` has passed for this one call; the value is libpmix's, which
    // frees it after the call.
    let (asked, found) = unsafe { (Box::from_raw(data.cast::<Asked>()), copy_of(value)) };
    asked.operation.finish_lookup(status, found);
}

#[cfg(test)]
mod tests {
    use std::ffi::{CStr, c_char};
    use std::ptr;
    use std::time::Duration;

    use super::super::{OpCallback, ValueCallback, flag, proc_of, text_of};
    use super::*;

    /// Pointers that a thread reads late, as libpmix's does. Numbers, since threads share them.
    #[derive(Clone, Copy)]
    struct Late([usize; 4]);

    impl Late {
        /// Returns an error unless process, key and attribute are what was passed.
        unsafe fn judge(self) -> Status {
            std::thread::sleep(Duration::from_millis(20));
            let [proc, key, how, _] = self.0;
            // SAFETY: the arguments live until the callback.
            let (proc, how) = unsafe { (&*(proc as *const Proc), &*(how as *const Info)) };
            // SAFETY: likewise; a fence has no key.
            let key = if key == 0 { c"key" } else { unsafe { CStr::from_ptr(key as *const c_char) } };
            let same = text_of(&proc.namespace) == "job" && proc.rank == 3 && text_of(&how.key) == "how";
            if same && key == c"key" { SUCCESS } else { -1 }
        }
    }

    unsafe extern "C" fn fence(
        proc: *const Proc,
        _: usize,
        how: *const Info,
        _: usize,
        done: OpCallback,
        data: *mut c_void,
    ) -> Status {
        let late = Late([proc as usize, 0, how as usize, data as usize]);
        // SAFETY: as libpmix, one call with the data.
        std::thread::spawn(move || unsafe { done(late.judge(), late.0[3] as *mut c_void) });
        SUCCESS
    }

    unsafe extern "C" fn get(
        proc: *const Proc,
        key: *const c_char,
        how: *const Info,
        _: usize,
        done: ValueCallback,
        data: *mut c_void,
    ) -> Status {
        let late = Late([proc as usize, key as usize, how as usize, data as usize]);
        // SAFETY: as libpmix, one call with the data.
        std::thread::spawn(move || unsafe { done(late.judge(), ptr::null_mut(), late.0[3] as *mut c_void) });
        SUCCESS
    }

    #[test]
    fn arguments_live_until_the_end_of_a_call() {
        let operation = Arc::new(Operation::new().expect("an operation"));
        let asked = || Asked::new(&operation, proc_of("job", 3).expect("short"), c"key".into(), flag(c"how"));
        for lookup in [false, true] {
            // SAFETY: the functions behave as those of libpmix.
            let begun = unsafe { if lookup { asked().lookup(get) } else { asked().fence(fence) } };
            assert_eq!(begun, Ok(()));
            operation.wait().expect("its end");
            assert_eq!(operation.take(), Some(SUCCESS));
        }
    }
}
