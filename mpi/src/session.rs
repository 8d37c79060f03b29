//! The sessions of a process.

use crate::handle::{Errhandler, Session, Table};

/// A session.
#[derive(Debug)]
pub(crate) struct Entry {
    pub errhandler: Errhandler,
    /// Hints, by key.
    pub hints: Vec<(String, String)>,
}

/// The sessions of a process.
pub(crate) type Sessions = Table<Session, Entry>;
