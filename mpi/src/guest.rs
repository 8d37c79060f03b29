//! Calls of functions of the program that must return.

use netmod_core::tell::on_stderr;

/// Ends the process when it is dropped.
struct MustReturn(&'static str);

impl Drop for MustReturn {
    fn drop(&mut self) {
        on_stderr(&format_args!(
            "an exception left {}, which the MPI library has called: only an error handler may throw",
            self.0
        ));
        std::process::abort()
    }
}

/// Calls a function of the program.
///
/// An exception that leaves it ends the process, as the call that needs the function is half done.
pub(crate) fn call<T>(what: &'static str, function: impl FnOnce() -> T) -> T {
    let guard = MustReturn(what);
    let result = function();
    std::mem::forget(guard);
    result
}
