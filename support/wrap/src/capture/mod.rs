//! Capture: a netmod that records the traffic of another one.
//!
//! [`record`] has the content of a file, and [`pcapng`] its format. While a capture runs, all
//! received bytes come by events ([`netmod_core::Vc::no_direct`]), which costs large messages a
//! copy. Records are buffered and written when 64 KiB are full, and whenever the process is about
//! to block: the file of a job that hangs is complete.

mod file;
mod framer;
pub mod pcapng;
pub mod record;
#[cfg(test)]
mod tests;

use std::fmt;

use netmod_core::slab::VcKind;
use netmod_core::{
    Arm, Card, Checkpoint, Core, DeviceError, Diagnose, DynamicProcesses, Event, Events, Finalize, Header,
    Module, Netmod, PeerName, PollOrder, ReqId, RxBytes, Seen, SendBuf, Sent, SideTable, Time, VcError, VcId,
    VcLife, forward, port_group,
};

pub use file::{CaptureFile, Clock};
pub use framer::PayloadLen;
use framer::{Found, Framer};
use record::{TEXT_MAX, What};

/// The wrapper's side table entry of a VC.
#[derive(Debug)]
struct VcCapture {
    peer: PeerName,
    framer: Framer,
}

/// A netmod whose traffic is captured.
pub struct Capture<N> {
    inner: N,
    file: CaptureFile,
    payload_len: PayloadLen,
    vcs: SideTable<VcCapture, VcKind>,
    /// First bytes of the payload being sent.
    scratch: Vec<u8>,
    finalizing: bool,
}

impl<N: Netmod> fmt::Debug for Capture<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture")
            .field("inner", &self.inner.name())
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

impl<N: Netmod> Capture<N> {
    /// Captures the traffic of `inner`; `payload_len` reads the upper layer's headers.
    pub fn new(inner: N, file: CaptureFile, payload_len: PayloadLen) -> Capture<N> {
        Capture { inner, file, payload_len, vcs: SideTable::new(), scratch: Vec::new(), finalizing: false }
    }

    /// Returns the wrapped netmod.
    pub fn inner(&self) -> &N {
        &self.inner
    }

    /// Returns the wrapped netmod.
    pub fn inner_mut(&mut self) -> &mut N {
        &mut self.inner
    }

    /// Returns the capture file.
    pub fn file(&mut self) -> &mut CaptureFile {
        &mut self.file
    }

    fn take_charge(&mut self, core: &mut Core, vc: VcId, peer: PeerName, text: &str) {
        if let Some(v) = core.vc_mut(vc) {
            v.forbid_direct();
        }
        self.vcs.insert(vc, VcCapture { peer, framer: Framer::new() });
        self.event(What::Init, peer, vc, text);
    }

