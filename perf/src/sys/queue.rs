//! A reliably connected queue pair with two buffers, driven as directly as possible: the floor for
//! users of verbs.
//!
//! This object owns all memory that requests use, and frees it only when the device has released
//! it, so its methods are safe. Received data is not read while requests are in flight.

use hca::{
    Access, AhAttr, Completion, Cq as _, Data, GidEntry, GlobalRoute, Hca, LinkLayer, ModifyQp, Mr as _, Mtu,
    Piece, Qp as _, QpCap, QpInit, QpKind, QpNum, RecvWr, SendFlags, SendOp, SendWr, Sge, To, ToRtr, ToRts,
    errno,
};

use super::PageBuf;
use super::buffers::{Buffers, Remote};

/// Maximum number of requests of each kind in flight.
const DEPTH: u32 = 64;
/// Maximum length of inline data, in bytes.
const INLINE: u32 = 256;
/// Interval of completions among inline requests.
const SIGNAL_EVERY: u32 = 16;
/// Maximum number of completions taken at once.
const BATCH: usize = 16;
/// Maximum number of reads in flight.
const READS: u8 = 16;
/// Acknowledgement timeout of 67 ms, as a code, and number of retries.
const TIMEOUT: u8 = 14;
const RETRIES: u8 = 7;
/// Delay of 0.01 ms before a retry without receive, as a code; retries have no limit.
const RNR_TIMER: u8 = 1;
const BITS_24: u32 = 0x00ff_ffff;
/// Length of a side's connection data in bytes.
pub(crate) const ADDRESS_LEN: usize = 29;

/// Flags in request identifiers: a receive; a request that is waited for. The rest is the number of
/// send queue slots that the request frees.
const RECEIVE: u64 = 1 << 63;
const WAITED_FOR: u64 = 1 << 62;

/// A buffer and its registration, which ends first.
struct Region<H: Hca> {
    mr: Option<H::Mr>,
    buf: PageBuf,
}

impl<H: Hca> Region<H> {
    fn sge(&self, len: usize) -> Option<Sge> {
        let mr = self.mr.as_ref().filter(|_| len <= self.buf.len())?;
        Some(Sge { addr: mr.addr(), len: u32::try_from(len).ok()?, lkey: mr.lkey() })
    }
}

impl<H: Hca> AsMut<[u8]> for Region<H> {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.buf
    }
}

impl<H: Hca> Drop for Region<H> {
    fn drop(&mut self) {
        if let Some(Err((mr, _))) = self.mr.take().map(hca::Mr::deregister) {
            // Memory that the device may still use is leaked.
            core::mem::forget((mr, core::mem::replace(&mut self.buf, PageBuf::new(1))));
        }
    }
}

/// A directly driven queue pair with its buffers. Fields are in order of destruction: the queue
/// pair before its memory.
pub(crate) struct Queue<H: Hca> {
    qp: H::Qp,
    cq: H::Cq,
    buffers: Buffers<Region<H>>,
    hca: H,
    port: u8,
    gid: GidEntry,
    psn: u32,
    depth: u32,
    inline: usize,
    /// Occupied slots of the send queue, the last of them without a completion, and those that are
    /// waited for.
    under_way: u32,
    silent: u32,
    waited_for: u32,
}

impl<H: Hca> core::fmt::Debug for Queue<H> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Queue")
            .field("device", &self.hca.name())
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

fn text(e: &hca::Error) -> String {
    e.to_string()
}

impl<H: Hca> Queue<H> {
    /// Makes a queue pair on a port of a device, with this GID.
    ///
    /// # Errors
    /// The call that failed, and its cause.
    pub(crate) fn open(hca: H, port: u8, gid: GidEntry, psn: u32) -> Result<Queue<H>, String> {
        let device = *hca.device();
        let depth = DEPTH.min(device.max_qp_wr);
        let cq = hca.create_cq((2 * depth).min(device.max_cqe), 0, None).map_err(|e| text(&e))?;
        let kind = QpKind::Rc { send_cq: &cq, recv_cq: &cq, srq: None };
        let make = |max_inline| {
            let cap = QpCap {
                max_send_wr: depth,
                max_recv_wr: depth,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline,
            };
            hca.create_qp(&QpInit { kind, cap, signal_all: false })
        };
        // Devices do not tell the maximum length of inline data, so smaller ones are tried.
        let made = [INLINE, 128, 64, 0].into_iter().find_map(|inline| match make(inline) {
            Err(e) if e.errno == errno::EINVAL && inline > 0 => None,
            made => Some(made),
        });
        let qp = made.ok_or("no queue pair")?.map_err(|e| text(&e))?;
        let access = Access { remote_atomic: false, ..Access::ALL };
        qp.modify(&ModifyQp::Init { port, pkey_index: 0, access }).map_err(|e| text(&e))?;
        let inline = qp.cap().max_inline as usize;
        Ok(Queue {
            qp,
            cq,
            buffers: Buffers::none(),
            hca,
            port,
            gid,
            psn: psn & BITS_24,
            depth,
            inline,
            under_way: 0,
            silent: 0,
            waited_for: 0,
        })
    }

