//! The state of one-sided transfers: regions with their entries in the segment, and operations.

pub(crate) mod share;

use netmod_core::rma::{self, Access, RegionId, Regions, Remote, RemoteKey};
use netmod_core::{IoVec, VcId};

use crate::reach::take_back;
use crate::region;
use crate::segment::Segment;
use crate::segment::layout::REGIONS;
use crate::sys::Attach;

/// Prefix of the settings that limit registered memory.
pub(crate) const SETTINGS: &str = "NETMOD_SHM";

/// An entry in this rank's table in the segment, by which a peer reaches a region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Index in the table.
    pub(crate) index: usize,
    /// Number of the region, never used twice.
    pub(crate) number: u64,
    /// Slot of the peer that may reach it.
    pub(crate) peer: usize,
}

/// A registration; without an entry it is for local use.
pub(crate) type Region = rma::Region<Option<Entry>>;

/// The peer's registration, as its key describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// Index in the owner's table, and the number there.
    pub(crate) place: u32,
    pub(crate) slot: u32,
    pub(crate) number: u64,
    pub(crate) remote: Remote,
}

impl Key {
    pub(crate) fn emit(&self) -> RemoteKey {
        let place = u64::from(self.slot) << 32 | u64::from(self.place);
        let Remote { base, len, access } = self.remote;
        RemoteKey::pack([place, self.number, base, len], [access.to_wire()])
    }

    pub(crate) fn parse(key: &RemoteKey) -> Option<Key> {
        let ([place, number, base, len], [access]) = key.unpack()?;
        let remote = Remote { base, len, access: Access::from_wire(access)? };
        Some(Key { place: place as u32, slot: (place >> 32) as u32, number, remote })
    }
}

/// A put or get under way.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub(crate) vc: VcId,
    pub(crate) slot: usize,
    pub(crate) how: Attach,
    /// This side's region; the transfer fails when it is deregistered.
    pub(crate) region: RegionId,
    pub(crate) local: IoVec,
    pub(crate) key: Key,
    /// Address of the first byte in the peer, bytes moved.
    pub(crate) remote: u64,
    pub(crate) done: usize,
    pub(crate) op: u64,
    /// The owner of the memory was asked to copy its part, or is not to be.
    pub(crate) asked: bool,
    pub(crate) joint: Option<share::Share>,
}

/// All registrations and operations in flight of a netmod.
#[derive(Debug)]
pub(crate) struct Transfers {
    pub(crate) regions: Regions<Option<Entry>>,
    /// Places in the table that are taken.
    pub(crate) places: u64,
    /// Those of them that peers may read, and those whose readers are being helped.
    pub(crate) read: u64,
    pub(crate) helped: u64,
    pub(crate) numbers: u64,
    pub(crate) running: Vec<Transfer>,
    /// From so many bytes on a get is copied by both sides.
    pub(crate) joint: usize,
}

const _: () = assert!(REGIONS == u64::BITS as usize);

impl Transfers {
    /// `most`: bytes that are registered at once; 0: any. `joint`: from so many bytes on a get is
    /// copied by both sides.
    pub(crate) fn new(most: usize, joint: usize) -> Transfers {
        let regions = Regions::new(most, SETTINGS);
        Transfers { regions, places: 0, read: 0, helped: 0, numbers: 0, running: Vec::new(), joint }
    }

    /// Returns the region in an entry of the table, if there is one.
    pub(crate) fn at(&self, index: usize) -> Option<(&Region, Entry)> {
        self.regions.iter().find_map(|r| r.own.filter(|e| e.index == index).map(|e| (r, e)))
    }

    /// Takes a region's memory back; its place is free then. Waits for a peer that is writing into
    /// it.
    pub(crate) fn close(&mut self, segment: Option<&Segment>, region: &Region) {
        let Some(Entry { index: place, peer: writer, .. }) = region.own else { return };
        // While this rank is away nobody writes, and what it says when it is back is without this
        // one.
        if let Some((segment, word)) = segment.and_then(|s| Some((s, s.region(s.me(), place)?))) {
            take_back(segment, word, writer);
        }
        for places in [&mut self.places, &mut self.read, &mut self.helped] {
            *places &= !(1 << place);
        }
    }

    /// Takes back all memory that peers can reach: whatever is registered, and what transfers of
    /// this side move with their help. Waits for peers that are writing into it. Its owners may
    /// free it then.
    pub(crate) fn close_all(&mut self, segment: &Segment) {
        self.running.iter_mut().for_each(|t| t.leave(segment));
        let regions = self.regions.take_all();
        // First nobody begins anything any more, so that one wait for all is not as long as one for
        // each.
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
