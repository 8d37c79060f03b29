//! Large-message transfer (LMT): how a message that was announced gets to its receiver.
//!
//! After RTS has been matched the data moves in one of four modes ([`Mode`]): Null, Put, Get, Cooperative.
//! The two sides are [`SendLmt`] and [`RecvLmt`]: pure state machines that are told what happened
//! ([`Event`]) and say what to do ([`Action`]). They know neither the layout of packets nor the network; whoever
//! drives them carries the actions out. [`cookie`] has the bytes that the sides tell each other, [`coop`]
//! the ring of the Cooperative mode, [`choice`] which mode is taken, [`probe`] what copies cost, and [`trials`] what messages have
//! really taken.
//!
//! Source: the LMT interface of MPICH's Nemesis. Its hooks are events here: `initiate_lmt` is
//! [`SendLmt::start`], `start_recv` [`RecvLmt::start`], `start_send` [`Event::Cts`], `handle_cookie`
//! [`Event::Window`], [`Event::At`] and [`Event::Refused`], `done_send` and `done_recv` [`Event::Done`], and the
//! termination of a VC [`Event::Lost`].

pub mod choice;
pub mod cookie;
pub mod coop;
mod mode;
mod mutant;
pub mod probe;
pub mod rates;
mod recv;
mod send;
mod table;
pub mod trials;
mod window;

pub use mode::{Mode, Modes};
pub use recv::{RecvLmt, RecvPhase};
pub use send::{SendLmt, SendPhase};
pub use table::{Access, Action, Actions, Ending, Event, Fault};
pub use window::{MIN_WINDOW, Window};

#[cfg(test)]
mod explore;
