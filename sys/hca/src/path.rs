//! Alternate paths and automatic path migration (InfiniBand Architecture Specification, 17.2.8).

use crate::address::AhAttr;

/// The alternate path of a connected queue pair (`alt_*` of `ibv_modify_qp(3)`, `IBV_QP_ALT_PATH`).
///
/// It may be loaded with the steps to ready to receive and ready to send, and while the queue pair
/// is ready to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AltPath {
    /// The route to the peer. Its port is this side's alternate port (`alt_port_num`).
    pub ah: AhAttr,
    /// Index of the partition key in the alternate port's table.
    pub pkey_index: u16,
    /// Acknowledgement timeout on this path, as a code (see [`crate::timeout_wait`]).
    pub timeout: u8,
}

/// State of a queue pair's path migration (`enum ibv_mig_state`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PathMigState {
    /// Nothing is armed. Setting this state on an armed queue pair makes it change to its alternate
    /// path.
    #[default]
    Migrated = 0,
    /// An alternate path is loaded; the peer has not reported yet that it has loaded one.
    Rearm = 1,
    /// Both sides have loaded one. Only the device sets this state.
    Armed = 2,
}

impl PathMigState {
    /// Returns the state with this code of verbs.
    pub fn of_code(code: u32) -> Option<PathMigState> {
        [PathMigState::Migrated, PathMigState::Rearm, PathMigState::Armed]
            .into_iter()
            .find(|state| *state as u32 == code)
    }
}
