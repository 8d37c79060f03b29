//! One-sided operations of the layer above: memory that a peer may access, and puts, gets and
//! atomic operations on a peer's memory. The netmod of the VC executes them
//! ([`netmod_core::Rma`]).
//!
//! An operation is a request like any other. Its memory is the request's if that lies in one piece,
//! and otherwise a staging buffer. The buffer is kept, and the request not finished, before the
//! local registration has ended.

#![allow(unsafe_code)]

use netmod_core::rma::{Access, AtomicArgs, RegionId, RemoteKey, RmaAtomic, RmaCaps};
use netmod_core::slab::{Handle, ReqKind};
use netmod_core::{
    Module, Outcome, ReqId, RmaBuf, RmaOp, RmaUse, Segment, SideTable, Slab, VcError, VcErrorKind, VcId,
};

use super::lmt::{deregister, unpack};
use super::{Ch3, DONE, DevIo, MpiReq, Role, WORLD};
use crate::tagmatch::Envelope;

/// The one-sided operations that are possible with a rank.
#[derive(Clone, Debug)]
pub enum RmaAccess {
    /// These. A number of a device means the same device for all ranks.
    Now(RmaCaps, RmaUse),
    /// Not yet: there is no connection. A message makes one.
    Soon,
    /// None, for this reason.
    Never(String),
}

/// A place in memory that a peer has exposed.
#[derive(Clone, Copy, Debug)]
pub struct RemotePlace {
    /// The key of the memory.
    pub key: RemoteKey,
    /// Offset in it, in bytes.
    pub at: usize,
}

/// The kind of object that an [`Exposure`] names.
#[derive(Debug)]
pub enum ExposureKind {}

/// Memory that a peer may access, until it is concealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exposure(Handle<ExposureKind>);

/// An operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OneSidedOp {
    /// Writes the request's data.
    Put,
    /// Reads into the request's memory.
    Get,
    /// Changes a word; the old value goes to the request's memory.
    Atomic(AtomicArgs),
}

/// The words of a staging buffer, if there is one.
type Staged = Option<Box<[u64]>>;

/// An operation under way.
#[derive(Debug)]
pub(super) struct Running {
    vc: VcId,
    op: OneSidedOp,
    region: RegionId,
    /// The memory in the place of the request's own.
    staged: Staged,
    to: RemotePlace,
    len: usize,
    /// Bytes that have moved, and those that move now.
    done: usize,
    piece: usize,
}

impl Running {
    /// Returns the first bytes of the staging buffer.
    fn staged_bytes(&self, len: usize) -> Option<Vec<u8>> {
        let words = self.staged.as_ref()?.iter();
        Some(words.flat_map(|word| word.to_ne_bytes()).take(len).collect())
    }
}

/// The one-sided operations of a device.
#[derive(Debug, Default)]
pub(crate) struct OneSided {
    running: SideTable<Box<Running>, ReqKind>,
    /// Number of operations under way.
    count: usize,
    exposed: Slab<(VcId, RegionId), ExposureKind>,
}

impl OneSided {
    /// Returns true if an operation is under way, or a peer may access memory.
    pub(crate) fn is_used(&self) -> bool {
        self.count > 0 || !self.exposed.is_empty()
    }
}

/// Copies data that is not in one piece.
fn pack(seg: &mut Segment) -> Box<[u64]> {
    let mut bytes = Vec::new();
    seg.pack_vec(seg.total(), &mut bytes);
    let word = |part: &[u8]| {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        u64::from_ne_bytes(word)
    };
    bytes.chunks(8).map(word).collect()
}

fn none(text: impl Into<String>) -> VcError {
    VcError::new(VcErrorKind::Unsupported, None, text.into())
}

impl Ch3 {
    /// Returns the operations that are possible with a rank of a group.
    ///
    /// # Errors
    /// A peer that cannot be reached.
    pub(crate) fn rma_access(
        &mut self,
        io: &mut DevIo<'_>,
        (group, rank): (u32, u32),
    ) -> Result<RmaAccess, VcError> {
        if group == WORLD && rank == self.groups.world.me {
            return Ok(RmaAccess::Never("the rank is this process itself, which loads and stores".into()));
        }
        let Some(vc) = self.known_vc(group, rank) else { return Ok(RmaAccess::Soon) };
        self.use_vc(io, vc)?;
        let Some(rma) = io.netmod.rma(io.core, vc) else {
            let index = io.core.vc(vc).map_or(0, |v| usize::from(v.netmod));
            let name = io.netmod.netmods().nth(index).map_or("of the VC", |n| n.name());
            return Ok(RmaAccess::Never(format!("netmod {name} has no one-sided transfers; use messages")));
        };
        Ok(match rma.usable(io.core, vc) {
            Err(why) => RmaAccess::Never(why.into_owned()),
            Ok(uses) if uses == RmaUse::SOON => RmaAccess::Soon,
            Ok(uses) => {
                let caps = rma.caps(io.core, vc);
                let netmod = io.core.vc(vc).map_or(0, |v| u32::from(v.netmod));
                RmaAccess::Now(RmaCaps { device: netmod << 24 | caps.device & 0xff_ffff, ..caps }, uses)
            }
        })
    }

