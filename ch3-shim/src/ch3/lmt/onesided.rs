//! Put and Get: windows that are registered for the peer, and moves of this side's own, by the `Rma` of the VC's netmod.
//!
//! A registration is of memory in one piece. Data that is not goes through buffers of the device, a window or a
//! piece at a time: packed before it is exposed or put, unpacked when it has been put or got. They are bounded in size and number;
//! where there is none left, the machines take the Null mode.

use netmod_core::rma::{Access, RegionId, RemoteKey, RmaOp};
use netmod_core::{IoVec, Module, ReqId, RxBytes, VcError, VcErrorKind, VcId};
use netmod_lmt::cookie::Keyed;
use netmod_lmt::{Access as For, Event, Fault, Window};

use super::Machine;
use crate::ch3::{Ch3, DevIo};

/// Bytes of a buffer for data that is not in one piece. It stays in a core's cache on its way.
const BOUNCE: usize = 256 << 10;
/// Most such buffers of a device; 8 MiB in all.
const MAX_BOUNCES: usize = 32;
/// So many of them are kept in any case.
const FEW_BOUNCES: usize = 4;
/// Pieces that are put or got are not made smaller than this, in bytes, when there is no room to register them.
const MIN_PIECE: usize = 4 << 10;
/// Records of transfers that are kept for later ones; about 40 KiB.
pub(super) const MAX_SPARE: usize = 64;

/// Buffers for data that is not in one piece. Of those that were in use at the same time as many are kept when all are free again, and
/// half as many when fewer were needed since; a few always.
#[derive(Debug, Default)]
pub(super) struct Bounces {
    free: Vec<Vec<u8>>,
    used: usize,
    /// Most that were in use at once since all were free.
    most: usize,
}

impl Bounces {
    fn take(&mut self) -> Option<Vec<u8>> {
        if self.used == MAX_BOUNCES {
            return None;
        }
        self.used += 1;
        self.most = self.most.max(self.used);
        Some(self.free.pop().unwrap_or_else(|| vec![0; BOUNCE]))
    }

    fn give(&mut self, buf: Vec<u8>) {
        self.used -= 1;
        self.free.push(buf);
        if self.used == 0 {
            self.free.truncate(self.most.max(self.free.len() / 2).max(FEW_BOUNCES));
            self.most = 0;
        }
    }
}

/// What a transfer has registered, knows of the peer's windows, and moves.
#[derive(Debug, Default)]
pub(super) struct OneSided {
    /// Windows that the peer reaches, by number modulo 2.
    exposed: [Option<Exposed>; 2],
    /// Keys of the peer's windows that have not begun to move, by number modulo 2.
    keys: [Option<(u32, RemoteKey)>; 2],
    moving: Option<Moving>,
    /// For moves of data that is not in one piece: kept from the first one on, so that none later goes without.
    bounce: Option<Vec<u8>>,
    /// Why something was not possible, for the error if that ends the transfer.
    pub(super) failure: Option<VcError>,
}

#[derive(Debug)]
struct Exposed {
    window: Window,
    region: RegionId,
    key: RemoteKey,
    /// The data's place, if it is not the user's.
    bounce: Option<Vec<u8>>,
}

/// A window that this side puts or gets, piece by piece.
#[derive(Debug)]
struct Moving {
    window: Window,
    key: RemoteKey,
    /// Bytes of the window that have moved.
    done: usize,
    piece: Option<Piece>,
}

#[derive(Debug)]
struct Piece {
    region: RegionId,
    len: usize,
    /// Whether it goes through the buffer.
    bounced: bool,
}

/// How the next piece of a move has begun.
enum Began {
    Yes,
    /// There is no room to register anything; there will be when something else has moved.
    Later,
    Failed(VcError),
}

impl Ch3 {
    /// Changes what there is of a transfer; made if there is nothing.
    fn in_onesided<R>(&mut self, req: ReqId, change: impl FnOnce(&mut OneSided) -> R) -> Option<R> {
        let table = &mut self.lmt.onesided;
        if table.get(req).is_none() {
            table.set(req, self.lmt.spare.pop().unwrap_or_default());
            self.lmt.one_sided += 1;
        }
        table.get_mut(req).map(|one| change(one))
    }

    /// Whether memory of this process is being moved, or may be, without its seeing that: by a device, or by a peer.
    #[inline]
    pub(crate) fn is_moving(&self) -> bool {
        self.lmt.one_sided > 0
    }

