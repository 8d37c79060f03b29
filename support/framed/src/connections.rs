//! The connections' manager with the tasks that it has for the netmod.

use crate::conn::{Action, Manager};

/// The manager, and the actions that are not carried out yet.
#[derive(Debug)]
pub(crate) struct Connections {
    pub(crate) manager: Manager,
    /// Tasks in order; the next poll does those that are left.
    pub(crate) actions: Vec<Action>,
}

impl Connections {
    pub(crate) fn new(manager: Manager) -> Connections {
        Connections { manager, actions: Vec::new() }
    }
}
