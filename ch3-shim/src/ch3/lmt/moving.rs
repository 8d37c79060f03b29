//! Put and Get, the moving side: puts and gets of the peer's windows, piece by piece.

#![allow(unsafe_code)]

use netmod_core::rma::{Access, RegionId, RmaOp};
use netmod_core::{Module, ReqId, RmaBuf, RxBytes, VcError, VcErrorKind, VcId};
use netmod_lmt::{Event, Fault, Mode, Window};

use super::transfer::{Machine, Transfer};
use super::windows::{BOUNCE, Piece, Windows};
use crate::ch3::{Ch3, DevIo};

/// Least size of a piece when there is no room to register a larger one, in bytes.
const MIN_PIECE: usize = 4 << 10;

/// The result of beginning a piece.
enum Began {
    Yes,
    /// There is no room to register anything; there will be when something else has moved.
    Later,
    Failed(VcError),
}

impl Ch3 {
    /// Returns true if a device or a peer may access memory of a message on its own.
    #[inline]
    pub(crate) fn is_moving(&self) -> bool {
        self.lmt.transfers.is_moving()
    }

    /// Begins to put or get a window of the peer's.
    pub(super) fn begin_move(&mut self, io: &mut DevIo<'_>, vc: VcId, req: ReqId, window: Window) {
        if window.index == 0 {
            self.stats.one_sided += 1;
            if let Some(Machine::Recv(m)) = self.lmt.transfers.get(req).map(|t| &t.machine) {
                self.lmt.received.count(Mode::Get, m.total());
            }
        }
        if self.lmt.transfers.make_windows(req).is_some_and(|windows| windows.begin_move(window)) {
            return self.go_on_moving(io, vc, req);
        }
        tracing::error!(%req, ?window, "a window without a key is to be moved");
        self.move_ended(io, req, false);
    }

    /// Starts the next piece of a move.
    fn go_on_moving(&mut self, io: &mut DevIo<'_>, vc: VcId, req: ReqId) {
        match self.next_piece(io, vc, req) {
            Began::Yes => {}
            Began::Later => self.lmt.transfers.stalled.push(req),
            Began::Failed(e) => {
                tracing::debug!(target: "netmod::message", %req, %e, "a window is not moved");
                if let Some(windows) = self.lmt.transfers.make_windows(req) {
                    windows.end_move(Some(e));
                }
                self.move_ended(io, req, false);
            }
        }
    }

    fn next_piece(&mut self, io: &mut DevIo<'_>, vc: VcId, req: ReqId) -> Began {
        let no = |text: &str| Began::Failed(VcError::new(VcErrorKind::Resource, None, text));
        let Some((t, bounces)) = self.lmt.transfers.with_bounces(req) else { return no("it has ended") };
        let puts = t.is_send();
        let Some(Windows { moving: Some(m), bounce, .. }) = t.windows_mut() else {
            return no("nothing is to be moved");
        };
        let Some(rma) = io.netmod.rma(io.core, vc) else { return no("no one-sided transfers") };
        let most = rma.caps(io.core, vc).max_op;
        let Some(r) = io.core.req_mut(req) else { return no("the request is gone") };
        let at = m.window.at as usize + m.done;
        let mut len = (m.window.len as usize - m.done).min(most);
        r.seg.seek(0);
        let contiguous = r.seg.as_contig();
        let base = match contiguous {
            Some((_, total)) if at.checked_add(len).is_none_or(|end| end > total) => {
                return no("the window exceeds the message");
            }
            Some((base, _)) => base.wrapping_add(at),
            None => {
                len = len.min(BOUNCE);
                if bounce.is_none() {
                    *bounce = bounces.take();
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
            // SAFETY: these bytes are within the request's memory, compared above, or within the
            // bounce buffer (`len` is at most `BOUNCE`, and only shrinks). The request is not
            // finished, nor the buffer given back or touched, before the piece is deregistered: by
            // `rma_done`, or by `stop_move`, which `lmt_end` calls. The machine finishes no request
            // of which a window moves. `Vci` drops its netmods before both.
            let mem = unsafe { RmaBuf::new(base, len) };
            let region = match rma.register(io.core, vc, mem, Access::Local) {
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
        // The end of a move that was stopped is reported, too.
        let Some(t) = self.lmt.transfers.get_mut(req) else { return };
        let (gets, draining) = (!t.is_send(), t.is_draining());
        let Some(Windows { moving: Some(m), bounce, .. }) = t.windows_mut() else { return };
        let Some(piece) = m.piece.take() else { return };
        let at = m.window.at as usize + m.done;
        if result.is_ok() {
            m.done += piece.len;
        }
        let through = m.done as u64 >= m.window.len;
        deregister(io, vc, piece.region);
        if gets
            && piece.bounced
            && result.is_ok()
            && let Some(buf) = bounce
        {
            unpack(io, req, at, &buf[..piece.len]);
        }
        if result.is_ok() && !through && !draining {
            self.go_on_moving(io, vc, req);
        } else {
            let ok = result.is_ok() && through;
            if let Some(windows) = t.windows_mut() {
                windows.end_move(result.err());
            }
            self.move_ended(io, req, ok);
        }
        self.wake_stalled(io);
    }

    fn move_ended(&mut self, io: &mut DevIo<'_>, req: ReqId, ok: bool) {
        match self.lmt_tell(io, req, Event::Ended(ok)) {
            Ok(()) | Err(Fault::Late) => {}
            Err(e) => tracing::error!(%req, %e, "a move has ended that was not asked for"),
        }
    }

    /// Starts the pieces that waited for room, since a registration has ended.
    fn wake_stalled(&mut self, io: &mut DevIo<'_>) {
        for req in std::mem::take(&mut self.lmt.transfers.stalled) {
            let stalled = |t: &&Transfer| t.windows().is_some_and(Windows::is_stalled);
            if let Some(vc) = self.lmt.transfers.get(req).filter(stalled).map(|t| t.vc) {
                self.go_on_moving(io, vc, req);
            }
        }
    }

    /// Stops the move of a transfer that ends; none of its memory is accessed any more. Returns
    /// true if there was a move.
    pub(super) fn stop_move(&mut self, io: &mut DevIo<'_>, vc: VcId, req: ReqId) -> bool {
        let windows = self.lmt.transfers.get_mut(req).and_then(Transfer::windows_mut);
        let Some(m) = windows.and_then(|w| w.moving.take()) else { return false };
        if let Some(piece) = m.piece {
            deregister(io, vc, piece.region);
            self.wake_stalled(io);
        }
        true
    }
}

/// Ends a registration.
pub(in crate::ch3) fn deregister(io: &mut DevIo<'_>, vc: VcId, region: RegionId) {
    let Some(rma) = io.netmod.rma(io.core, vc) else { return };
    if let Err(error) = rma.deregister(io.core, region) {
        tracing::error!(%vc, %error, "a region of a large message");
    }
}

/// Copies bytes to an offset of a receive.
pub(in crate::ch3) fn unpack(io: &mut DevIo<'_>, req: ReqId, at: usize, bytes: &[u8]) {
    if let Some(r) = io.core.req_mut(req) {
        r.seg.seek(at);
        r.seg.unpack(RxBytes::from_slice(bytes));
        r.seg.seek(0);
    }
}
