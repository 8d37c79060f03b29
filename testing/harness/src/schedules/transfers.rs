//! Puts and gets of a schedule: memory on both sides, and its expected content at each time.

use netmod_core::rma::{Access, RegionId, RemoteKey};
use netmod_core::{Rma, RmaOp, VcError};

use crate::rng::Rng;
use crate::schedules::data::pattern;
use crate::schedules::memory::Area;
use crate::schedules::rank::Rank;
use netmod_framed::device::Device;

/// Byte that an owner writes into memory that it has taken back.
const MINE: u8 = 0x11;

/// One side of a transfer.
#[derive(Debug)]
struct End {
    rank: usize,
    area: Area,
    region: RegionId,
    /// Initial content.
    first: Vec<u8>,
    /// Expected content once only the owner can access it.
    frozen: Option<Vec<u8>>,
}

impl End {
    /// Takes the memory back. `scribble`: the owner reuses it immediately.
    fn close<D: Device>(&mut self, ranks: &mut [Option<Rank<D>>], scribble: bool) {
        if self.frozen.is_some() {
            return;
        }
        if let Some(r) = &mut ranks[self.rank] {
            let e = &mut r.engine;
            e.netmod.deregister(&mut e.core, self.region).expect("a live region");
        }
        if scribble {
            self.area.fill(MINE);
        }
        self.frozen = Some(self.area.bytes());
    }
}

/// A put or a get.
#[derive(Debug)]
pub struct Transfer {
    op: u64,
    put: bool,
    local: End,
    remote: End,
    at: usize,
    remote_at: usize,
    len: usize,
    /// True if memory was taken back before its end.
    early: bool,
    ended: bool,
}

/// All puts and gets.
#[derive(Debug, Default)]
pub struct Transfers {
    all: Vec<Transfer>,
    pub puts: usize,
    pub gets: usize,
    pub failed: usize,
    pub early: usize,
}

fn register<D: Device>(
    ranks: &mut [Option<Rank<D>>],
    rank: usize,
    peer: usize,
    area: &Area,
    access: Access,
) -> Result<(RegionId, RemoteKey), VcError> {
    let r = ranks[rank].as_mut().expect("a rank that lives");
    let vc = r.vc(peer);
    r.layer.lent.push(area.clone());
    r.engine.netmod.register(&mut r.engine.core, vc, area.rma_buf(), access)
}

impl Transfers {
    /// Returns the number of unfinished transfers.
    pub fn under_way(&self) -> usize {
        self.all.iter().filter(|t| !t.ended).count()
    }

    /// Returns the number of unfinished transfers between two ranks.
    pub fn between(&self, a: usize, b: usize) -> usize {
        let of = |t: &&Transfer| [(a, b), (b, a)].contains(&(t.local.rank, t.remote.rank));
        self.all.iter().filter(|t| !t.ended).filter(of).count()
    }

    /// Begins a transfer if both sides can.
    pub fn begin<D: Device>(
        &mut self,
        ranks: &mut [Option<Rank<D>>],
        rng: &mut Rng,
        from: usize,
        to: usize,
        longest: usize,
    ) {
        let op = self.all.len() as u64;
        let put = rng.one_in(2);
        let len = if rng.one_in(10) { 0 } else { rng.below(longest as u64) as usize };
        let (at, remote_at) = (rng.below(50) as usize, rng.below(50) as usize);
        let fresh = |rng: &mut Rng, seed, at| {
            let bytes = pattern(seed, at + len + 1 + rng.below(50) as usize);
            (Area::new(bytes.clone()), bytes)
        };
        let (area, first) = fresh(rng, 2 * op + (1 << 50), remote_at);
        let access = if put { Access::RemoteWrite } else { Access::RemoteRead };
        let Ok((region, key)) = register(ranks, to, from, &area, access) else { return };
        let mut remote = End { rank: to, area, region, first, frozen: None };
        let (area, first) = fresh(rng, 2 * op + 1 + (1 << 50), at);
        let Ok((region, _)) = register(ranks, from, to, &area, Access::Local) else {
            return remote.close(ranks, true);
        };
        let mut local = End { rank: from, area, region, first, frozen: None };
        let r = ranks[from].as_mut().expect("a rank that lives");
        let vc = r.vc(to);
        let e = &mut r.engine;
        let rma = RmaOp { vc, local: region, at, key: &key, remote_at, len, op };
        let started = if put { e.netmod.put(&mut e.core, &rma) } else { e.netmod.get(&mut e.core, &rma) };
        if started.is_err() {
            local.close(ranks, true);
            return remote.close(ranks, true);
        }
        self.all.push(Transfer { op, put, local, remote, at, remote_at, len, early: false, ended: false });
    }

