//! Going on after failures (User Level Failure Mitigation, ULFM): communicators are revoked,
//! processes agree although some fail, and communicators shrink to those that live.
//!
//! The device knows who has failed, and fails what depends on it. This is the rest: `agree` is the
//! protocol of agreements, pure; `wire` its messages; `service` answers them in every call;
//! `calls` has the functions.

mod agree;
#[cfg(test)]
mod agree_model;
mod calls;
mod service;
mod wire;

pub(crate) use service::Tolerance;