    /// Returns the VC of a rank over which operations are possible now.
    fn rma_vc(&mut self, io: &mut DevIo<'_>, to: (u32, u32)) -> Result<VcId, VcError> {
        match self.rma_access(io, to)? {
            RmaAccess::Now(..) => {}
            RmaAccess::Soon => return Err(none("no connection is made yet; send a message first")),
            RmaAccess::Never(why) => return Err(none(why)),
        }
        self.known_vc(to.0, to.1).ok_or_else(|| none("no connection is made yet; send a message first"))
    }

    /// Lets a rank access memory, which is lent until [`Ch3::conceal`].
    ///
    /// # Errors
    /// No operations with this rank; no room for a registration.
    pub(crate) fn expose_window(
        &mut self,
        io: &mut DevIo<'_>,
        to: (u32, u32),
        memory: RmaBuf,
    ) -> Result<(Exposure, RemoteKey), VcError> {
        let vc = self.rma_vc(io, to)?;
        let rma = io.netmod.rma(io.core, vc).ok_or_else(|| none("no one-sided transfers"))?;
        let (region, key) = rma.register(io.core, vc, memory, Access::RemoteAll)?;
        Ok((Exposure(self.onesided.exposed.insert((vc, region))), key))
    }

    /// Ends the access to memory. When this returns, it is the owner's alone.
    pub(crate) fn conceal(&mut self, io: &mut DevIo<'_>, exposure: Exposure) {
        if let Some((vc, region)) = self.onesided.exposed.remove(exposure.0) {
            deregister(io, vc, region);
        }
    }

    /// Ends the accesses of the peer of a VC that is about to be removed.
    pub(super) fn conceal_from(&mut self, io: &mut DevIo<'_>, vc: VcId) {
        let its_own = self.onesided.exposed.iter().filter(|(_, (of, _))| *of == vc);
        let all: Vec<Exposure> = its_own.map(|(handle, _)| Exposure(handle)).collect();
        all.into_iter().for_each(|exposure| self.conceal(io, exposure));
    }

    /// Begins an operation on memory of a rank. Returns [`DONE`] if it moves nothing.
    ///
    /// # Errors
    /// No such operation with this rank; no room for a registration. Nothing was started then, and
    /// the memory is the caller's again.
    pub(crate) fn begin_onesided(
        &mut self,
        io: &mut DevIo<'_>,
        seg: Segment,
        to: (u32, u32),
        place: RemotePlace,
        op: OneSidedOp,
    ) -> Result<ReqId, (VcError, Segment)> {
        let vc = match self.rma_vc(io, to) {
            Ok(vc) => vc,
            Err(e) => return Err((e, seg)),
        };
        let len = match op {
            OneSidedOp::Atomic(_) => RmaAtomic::LOCAL,
            OneSidedOp::Put | OneSidedOp::Get => seg.total(),
        };
        if len == 0 {
            return Ok(DONE);
        }
        let mpi = MpiReq::new(Role::OneSided, Envelope::new(0, 0, 0));
        let req = self.reqs.make(io.core, Some(vc), seg, mpi);
        let started = self.register_local(io, req, op, len).and_then(|(region, staged)| {
            let running = Running { vc, op, region, staged, to: place, len, done: 0, piece: 0 };
            self.onesided.running.set(req, Box::new(running));
            self.onesided.count += 1;
            self.start_piece(io, req)
        });
        started.map(|()| req).map_err(|e| {
            self.end_onesided(io, req);
            self.reqs.side.remove(req);
            let seg = io.core.remove_req(req).map_or_else(Segment::empty, |request| request.seg);
            (e, seg)
        })
    }

