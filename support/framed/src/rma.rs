//! One-sided transfers: registrations, puts and gets in parts, atomic operations.
//!
//! A registration lives as long as the transfer that it is for; nothing is cached. Where the device
//! does not want local memory registered, it is not. Transfers longer than the device or [`PART`]
//! allows are cut; parts that the device will not take yet wait.

use std::borrow::Cow;
use std::time::Duration;

use netmod_core::rma::{Access, AtomicArgs, RegionError, RegionId, Remote, RemoteKey, RmaAtomic, RmaCaps};
use netmod_core::{Ability, Core, Event, Rma, RmaBuf, RmaOp, RmaUse, VcError, VcErrorKind, VcId};

use crate::book::Dest;
use crate::device::{self, Device, Lent, Port, Refused};
use crate::netmod::FrameNetmod;
use crate::transfers::{Handle, Key, Moves, Registered, Transfer, TransferKind};

/// Most bytes that one operation moves.
const PART: usize = 16 << 20;
/// Transfers that are tried again in one poll: who has thousands under way must not try them all
/// for each that ends.
const TRIES: usize = 16;
/// Looks of an owner that takes memory back before it sleeps in between, the length of a sleep, and
/// most looks in all. That is about five seconds, several times what a device goes on trying to
/// reach a peer that does not answer.
const EAGER_LOOKS: u32 = 1000;
const NAP: Duration = Duration::from_millis(1);
const LOOKS: u32 = 6000;

impl<D: Device> FrameNetmod<D> {
    /// Returns the destination of transfers with a VC's peer.
    pub(crate) fn transfer_way(&mut self, vc: VcId) -> Result<Dest, VcError> {
        let Some(l) = self.links.get(vc) else {
            let text = format!("the VC is not in the charge of netmod {}", D::NAME);
            return Err(VcError::new(VcErrorKind::Aborted, None, text));
        };
        if let Some(e) = &l.down {
            return Err(e.clone());
        }
        let unsupported = |text: &str| VcError::new(VcErrorKind::Unsupported, Some(l.peer), text);
        let open = l.open.ok_or_else(|| unsupported("its connection is not made yet"))?;
        if !self.ports.get(open.dest.port).is_some_and(Port::has_rma) {
            return Err(unsupported("the device has no one-sided transfers"));
        }
        Ok(open.dest)
    }

    /// Returns the peer's registration that a key describes.
    fn peer_key(&self, vc: VcId, key: &RemoteKey) -> Result<Key, VcError> {
        Key::parse(key).ok_or_else(|| RegionError::ForeignKey.of(self.links.get(vc).map(|l| l.peer)))
    }

    fn start(&mut self, op: &RmaOp<'_>, access: Access) -> Result<(), VcError> {
        let dest = self.transfer_way(op.vc)?;
        let key = self.peer_key(op.vc, op.key)?;
        let checked = self.transfers.regions.check(op, access, &key.remote, |own| own.port == dest.port);
        let (_, remote) = checked.map_err(|e| e.of(self.links.get(op.vc).map(|l| l.peer)))?;
        let moves = if access == Access::RemoteRead { Moves::Get } else { Moves::Put };
        self.begin(op, moves, dest, device::Remote { key: key.key, base: remote });
        Ok(())
    }

    /// Begins a transfer whose regions permit it.
    fn begin(&mut self, op: &RmaOp<'_>, moves: Moves, dest: Dest, to: device::Remote) {
        let transfer = Transfer {
            vc: op.vc,
            op: op.op,
            moves,
            region: op.local,
            dest,
            at: op.at,
            left: op.len,
            remote: to.base,
            key: to.key,
            under_way: 0,
            waits: false,
            failed: None,
        };
        let number = self.transfers.running.insert(transfer);
        if let Some(l) = self.links.get_mut(op.vc) {
            l.traffic.transfers += 1;
        }
        self.go_on(number);
    }