    fn reads(&self) -> u8 {
        READS.min(self.hca.device().max_qp_rd_atom)
    }

    /// Returns this side's connection data.
    ///
    /// # Errors
    /// The device's error.
    pub(crate) fn address(&self) -> Result<[u8; ADDRESS_LEN], String> {
        let attr = self.hca.port(self.port).map_err(|e| text(&e))?;
        let mut out = [0; ADDRESS_LEN];
        out[..4].copy_from_slice(&self.qp.number().0.to_le_bytes());
        out[4..8].copy_from_slice(&self.psn.to_le_bytes());
        out[8..10].copy_from_slice(&attr.lid.to_le_bytes());
        (out[10], out[11]) = (attr.active_mtu as u8, self.reads());
        out[12] = u8::from(attr.link_layer == LinkLayer::Ethernet);
        out[13..].copy_from_slice(&self.gid.gid.0);
        Ok(out)
    }

    /// Connects with a peer, given its connection data.
    ///
    /// # Errors
    /// If the data is invalid, or the device fails.
    pub(crate) fn connect(&mut self, theirs: &[u8; ADDRESS_LEN]) -> Result<(), String> {
        let word =
            |at: usize| u32::from_le_bytes([theirs[at], theirs[at + 1], theirs[at + 2], theirs[at + 3]]);
        let attr = self.hca.port(self.port).map_err(|e| text(&e))?;
        let ethernet = attr.link_layer == LinkLayer::Ethernet;
        if ethernet != (theirs[12] != 0) {
            return Err(
                "one side's link is Ethernet, the other's InfiniBand; NETMOD_VERBS_DEVICE chooses".into()
            );
        }
        let mtu = Mtu::of_code(theirs[10].into()).ok_or("the other side's MTU is invalid")?;
        let mut dgid = self.gid.gid;
        dgid.0.copy_from_slice(&theirs[13..]);
        let far = ethernet || dgid.0[..8] != self.gid.gid.0[..8];
        let sgid_index = self.gid.index;
        let route = GlobalRoute { dgid, sgid_index, hop_limit: 64, traffic_class: 0, flow_label: 0 };
        let ah = AhAttr {
            port: self.port,
            dlid: u16::from_le_bytes([theirs[8], theirs[9]]),
            sl: 0,
            src_path_bits: 0,
            grh: far.then_some(route),
        };
        let rtr = ToRtr {
            path_mtu: mtu.min(attr.active_mtu),
            dest_qp: QpNum(word(0)),
            rq_psn: word(4),
            max_dest_rd_atomic: self.reads(),
            min_rnr_timer: RNR_TIMER,
            ah,
            alt: None,
        };
        let rts = ToRts {
            sq_psn: self.psn,
            timeout: TIMEOUT,
            retry_cnt: RETRIES,
            rnr_retry: 7,
            max_rd_atomic: READS.min(self.hca.device().max_qp_init_rd_atom).min(theirs[11]),
            alt: None,
            path_mig_state: None,
        };
        self.qp.modify(&ModifyQp::Rtr(rtr)).map_err(|e| text(&e))?;
        self.qp.modify(&ModifyQp::Rts(rts)).map_err(|e| text(&e))
    }

    /// Returns the number of requests of each kind that can be in flight.
    pub(crate) fn depth(&self) -> usize {
        self.depth as usize
    }

    /// Returns the total number of completed receives.
    #[inline]
    pub(crate) fn received(&self) -> u64 {
        self.buffers.received()
    }

    /// Returns true if no outgoing request uses the buffers.
    #[inline]
    pub(crate) fn is_sent(&self) -> bool {
        self.waited_for == 0
    }

    /// Returns the send buffer and the receive buffer.
    ///
    /// # Errors
    /// If a request is in flight, or there are no buffers yet.
    pub(crate) fn buffers(&mut self) -> Result<(&mut [u8], &mut [u8]), String> {
        let sent = self.is_sent();
        self.buffers.bytes(sent)
    }

