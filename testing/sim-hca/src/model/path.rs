//! Alternate paths of connected queue pairs, and their migration (InfiniBand Architecture
//! Specification, 17.2.8).

use hca::{AltPath, AsyncEvent, PathMigState};

use crate::model::device::PortId;
use crate::model::refusal::{Refusal, valid};
use crate::model::wire::Packet;
use crate::model::{Id, State};

/// The alternate path of a queue pair, and the state of its migration.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Paths {
    /// The path, and the port that it leads to.
    alt: Option<(AltPath, Option<PortId>)>,
    pub(crate) state: PathMigState,
}

impl Paths {
    /// Returns true if packets ask the peer to change to its alternate path (`MigReq`).
    pub(crate) fn asks(&self) -> bool {
        self.state == PathMigState::Migrated
    }
}

/// Returns true if a packet has come to this port from the peer that is expected there.
fn is_on(here: PortId, peer: Option<PortId>, packet: &Packet) -> bool {
    packet.to == here && peer == Some(packet.from)
}

impl State {
    /// Checks and sets an alternate path and a migration state.
    ///
    /// # Errors
    /// The refusal, which names the invalid attribute.
    pub(crate) fn set_paths(
        &mut self,
        id: Id,
        alt: Option<AltPath>,
        state: Option<PathMigState>,
    ) -> Result<(), Refusal> {
        let qp = self.qps.get(&id).ok_or(hca::errno::ENODEV)?;
        let (device, paths) = (qp.device, qp.paths);
        let able = self.devices[device].attr().path_migration;
        valid(able || alt.is_none(), "alt_ah_attr: the device has no path migration")?;
        valid(able || state.unwrap_or_default() == PathMigState::Migrated, "path_mig_state")?;
        let mut loaded = paths.alt;
        if let Some(alt) = alt {
            let port_id = PortId { device, port: alt.ah.port };
            let port = self.port(port_id).map_err(|_| Refusal::of("alt_port_num"))?;
            valid(alt.pkey_index < port.pkey_table_len, "alt_pkey_index")?;
            valid(alt.timeout <= 31, "alt_timeout")?;
            self.check_route(device, &alt.ah).map_err(|_| Refusal::of("alt_ah_attr"))?;
            loaded = Some((alt, self.find_port(device, &alt.ah)));
        }
        let migrates = match (state, paths.state) {
            // Only the device sets this state.
            (Some(PathMigState::Armed), _) => return Err(Refusal::of("path_mig_state: set by the device")),
            (Some(PathMigState::Rearm), _) => {
                valid(loaded.is_some(), "path_mig_state: no alternate path is loaded")?;
                false
            }
            (Some(PathMigState::Migrated), PathMigState::Armed) => {
                valid(alt.is_none(), "alt_ah_attr: the queue pair leaves for the one that it has")?;
                true
            }
            (Some(PathMigState::Migrated), PathMigState::Migrated) | (None, PathMigState::Migrated) => false,
            (Some(PathMigState::Migrated), PathMigState::Rearm) => {
                return Err(Refusal::of("path_mig_state: the queue pair is not armed"));
            }
            // The peer has not loaded the other end of the new path yet.
            (None, _) => {
                valid(
                    alt.is_none(),
                    "alt_ah_attr: an armed path is replaced only with path_mig_state rearm",
                )?;
                false
            }
        };
        if let Some(qp) = self.qps.get_mut(&id) {
            qp.paths.alt = loaded;
            qp.paths.state = state.unwrap_or(qp.paths.state);
        }
        if migrates {
            self.migrate(id);
        }
        Ok(())
    }

    /// Changes to the alternate path of an armed queue pair, and restarts its retries. Returns
    /// false if it is not armed.
    pub(crate) fn try_migrate(&mut self, id: Id) -> bool {
        let armed = self.qps.get(&id).is_some_and(|qp| qp.paths.state == PathMigState::Armed);
        if armed {
            self.migrate(id);
        }
        armed
    }

    fn migrate(&mut self, id: Id) {
        let Some(qp) = self.qps.get_mut(&id) else { return };
        let Some((alt, peer)) = qp.paths.alt.take() else { return };
        (qp.port, qp.peer, qp.paths.state) = (alt.ah.port, peer, PathMigState::Migrated);
        if let Some(rtr) = &mut qp.rtr {
            rtr.ah = alt.ah;
        }
        if let Some(rts) = &mut qp.rts {
            rts.timeout = alt.timeout;
            qp.sq.retries = rts.retry_cnt;
        }
        self.event_of_qp(id, AsyncEvent::PathMigrated);
    }

    /// Handles a packet's information about its sender's paths. Returns true if it has arrived on
    /// the queue pair's path; others are dropped.
    pub(crate) fn came(&mut self, id: Id, packet: &Packet) -> bool {
        let Some(qp) = self.qps.get_mut(&id) else { return false };
        let at = |port| PortId { device: qp.device, port };
        if is_on(at(qp.port), qp.peer, packet) {
            if !packet.migrated && qp.paths.state == PathMigState::Rearm {
                qp.paths.state = PathMigState::Armed;
            }
            return true;
        }
        if !packet.migrated || qp.paths.state != PathMigState::Armed {
            return false;
        }
        if qp.paths.alt.is_some_and(|(alt, peer)| is_on(at(alt.ah.port), peer, packet)) {
            self.migrate(id);
            return true;
        }
        self.event_of_qp(id, AsyncEvent::PathMigrationFailed);
        false
    }
}
