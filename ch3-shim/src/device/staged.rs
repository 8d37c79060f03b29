//! Messages that calls leave staged, and the helper that sends them.

use netmod_core::{Engine, Netmod};

use super::Vci;
use crate::netset::NetSet;
use crate::progress::{HelperStats, Staging};

impl Staging for Engine<NetSet> {
    #[inline]
    fn is_staged(&self) -> bool {
        self.core.is_staged()
    }

    #[inline]
    fn push(&mut self) -> bool {
        self.core.clear_staged();
        self.netmod.flush(&mut self.core);
        self.core.is_staged()
    }
}

impl Vci {
    /// Hands what is staged to the network. Makes no other progress.
    #[inline]
    pub fn flush(&mut self) {
        self.engine.push();
    }

    /// Ends a call of the program: what it leaves staged is the helper's to send, if no other call
    /// comes. Methods of [`Device`](super::Device) do so themselves; a layer above that uses
    /// several methods of one `Vci` for a call of its own does it at the end.
    #[inline]
    pub fn end_call(&mut self) {
        self.engine.end_call();
    }

    /// Counts of the helper thread, which sends staged messages (`NETMOD_PROGRESS`). All zero
    /// before it was needed for the first time, and if there is none.
    pub fn helper_stats(&self) -> HelperStats {
        self.engine.counts()
    }
}
