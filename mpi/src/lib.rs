//! The MPI library, in Rust and without C types.
//!
//! [`Mpi`] is one MPI process. Its methods are MPI's functions: names without prefix, in snake
//! case. Objects are named by 32-bit handles ([`handle`]) in MPICH's layout, and integers with a
//! meaning have MPICH's values ([`consts`]). An error has a class that MPI names and a text that
//! says which argument is wrong, its value, and what would be right ([`error`]).
//!
//! One lock protects the device and all objects (`instance`); it costs a thread that calls alone no
//! atomic operation (`lock`). A wait holds it, and lets other threads in when they come; of several
//! that wait one makes progress for all (`wait`, `turns`). If it is wanted, a thread of the library
//! does so while the program computes (`unattended`).
//! Functions of the program (operations, attribute functions, error handlers, generalized requests)
//! are never called under the lock, so that they may call MPI. Those that are polled (`polled`) are
//! called by waits and tests, and keep a wait from long sleeps.
//!
//! The wire knows processes by their rank in the job. A communicator is a pair of contexts, one for
//! messages and one for collective operations, and a list of processes (`comm`, `ranks`); `context`
//! says how a group agrees on them. All that ends later is a request (`request`).
//! Collective operations and the making of communicators are tasks (`task`), which every call that
//! makes progress advances.
//!
//! The parts without a device are pure: [`datatype`] describes memory, [`op`] combines elements,
//! and [`coll`] makes the schedules of collective operations, which one engine runs.
//!
//! A file uses only what is in the layers below it:
//! 1. errors, handles, and tables of one kind of object each: infos, groups, types, communicators,
//!    communicators of threads, streams, memory that others of the node can open (`allocated`);
//! 2. messages on a communicator: `status`, `target`, `buffers`, `matched`, and the agreements of
//!    `exchange` and `context`;
//! 3. `objects`: all tables, which tasks work on;
//! 4. `task`, `polled`, and `request`, which may have a task and so is not one of the objects;
//! 5. `instance`: objects and requests behind the lock; `wait` and `unattended`, which make
//!    progress on them; `tool` has MPI's interface for tools;
//! 6. MPI's functions: `calls`, and those of [`coll`], [`topo`], `partitioned`, `io`, which has
//!    files, `win`, which has windows, and `dynamic`, which meets other jobs.

mod accelerator;
mod allocated;
pub mod anytime;
pub mod attr;
mod background;
mod buffers;
mod calls;
pub mod coll;
mod comm;
pub mod consts;
mod context;
pub mod datatype;
mod dynamic;
pub mod env;
pub mod errh;
pub mod error;
mod exchange;
mod ft;
mod greq;
pub mod group;
mod guest;
pub mod handle;
pub mod info;
mod instance;
mod io;
mod leaks;
mod lock;
mod log;
mod matched;
mod objects;
pub mod op;
mod partitioned;
mod polled;
mod ranks;
mod request;
mod session;
mod stand_in;
mod status;
mod streams;
mod target;
mod task;
mod threads;
pub mod tool;
pub mod topo;
mod turns;
mod unattended;
mod wait;
mod win;
mod wish;

pub use anytime::Anytime;
pub use attr::{AttrFns, AttrValue, SetValue};
pub use datatype::Buf;
pub use dynamic::Command;
pub use errh::{Handler, UserErrhandler};
pub use error::{Class, Codes, MpiError, Result};
pub use greq::GreqFunctions;
pub use instance::Mpi;
pub use io::UserDatarep;
pub use netmod_core::tell::on_stderr;
pub use polled::{PollFunction, Polled};
pub use status::Status;
