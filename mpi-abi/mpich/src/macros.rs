//! Macros of the exported functions.

/// An exported function with the arguments that the standard names.
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
macro_rules! entry {
    ($name:ident $profiling:ident ($($argument:ident: $type:ty),*) on $object:expr; |$mpi:ident| $body:expr) => {
        exported! { $name ($($argument: $type),*) -> c_int
            { calls::run(stringify!($name), $object, |$mpi| $body) } }
        exported! { $profiling ($($argument: $type),*) -> c_int
            { calls::run(stringify!($name), $object, |$mpi| $body) } }
    };
}

/// A function that is allowed before the library is initialized and after its end.
macro_rules! free {
    ($name:ident $profiling:ident ($($argument:ident: $type:ty),*) -> $result:ty $body:block) => {
        exported! { $name ($($argument: $type),*) -> $result $body }
        exported! { $profiling ($($argument: $type),*) -> $result $body }
    };
}

/// A function that is not there yet.
macro_rules! missing {
    ($name:ident $profiling:ident ($($argument:ident: $type:ty),*) on $object:expr; ($($ignored:ident),*)) => {
        free! { $name $profiling ($($argument: $type),*) -> c_int {
            let _ = ($($ignored,)*);
            calls::missing(stringify!($name), $object)
        } }
    };
}

/// A function of the tool interface that is not there yet: it returns its errors.
macro_rules! missing_tool {
    ($name:ident $profiling:ident ($($argument:ident: $type:ty),*) on $object:expr; ($($ignored:ident),*)) => {
        free! { $name $profiling ($($argument: $type),*) -> c_int {
            let _ = ($($ignored,)*);
            calls::code(Err(MpiError::unsupported(stringify!($name))))
        } }
    };
}
