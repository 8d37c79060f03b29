//! One-sided transfers by cross-memory attach: the kernel copies between two processes, once.
//!
//! A region is an address, and a number in this rank's table in the segment, which a peer looks up before and after
//! each part of a transfer, and which it holds while it writes ([`region`]). So a region that was deregistered is
//! written no more, even if the peer was in the middle of a part. The table does not keep a peer of the same user
//! from this process's memory, which the kernel's rules let it reach anyway.
//!
//! Whether the kernel permits it is tried out for each peer: its token is read at the address that its slot names. That
//! also tells that the number of the process means the same one here. It is read again before each part that is written, and by the same call
//! with each part that is read: another process that has got the number since is never written to, and what was read from it is
//! never taken for the peer's.

mod both;

use std::borrow::Cow;
use std::io;
use std::sync::atomic::AtomicU64;

use netmod_core::rma::{self, Access, RegionError, RegionId, Regions, Remote, RemoteKey, RmaLimits};
use netmod_core::{Core, Event, IoVec, Rma, RmaOp, RmaUse, VcError, VcErrorKind, VcId};

use crate::checkpoint::Stage;
use crate::link::Link;
use crate::netmod::ShmNetmod;
use crate::region;
use crate::segment::Segment;
use crate::segment::layout::REGIONS;
use crate::sys::{self, Attach};

/// Prefix of the settings that limit registered memory.
const SETTINGS: &str = "NETMOD_SHM";
/// Bytes that one poll moves at most.
const PART: usize = 1 << 20;
/// How often an owner that takes a region back looks whether its writer is through before it sleeps in between, for how long, and
/// after how many looks it says so.
const EAGER_LOOKS: u32 = 64;
const NAP: std::time::Duration = std::time::Duration::from_micros(100);
const LONG: u32 = 10_000;

/// An entry in this rank's table in the segment, by which a peer reaches a region.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Index in the table.
    index: usize,
    /// Number of the region, never used twice.
    number: u64,
    /// Slot of the peer that may reach it.
    peer: usize,
}

/// A registration; without an entry it is for local use.
type Region = rma::Region<Option<Entry>>;

/// The peer's registration, as its key describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    /// Index in the owner's table, and the number there.
    place: u32,
    slot: u32,
    number: u64,
    remote: Remote,
}

impl Key {
    fn emit(&self) -> RemoteKey {
        let place = u64::from(self.slot) << 32 | u64::from(self.place);
        let Remote { base, len, access } = self.remote;
        RemoteKey::pack([place, self.number, base, len], [access.to_wire()])
    }

    fn parse(key: &RemoteKey) -> Option<Key> {
        let ([place, number, base, len], [access]) = key.unpack()?;
        let remote = Remote { base, len, access: Access::from_wire(access)? };
        Some(Key { place: place as u32, slot: (place >> 32) as u32, number, remote })
    }
}

/// A put or get under way.
#[derive(Debug)]
pub(crate) struct Transfer {
    vc: VcId,
    slot: usize,
    how: Attach,
    /// This side's region; the transfer fails when it is deregistered.
    region: RegionId,
    local: IoVec,
    key: Key,
    /// Address of the first byte in the peer, bytes moved.
    remote: u64,
    done: usize,
    op: u64,
    /// The owner of the memory was asked to copy its part, or is not to be.
    asked: bool,
    joint: Option<both::Share>,
}

/// What has become of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Some bytes were moved, and there are more.
    Moved,
    /// The rest is the other side's.
    Waits,
    /// All is there.
    Ended,
}

/// What a netmod has registered, and what is under way.
#[derive(Debug)]
pub(crate) struct Transfers {
    regions: Regions<Option<Entry>>,
    /// Places in the table that are taken.
    places: u64,
    /// Those of them that peers may read, and those whose readers are being helped.
    read: u64,
    helped: u64,
    numbers: u64,
    pub(crate) running: Vec<Transfer>,
    /// From so many bytes on a get is copied by both sides.
    pub(crate) joint: usize,
}

const _: () = assert!(REGIONS == u64::BITS as usize);

impl Transfers {
    /// `most`: bytes that are registered at once; 0: any. `joint`: from so many bytes on a get is copied by both sides.
    pub(crate) fn new(most: usize, joint: usize) -> Transfers {
        let regions = Regions::new(most, SETTINGS);
        Transfers { regions, places: 0, read: 0, helped: 0, numbers: 0, running: Vec::new(), joint }
    }

    /// Returns the region in an entry of the table, if there is one.
    fn at(&self, index: usize) -> Option<(&Region, Entry)> {
        self.regions.iter().find_map(|r| r.own.filter(|e| e.index == index).map(|e| (r, e)))
    }

