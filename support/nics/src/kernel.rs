//! What is asked of the operating system, as traits that a test can implement.

use std::io;
use std::time::Duration;

use netmod_matching::Place;

use crate::plain::Plain;

/// A netlink socket of the family `NETLINK_ROUTE`, connected to the kernel.
pub trait Channel {
    /// Sends requests, of which the kernel answers each.
    ///
    /// # Errors
    /// Those of `send(2)`; with any of them no answer comes.
    fn send(&mut self, requests: &[u8]) -> io::Result<()>;

    /// Reads one datagram of the kernel's. Its whole length is returned, of which the buffer has no more than
    /// fits. With `wait` an answer is waited for, as long as one may take.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is none; `ENOBUFS` once if some were lost for lack of memory, after which those
    /// that were not can still be read; others of `recv(2)`.
    fn receive(&mut self, buffer: &mut [u8], wait: bool) -> io::Result<usize>;
}

/// The operating system, as seen by one thread.
pub trait Kernel {
    /// Its netlink sockets.
    type Channel: Channel;

    /// A new netlink socket.
    ///
    /// # Errors
    /// Where there is no netlink, or it is forbidden.
    fn netlink(&self) -> io::Result<Self::Channel>;

    /// An interface's speed in Mb/s, none if its driver does not know.
    ///
    /// # Errors
    /// If it cannot be asked for.
    fn speed(&self, name: &str) -> io::Result<Option<u32>>;

    /// Where the interfaces are; what could not be learnt stays zero, and a note says why.
    fn place(&self, notes: &mut Vec<String>) -> Place;

    /// What can be learnt of the interfaces without netlink.
    ///
    /// # Errors
    /// If nothing can.
    fn plain(&self) -> io::Result<Plain>;

    /// Time since any fixed point, by which the total time of slow questions is bounded.
    fn elapsed(&self) -> Duration;
}
