//! The TCP netmod.
//!
//! Non-blocking sockets under one epoll instance; connections made on first use and authenticated by
//! a mutual challenge-response ([`netmod_connection`]); crossing dials settled by a pure state machine ([`link`]);
//! small sends gathered into one system call, large ones sent from, and received into, the
//! user's memory. `docs/tcp.md` tells the whole.

mod accept;
mod address;
mod alive;
mod calls;
mod checkpoint;
mod config;
mod conn;
mod control;
mod dial;
mod ending;
mod error;
mod hot;
mod judge;
pub mod link;
mod links;
mod moving;
mod netmod;
mod own;
mod pairing;
mod pairs;
mod peers;
mod rail;

mod record;
mod recv;
mod sealed;
mod send;
mod session;
mod shake;
mod stats;
mod sys;
mod txq;
mod vc;
mod watch;
mod way;

pub use config::TcpConfig;
pub use control::{CONTROL_LEN, CONTROL_MARK, Control, ControlError};
pub use error::OpenError;
pub use netmod::TcpNetmod;
pub use netmod_connection::JobKey;
pub use stats::{TcpReport, TcpStats};

/// The netmod's name.
pub const NAME: &str = "tcp";
