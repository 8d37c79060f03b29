//! Files: MPI-IO over the file system of the operating system.
//!
//! `view` says which bytes a process sees, `access` moves them between memory (`memory`) and a file
//! (`storage`), and `fault` makes errors of MPI of those of the system. A [`Storage`] does single
//! system calls; all that fail or do less than they are asked to are handled above it.
//!
//! **The lock.** A call looks its file, types and memory up under the library's lock and then lets
//! it go: no system call on a file is made under it. Each file has small locks of its own for its
//! settings, which are held for no system call either.
//!
//! **Collectives.** A file has a context of its own. A collective call is an `async` function
//! (`port`) in steps: messages to others, and work that the waiting thread does outside of the
//! lock. As a task it serves the blocking, nonblocking and split forms. Each ends with `settle`: a
//! process whose arguments or accesses have failed takes part all the same, and all return an error
//! then.
//!
//! **Two phases.** If the parts of different processes lie between each other, aggregators write or
//! read them in long pieces (`group`, with `pattern` and `window`). Each is told in front who needs
//! which bytes, so that both ends of each message know its length.
//!
//! **The shared file pointer** is in a hidden file that all have open and that has no name
//! (`shared`, `hidden`). So it needs no process to make progress for another one, and nothing is
//! left behind.
//!
//! **Representations** (`rep`). A view is made of the types as the file has them. Data is converted
//! as a whole, by functions of the program too, outside of the lock.
//!
//! **Data sieving.** Short parts of a read that lie close together are read with the holes between
//! them. Writes are not by default: another process may write to a hole at the same time, which the
//! hint `romio_ds_write=enable` rules out. Then each window is locked from its read to its write.
//!
//! **Atomic mode** locks all that an access spans. Locks are those of the open file
//! (`F_OFD_SETLKW`), so that ranks that are threads exclude each other, too.
//!
//! [`Storage`]: storage::Storage

mod access;
mod calls;
mod data;
mod fault;
mod file;
mod group;
mod hidden;
mod hints;
mod memory;
mod moves;
mod open;
mod pattern;
mod port;
mod rep;
mod shared;
mod storage;
mod sys;
#[cfg(test)]
mod tests;
mod view;
mod window;

pub(crate) use file::Files;
pub use rep::UserDatarep;
