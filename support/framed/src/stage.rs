//! Messages behind the first one since a poll: they go together in a frame, with the next flush or
//! poll, or when it is full.
//!
//! A message that is sent alone leaves at once. Of a burst only the first one does, since the
//! device's part of a frame (a system call, the waking of a thread) costs many times what a short
//! message does. A frame that is being filled lies with its VC as one does that the device would
//! not take yet, so that whatever is sent behind it finds it first.

use netmod_core::{Core, HDR_LEN, Header, VcError, VcId};

use crate::device::{Device, Port};
use crate::link::Stalled;
use crate::netmod::FrameNetmod;
use crate::wire::FRAME_HEADER;

/// Longest frame that is filled so: who takes it begins with the first message while the next frame
/// is filled.
const STAGE: usize = 16 << 10;

impl<D: Device> FrameNetmod<D> {
    /// Sends a message of one frame, which is not the first since the last poll; false if it must
    /// go by the queue. The VC is ready.
    #[inline(never)]
    pub(crate) fn send_more(
        &mut self,
        core: &mut Core,
        vc: VcId,
        hdr: &Header,
        data: &[u8],
    ) -> Result<bool, VcError> {
        let len = HDR_LEN + data.len();
        if self.append(vc, len, hdr, data) {
            core.count_send(vc, data.len());
            return Ok(true);
        }
        if self.links.get(vc).is_some_and(|l| l.stalled.is_some()) {
            self.pump(core, vc);
        }
        let Some(l) = self.links.get_mut(vc).filter(|l| l.ready) else {
            self.check(vc)?;
            core.count_send(vc, data.len());
            return Ok(false);
        };
        if let Some((port, room)) = l.open.map(|o| (o.dest.port, o.room()))
            && FRAME_HEADER + len <= STAGE.min(room)
            && l.traffic.in_flight < self.ports[port].share()
            && let Some(buffer) = self.ports[port].take_buffer()
        {
            l.stalled = Some(Stalled { buffer, len: FRAME_HEADER });
            self.work.staged.add(vc);
            core.note_staged();
            let taken = self.append(vc, len, hdr, data);
            debug_assert!(taken, "there is room for it");
            core.count_send(vc, data.len());
            return Ok(true);
        }
        let sent = Self::send_alone(l, &mut self.ports, &mut self.stats, vc, hdr, data);
        self.counted(core, vc, data.len(), sent)
    }

    /// Adds a message to the frame that is being filled, if there is one and it has room.
    #[inline]
    fn append(&mut self, vc: VcId, len: usize, hdr: &Header, data: &[u8]) -> bool {
        let Some(l) = self.links.get_mut(vc) else { return false };
        let (Some(staged), Some(open)) = (&mut l.stalled, &l.open) else { return false };
        if staged.len + len > STAGE.min(open.room()) {
            return false;
        }
        let frame = &mut self.ports[open.dest.port].buffer(staged.buffer)[staged.len..][..len];
        frame[..HDR_LEN].copy_from_slice(hdr);
        frame[HDR_LEN..].copy_from_slice(data);
        staged.len += len;
        true
    }

    /// Sends the frames that are being filled, if there are any.
    #[inline]
    pub(crate) fn push_staged(&mut self, core: &mut Core) {
        if !self.work.staged.is_empty() {
            self.flush_staged(core);
        }
    }

    #[inline(never)]
    fn flush_staged(&mut self, core: &mut Core) {
        while let Some(vc) = self.work.staged.take() {
            self.pump(core, vc);
        }
    }
}
