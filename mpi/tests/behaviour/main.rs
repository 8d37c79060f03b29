//! The behaviour of the library: jobs whose ranks are threads of the test.

#![allow(unsafe_code)]

mod attributes;
mod buffered;
mod collectives;
mod communicators;
mod files;
mod handles;
mod job;
mod messages;
mod operations;
mod persistent;
mod requests;
mod sessions;
mod threads;
mod topologies;
mod windows;