    /// Takes a region's memory back; its place is free then. Waits for a peer that is writing into it.
    fn close(&mut self, segment: Option<&Segment>, region: &Region) {
        let Some(Entry { index: place, peer: writer, .. }) = region.own else { return };
        // While this rank is away nobody writes, and what it says when it is back is without this
        // one.
        if let Some((segment, word)) = segment.and_then(|s| Some((s, s.region(s.me(), place)?))) {
            ShmNetmod::take_back(segment, word, writer);
        }
        for places in [&mut self.places, &mut self.read, &mut self.helped] {
            *places &= !(1 << place);
        }
    }

    /// Takes back all memory that peers can reach: whatever is registered, and what transfers of this side move with their
    /// help. Waits for peers that are writing into it. Its owners may free it then.
    pub(crate) fn close_all(&mut self, segment: &Segment) {
        self.running.iter_mut().for_each(|t| t.leave(segment));
        let regions = self.regions.take_all();
        // First nobody begins anything any more, so that one wait for all is not as long as one for each.
        let words = regions.iter().filter_map(|r| segment.region(segment.me(), r.own?.index));
        words.for_each(region::end);
        regions.iter().for_each(|r| self.close(Some(segment), r));
    }

    /// Says in a segment to which this rank has come back which regions there are.
    pub(crate) fn publish(&self, segment: &Segment) {
        for place in 0..REGIONS {
            let Some(word) = segment.region(segment.me(), place) else { continue };
            match self.at(place) {
                Some((_, entry)) => region::open(word, entry.number),
                None => region::close(word),
            }
        }
    }
}

/// Whether this process may reach the memory of a slot's.
///
/// # Errors
/// Why not.
pub(crate) fn permitted(segment: &Segment, slot: usize) -> Result<u32, String> {
    let (token, at, pid) = segment.probe(slot);
    let mut found = [0u8; 16];
    let local = IoVec { base: found.as_mut_ptr(), len: found.len() };
    match sys::attach(Attach::Read, pid, at, local) {
        Ok(n) if n == found.len() && found == token => Ok(pid),
        Ok(_) => Err(another(pid)),
        Err(e) => Err(forbidden(pid, &e)),
    }
}

fn another(pid: u32) -> String {
    format!("process {pid} is another one here; are the ranks in different PID namespaces?")
}

fn forbidden(pid: u32, e: &io::Error) -> String {
    format!(
        "cross-memory attach to process {pid}: {e}; do the ranks have one user, and does the container or \
         kernel.yama.ptrace_scope forbid it?"
    )
}

/// Reads memory of the process of a slot, and by the same call who that is; returns how many bytes.
fn read(segment: &Segment, slot: usize, at: u64, local: IoVec) -> Result<usize, String> {
    let (token, token_at, pid) = segment.probe(slot);
    let mut found = [0; 16];
    match sys::read_both(pid, (token_at, &mut found), (at, local)) {
        Ok(moved) if found == token => Ok(moved),
        Ok(_) => Err(another(pid)),
        Err(e) => Err(forbidden(pid, &e)),
    }
}

/// Writes memory of the process of a slot, having looked who that is; returns how many bytes.
fn write(segment: &Segment, slot: usize, at: u64, local: IoVec) -> Result<usize, String> {
    let pid = permitted(segment, slot)?;
    sys::attach(Attach::Write, pid, at, local).map_err(|e| forbidden(pid, &e))
}

impl ShmNetmod {
    /// Returns true if some transfer need not wait for a rank that is away.
    pub(crate) fn has_transfers_to_do(&self) -> bool {
        self.transfers.running.iter().any(|t| !self.holds(t.slot))
    }

    /// The peer's slot, if transfers with it are permitted.
    pub(crate) fn transfer_peer(&mut self, vc: VcId) -> Result<usize, VcError> {
        let Some(l) = self.links.get(vc) else {
            return Err(VcError::new(
                VcErrorKind::Aborted,
                None,
                "the VC is not in the charge of netmod shm",
            ));
        };
        let error = |kind, text: String| VcError::new(kind, Some(l.peer), text);
        if let Some(e) = &l.down {
            return Err(e.clone());
        }
        let (Some(slot), Ok(segment)) = (l.slot, &self.segment) else {
            return Err(error(VcErrorKind::Unsupported, "its slot in the segment is not known yet".into()));
        };
        let peer = l.peer;
        if l.attach.is_none() {
            let presence = || (segment.back(slot), segment.is_away(slot));
            let before = presence();
            let found = permitted(segment, slot).map(|_| ());
            // A rank that is away, or has come back meanwhile, is another time to be looked for.
            if found.is_err() && (before.1 || before != presence()) {
                return Err(error(VcErrorKind::Unsupported, "it is away for a checkpoint".into()));
            }
            if let Err(why) = &found {
                tracing::info!(peer = peer.rank, %why, "no one-sided transfers with a rank of this node");
            }
            if let Some(l) = self.links.get_mut(vc) {
                l.attach = Some(found);
            }
        }
        match self.links.get(vc).and_then(|l| l.attach.as_ref()) {
            Some(Err(why)) => Err(VcError::new(VcErrorKind::Unsupported, Some(peer), why.clone())),
            _ => Ok(slot),
        }
    }

