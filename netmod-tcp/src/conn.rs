//! One TCP connection, from `socket` or `accept` to `close`.

use std::os::fd::{AsRawFd, RawFd};

use netmod_connection::{Initiator, Responder};
use netmod_core::slab::Handle;
use netmod_core::{PeerName, Time, VcId};
use socket2::Socket;

use crate::calls::Calls;
use crate::link::{ConnKey, Hail};
use crate::pairs::Pairs;
use crate::rail::{RailEnd, RailIn};
use crate::record::Opener;
use crate::sys::Interest;

/// What a [`ConnId`] is a handle of.
#[derive(Debug)]
pub(crate) enum ConnKind {}
pub(crate) type ConnId = Handle<ConnKind>;

/// The key by which a link knows a connection.
pub(crate) fn key(id: ConnId) -> ConnKey {
    ConnKey(id.to_wire())
}

/// The connection that a link means.
pub(crate) fn id(key: ConnKey) -> ConnId {
    ConnId::from_wire(key.0)
}

/// Where a connection is. The link of the VC knows more; this is what its bytes mean.
#[derive(Debug)]
pub(crate) enum Stage {
    /// A dial: TCP is connecting.
    Connecting,
    /// A dial: the hello is under way.
    Dial(Box<Initiator>),
    /// Incoming: the hello is under way; nobody has proved anything yet.
    Stranger(Box<Responder>),
    /// Incoming: the peer has proved who it is; a VC is awaited, or the link has promised it.
    Proved(Box<Responder>, PeerName),
    /// Adopted: messages flow. `parting` after our GOODBYE.
    Open {
        /// GOODBYE is among the bytes to be sent, or was sent.
        parting: bool,
    },
    /// A rail on which the peer sends.
    RailIn(Box<RailIn>),
    /// A rail on which this side sends.
    RailOut,
    /// Our last words are on their way; whatever comes is thrown away until the end of file.
    Lingering {
        /// When it is closed regardless.
        until: Time,
        /// Whether our half is shut down already.
        shut: bool,
        /// Whether the peer has proved nothing: it makes way for others.
        stranger: bool,
    },
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) socket: Socket,
    pub(crate) stage: Stage,
    /// The VC it belongs to, or will.
    pub(crate) vc: Option<VcId>,
    /// Which end of a rail it is, or is to be; `None` for the stream of a VC.
    pub(crate) rail: Option<RailEnd>,
    /// What epoll watches, if it does.
    pub(crate) interest: Interest,
    /// Whether epoll knows the connection: hot ones leave it.
    pub(crate) in_epoll: bool,
    /// The peer has said GOODBYE: the end of its stream is no fault.
    pub(crate) peer_left: bool,
    /// It is not read: another connection has been offered in its place, with what was read of it.
    pub(crate) deaf: bool,
    /// By a better way, and to take the place of the VC's connection, which is whole: a dial, or
    /// what the peer offers.
    pub(crate) moves: bool,
    /// Handshake and farewell bytes that the kernel has not taken yet.
    pub(crate) out: Vec<u8>,
    /// A large receive was under way at the last read: read headers with little behind them.
    pub(crate) bulk: bool,
    /// How much a call reads into a receive.
    pub(crate) calls: Calls,
    /// The last plain read filled all the room it was given.
    pub(crate) filled: bool,
    /// Bytes of the session that were read, and how many are to be reported to `TcpNetmod::owes`.
    pub(crate) rx: u64,
    pub(crate) owe_at: u64,
    /// A dial: its number.
    pub(crate) dial: u64,
    /// The interfaces that it is between, by their numbers: mine, theirs; zeros if they do not matter.
    pub(crate) pair: (u32, u32),
    /// Incoming: what the peer proposes, until that is judged.
    pub(crate) proposed: Option<Box<Pairs>>,
    /// What the peer said of its session and itself, and the position up to which it has read.
    pub(crate) hail: Hail,
    /// The name of a session that begins on it.
    pub(crate) session_name: u64,
    pub(crate) peer_position: u64,
    /// Both sides want checksums; and, once it is adopted, where they are looked at.
    pub(crate) sealed: bool,
    pub(crate) opener: Option<Box<Opener>>,
    /// Since when its peer's host has acknowledged nothing of what waits, or `NEVER`.
    pub(crate) silent_since: Time,
}

impl Conn {
    pub(crate) fn new(socket: Socket, stage: Stage, vc: Option<VcId>) -> Conn {
        Conn {
            socket,
            stage,
            vc,
            rail: None,
            interest: Interest::NONE,
            in_epoll: false,
            peer_left: false,
            deaf: false,
            moves: false,
            out: Vec::new(),
            bulk: false,
            calls: Calls::default(),
            filled: false,
            dial: 0,
            pair: (0, 0),
            proposed: None,
            hail: Hail { session: 0, fresh: 0, incarnation: 0, dial: 0 },
            session_name: 0,
            peer_position: 0,
            rx: 0,
            owe_at: u64::MAX,
            sealed: false,
            opener: None,
            silent_since: Time::NEVER,
        }
    }

    #[inline]
    pub(crate) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}
