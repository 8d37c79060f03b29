//! The state of a collective operation of a communicator.

use std::sync::Arc;

use ch3_shim::RawReq;

use super::call::Call;
use super::choice::Forced;
use super::engine::Active;
use super::node_memory::{Lane, Place};
use super::start::Checked;
use crate::comm::CommCore;
use crate::datatype::TypeDesc;
use crate::error::Result;
use crate::handle::Datatype;

/// The state of an operation. The next one like it has its memory.
#[derive(Debug)]
pub(super) struct Operation {
    pub active: Active<RawReq>,
    /// The call, if it can be repeated.
    pub call: Option<Call>,
    /// The communicator. The next operation need not count its owners: an atomic operation would
    /// wait until other processes have all that was stored before.
    pub core: Arc<CommCore>,
    /// The number of the operation.
    pub number: u64,
    /// Its slots in memory that the processes share. A persistent operation may have none.
    pub lane: Option<Lane>,
    /// The tag of its messages, which no other operation of the communicator has.
    pub tag: i32,
    /// Its processes agree on what they share before it begins.
    pub agrees: bool,
    /// Its place among the operations that have not begun, until it begins.
    pub turn: Option<u32>,
    /// The call whose run is prepared once the processes have agreed. It is checked at once, since
    /// types and operations may be freed before. If it could not be prepared, no start of it
    /// succeeds.
    pub checked: Option<Result<Box<Checked>>>,
    /// The algorithms that are set for this process.
    pub forced: Forced,
    /// Its place in memory that the processes share.
    pub place: Option<Place>,
    /// The type of a reduction, by the handle that the call gave.
    pub operand: Option<(Datatype, Arc<TypeDesc>)>,
    /// A handle that an operation of the program is given, since the call's was freed.
    pub alias: Option<Datatype>,
}

impl Operation {
    /// Creates one without a call.
    pub(super) fn new(core: &Arc<CommCore>) -> Operation {
        Operation {
            active: Active::empty(),
            call: None,
            core: Arc::clone(core),
            number: 0,
            lane: None,
            tag: 0,
            agrees: false,
            turn: None,
            checked: None,
            forced: Forced::default(),
            place: None,
            operand: None,
            alias: None,
        }
    }

    /// Gives up what only the same call could use, unless it can be repeated.
    #[inline]
    pub(super) fn clear(&mut self) {
        let repeats = self.call.is_some();
        self.active.leave(repeats);
        if !repeats {
            (self.checked, self.operand) = (None, None);
        }
    }
}
