//! A netmod from its start to its end.

use crate::card::{Card, CardError, CardWriter};
use crate::engine::Core;
use crate::error::DeviceError;
use crate::netmod::Finalize;
use crate::pollers::Pollers;
use crate::rma::Rma;
use crate::slab::VcId;
use crate::time::Time;

/// What a netmod is to its process: its name, its card, its end. Its constructor opens it.
pub trait Module: Send {
    /// Its name, as in `NETMOD=tcp`.
    fn name(&self) -> &'static str;

    /// Number of threads of libraries that make its progress, and need a core while anything moves.
    fn threads(&self) -> usize;

    /// Returns true if its peers are on this node and share memory with this process. Then the device offers them rings for large messages, and
    /// lets the costs of copies decide what goes eagerly.
    fn shares_memory(&self) -> bool;

    /// Joins the job, all of whose processes have opened their netmods by now: takes the secret that they share, and who shares
    /// this process's cores. From now on peers that know the secret may connect.
    ///
    /// # Errors
    /// If the netmod cannot begin to accept peers.
    fn join_job(&mut self, job_key: [u8; 32], pollers: Pollers) -> Result<(), DeviceError>;

    /// Writes its section of the process's business card.
    ///
    /// # Errors
    /// If it does not fit.
    fn business_card(&self, card: &mut CardWriter) -> Result<(), CardError>;

    /// Checks that a process with this card could be reached.
    ///
    /// # Errors
    /// The reason why not, as one line that a person understands.
    fn reachable(&mut self, card: &Card) -> Result<(), String>;

    /// Its one-sided transfers, if it has them for this VC; `None` is the Null mode.
    fn rma(&mut self, core: &Core, vc: VcId) -> Option<&mut dyn Rma>;

    /// Closes everything. Called again, with polls between, until `Done`, or as long as the device has time. Then comes
    /// [`VcLife::vc_destroy`](crate::VcLife::vc_destroy) for each VC, and nothing else.
    fn finalize(&mut self, core: &mut Core, now: Time) -> Finalize;
}
