//! The operating system's services, as traits that a test can implement.

use std::io;
use std::time::Duration;

use netmod_matching::Location;

use crate::plain::Plain;

/// A netlink socket of the family `NETLINK_ROUTE`, connected to the kernel.
pub trait Channel {
    /// Sends requests; the kernel answers each.
    ///
    /// # Errors
    ///
    /// Those of `send(2)`. After an error no answer comes.
    fn send(&mut self, requests: &[u8]) -> io::Result<()>;

    /// Reads one datagram from the kernel and returns its whole length, which may exceed the
    /// buffer.
    ///
    /// With `wait`, waits for an answer as long as one may take.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::WouldBlock`] if there is none. `ENOBUFS` once if datagrams were lost for
    /// lack of memory; those that remain can still be read. Others as for `recv(2)`.
    fn receive(&mut self, buffer: &mut [u8], wait: bool) -> io::Result<usize>;
}

/// The operating system, as seen by one thread.
pub trait Kernel {
    /// The type of its netlink sockets.
    type Channel: Channel;

    /// Opens a netlink socket.
    ///
    /// # Errors
    ///
    /// Fails where there is no netlink, or it is forbidden.
    fn netlink(&self) -> io::Result<Self::Channel>;

    /// Returns an interface's speed in Mb/s; `None` if its driver does not know.
    ///
    /// # Errors
    ///
    /// Fails if the driver cannot be asked.
    fn speed(&self, name: &str) -> io::Result<Option<u32>>;

    /// Returns the location of the interfaces. Parts that are unknown stay zero, with a note.
    fn location(&self, notes: &mut Vec<String>) -> Location;

    /// Lists the interfaces without netlink.
    ///
    /// # Errors
    ///
    /// Fails if no other source works.
    fn plain(&self) -> io::Result<Plain>;

    /// Returns the time since a fixed point; it bounds the total time of slow queries.
    fn elapsed(&self) -> Duration;
}