    /// Nothing of a transfer is registered or moves any more.
    pub(super) fn forget_onesided(&mut self, req: ReqId) {
        let Some(mut one) = self.lmt.onesided.remove(req) else { return };
        self.lmt.one_sided -= 1;
        if let Some(buf) = core::mem::take(&mut *one).bounce {
            self.lmt.bounces.give(buf);
        }
        if self.lmt.spare.len() < MAX_SPARE {
            self.lmt.spare.push(one);
        }
    }

    /// Bytes of the windows in which a request's memory is exposed, at most.
    pub(super) fn first_window(&mut self, io: &mut DevIo<'_>, vc: VcId, req: ReqId) -> u64 {
        let Some(rma) = io.netmod.rma(io.core, vc) else { return 0 };
        // Half of what may be registered is for peers, and two windows are registered at once.
        let most = rma.limits(io.core, vc).max_registered / 4;
        let contiguous = io.core.req(req).is_some_and(|r| r.seg.as_contig().is_some());
        let most = if contiguous { most } else { most.min(BOUNCE) };
        most as u64
    }

    /// Notes the key of a window of the peer's.
    pub(super) fn learn_key(&mut self, req: ReqId, keyed: Keyed) -> Window {
        let Keyed { window, key } = keyed;
        let key = Some((window.index, key));
        self.in_onesided(req, |one| one.keys[window.index as usize % 2] = key);
        window
    }

    /// An exposed window with its key, to be told to the peer.
    pub(super) fn keyed(&mut self, req: ReqId, window: Window) -> Option<Keyed> {
        let exposed = self.lmt.onesided.get(req)?.exposed[window.index as usize % 2].as_ref()?;
        (exposed.window == window).then_some(Keyed { window, key: exposed.key })
    }

    /// Registers a window of a request's memory for the peer. Whether that was possible.
    pub(super) fn expose(
        &mut self,
        io: &mut DevIo<'_>,
        vc: VcId,
        req: ReqId,
        window: Window,
        access: For,
    ) -> bool {
        match self.try_expose(io, vc, req, window, access) {
            Ok(()) => true,
            Err(e) => {
                tracing::debug!(target: "netmod::message", %req, %e, "a window is not registered");
                self.in_onesided(req, |one| one.failure = Some(e));
                false
            }
        }
    }

    fn try_expose(
        &mut self,
        io: &mut DevIo<'_>,
        vc: VcId,
        req: ReqId,
        window: Window,
        access: For,
    ) -> Result<(), VcError> {
        let no = |text: &str| VcError::new(VcErrorKind::Resource, None, text);
        let Some(rma) = io.netmod.rma(io.core, vc) else { return Err(no("no one-sided transfers")) };
        let Some(r) = io.core.req_mut(req) else { return Err(no("the request is gone")) };
        let (at, len) = (window.at as usize, window.len as usize);
        r.seg.seek(0);
        let (mem, mut bounce) = match r.seg.as_contig() {
            Some((base, _)) => (IoVec { base: base.wrapping_add(at), len }, None),
            None if len > BOUNCE => return Err(no("data that is not in one piece moves in smaller windows")),
            None => {
                let Some(mut buf) = self.lmt.bounces.take() else {
                    return Err(no("all buffers for data that is not in one piece are in use"));
                };
                if access == For::RemoteRead {
                    r.seg.seek(at);
                    r.seg.pack(&mut buf[..len]);
                    r.seg.seek(0);
                }
                (IoVec { base: buf.as_mut_ptr(), len }, Some(buf))
            }
        };
        let access = match access {
            For::RemoteRead => Access::RemoteRead,
            For::RemoteWrite => Access::RemoteWrite,
        };
        let (region, key) = match rma.register(io.core, vc, mem, access) {
            Ok(registered) => registered,
            Err(e) => {
                if let Some(buf) = bounce.take() {
                    self.lmt.bounces.give(buf);
                }
                return Err(e);
            }
        };
        let exposed = Exposed { window, region, key, bounce };
        let ahead = self.in_onesided(req, |one| {
            let another = one.exposed.iter().any(Option::is_some);
            one.exposed[window.index as usize % 2] = Some(exposed);
            another
        });
        if window.index > 0 {
            self.stats.rekeys += 1;
            self.stats.rekeys_ahead += u64::from(ahead == Some(true));
        }
        Ok(())
    }

