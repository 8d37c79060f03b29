//! The part of one side in a message.

use netmod_core::{Ability, RmaUse};
use netmod_lmt::Mode;

/// The part of this side in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// It sends so many bytes.
    Sender(u64),
    Receiver,
}

impl Part {
    /// Returns the ability of this side for Put or Get.
    pub(super) fn ability(self, rma: &RmaUse, mode: Mode) -> Ability {
        match (self, mode) {
            (Part::Sender(_), Mode::Put) => rma.puts,
            (Part::Sender(_), _) => rma.is_got_from,
            (Part::Receiver, Mode::Put) => rma.is_put_to,
            (Part::Receiver, _) => rma.gets,
        }
    }
}