    /// Registers the memory of a request, or a staging buffer in its place.
    fn register_local(
        &mut self,
        io: &mut DevIo<'_>,
        req: ReqId,
        op: OneSidedOp,
        len: usize,
    ) -> Result<(RegionId, Staged), VcError> {
        let gone = || none("the request is gone");
        let r = io.core.req_mut(req).ok_or_else(gone)?;
        let vc = r.vc.ok_or_else(gone)?;
        r.seg.seek(0);
        let mut staged = match (op, r.seg.as_contig()) {
            (OneSidedOp::Atomic(_), _) => Some(vec![0; len / 8].into_boxed_slice()),
            (_, Some(_)) => None,
            (OneSidedOp::Put, None) => Some(pack(&mut r.seg)),
            (OneSidedOp::Get, None) => Some(vec![0; len.div_ceil(8)].into_boxed_slice()),
        };
        r.seg.seek(0);
        let base = match (&mut staged, r.seg.as_contig()) {
            (Some(words), _) => words.as_mut_ptr().cast(),
            (None, contig) => contig.ok_or_else(gone)?.0,
        };
        // SAFETY: these bytes are the request's memory, which is lent to it until it is finished,
        // or the staging buffer, which is on the heap and kept, untouched, by `Running`. Both stay
        // until `end_onesided` has deregistered them, which precedes the end of the request; `Vci`
        // drops its netmods first.
        let memory = unsafe { RmaBuf::new(base, len) };
        let rma = io.netmod.rma(io.core, vc).ok_or_else(|| none("no one-sided transfers"))?;
        Ok((rma.register(io.core, vc, memory, Access::Local)?.0, staged))
    }

    /// Starts what the netmod moves at once.
    fn start_piece(&mut self, io: &mut DevIo<'_>, req: ReqId) -> Result<(), VcError> {
        let Some(r) = self.onesided.running.get_mut(req) else { return Ok(()) };
        let (vc, local, key) = (r.vc, r.region, &r.to.key);
        let rma = io.netmod.rma(io.core, vc).ok_or_else(|| none("no one-sided transfers"))?;
        let (remote_at, op) = (r.to.at.wrapping_add(r.done), req.to_wire());
        if let OneSidedOp::Atomic(args) = r.op {
            r.piece = r.len;
            return rma.atomic(io.core, &RmaAtomic { vc, local, at: 0, key, remote_at, args, op });
        }
        let len = (r.len - r.done).min(rma.caps(io.core, vc).max_op);
        r.piece = len;
        let op = RmaOp { vc, local, at: r.done, key, remote_at, len, op };
        if matches!(r.op, OneSidedOp::Put) { rma.put(io.core, &op) } else { rma.get(io.core, &op) }
    }

    /// Handles the end of an operation's piece. Returns false if it is of no operation.
    pub(super) fn onesided_done(
        &mut self,
        io: &mut DevIo<'_>,
        req: ReqId,
        result: &Result<(), VcError>,
    ) -> bool {
        let Some(r) = self.onesided.running.get_mut(req) else { return false };
        let mut result = result.clone();
        if result.is_ok() {
            r.done += r.piece;
            if r.done < r.len {
                result = self.start_piece(io, req);
                if result.is_ok() {
                    return true;
                }
            }
        }
        let Some(r) = self.end_onesided(io, req) else { return true };
        let bytes = match r.op {
            OneSidedOp::Put => None,
            OneSidedOp::Get => r.staged_bytes(r.len),
            OneSidedOp::Atomic(args) => r.staged_bytes(args.word.size()).filter(|_| args.fetches),
        };
        let outcome = match result {
            Ok(()) => {
                bytes.into_iter().for_each(|bytes| unpack(io, req, 0, &bytes));
                Outcome::Done
            }
            Err(e) => Outcome::Failed(e),
        };
        self.reqs.finish(io.core, req, outcome);
        true
    }

    /// Ends an operation: none of its memory is accessed any more. The caller finishes the request.
    pub(super) fn end_onesided(&mut self, io: &mut DevIo<'_>, req: ReqId) -> Option<Box<Running>> {
        let r = self.onesided.running.remove(req)?;
        self.onesided.count -= 1;
        deregister(io, r.vc, r.region);
        Some(r)
    }

    /// Returns true if everything that was started with a rank has ended.
    ///
    /// # Errors
    /// A peer that cannot be reached.
    pub(crate) fn rma_flushed(&mut self, io: &mut DevIo<'_>, to: (u32, u32)) -> Result<bool, VcError> {
        let vc = self.rma_vc(io, to)?;
        let rma = io.netmod.rma(io.core, vc).ok_or_else(|| none("no one-sided transfers"))?;
        rma.flush(io.core, Some(vc))
    }
}
