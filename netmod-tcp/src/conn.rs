//! One TCP connection, from `socket` or `accept` to `close`.

use std::os::fd::{AsRawFd, RawFd};

use netmod_connection::{Initiator, Responder};
use netmod_core::slab::Handle;
use netmod_core::{PeerName, Time, VcId};
use socket2::Socket;

use crate::calls::Calls;
use crate::link::{ConnKey, HandshakeParams};
use crate::pairs::Pairs;
use crate::rail::reader::ChunkReader;
use crate::record::{Opener, Seal};
use crate::sys::Interest;

/// The kind of object that a [`ConnId`] is a handle of.
#[derive(Debug)]
pub(crate) enum ConnKind {}
pub(crate) type ConnId = Handle<ConnKind>;

/// Returns the key by which a link knows a connection.
pub(crate) fn key(id: ConnId) -> ConnKey {
    ConnKey(id.to_wire())
}

/// Returns the connection that a link means.
pub(crate) fn id(key: ConnKey) -> ConnId {
    ConnId::from_wire(key.0)
}

/// An end of a rail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RailEnd {
    /// This side sends data on it: the rail of that number.
    Out(u8),
    /// The peer sends data on it.
    In,
}

/// The meaning of a connection's bytes. The link of the VC knows more.
#[derive(Debug)]
pub(crate) enum Stage {
    /// A dial: TCP is connecting.
    Connecting,
    /// A dial: the handshake is under way.
    Dial(Box<Initiator>),
    /// Incoming: the handshake is under way; the peer is unauthenticated.
    Unauthenticated(Box<Responder>),
    /// Incoming: the peer has proved its name; a VC is awaited, or the link has promised it.
    Proved(Box<Responder>, PeerName),
    /// Adopted: messages flow.
    Open {
        /// GOODBYE is among the bytes to be sent, or was sent.
        parting: bool,
    },
    /// A rail on which the peer sends.
    RailIn(Box<ChunkReader>),
    /// A rail on which this side sends.
    RailOut,
    /// Our last words are on their way; input is thrown away until the end of file.
    Lingering {
        /// Time at which it is closed regardless.
        until: Time,
        /// Our half is shut down.
        shut: bool,
        /// The peer is unauthenticated: it makes room for others.
        unauthenticated: bool,
    },
}

/// The registration of a connection with epoll.
#[derive(Debug)]
pub(crate) struct Registration {
    /// The events that epoll watches for, if it knows the connection.
    pub(crate) interest: Interest,
    /// Epoll knows the connection; those of the active set leave it.
    pub(crate) joined: bool,
    /// It is not read: another connection is offered in its place, with what was read of it.
    pub(crate) deaf: bool,
}

/// The receiving side of a connection.
#[derive(Debug)]
pub(crate) struct Reading {
    /// A large receive was under way at the last read: read headers with little behind them.
    pub(crate) bulk: bool,
    /// The last plain read filled all the room it was given.
    pub(crate) filled: bool,
    /// Bounds of a call that reads into a receive.
    pub(crate) calls: Calls,
    /// Bytes of the session that were read.
    pub(crate) position: u64,
    /// Position from which on the session is told of what was read.
    pub(crate) owe_at: u64,
    /// Checks the records of an adopted connection, or of a rail, that has them.
    pub(crate) opener: Option<Box<Opener>>,
}

/// The checks and the protection of the two directions of a connection.
#[derive(Debug)]
pub(crate) struct Seals {
    pub(crate) out: Seal,
    /// `None` once the connection is read.
    pub(crate) inn: Option<Seal>,
    /// Bytes that went out in records on a rail; the position of a stream is its queue's.
    pub(crate) rail_sent: u64,
}

/// Parameters that the two sides have told each other in the handshake.
#[derive(Debug)]
pub(crate) struct Handshake {
    /// Number of the dial; 0 of an incoming connection.
    pub(crate) dial: u64,
    /// Incoming: the pairs that the peer proposes, until they are judged.
    pub(crate) proposed: Option<Box<Pairs>>,
    /// The peer's parameters.
    pub(crate) params: HandshakeParams,
    /// Name of a session that begins on this connection.
    pub(crate) session_name: u64,
    /// Position up to which the peer has read.
    pub(crate) peer_position: u64,
    /// The checks and the protection of its records, if it has records.
    pub(crate) seals: Option<Box<Seals>>,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) socket: Socket,
    pub(crate) stage: Stage,
    /// The VC it belongs to, or will.
    pub(crate) vc: Option<VcId>,
    /// The end of a rail that it is, or is to be; `None` for the stream of a VC.
    pub(crate) rail: Option<RailEnd>,
    pub(crate) epoll: Registration,
    pub(crate) rx: Reading,
    pub(crate) handshake: Handshake,
    /// The peer has said GOODBYE: the end of its stream is no fault.
    pub(crate) peer_left: bool,
    /// A dial or an offer that is to replace the VC's connection, which works, by a better route.
    pub(crate) moves: bool,
    /// Handshake and farewell bytes that the kernel has not taken yet.
    pub(crate) out: Vec<u8>,
    /// Numbers of the two interfaces: mine, theirs; zeros if they do not matter.
    pub(crate) pair: (u32, u32),
    /// Time since which the peer's host has acknowledged nothing of what waits, or `NEVER`.
    pub(crate) silent_since: Time,
}

impl Conn {
    pub(crate) fn new(socket: Socket, stage: Stage, vc: Option<VcId>) -> Conn {
        Conn {
            socket,
            stage,
            vc,
            rail: None,
            epoll: Registration { interest: Interest::NONE, joined: false, deaf: false },
            rx: Reading {
                bulk: false,
                filled: false,
                calls: Calls::default(),
                position: 0,
                owe_at: u64::MAX,
                opener: None,
            },
            handshake: Handshake {
                dial: 0,
                proposed: None,
                params: HandshakeParams { session: 0, fresh: 0, incarnation: 0, dial: 0 },
                session_name: 0,
                peer_position: 0,
                seals: None,
            },
            peer_left: false,
            moves: false,
            out: Vec::new(),
            pair: (0, 0),
            silent_since: Time::NEVER,
        }
    }

    #[inline]
    pub(crate) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Puts a piece of a rail's bytes into a record, behind what waits for the kernel.
    pub(crate) fn seal_piece(&mut self, fill: impl FnOnce(&mut Vec<u8>)) {
        let Some(Seals { out, rail_sent, .. }) = self.handshake.seals.as_deref_mut() else { return };
        let at = out.begin(&mut self.out);
        fill(&mut self.out);
        let record = &mut self.out[at..];
        out.finish(*rail_sent, record);
        *rail_sent += (record.len() - out.head_len()) as u64;
    }

    /// Returns the number of the rail that this dial is to become.
    pub(crate) fn rail_number(&self) -> Option<u64> {
        match self.rail {
            Some(RailEnd::Out(n)) => Some(u64::from(n)),
            Some(RailEnd::In) | None => None,
        }
    }

    /// Returns the name of this connection in SUSPEND, as one of its two ends says it.
    ///
    /// Both ends know which of them has dialled it, and its number among the dials of that process.
    pub(crate) fn name(&self, said_by_us: bool) -> u64 {
        let Handshake { dial, params, .. } = &self.handshake;
        let (dial, ours) = if *dial != 0 { (*dial, true) } else { (params.dial, false) };
        dial << 1 | u64::from(ours == said_by_us)
    }
}
