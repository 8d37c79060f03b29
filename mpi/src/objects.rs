//! The objects of a process: a table of each kind.

use std::sync::Arc;

use ch3_shim::Device;

use crate::anytime::Anytime;
use crate::attr::Keyvals;
use crate::buffers::Buffers;
use crate::coll::Spares;
use crate::coll::choice::Forced;
use crate::comm::Comms;
use crate::context::{Contexts, of_failures};
use crate::datatype::Types;
use crate::error::Result;
use crate::ft::Tolerance;
use crate::group::Groups;
use crate::handle::{Comm, Table};
use crate::io::Files;
use crate::matched::Messages;
use crate::op::Ops;
use crate::partitioned::Partitioned;
use crate::session::Sessions;
use crate::win::Wins;

/// The objects of a process, without its requests.
#[derive(Debug)]
pub(crate) struct Objects {
    pub comms: Comms,
    pub groups: Groups,
    pub messages: Messages,
    pub types: Types,
    pub ops: Ops,
    pub anytime: Arc<Anytime>,
    pub keyvals: Keyvals,
    pub contexts: Contexts,
    pub sessions: Sessions,
    pub buffers: Buffers,
    pub files: Files,
    pub partitioned: Partitioned,
    pub wins: Wins,
    /// Runs of collective operations that are over, for the next ones.
    pub spares: Spares,
    /// The algorithms of collective operations that are set.
    pub forced: Forced,
    /// Agreements that outlast failures, and revoked communicators.
    pub ft: Tolerance,
}

impl Objects {
    /// Creates the objects that a process has from the beginning, beside those of `anytime`.
    ///
    /// # Errors
    /// A device that has duplicated communicators.
    pub(crate) fn new(dev: &mut Device, anytime: Arc<Anytime>) -> Result<Objects> {
        let (comms, contexts) = Contexts::at_init(dev)?;
        let failures = of_failures(dev)?;
        let mut ft = Tolerance::new(dev, failures);
        let predefined = [Comm::WORLD, Comm::SELF].map(|comm| comms.find(comm));
        predefined.into_iter().flatten().for_each(|comm| ft.note_made(&comm.core));
        Ok(Objects {
            ft,
            comms,
            groups: Groups::new(dev.rank()),
            messages: Table::new(),
            types: Types::default(),
            ops: Ops::default(),
            anytime,
            keyvals: Keyvals::default(),
            contexts,
            sessions: Sessions::default(),
            buffers: Buffers::default(),
            files: Files::default(),
            partitioned: Partitioned::default(),
            wins: Wins::default(),
            spares: Spares::default(),
            forced: Forced::read(|operation| dev.config().coll.algorithm(operation as usize)),
        })
    }
}
