//! The scenario files of `netmod-perf pair`.
#![allow(dead_code)]

#[path = "../../perf/src/pair/file.rs"]
mod file;
#[path = "../../perf/src/pair/outcome.rs"]
mod outcome;
#[path = "../../perf/src/pair/scenario.rs"]
pub(crate) mod scenario;