    /// Ends the registration of a window. `moved`: what it exposes has moved.
    pub(super) fn unexpose(&mut self, io: &mut DevIo<'_>, vc: VcId, req: ReqId, index: u32, moved: bool) {
        let Some(one) = self.lmt.onesided.get_mut(req) else { return };
        let place = &mut one.exposed[index as usize % 2];
        let Some(exposed) = place.take_if(|e| e.window.index == index) else { return };
        deregister(io, vc, exposed.region);
        let Some(buf) = exposed.bounce else { return };
        let is_recv = self.lmt.transfers.get(req).is_some_and(|t| matches!(t.machine, Machine::Recv(_)));
        if is_recv && moved {
            unpack(io, req, exposed.window.at as usize, &buf[..exposed.window.len as usize]);
        }
        self.lmt.bounces.give(buf);
    }

    /// Begins to put or get a window of the peer's.
    pub(super) fn begin_move(&mut self, io: &mut DevIo<'_>, vc: VcId, req: ReqId, window: Window) {
        if window.index == 0 {
            self.stats.one_sided += 1;
        }
        let known = self.in_onesided(req, |one| {
            let key = one.keys[window.index as usize % 2].take().filter(|(index, _)| *index == window.index);
            one.moving = key.map(|(_, key)| Moving { window, key, done: 0, piece: None });
            one.moving.is_some()
        });
        if known == Some(true) {
            return self.go_on_moving(io, vc, req);
        }
        tracing::error!(%req, ?window, "a window without a key is to be moved");
        self.move_ended(io, req, false);
    }

    /// Starts the next piece of a move.
    fn go_on_moving(&mut self, io: &mut DevIo<'_>, vc: VcId, req: ReqId) {
        match self.next_piece(io, vc, req) {
            Began::Yes => {}
            Began::Later => self.lmt.stalled.push(req),
            Began::Failed(e) => {
                tracing::debug!(target: "netmod::message", %req, %e, "a window is not moved");
                self.in_onesided(req, |one| (one.moving, one.failure) = (None, Some(e)));
                self.move_ended(io, req, false);
            }
        }
    }

    fn next_piece(&mut self, io: &mut DevIo<'_>, vc: VcId, req: ReqId) -> Began {
        let no = |text: &str| Began::Failed(VcError::new(VcErrorKind::Resource, None, text));
        let Some(OneSided { moving: Some(m), bounce, .. }) =
            self.lmt.onesided.get_mut(req).map(|one| &mut **one)
        else {
            return no("nothing is to be moved");
        };
        let Some(rma) = io.netmod.rma(io.core, vc) else { return no("no one-sided transfers") };
        let most = rma.limits(io.core, vc).max_op;
        let Some(r) = io.core.req_mut(req) else { return no("the request is gone") };
        let puts = self.lmt.transfers.get(req).is_some_and(|t| matches!(t.machine, Machine::Send(_)));
        let at = m.window.at as usize + m.done;
        let mut len = (m.window.len as usize - m.done).min(most);
        r.seg.seek(0);
        let contiguous = r.seg.as_contig();
        let base = match contiguous {
            Some((base, _)) => base.wrapping_add(at),
            None => {
                len = len.min(BOUNCE);
                if bounce.is_none() {
                    *bounce = self.lmt.bounces.take();
                }
                let Some(buf) = bounce else {
                    return no("all buffers for data that is not in one piece are in use");
                };
                if puts {
                    r.seg.seek(at);
                    r.seg.pack(&mut buf[..len]);
                    r.seg.seek(0);
                }
                buf.as_mut_ptr()
            }
        };
        loop {
            let region = match rma.register(io.core, vc, IoVec { base, len }, Access::Local) {
                Ok((region, _)) => region,
                Err(e) if e.kind() != VcErrorKind::Resource => return Began::Failed(e),
                Err(_) if len > MIN_PIECE => {
                    len = (len / 2).max(MIN_PIECE);
                    continue;
                }
                Err(_) => return Began::Later,
            };
            let (key, op) = (&m.key, req.to_wire());
            let op = RmaOp { vc, local: region, at: 0, key, remote_at: m.done, len, op };
            let started = if puts { rma.put(io.core, &op) } else { rma.get(io.core, &op) };
            m.piece = Some(Piece { region, len, bounced: contiguous.is_none() });
            let Err(e) = started else { return Began::Yes };
            m.piece = None;
            deregister(io, vc, region);
            return Began::Failed(e);
        }
    }

