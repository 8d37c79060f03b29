//! The TCP netmod.
//!
//! Non-blocking sockets under one epoll instance; connections made on first use and authenticated
//! by a mutual challenge-response ([`netmod_connection`]); crossing dials settled by a pure state
//! machine ([`link`]); small sends gathered into one system call, large ones sent from, and
//! received into, the user's memory. `docs/tcp.md` tells the whole.

mod calls;
mod card;
mod clock;
mod config;
mod conn;
mod control;
mod error;
mod interfaces;
mod life;
pub mod link;
mod netmod;
mod pairs;
mod policy;
mod pulse;
mod rail;
mod record;
mod route;
mod sessions;
mod sockets;
mod stats;
mod sys;
mod txq;
mod vc;
mod work;

pub use card::short_section;
pub use config::TcpConfig;
pub use control::{CONTROL_LEN, CONTROL_MARK, Control, ControlError};
pub use error::OpenError;
pub use netmod::TcpNetmod;
pub use netmod_connection::JobKey;
pub use stats::{TcpReport, TcpStats};

/// The netmod's name.
pub const NAME: &str = "tcp";