    /// Takes memory of an unfinished transfer back, and returns its ranks. `local`: possibly also
    /// that of the side which has begun it.
    pub fn take_back<D: Device>(
        &mut self,
        ranks: &mut [Option<Rank<D>>],
        rng: &mut Rng,
        local: bool,
    ) -> Option<(usize, usize)> {
        let open: Vec<usize> = (0..self.all.len()).filter(|i| !self.all[*i].ended).collect();
        if open.is_empty() {
            return None;
        }
        let t = &mut self.all[rng.pick(&open)];
        t.early = true;
        self.early += 1;
        let end = if local && rng.one_in(2) { &mut t.local } else { &mut t.remote };
        end.close(ranks, true);
        Some((t.local.rank, t.remote.rank))
    }

    /// Checks for transfers that have ended. `may_fail`: tells whether one between two ranks may
    /// fail.
    pub fn look<D: Device>(
        &mut self,
        ranks: &mut [Option<Rank<D>>],
        rng: &mut Rng,
        may_fail: impl Fn(usize, usize) -> bool,
    ) {
        for t in self.all.iter_mut().filter(|t| !t.ended) {
            let Some(r) = ranks[t.local.rank].as_mut() else {
                // Its process is dead.
                t.ended = true;
                t.local.frozen = Some(t.local.area.bytes());
                continue;
            };
            let Some(result) = r.layer.ended.remove(&t.op) else { continue };
            t.ended = true;
            match result {
                Ok(()) => {
                    t.moved();
                    if t.put { self.puts += 1 } else { self.gets += 1 }
                }
                Err(e) => {
                    let may = t.early || may_fail(t.local.rank, t.remote.rank);
                    assert!(may, "transfer {} from {} to {}: {e}", t.op, t.local.rank, t.remote.rank);
                    self.failed += 1;
                }
            }
            t.bounded();
            t.local.close(ranks, false);
            // Some registrations are left to finalize.
            if !rng.one_in(4) {
                t.remote.close(ranks, false);
            }
        }
    }

    /// Checks that memory that was taken back is as its owner has left it.
    pub fn end(&self) {
        for t in &self.all {
            for end in [&t.local, &t.remote] {
                let same = end.frozen.as_ref().is_none_or(|frozen| *frozen == end.area.bytes());
                assert!(same, "memory of rank {} was written to after it was taken back: {t:?}", end.rank);
            }
        }
    }
}

impl Transfer {
    fn window(&self) -> (&[u8], Vec<u8>) {
        let (from, to, at, to_at) = if self.put {
            (&self.local, &self.remote, self.at, self.remote_at)
        } else {
            (&self.remote, &self.local, self.remote_at, self.at)
        };
        (&from.first[at..at + self.len], to.area.bytes()[to_at..to_at + self.len].to_vec())
    }

    /// Checks the bytes of a successful transfer, unless their new owner has taken them back.
    fn moved(&self) {
        let end = if self.put { &self.remote } else { &self.local };
        if end.frozen.is_none() {
            let (right, there) = self.window();
            assert!(right == there, "wrong bytes: {self:?}");
        }
    }

    /// Checks that only the intended bytes were written.
    fn bounded(&self) {
        let (end, at) = if self.put { (&self.remote, self.remote_at) } else { (&self.local, self.at) };
        if end.frozen.is_some() {
            return;
        }
        let now = end.area.bytes();
        let outside = |i: usize| i < at || i >= at + self.len;
        let same = (0..now.len()).all(|i| !outside(i) || now[i] == end.first[i]);
        assert!(same, "written beside the bytes that were meant: {self:?}");
        let (right, there) = self.window();
        let first = &end.first[at..at + self.len];
        let known = (0..self.len).all(|i| there[i] == right[i] || there[i] == first[i]);
        assert!(known, "bytes that were never in the memory that was lent: {self:?}");
    }
}
