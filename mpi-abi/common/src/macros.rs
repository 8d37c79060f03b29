//! Macros of the exported functions. Where they are used, `Interface` names the facade's [`Abi`].
//!
//! In brackets before the arguments stands what translates them: lines that give each argument the
//! value that the library wants. What they keep writes results back when the body has ended.
//!
//! [`Abi`]: crate::Abi

/// An exported function with the arguments that the standard names.
#[macro_export]
macro_rules! exported {
    ($name:ident ($($argument:ident: $type:ty),*) -> $result:ty $body:block) => {
        #[doc = concat!("`", stringify!($name), "` of the MPI standard.")]
        ///
        /// # Safety
        /// The arguments are as the standard wants them.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $result {
            // SAFETY: the caller keeps the standard's rules for the arguments.
            #[allow(unused_unsafe)]
            unsafe { $body }
        }
    };
}

/// A function of the library that is initialized, under both names.
#[macro_export]
macro_rules! entry {
    ($name:ident $profiling:ident [$($before:tt)*] ($($argument:ident: $type:ty),*)
        on $object:expr; |$mpi:ident| $body:expr) =>
    {
        $crate::free! { $name $profiling [] ($($argument: $type),*) -> code {
            // Results are written back before an error handler runs.
            $crate::calls::run(stringify!($name), $object, |$mpi| { $($before)* $body })
        } }
    };
}

/// A function that is allowed at any time and may fail as those of the library, under both names.
#[macro_export]
macro_rules! anytime {
    ($name:ident $profiling:ident [$($before:tt)*] ($($argument:ident: $type:ty),*)
        on $object:expr; |$anytime:ident| $body:expr) =>
    {
        $crate::free! { $name $profiling [] ($($argument: $type),*) -> code {
            // Results are written back before an error handler runs.
            $crate::calls::run_anytime(stringify!($name), |$anytime| { $($before)* $body })
        } }
    };
}

/// A function that is allowed before the library is initialized and after its end. Its result is
/// an error `code`, or of a type that stays as it is.
#[macro_export]
macro_rules! free {
    ($name:ident $profiling:ident [$($before:tt)*] ($($argument:ident: $type:ty),*) -> code $body:block) => {
        $crate::free! { $name $profiling ($($argument: $type),*) -> ::core::ffi::c_int {
            $($before)*
            <Interface as $crate::Abi>::code_out($body)
        } }
    };
    ($name:ident $profiling:ident ($($argument:ident: $type:ty),*) -> $result:ty $body:block) => {
        $crate::exported! { $name ($($argument: $type),*) -> $result $body }
        $crate::exported! { $profiling ($($argument: $type),*) -> $result $body }
    };
}

/// A function on queues of accelerators, which are not there.
#[macro_export]
macro_rules! missing {
    ($name:ident $profiling:ident ($($argument:ident: $type:ty),*) on $object:expr; ($($ignored:ident),*)) => {
        $crate::free! { $name $profiling [] ($($argument: $type),*) -> code {
            let _ = ($($ignored,)*);
            $crate::calls::missing(stringify!($name), $object)
        } }
    };
}