    /// Starts what is left of a transfer, as far as the device takes it.
    fn go_on(&mut self, number: Handle<TransferKind>) {
        loop {
            let Some(t) = self.transfers.running.get_mut(number) else { return };
            if t.left == 0 || t.failed.is_some() {
                return self.settle_transfer(number);
            }
            let Some(port) = self.ports.get_mut(t.dest.port) else { return };
            let len = match t.moves {
                Moves::Atomic(_) => t.left,
                Moves::Put | Moves::Get => t.left.min(PART).min(port.max_transfer()),
            };
            let region = self.transfers.regions.get_mut(t.region);
            let Some((mem, region)) = region.and_then(|r| r.part_and_own(t.at, len)) else {
                t.failed = Some(RegionError::Ended.of(None));
                continue;
            };
            let lent = Lent { mem, registration: region.registration.as_ref() };
            let (to, wire) = (t.dest.addr, number.to_wire());
            let started = match &t.moves {
                Moves::Get => port.read(lent, to, t.remote, t.key, wire),
                Moves::Put => port.write(lent, to, t.remote, t.key, wire),
                Moves::Atomic(args) => {
                    let remote = device::Remote { key: t.key, base: t.remote };
                    port.atomic(lent, to, remote, args, wire)
                }
            };
            match started {
                Ok(()) => {
                    region.in_use += 1;
                    t.under_way += 1;
                    t.remote += len as u64;
                    t.at += len;
                    t.left -= len;
                }
                Err(Refused::Again) => {
                    self.stats.refused += 1;
                    if !std::mem::replace(&mut t.waits, true) {
                        self.transfers.waiting.push_back(number);
                    }
                    return;
                }
                Err(Refused::Failed(why)) => {
                    let peer = self.links.get(t.vc).map(|l| l.peer);
                    let text = D::WORDS.says(&why.to_string());
                    t.failed = Some(VcError::new(VcErrorKind::Lost, peer, text));
                }
            }
        }
    }

    /// Tries again what the device has not taken.
    #[cold]
    pub(crate) fn start_waiting(&mut self) {
        for _ in 0..self.transfers.waiting.len().min(TRIES) {
            let Some(number) = self.transfers.waiting.pop_front() else { return };
            if let Some(t) = self.transfers.running.get_mut(number) {
                t.waits = false;
            }
            self.go_on(number);
        }
    }

    /// Handles the end of an operation of a transfer. `failure`: the device's reason, if it failed.
    pub(crate) fn transfer_ended(&mut self, number: u64, failure: Option<&str>) {
        let number = Handle::from_wire(number);
        let Some(t) = self.transfers.running.get_mut(number) else { return };
        t.under_way = t.under_way.saturating_sub(1);
        if let Some(region) = self.transfers.regions.get_mut(t.region) {
            region.own.in_use = region.own.in_use.saturating_sub(1);
        }
        if let Some(why) = failure
            && t.failed.is_none()
        {
            let peer = self.links.get(t.vc).map(|l| l.peer);
            let text = format!("a one-sided transfer failed, {} says: {why}", D::WORDS.what);
            t.failed = Some(VcError::new(VcErrorKind::Lost, peer, text));
        }
        self.settle_transfer(number);
    }

    /// Reports a transfer of which nothing is under way, and nothing will be.
    fn settle_transfer(&mut self, number: Handle<TransferKind>) {
        let Some(t) = self.transfers.running.get(number) else { return };
        if t.under_way > 0 || (t.left > 0 && t.failed.is_none()) {
            return;
        }
        let Some(t) = self.transfers.running.remove(number) else { return };
        if let Some(l) = self.links.get_mut(t.vc) {
            l.traffic.transfers = l.traffic.transfers.saturating_sub(1);
        }
        let result = t.failed.map_or(Ok(()), Err);
        self.work.events.push_back(Event::RmaDone { vc: t.vc, op: t.op, result });
    }

