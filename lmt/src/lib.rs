//! Large-message transfer (LMT): the way of an announced message to its receiver.
//!
//! After RTS has been matched, the data moves in one of four modes ([`Mode`]): Null, Put, Get,
//! Cooperative. The two sides are [`SendLmt`] and [`RecvLmt`]: pure state machines that take events
//! ([`Event`]) and return actions ([`Action`]). They know neither the layout of packets nor the
//! network; a driver carries the actions out.
//!
//! - [`cookie`]: the bytes that the sides send each other.
//! - [`coop`]: the ring of the Cooperative mode.
//! - [`choice`]: the choice of the mode.
//! - [`probe`]: the measurement of what copies cost.
//! - [`autotune`]: the choice by the times of earlier messages.
//!
//! Source: the LMT interface of MPICH's Nemesis. Its hooks are events here: `initiate_lmt` is
//! [`SendLmt::start`], `start_recv` [`RecvLmt::start`], `start_send` [`Event::Cts`],
//! `handle_cookie` [`Event::Window`], [`Event::WindowAck`] and [`Event::Refused`], `done_send` and
//! `done_recv` [`Event::Done`], and the termination of a VC [`Event::Lost`].

pub mod autotune;
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
mod window;

pub use mode::{Mode, Modes};
pub use recv::{RecvLmt, RecvPhase};
pub use send::{SendLmt, SendPhase};
pub use table::{Access, Action, Actions, Ending, Event, Fault, Window};
pub use window::MIN_WINDOW;

#[cfg(test)]
mod explore;