    /// Replaces the buffers by new ones of this length.
    ///
    /// # Errors
    /// If a request is in flight, or they cannot be registered.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<(), String> {
        let sent = self.is_sent();
        let access = Access { remote_atomic: false, ..Access::ALL };
        self.buffers.replace(sent, |_| {
            let mut buf = PageBuf::new(bytes);
            // SAFETY: the memory stays until the registration has ended, or for ever. It is
            // accessed only while no request uses it, except for the peer's accesses, which this
            // measurement asks for.
            let mr = unsafe { self.hca.register(buf.as_mut_ptr(), buf.len(), access) };
            Ok(Region { mr: Some(mr.map_err(|e| text(&e))?), buf })
        })
    }

    /// Returns the buffers as the peer addresses them.
    pub(crate) fn exposed(&mut self) -> Option<[Remote; 2]> {
        let [send, recv] = self.buffers.regions()?;
        let at = |region: &Region<H>| region.mr.as_ref().map(|mr| (mr.addr(), u64::from(mr.rkey())));
        Some([at(send)?, at(recv)?])
    }

    /// Posts a receive of up to `len` bytes.
    ///
    /// # Errors
    /// The device's error, or too many receives in flight, or a message that is too long.
    pub(crate) fn post(&mut self, len: usize) -> Result<(), String> {
        let sge = self.buffers.regions().and_then(|[_, recv]| recv.sge(len));
        let Some(sge) = sge.filter(|_| self.buffers.receiving() < u64::from(self.depth)) else {
            return Err("too many receives, or one that is too long".into());
        };
        let wr = RecvWr { wr_id: RECEIVE, sges: core::slice::from_ref(&sge) };
        self.qp.post_recv(&[wr]).map_err(|e| format!("ibv_post_recv: {}", e.errno))?;
        self.buffers.posted();
        Ok(())
    }

    #[inline]
    fn start(&mut self, op: SendOp, which: usize, len: usize) -> Result<bool, String> {
        if self.under_way == self.depth {
            return Ok(false);
        }
        let Some(region) = self.buffers.regions().map(|regions| &regions[which]) else {
            return Err("there are no buffers".into());
        };
        let sge = region.sge(len).ok_or("the buffer is too short")?;
        let copied = op == SendOp::Send && len <= self.inline;
        let piece = copied.then(|| Piece::new(&region.buf[..len]));
        let data = match &piece {
            Some(piece) => Data::Inline(core::slice::from_ref(piece)),
            None => Data::Registered(core::slice::from_ref(&sge)),
        };
        let signaled = !copied || self.silent + 1 == SIGNAL_EVERY || self.under_way + 1 == self.depth;
        let covers = u64::from(self.silent + 1);
        let wr = SendWr {
            wr_id: if copied { covers } else { covers | WAITED_FOR },
            op,
            data,
            flags: SendFlags { signaled, ..SendFlags::NONE },
            to: To::Peer,
        };
        self.qp.post_send(&[wr]).map_err(|e| format!("ibv_post_send: {}", e.errno))?;
        self.under_way += 1;
        self.silent = if signaled { 0 } else { self.silent + 1 };
        self.waited_for += u32::from(!copied);
        Ok(true)
    }

    /// Sends `len` bytes; returns false if that cannot start now.
    ///
    /// # Errors
    /// The device's error.
    #[inline]
    pub(crate) fn send(&mut self, len: usize) -> Result<bool, String> {
        self.start(SendOp::Send, 0, len)
    }

    /// Reads `len` bytes of the peer's memory into the receive buffer; returns false if that cannot
    /// start now.
    ///
    /// # Errors
    /// The device's error.
    #[inline]
    pub(crate) fn read(&mut self, len: usize, (addr, key): Remote) -> Result<bool, String> {
        self.start(SendOp::RdmaRead { addr, rkey: key as u32 }, 1, len)
    }

    /// Writes `len` bytes of the send buffer into the peer's memory; returns false if that cannot
    /// start now.
    ///
    /// # Errors
    /// The device's error.
    #[inline]
    pub(crate) fn write(&mut self, len: usize, (addr, key): Remote) -> Result<bool, String> {
        self.start(SendOp::RdmaWrite { addr, rkey: key as u32 }, 0, len)
    }

    /// Makes progress. Returns true if anything has completed.
    ///
    /// # Errors
    /// If a request failed.
    #[inline]
    pub(crate) fn poll(&mut self) -> Result<bool, String> {
        let mut entries = [Completion::EMPTY; BATCH];
        let n = self.cq.poll(&mut entries).map_err(|e| text(&e))?;
        for entry in &entries[..n] {
            if !entry.status.is_success() {
                self.buffers.fail();
                return Err(format!("a request failed: {:?}", entry.status));
            }
            if entry.wr_id & RECEIVE != 0 {
                self.buffers.arrived();
            } else {
                self.waited_for -= u32::from(entry.wr_id & WAITED_FOR != 0);
                self.under_way -= entry.wr_id as u32;
            }
        }
        Ok(n > 0)
    }
}