    /// Ends the transfers of a VC that has failed: no part of them is started any more.
    pub(crate) fn fail_transfers(&mut self, vc: VcId, error: &VcError) {
        let mut over = Vec::new();
        for (number, t) in self.transfers.running.iter_mut() {
            if t.vc == vc {
                t.failed.get_or_insert_with(|| error.clone());
                over.push(number);
                if t.under_way > 0
                    && let Some(port) = self.ports.get_mut(t.dest.port)
                {
                    port.cancel_transfer(number.to_wire());
                }
            }
        }
        for number in over {
            self.settle_transfer(number);
        }
    }

    /// Waits until the device no longer uses a region's memory, and closes its registration.
    /// Returns false if that was not possible.
    fn take_back(&mut self, region: &mut Registered<<D::Port as Port>::Registration>, id: RegionId) -> bool {
        for looks in 0..LOOKS {
            let in_use = self.transfers.regions.get(id).map_or(0, |r| r.own.in_use);
            if in_use == 0 {
                let Some(registration) = &mut region.registration else { return true };
                let Some(port) = self.ports.get(region.port) else { return true };
                if port.deregister(registration).is_ok() {
                    return true;
                }
            }
            if looks == EAGER_LOOKS {
                tracing::warn!(
                    "{} still uses memory that is to be given back; is a peer not making progress?",
                    D::WORDS.what
                );
            }
            if looks > EAGER_LOOKS {
                std::thread::sleep(NAP);
            }
            self.progress_transfers(region.port);
        }
        false
    }

    /// Closes the endpoint of a device that does not give memory back, which it must respect.
    #[cold]
    fn shut_port(&mut self, core: &mut Core, port: usize) {
        tracing::error!(
            domain = self.device_text(|own| own.name_of(port)),
            "{} does not give memory back; its endpoint is closed, with all connections",
            D::WORDS.what
        );
        if let Some(p) = self.ports.get_mut(port) {
            p.shut();
        }
        let all: Vec<VcId> = self.by_peer.values().copied().collect();
        for vc in all {
            let peer =
                self.links.get(vc).filter(|l| l.open.is_some_and(|o| o.dest.port == port)).map(|l| l.peer);
            if peer.is_some() {
                let text = format!(
                    "{}'s endpoint was closed, because it did not give memory back after a failure",
                    D::WORDS.what
                );
                self.fail(core, vc, VcError::new(VcErrorKind::Lost, peer, text));
            }
        }
    }
}