    /// A piece of a put or get has ended.
    pub(crate) fn rma_done(&mut self, io: &mut DevIo<'_>, vc: VcId, req: ReqId, result: Result<(), VcError>) {
        // One that was stopped is heard of once more.
        let Some(m) = self.lmt.onesided.get_mut(req).and_then(|one| one.moving.as_mut()) else { return };
        let Some(piece) = m.piece.take() else { return };
        let at = m.window.at as usize + m.done;
        if result.is_ok() {
            m.done += piece.len;
        }
        let through = m.done as u64 >= m.window.len;
        deregister(io, vc, piece.region);
        let gets = self.lmt.transfers.get(req).is_some_and(|t| matches!(t.machine, Machine::Recv(_)));
        if gets
            && piece.bounced
            && result.is_ok()
            && let Some(buf) = self.lmt.onesided.get(req).and_then(|one| one.bounce.as_ref())
        {
            unpack(io, req, at, &buf[..piece.len]);
        }
        if result.is_ok() && !through && !self.is_draining(req) {
            self.go_on_moving(io, vc, req);
        } else {
            let ok = result.is_ok() && through;
            self.in_onesided(req, |one| (one.moving, one.failure) = (None, result.err()));
            self.move_ended(io, req, ok);
        }
        self.wake_stalled(io);
    }

    /// Whether a transfer only waits for its move to end.
    fn is_draining(&self, req: ReqId) -> bool {
        use netmod_lmt::{RecvPhase, SendPhase};
        match self.lmt.transfers.get(req).map(|t| t.machine) {
            Some(Machine::Send(m)) => matches!(m.phase(), SendPhase::Draining(_)),
            Some(Machine::Recv(m)) => matches!(m.phase(), RecvPhase::Draining(_)),
            None => true,
        }
    }

    fn move_ended(&mut self, io: &mut DevIo<'_>, req: ReqId, ok: bool) {
        match self.lmt_tell(io, req, Event::Ended(ok)) {
            Ok(()) | Err(Fault::Late) => {}
            Err(e) => tracing::error!(%req, %e, "a move has ended that was not asked for"),
        }
    }

    /// Something that was registered is no longer: those that waited for room go on.
    fn wake_stalled(&mut self, io: &mut DevIo<'_>) {
        for req in std::mem::take(&mut self.lmt.stalled) {
            let waits = |one: &OneSided| one.moving.as_ref().is_some_and(|m| m.piece.is_none());
            let vc = self.lmt.transfers.get(req).map(|t| t.vc);
            if let Some(vc) = vc.filter(|_| self.lmt.onesided.get(req).is_some_and(|one| waits(one))) {
                self.go_on_moving(io, vc, req);
            }
        }
    }

    /// Stops the move of a transfer that comes to its end: none of its memory is touched any more. Whether there was
    /// one.
    pub(super) fn stop_move(&mut self, io: &mut DevIo<'_>, vc: VcId, req: ReqId) -> bool {
        let Some(m) = self.lmt.onesided.get_mut(req).and_then(|one| one.moving.take()) else { return false };
        if let Some(piece) = m.piece {
            deregister(io, vc, piece.region);
            self.wake_stalled(io);
        }
        true
    }
}

fn deregister(io: &mut DevIo<'_>, vc: VcId, region: RegionId) {
    let Some(rma) = io.netmod.rma(io.core, vc) else { return };
    if let Err(error) = rma.deregister(io.core, region) {
        tracing::error!(%vc, %error, "a region of a large message");
    }
}

/// Copies bytes to where they belong in a receive.
fn unpack(io: &mut DevIo<'_>, req: ReqId, at: usize, bytes: &[u8]) {
    if let Some(r) = io.core.req_mut(req) {
        r.seg.seek(at);
        r.seg.unpack(RxBytes::from_slice(bytes));
        r.seg.seek(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes `n` buffers at once and gives them back; how many of them had to be made.
    fn use_at_once(b: &mut Bounces, n: usize) -> usize {
        let kept = b.free.len();
        let taken: Vec<_> = (0..n).map(|_| b.take().expect("a buffer")).collect();
        taken.into_iter().for_each(|buf| b.give(buf));
        n.saturating_sub(kept)
    }

    #[test]
    fn buffers_are_kept_as_long_as_they_are_needed() {
        let mut b = Bounces::default();
        assert_eq!(use_at_once(&mut b, 16), 16);
        for _ in 0..3 {
            assert_eq!(use_at_once(&mut b, 16), 0);
        }
        let kept: Vec<usize> = (0..5)
            .map(|_| {
                use_at_once(&mut b, 2);
                b.free.len()
            })
            .collect();
        assert_eq!(kept, [8, 4, 4, 4, 4]);
    }

    #[test]
    fn there_are_only_so_many_buffers() {
        let mut b = Bounces::default();
        let taken: Vec<_> = (0..MAX_BOUNCES).map(|_| b.take().expect("a buffer")).collect();
        assert!(b.take().is_none());
        taken.into_iter().for_each(|buf| b.give(buf));
        assert!(b.take().is_some());
    }
}