    fn event(&mut self, what: What, peer: PeerName, vc: VcId, text: &str) {
        let mut end = text.len().min(TEXT_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.file.add(what, peer, vc, 0, [&text.as_bytes()[..end], &[]]);
    }

    fn event_of(&mut self, what: What, vc: VcId, text: &str) {
        let peer = self.vcs.get(vc).map(|l| l.peer).unwrap_or_default();
        self.event(what, peer, vc, text);
    }

    /// Keeps the first bytes of a message before the netmod gets it.
    fn peek(&mut self, data: &SendBuf) -> u64 {
        self.scratch.clear();
        let bytes = data.bytes();
        self.scratch.extend_from_slice(&bytes[..bytes.len().min(self.file.snap())]);
        bytes.len() as u64
    }

    /// Keeps the first bytes of a message whose data is in its request's segment.
    fn peek_segment(&mut self, core: &mut Core, req: ReqId) -> u64 {
        self.scratch.clear();
        let Some(r) = core.req_mut(req) else { return 0 };
        let (pos, left) = (r.seg.pos(), r.seg.remaining());
        self.scratch.resize(left.min(self.file.snap()), 0);
        r.seg.pack(&mut self.scratch);
        r.seg.seek(pos);
        left as u64
    }

    /// Records the result of a send.
    fn sent<T>(
        &mut self,
        vc: VcId,
        hdr: &Header,
        len: u64,
        result: Result<T, VcError>,
    ) -> Result<T, VcError> {
        let peer = self.vcs.get(vc).map(|l| l.peer).unwrap_or_default();
        match &result {
            Ok(_) => self.file.add(What::Sent, peer, vc, len, [hdr, &self.scratch]),
            Err(e) => self.event(What::Refused, peer, vc, &e.to_string()),
        }
        result
    }

    /// Records received bytes.
    fn came(&mut self, vc: VcId, bytes: RxBytes<'_>) {
        let Some(l) = self.vcs.get_mut(vc) else { return };
        let (file, peer) = (&mut self.file, l.peer);
        l.framer.feed(bytes, file.snap(), self.payload_len, |found| match found {
            Found::Frame(f) => {
                file.add(What::Received, peer, vc, f.payload_len, [&f.header, &f.payload]);
            }
            Found::Nonsense(header) => {
                let text = format!("these bytes are no header: {header:02x?}");
                file.add(What::Lost, peer, vc, 0, [text.as_bytes(), &[]]);
            }
        });
    }

    /// Records the events of a poll.
    fn note(&mut self, events: &Events, from: usize) {
        for ev in events.iter_from(from) {
            let other = match ev {
                Seen::Other(other) => other,
                Seen::Rx(vc, buf) => {
                    self.came(vc, buf.bytes());
                    continue;
                }
            };
            match *other {
                Event::Up { vc } => self.event_of(What::Up, vc, ""),
                Event::Terminated { vc } => {
                    self.event_of(What::Terminated, vc, "");
                    self.begin_anew(vc);
                }
                Event::Down { vc, ref error } => {
                    self.event_of(What::Down, vc, &error.to_string());
                    self.begin_anew(vc);
                }
                Event::NewPeer { peer, .. } => {
                    self.event(What::NewPeer, peer, VcId::from_wire(0), "");
                }
                Event::PortPeer { peer, port, .. } => {
                    self.event(What::NewPeer, peer, VcId::from_wire(0), &format!("to port {port}"));
                }
                // Received bytes come by other events, and a VC that goes on is the same.
                Event::Resumed { .. }
                | Event::Rx { .. }
                | Event::RecvDone { .. }
                | Event::NeedCard { .. }
                | Event::RmaDone { .. } => {}
            }
        }
    }

    fn begin_anew(&mut self, vc: VcId) {
        if let Some(l) = self.vcs.get_mut(vc) {
            l.framer.reset();
        }
    }
}

/// Names the wrapped netmod for [`netmod_core::forward`].
macro_rules! inner {
    ($wrapper:expr, [$($vc:ident),*], $n:ident => $body:expr) => {{
        let Self { inner: $n, .. } = $wrapper;
        $body
    }};
}

impl<N: Netmod> VcLife for Capture<N> {
    forward!(inner: set_card, refuse_peer, watch_peer);

    fn vc_init(
        &mut self,
        core: &mut Core,
        vc: VcId,
        peer: PeerName,
        card: Option<&Card>,
    ) -> Result<(), VcError> {
        self.inner.vc_init(core, vc, peer, card)?;
        self.take_charge(core, vc, peer, "");
        Ok(())
    }

    fn vc_destroy(&mut self, core: &mut Core, vc: VcId) {
        self.vcs.remove(vc);
        self.inner.vc_destroy(core, vc);
    }

    fn vc_terminate(&mut self, core: &mut Core, vc: VcId, now: Time) {
        self.event_of(What::Terminate, vc, "");
        self.inner.vc_terminate(core, vc, now);
    }

    fn vc_abort(&mut self, core: &mut Core, vc: VcId, error: VcError) {
        self.event_of(What::Abort, vc, &error.to_string());
        self.inner.vc_abort(core, vc, error);
    }