impl<D: Device> Rma for FrameNetmod<D> {
    fn usable(&mut self, _core: &Core, vc: VcId) -> Result<RmaUse, Cow<'static, str>> {
        if self.links.get(vc).is_some_and(|l| l.down.is_none() && l.open.is_none()) {
            return Ok(RmaUse::SOON);
        }
        let dest = self.transfer_way(vc).map_err(|e| Cow::from(e.to_string()))?;
        // Memory of a registration that was closed is freed: nobody may write to it any more.
        let revokes = self.ports.get(dest.port).is_some_and(Port::revokes_puts);
        let puts = if revokes { Ability::Yes } else { Ability::Never };
        Ok(RmaUse { puts, is_put_to: puts, ..RmaUse::ALL })
    }

    fn caps(&self, _core: &Core, vc: VcId) -> RmaCaps {
        // No device can be relied on to make progress by itself, whatever it claims.
        let caps = self.transfers.regions.caps(true);
        let Some(dest) = self.links.get(vc).and_then(|l| l.open).map(|open| open.dest) else { return caps };
        let atomics = self.ports.get(dest.port).map_or(caps.atomics, Port::atomics);
        RmaCaps { device: dest.port as u32, atomics, ..caps }
    }

    fn register(
        &mut self,
        _core: &mut Core,
        vc: VcId,
        mem: RmaBuf,
        access: Access,
    ) -> Result<(RegionId, RemoteKey), VcError> {
        let dest = self.transfer_way(vc)?;
        let peer = self.links.get(vc).map(|l| l.peer);
        let full = |text: String| VcError::new(VcErrorKind::Resource, peer, text);
        self.transfers.regions.admit(mem.len(), access).map_err(|e| e.of(peer))?;
        let registration = self.ports[dest.port].register(&mem, access).map_err(|refused| match refused {
            Refused::Again => full(format!("{} can register no more memory now", D::WORDS.what)),
            Refused::Failed(why) => {
                full(format!("{} bytes cannot be registered: {why}; see `ulimit -l`", mem.len()))
            }
        })?;
        let device::Remote { key, base } = registration.as_ref().map(D::Port::remote).unwrap_or_default();
        let remote = Remote { base, len: mem.len() as u64, access };
        let key = Key { key, remote, port: dest.port as u8 };
        let own = Registered { port: dest.port, registration, in_use: 0 };
        Ok((self.transfers.regions.insert(mem, access, own), key.emit()))
    }

    fn deregister(&mut self, core: &mut Core, region: RegionId) -> Result<(), VcError> {
        let Some(found) = self.transfers.regions.get_mut(region).map(|r| &mut r.own) else {
            return self.transfers.regions.remove(region).map(|_| ());
        };
        let mut taken = Registered { port: found.port, registration: found.registration.take(), in_use: 0 };
        if found.in_use > 0 {
            // No part is started any more; what the device has, it is asked to give up.
            let mut of = Vec::new();
            for (n, t) in self.transfers.running.iter_mut().filter(|(_, t)| t.region == region) {
                t.failed.get_or_insert_with(|| RegionError::Ended.of(None));
                of.push(n);
            }
            if let Some(port) = self.ports.get_mut(taken.port) {
                of.iter().for_each(|n| port.cancel_transfer(n.to_wire()));
            }
        }
        if !self.take_back(&mut taken, region) {
            self.shut_port(core, taken.port);
        }
        self.transfers.regions.remove(region)?;
        let of_region = self.transfers.running.iter().filter(|(_, t)| t.region == region);
        let waits: Vec<_> = of_region.map(|(n, _)| n).collect();
        for n in waits {
            self.go_on(n);
        }
        Ok(())
    }

    fn put(&mut self, _core: &mut Core, op: &RmaOp<'_>) -> Result<(), VcError> {
        self.start(op, Access::RemoteWrite)
    }

    fn get(&mut self, _core: &mut Core, op: &RmaOp<'_>) -> Result<(), VcError> {
        self.start(op, Access::RemoteRead)
    }

    fn atomic(&mut self, _core: &mut Core, op: &RmaAtomic<'_>) -> Result<(), VcError> {
        let &RmaAtomic { vc, local, at, key, remote_at, args, op: number } = op;
        let dest = self.transfer_way(vc)?;
        let peer = self.links.get(vc).map(|l| l.peer);
        if !self.ports.get(dest.port).is_some_and(|port| port.atomics().has(args.op, args.word)) {
            let AtomicArgs { op, word, .. } = args;
            let text = format!(
                "{} has no atomic operation {op:?} on words of type {word:?} on this connection; \
                 send a message to the owner of the word instead",
                D::WORDS.what
            );
            return Err(VcError::new(VcErrorKind::Unsupported, peer, text));
        }
        let there = self.peer_key(vc, key)?;
        let checked = self.transfers.regions.check_atomic(op, &there.remote, |own| own.port == dest.port);
        let base = checked.map_err(|e| e.of(peer))?;
        let whole = RmaOp { vc, local, at, key, remote_at, len: RmaAtomic::LOCAL, op: number };
        self.begin(&whole, Moves::Atomic(args), dest, device::Remote { key: there.key, base });
        Ok(())
    }

    fn flush(&mut self, _core: &mut Core, vc: Option<VcId>) -> Result<bool, VcError> {
        let Some(vc) = vc else { return Ok(!self.transfers.are_running()) };
        self.transfer_way(vc)?;
        Ok(self.links.get(vc).is_none_or(|l| l.traffic.transfers == 0))
    }
}
