//! Work requests. They are plain values that borrow what they name, and are made anew for each post.

use core::marker::PhantomData;

use crate::qp::{QpNum, SrqNum};

/// A piece of registered memory; laid out as `struct ibv_sge`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sge {
    /// First byte, a virtual address.
    pub addr: u64,
    /// Length in bytes.
    pub len: u32,
    /// Key of the registration.
    pub lkey: u32,
}

/// A piece of memory whose bytes are copied when the request is posted; laid out as `struct ibv_sge`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    sge: Sge,
    _borrowed: PhantomData<&'a [u8]>,
}

impl<'a> Piece<'a> {
    /// Borrows bytes until the post.
    ///
    /// # Panics
    /// If there are more than 4 GiB.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Piece<'a> {
        let len = u32::try_from(bytes.len()).expect("inline data has at most some hundred bytes");
        Piece {
            sge: Sge { addr: bytes.as_ptr().expose_provenance() as u64, len, lkey: 0 },
            _borrowed: PhantomData,
        }
    }

    /// As verbs take it. The bytes can be read as long as the piece lives.
    #[inline]
    pub fn sge(&self) -> Sge {
        self.sge
    }
}

/// Local memory of a send, write, read or atomic.
#[derive(Clone, Copy, Debug)]
pub enum Data<'a> {
    /// Registered memory: left to the device until the completion was polled.
    Registered(&'a [Sge]),
    /// Copied when posted (`IBV_SEND_INLINE`); of sends and writes.
    Inline(&'a [Piece<'a>]),
}

impl Data<'_> {
    /// No data.
    pub const EMPTY: Data<'static> = Data::Registered(&[]);
}

/// What a request of the send queue does (`ibv_post_send(3)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOp {
    /// Sends a message to a receive of the peer.
    Send,
    /// The same, with immediate data.
    SendImm(u32),
    /// Writes to the peer's memory.
    RdmaWrite {
        /// First byte there.
        addr: u64,
        /// Key of the peer's registration.
        rkey: u32,
    },
    /// Writes to the peer's memory, and completes one of its receives.
    RdmaWriteImm {
        /// First byte there.
        addr: u64,
        /// Key of the peer's registration.
        rkey: u32,
        /// Immediate data.
        imm: u32,
    },
    /// Reads the peer's memory.
    RdmaRead {
        /// First byte there.
        addr: u64,
        /// Key of the peer's registration.
        rkey: u32,
    },
    /// Adds to a number of 8 bytes in the peer's memory; its old value comes to local memory.
    FetchAdd {
        /// Where it is, a multiple of 8.
        addr: u64,
        /// Key of the peer's registration.
        rkey: u32,
        /// What is added.
        add: u64,
    },
    /// Replaces a number of 8 bytes in the peer's memory if it has a certain value; its old value comes to local memory.
    CompareSwap {
        /// Where it is, a multiple of 8.
        addr: u64,
        /// Key of the peer's registration.
        rkey: u32,
        /// The value that it must have.
        compare: u64,
        /// The value that it gets.
        swap: u64,
    },
}

/// Flags of a request of the send queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendFlags {
    /// It has a completion. Without one, its place in the queue is free only when a later completion of the queue was polled.
    pub signaled: bool,
    /// The receiver's completion is an event even where only solicited ones are.
    pub solicited: bool,
    /// It begins only when earlier reads and atomics are done.
    pub fence: bool,
}

impl SendFlags {
    /// With a completion.
    pub const SIGNALED: SendFlags = SendFlags { signaled: true, solicited: false, fence: false };
    /// Without.
    pub const NONE: SendFlags = SendFlags { signaled: false, solicited: false, fence: false };
}

/// To whom a request goes.
#[derive(Debug)]
pub enum To<'a, Ah> {
    /// The peer of a connected queue pair.
    Peer,
    /// A queue pair of datagrams.
    Datagram {
        /// The way there.
        ah: &'a Ah,
        /// The queue pair.
        qp: QpNum,
        /// Its key.
        qkey: u32,
    },
    /// A shared receive queue in the domain of the peer of an XRC queue pair. Its process is the one whose memory reads and writes
    /// mean.
    Srq(SrqNum),
}

// Not derived: it would ask address handles to be Copy.
impl<Ah> Clone for To<'_, Ah> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Ah> Copy for To<'_, Ah> {}

/// A request of the send queue (`ibv_post_send(3)`).
#[derive(Debug)]
pub struct SendWr<'a, Ah> {
    /// What its completion says.
    pub wr_id: u64,
    /// What it does.
    pub op: SendOp,
    /// Local memory.
    pub data: Data<'a>,
    /// Flags.
    pub flags: SendFlags,
    /// To whom.
    pub to: To<'a, Ah>,
}

impl<Ah> Clone for SendWr<'_, Ah> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Ah> Copy for SendWr<'_, Ah> {}

/// A receive (`ibv_post_recv(3)`, `ibv_post_srq_recv(3)`).
#[derive(Clone, Copy, Debug)]
pub struct RecvWr<'a> {
    /// What its completion says.
    pub wr_id: u64,
    /// Memory for a message: left to the device until the completion was polled.
    pub sges: &'a [Sge],
}