    fn vc_revive(&mut self, core: &mut Core, vc: VcId, card: Option<&Card>) -> Result<(), VcError> {
        self.event_of(What::Revive, vc, "");
        self.inner.vc_revive(core, vc, card)
    }
}

impl<N: Netmod> DynamicProcesses for Capture<N> {
    forward!(inner: open_port, close_port, join_group, leave_group);

    fn connect_to_root(
        &mut self,
        core: &mut Core,
        vc: VcId,
        card: &Card,
        port_tag: u64,
    ) -> Result<(), VcError> {
        self.inner.connect_to_root(core, vc, card, port_tag)?;
        let peer = PeerName { group: port_group(port_tag), rank: 0 };
        self.take_charge(core, vc, peer, &format!("with port {port_tag}"));
        Ok(())
    }
}

impl<N: Netmod> Checkpoint for Capture<N> {
    forward!(inner: can_ckpt, ckpt_shutdown, ckpt_restart, ckpt_peer);
}

// SAFETY: data is copied before the wrapped netmod gets it, and not kept.
#[allow(unsafe_code)]
unsafe impl<N: Netmod> Netmod for Capture<N> {
    forward!(inner: control_frame, flush, release, wait_fd, deadline);

    fn i_send_contig(
        &mut self,
        core: &mut Core,
        vc: VcId,
        req: ReqId,
        hdr: &Header,
        data: SendBuf,
    ) -> Result<Sent, VcError> {
        let len = self.peek(&data);
        let result = self.inner.i_send_contig(core, vc, req, hdr, data);
        self.sent(vc, hdr, len, result)
    }

    fn i_start_contig_msg(
        &mut self,
        core: &mut Core,
        vc: VcId,
        hdr: &Header,
        data: SendBuf,
    ) -> Result<Option<ReqId>, VcError> {
        let len = self.peek(&data);
        let result = self.inner.i_start_contig_msg(core, vc, hdr, data);
        self.sent(vc, hdr, len, result)
    }

    fn send_noncontig(
        &mut self,
        core: &mut Core,
        vc: VcId,
        req: ReqId,
        hdr: &Header,
    ) -> Result<Sent, VcError> {
        let len = self.peek_segment(core, req);
        let result = self.inner.send_noncontig(core, vc, req, hdr);
        self.sent(vc, hdr, len, result)
    }

    fn cancel_send(&mut self, core: &mut Core, vc: VcId, req: ReqId) -> bool {
        let taken = self.inner.cancel_send(core, vc, req);
        if taken {
            self.event_of(What::Cancelled, vc, &req.to_string());
        }
        taken
    }

    fn poll(
        &mut self,
        core: &mut Core,
        order: PollOrder,
        now: Time,
        events: &mut Events,
    ) -> Result<(), DeviceError> {
        let before = events.len();
        let result = self.inner.poll(core, order, now, events);
        if events.len() > before {
            self.note(events, before);
        }
        result
    }

    fn arm(&mut self, core: &mut Core) -> Arm {
        let armed = self.inner.arm(core);
        if armed == Arm::Armed {
            self.file.flush();
        }
        armed
    }
}

impl<N: Netmod> Module for Capture<N> {
    forward!(inner: name, threads, shares_memory, join_job, business_card, reachable, rma);

    fn finalize(&mut self, core: &mut Core, now: Time) -> Finalize {
        if !std::mem::replace(&mut self.finalizing, true) {
            self.event(What::Finalize, PeerName::default(), VcId::from_wire(0), "");
        }
        let done = self.inner.finalize(core, now);
        if done == Finalize::Done {
            self.file.flush();
        }
        done
    }
}

impl<N: Netmod> Diagnose for Capture<N> {
    forward!(inner: failure, opened, report, break_connection);

    fn describe(&self, core: &Core, vc: VcId) -> String {
        let (written, lost) = self.file.counts();
        let lost = if lost > 0 { format!(", {lost} lost") } else { String::new() };
        format!("{}; {written} records captured to {}{lost}", self.inner.describe(core, vc), self.file.name())
    }
}
