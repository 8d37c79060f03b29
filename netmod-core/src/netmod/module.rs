//! The life of a netmod as a whole.

use crate::card::{Card, CardError, CardWriter};
use crate::error::{DeviceError, VcError};
use crate::netmod::Finalize;
use crate::pollers::Pollers;
use crate::rma::Rma;
use crate::slab::VcId;
use crate::state::Core;
use crate::time::Time;

/// A netmod as a part of its process: name, card, start and end. Its constructor opens it.
pub trait Module: Send {
    /// Returns its name, as in `NETMOD=tcp`.
    fn name(&self) -> &'static str;

    /// Returns the number of library threads that make its progress, and need a core while data
    /// moves.
    fn threads(&self) -> usize;

    /// Returns true if its peers are on this node and share memory with this process.
    ///
    /// Then the device offers them rings for large messages, and lets the cost of copies decide
    /// what goes eagerly.
    fn shares_memory(&self) -> bool;

    /// Joins the job, after all processes of the job have opened their netmods.
    ///
    /// Takes the job key, and the competition for this process's cores. From now on, peers that
    /// know the key may connect.
    ///
    /// # Errors
    ///
    /// Fails if the netmod cannot begin to accept peers.
    fn join_job(&mut self, job_key: [u8; 32], pollers: Pollers) -> Result<(), DeviceError>;

    /// Writes its section of the process's business card.
    ///
    /// # Errors
    ///
    /// Fails if it does not fit.
    fn business_card(&self, card: &mut CardWriter) -> Result<(), CardError>;

    /// Checks that a process with this card could be reached.
    ///
    /// # Errors
    ///
    /// [`VcErrorKind::Card`](crate::VcErrorKind::Card) with the reason why not, as one line for
    /// human readers.
    fn reachable(&mut self, card: &Card) -> Result<(), VcError>;

    /// Returns its one-sided transfers, if it has them for this VC; `None` means the Null mode.
    fn rma(&mut self, core: &Core, vc: VcId) -> Option<&mut dyn Rma>;

    /// Closes everything.
    ///
    /// Call it again, with polls between, until `Done`, or as long as the device has time. Then
    /// [`VcLife::vc_destroy`](crate::VcLife::vc_destroy) follows for each VC, and no other call.
    fn finalize(&mut self, core: &mut Core, now: Time) -> Finalize;
}