    /// Takes memory back that a peer may be writing into just now.
    fn take_back(segment: &Segment, word: &AtomicU64, writer: usize) {
        region::end(word);
        let mut looks = 0;
        // The kernel ends a dead process's call before its lock.
        while !region::is_quiet(word) && (looks % EAGER_LOOKS != 1 || segment.lives(writer)) {
            looks += 1;
            if looks < EAGER_LOOKS {
                std::thread::yield_now();
            } else {
                std::thread::sleep(NAP);
            }
            if looks == LONG {
                tracing::warn!(
                    slot = writer,
                    "a peer has stopped in the middle of writing into this process; its memory cannot be given \
                     back before the peer goes on or ends"
                );
            }
        }
        region::close(word);
    }

    fn start(&mut self, op: &RmaOp<'_>, how: Attach) -> Result<(), VcError> {
        let slot = self.transfer_peer(op.vc)?;
        let peer = self.links.get(op.vc).map(|l| l.peer);
        let key = Key::parse(op.key).filter(|k| k.slot as usize == slot);
        let key = key.ok_or_else(|| RegionError::ForeignKey.of(peer))?;
        let access = match how {
            Attach::Read => Access::RemoteRead,
            Attach::Write => Access::RemoteWrite,
        };
        let checked = self.transfers.regions.check(op, access, &key.remote, |_| true);
        let (local, remote) = checked.map_err(|e| e.of(peer))?;
        let t = Transfer {
            vc: op.vc,
            slot,
            how,
            region: op.local,
            local,
            key,
            remote,
            done: 0,
            op: op.op,
            asked: how == Attach::Write || op.len < self.transfers.joint,
            joint: None,
        };
        self.transfers.running.push(t);
        Ok(())
    }

    /// Moves a part of what is under way; whether anything was moved.
    #[cold]
    pub(crate) fn transfer(&mut self) -> bool {
        let mut budget = PART;
        let mut i = 0;
        while i < self.transfers.running.len() && budget > 0 {
            let before = self.transfers.running[i].done;
            let step = self.step_transfer(i, budget);
            budget = budget.saturating_sub(self.transfers.running[i].done - before);
            match step {
                Ok(Step::Moved) => {}
                Ok(Step::Waits) => i += 1,
                ended => {
                    if let Ok(segment) = &self.segment {
                        self.transfers.running[i].leave(segment);
                    }
                    let t = self.transfers.running.remove(i);
                    self.pending.push_back(Event::RmaDone { vc: t.vc, op: t.op, result: ended.map(|_| ()) });
                }
            }
        }
        budget < PART
    }

    fn step_transfer(&mut self, i: usize, most: usize) -> Result<Step, VcError> {
        let t = &self.transfers.running[i];
        let link = self.links.get(t.vc);
        let lost = |text: String| VcError::new(VcErrorKind::Lost, link.map(|l| l.peer), text);
        match link {
            None => return Err(lost("the VC of a transfer is no more".into())),
            Some(Link { down: Some(e), .. }) => return Err(e.clone()),
            Some(_) if self.holds(t.slot) => return Ok(Step::Waits),
            Some(_) => {}
        }
        let segment = self.segment.as_ref().map_err(|e| lost(e.clone()))?;
        if self.transfers.regions.get(t.region).is_none() {
            return Err(RegionError::Ended.of(link.map(|l| l.peer)));
        }
        let number = t.key.number;
        let ended = |when: &str| lost(format!("the peer's region of a transfer has ended {when}"));
        let word = segment.region(t.slot, t.key.place as usize);
        let Some(word) = word.filter(|w| region::is_live(w, number)) else { return Err(ended("before it")) };
        let upto = match both::upto(&mut self.transfers, i, segment).map_err(|text| lost(text.into()))? {
            Some(upto) => upto,
            None if self.transfers.running[i].joint.is_some() => return Ok(Step::Waits),
            None => return Ok(Step::Ended),
        };
        let t = &mut self.transfers.running[i];
        let n = most.min(upto - t.done);
        if n > 0 {
            let local = IoVec { base: t.local.base.wrapping_add(t.done), len: n };
            let at = t.remote + t.done as u64;
            let (result, still) = match t.how {
                Attach::Read => (read(segment, t.slot, at, local), region::is_live(word, number)),
                Attach::Write if !region::enter(word, number) => return Err(ended("before it")),
                Attach::Write => (write(segment, t.slot, at, local), region::leave(word, number)),
            };
            let moved = result.map_err(lost)?;
            if moved == 0 || !still {
                return Err(ended("within it"));
            }
            t.done += moved;
            if t.done < t.local.len {
                return Ok(Step::Moved);
            }
        }
        Ok(Step::Ended)
    }

