//! Put and Get, the exposed side: windows of a request's memory that are registered for the peer.

#![allow(unsafe_code)]

use netmod_core::rma::Access;
use netmod_core::{Module, ReqId, RmaBuf, VcError, VcErrorKind, VcId};
use netmod_lmt::{Access as For, Window};

use super::moving::{deregister, unpack};
use super::windows::{BOUNCE, Exposed};
use crate::ch3::{Ch3, DevIo};

impl Ch3 {
    /// Returns the size of the windows in which a request's memory is exposed, in bytes.
    pub(super) fn first_window(&mut self, io: &mut DevIo<'_>, vc: VcId, req: ReqId) -> u64 {
        let Some(rma) = io.netmod.rma(io.core, vc) else { return 0 };
        // Half of what may be registered is for peers, and two windows are registered at once.
        let most = rma.caps(io.core, vc).max_registered / 4;
        let contiguous = io.core.req(req).is_some_and(|r| r.seg.as_contig().is_some());
        let most = if contiguous { most } else { most.min(BOUNCE) };
        most as u64
    }

    /// Registers a window of a request's memory for the peer. Returns false if that cannot be.
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
                if let Some(windows) = self.lmt.transfers.make_windows(req) {
                    windows.failure = Some(e);
                }
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
        // The windows own the buffer of what is registered, and must be there before it is.
        if self.lmt.transfers.make_windows(req).is_none() {
            return Err(no("the transfer has ended"));
        }
        let (at, len) = (window.at as usize, window.len as usize);
        r.seg.seek(0);
        let (mem, mut bounce) = match r.seg.as_contig() {
            Some((_, total)) if at.checked_add(len).is_none_or(|end| end > total) => {
                return Err(no("the window exceeds the message"));
            }
            // SAFETY: these bytes are within the request's memory, which is lent to it until it is
            // finished, for what `access` means (a send is read, a receive written). The machine
            // has all windows deregistered before that: `Deregister` precedes `Finish`, and
            // `lmt_end`, which precedes the end of a request that is given up, carries it out. The
            // netmods are dropped before the requests' owners (`Vci::engine`).
            Some((base, _)) => (unsafe { RmaBuf::new(base.wrapping_add(at), len) }, None),
            None if len > BOUNCE => return Err(no("data that is not in one piece moves in smaller windows")),
            None => {
                let Some(mut buf) = self.lmt.transfers.bounces.take() else {
                    return Err(no("all buffers for data that is not in one piece are in use"));
                };
                if access == For::RemoteRead {
                    r.seg.seek(at);
                    r.seg.pack(&mut buf[..len]);
                    r.seg.seek(0);
                }
                // SAFETY: the buffer has `BOUNCE` bytes, and `len` is no more. They are on the
                // heap, so it may be moved. `Exposed` keeps it, untouched, until `unexpose` has
                // deregistered the window, and `Vci` drops its netmods first.
                (unsafe { RmaBuf::new(buf.as_mut_ptr(), len) }, Some(buf))
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
                    self.lmt.transfers.bounces.give(buf);
                }
                return Err(e);
            }
        };
        let exposed = Exposed { window, region, key, bounce };
        let ahead = self.lmt.transfers.make_windows(req).is_some_and(|windows| windows.expose(exposed));
        if window.index > 0 {
            self.stats.rekeys += 1;
            self.stats.rekeys_ahead += u64::from(ahead);
        }
        Ok(())
    }

    /// Ends the registration of a window. `moved`: its data has moved.
    pub(super) fn unexpose(&mut self, io: &mut DevIo<'_>, vc: VcId, req: ReqId, index: u32, moved: bool) {
        let Some((t, bounces)) = self.lmt.transfers.with_bounces(req) else { return };
        let Some(exposed) = t.windows_mut().and_then(|w| w.unexpose(index)) else { return };
        deregister(io, vc, exposed.region);
        let Some(buf) = exposed.bounce else { return };
        if !t.is_send() && moved {
            unpack(io, req, exposed.window.at as usize, &buf[..exposed.window.len as usize]);
        }
        bounces.give(buf);
    }
}
