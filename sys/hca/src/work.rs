//! Work requests: plain values that borrow the memory they name and are made for each post.

use core::marker::PhantomData;

use crate::qp::{QpNum, SrqNum};

/// A scatter-gather element: a piece of registered memory. Laid out as `struct ibv_sge`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sge {
    /// Virtual address of the first byte.
    pub addr: u64,
    /// Length in bytes.
    pub len: u32,
    /// Local key of the registration.
    pub lkey: u32,
}

/// A piece of memory whose bytes are copied when the request is posted. Laid out as `struct
/// ibv_sge`.
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

    /// Returns the element in the form of verbs. Its bytes can be read as long as the piece lives.
    #[inline]
    pub fn sge(&self) -> Sge {
        self.sge
    }
}

/// Local memory of a send, write, read or atomic.
#[derive(Clone, Copy, Debug)]
pub enum Data<'a> {
    /// Registered memory, owned by the device until the completion is polled.
    Registered(&'a [Sge]),
    /// Bytes that are copied when posted (`IBV_SEND_INLINE`); for sends and writes.
    Inline(&'a [Piece<'a>]),
}

impl Data<'_> {
    /// No data.
    pub const EMPTY: Data<'static> = Data::Registered(&[]);
}

/// Operation of a send request (`ibv_post_send(3)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOp {
    /// Sends a message to a receive of the peer.
    Send,
    /// Sends a message with immediate data.
    SendImm(u32),
    /// Writes to the peer's memory.
    RdmaWrite {
        /// Address of the first byte at the peer.
        addr: u64,
        /// Key of the peer's registration.
        rkey: u32,
    },
    /// Writes to the peer's memory and completes one of its receives.
    RdmaWriteImm {
        /// Address of the first byte at the peer.
        addr: u64,
        /// Key of the peer's registration.
        rkey: u32,
        /// Immediate data.
        imm: u32,
    },
    /// Reads the peer's memory.
    RdmaRead {
        /// Address of the first byte at the peer.
        addr: u64,
        /// Key of the peer's registration.
        rkey: u32,
    },
    /// Adds to an 8-byte number in the peer's memory. The old value is stored in local memory.
    FetchAdd {
        /// Its address at the peer, a multiple of 8.
        addr: u64,
        /// Key of the peer's registration.
        rkey: u32,
        /// The number to add.
        add: u64,
    },
    /// Replaces an 8-byte number in the peer's memory if it equals `compare`. The old value is
    /// stored in local memory.
    CompareSwap {
        /// Its address at the peer, a multiple of 8.
        addr: u64,
        /// Key of the peer's registration.
        rkey: u32,
        /// The expected value.
        compare: u64,
        /// The new value.
        swap: u64,
    },
}

/// Flags of a send request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendFlags {
    /// Requests a completion. Without one, the queue slot becomes free only when a later completion
    /// of the queue is polled.
    pub signaled: bool,
    /// Makes the receiver's completion an event even if its queue is armed for solicited ones only.
    pub solicited: bool,
    /// Delays the request until earlier reads and atomics are complete.
    pub fence: bool,
}

impl SendFlags {
    /// Flags that request a completion.
    pub const SIGNALED: SendFlags = SendFlags { signaled: true, solicited: false, fence: false };
    /// No flags.
    pub const NONE: SendFlags = SendFlags { signaled: false, solicited: false, fence: false };
}

/// Destination of a send request.
#[derive(Debug)]
pub enum To<'a, Ah> {
    /// The peer of a connected queue pair.
    Peer,
    /// A datagram queue pair.
    Datagram {
        /// The route to it.
        ah: &'a Ah,
        /// Number of the queue pair.
        qp: QpNum,
        /// Its queue key.
        qkey: u32,
    },
    /// A shared receive queue in the XRC domain of the peer. Reads and writes access the memory of
    /// the process that owns the queue.
    Srq(SrqNum),
}

// Not derived: a derived impl would require `Ah: Clone`.
impl<Ah> Clone for To<'_, Ah> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Ah> Copy for To<'_, Ah> {}

/// A send request (`ibv_post_send(3)`).
#[derive(Debug)]
pub struct SendWr<'a, Ah> {
    /// Identifier that its completion carries.
    pub wr_id: u64,
    /// The operation.
    pub op: SendOp,
    /// Local memory.
    pub data: Data<'a>,
    /// Flags.
    pub flags: SendFlags,
    /// The destination.
    pub to: To<'a, Ah>,
}

impl<Ah> Clone for SendWr<'_, Ah> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Ah> Copy for SendWr<'_, Ah> {}

/// A receive request (`ibv_post_recv(3)`, `ibv_post_srq_recv(3)`).
#[derive(Clone, Copy, Debug)]
pub struct RecvWr<'a> {
    /// Identifier that its completion carries.
    pub wr_id: u64,
    /// Memory for a message, owned by the device until the completion is polled.
    pub sges: &'a [Sge],
}