    /// What people should know of transfers with a VC's peer.
    pub(crate) fn describe_transfers(&self, slot: usize) -> String {
        match self.segment.as_ref().map(|s| permitted(s, slot)) {
            Ok(Ok(_)) => match self.transfers.joint {
                usize::MAX => "cross-memory attach permitted".into(),
                from => format!(
                    "cross-memory attach permitted, gets from {} KiB on by both sides at once",
                    from >> 10
                ),
            },
            Ok(Err(why)) => format!("no cross-memory attach ({why})"),
            Err(why) => why.clone(),
        }
    }
}

impl Rma for ShmNetmod {
    fn usable(&mut self, _core: &Core, vc: VcId) -> Result<RmaUse, Cow<'static, str>> {
        let joint = self.transfers.joint;
        let tested = self.transfer_peer(vc);
        let is_away = matches!(self.stage, Stage::Away(_));
        let is_open = |l: &Link| l.down.is_none() && (l.attach.is_none() || is_away);
        if tested.is_err() && (self.segment.is_ok() || is_away) && self.links.get(vc).is_some_and(is_open) {
            // It was not found out yet.
            return Ok(RmaUse::SOON);
        }
        tested.map(|_| RmaUse { joint, ..RmaUse::ALL }).map_err(|e| e.to_string().into())
    }

    fn limits(&self, _core: &Core, _vc: VcId) -> RmaLimits {
        self.transfers.regions.limits(false)
    }

    fn register(
        &mut self,
        _core: &mut Core,
        vc: VcId,
        mem: IoVec,
        access: Access,
    ) -> Result<(RegionId, RemoteKey), VcError> {
        let peer_slot = self.transfer_peer(vc)?;
        let Ok(segment) = &self.segment else { return Err(ShmNetmod::no_segment()) };
        let transfers = &mut self.transfers;
        transfers.regions.admit(mem.len, access).map_err(|e| e.of(None))?;
        let free = transfers.places.trailing_ones() as usize;
        let is_local = access == Access::Local;
        if !is_local && free == REGIONS {
            let text = format!("{REGIONS} regions are registered, which is all that there can be");
            return Err(VcError::new(VcErrorKind::Resource, None, text));
        }
        let mut number = 0;
        if !is_local {
            transfers.numbers += 1;
            number = transfers.numbers;
            transfers.places |= 1 << free;
            transfers.read |= u64::from(access == Access::RemoteRead) << free;
            if let Some(word) = segment.region(segment.me(), free) {
                region::open(word, number);
            }
        }
        let entry = Entry { index: free, number, peer: peer_slot };
        let id = transfers.regions.insert(mem, access, (!is_local).then_some(entry));
        let remote = Remote { base: mem.base as u64, len: mem.len as u64, access };
        let key = Key { place: free as u32, slot: segment.me() as u32, number, remote };
        Ok((id, key.emit()))
    }

    fn deregister(&mut self, _core: &mut Core, region: RegionId) -> Result<(), VcError> {
        let found = self.transfers.regions.remove(region)?;
        self.transfers.close(self.segment.as_ref().ok(), &found);
        let Ok(segment) = &self.segment else { return Ok(()) };
        self.transfers.running.iter_mut().filter(|t| t.region == region).for_each(|t| t.leave(segment));
        Ok(())
    }

    fn put(&mut self, _core: &mut Core, op: &RmaOp<'_>) -> Result<(), VcError> {
        self.start(op, Attach::Write)
    }

    fn get(&mut self, _core: &mut Core, op: &RmaOp<'_>) -> Result<(), VcError> {
        self.start(op, Attach::Read)
    }
}

#[cfg(test)]
mod tests;
