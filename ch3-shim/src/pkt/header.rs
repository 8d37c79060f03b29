//! Reading and writing headers, as four little-endian words.

use super::{CookieLen, HDR_LEN, Header, MAX_COOKIE, MAX_SHORT, Mode, Packet, PktError, ShortData};
use crate::tagmatch::Envelope;

const EAGER_SHORT: u8 = 0x01;
const EAGER: u8 = 0x02;
const EAGER_SYNC_ACK: u8 = 0x03;
const RTS: u8 = 0x04;
const CTS: u8 = 0x05;
const RNDV_DATA: u8 = 0x06;
const CANCEL_REQ: u8 = 0x07;
const CANCEL_RESP: u8 = 0x08;
const CLOSE: u8 = 0x09;
const DONE: u8 = 0x0a;
const COOKIE: u8 = 0x0b;
const CREDIT: u8 = 0x0c;

const SYNC: u8 = 0x01;
const READY: u8 = 0x02;
const ACK: u8 = 0x04;
const FROM_SENDER: u8 = 0x08;
const WANT: u8 = 0x10;

/// The header of an [`Packet::EagerShort`]; `None` if the data is longer than [`MAX_SHORT`].
#[inline]
pub fn emit_eager_short(env: Envelope, ready: bool, data: &[u8]) -> Option<Header> {
    let flags = if ready { READY } else { 0 };
    let (c, d) = short_words(data)?;
    Some(with_env(EAGER_SHORT, flags, data.len() as u16, env, c, d))
}

/// An eager message that nobody has to answer, taken from a header without the value of all
/// packets: what [`parse`] makes [`Packet::Eager`] of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain {
    pub(crate) env: Envelope,
    pub(crate) ready: bool,
    pub(crate) len: u32,
    pub(crate) credit: u32,
}

impl Plain {
    /// `None` if the header is something else, or not as it must be. The sender's request is of no
    /// account here.
    #[inline(always)]
    pub(crate) fn of(header: &Header) -> Option<Plain> {
        let fields = Fields::new(header);
        let ready = fields.flags == READY;
        let good = fields.kind == EAGER && (fields.flags == 0 || ready) && fields.aux == 0;
        let (len, credit) = (fields.c as u32, (fields.c >> 32) as u32);
        good.then(|| Plain { env: fields.env(), ready, len, credit })
    }
}

/// Up to [`MAX_SHORT`] bytes as two little-endian words, zero behind them. From at most two moves,
/// which may overlap each other, instead of a copy of variable length, which is a call.
#[inline]
fn short_words(data: &[u8]) -> Option<(u64, u64)> {
    let len = data.len();
    Some(match (data.first_chunk::<8>(), data.last_chunk::<8>()) {
        (Some(first), Some(last)) => {
            let behind = len.checked_sub(8).filter(|n| *n <= 8)?;
            let rest = u64::from_le_bytes(*last).checked_shr(64 - 8 * behind as u32).unwrap_or(0);
            (u64::from_le_bytes(*first), rest)
        }
        _ => match (data.first_chunk::<4>(), data.last_chunk::<4>()) {
            (Some(first), Some(last)) => {
                let last = u64::from(u32::from_le_bytes(*last)) << (8 * (len - 4));
                (u64::from(u32::from_le_bytes(*first)) | last, 0)
            }
            _ => (data.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)), 0),
        },
    })
}

/// An eager short message, taken from a header without copies: what [`parse`] makes
/// [`Packet::EagerShort`] of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Short {
    pub(crate) env: Envelope,
    pub(crate) ready: bool,
    len: usize,
}

impl Short {
    /// `None` if the header is something else, or not as it must be.
    #[inline(always)]
    pub(crate) fn of(header: &Header) -> Option<Short> {
        let fields = Fields::new(header);
        let (len, ready) = (usize::from(fields.aux), fields.flags == READY);
        let good = fields.kind == EAGER_SHORT
            && fields.flags & !READY == 0
            && len <= MAX_SHORT
            && fields.ends_at(len);
        good.then(|| Short { env: fields.env(), ready, len })
    }

    /// Returns true if `next` differs from `header`, of which this was made, in nothing but its
    /// payload, and is as it must be.
    #[inline(always)]
    pub(crate) fn is_alike(&self, header: &Header, next: &Header) -> bool {
        let (one, other) = (Fields::new(header), Fields::new(next));
        one.a == other.a && one.b == other.b && other.ends_at(self.len)
    }

    /// A copy of the payload, from the header it was made of.
    pub(crate) fn to_data(self, header: &Header) -> ShortData {
        let mut bytes = [0; MAX_SHORT];
        bytes.copy_from_slice(&header[HDR_LEN - MAX_SHORT..]);
        ShortData { len: self.len as u8, bytes }
    }

    /// The payload, in the header it was made of.
    #[inline(always)]
    pub(crate) fn data<'h>(&self, header: &'h Header) -> &'h [u8] {
        &header[HDR_LEN - MAX_SHORT..][..self.len.min(MAX_SHORT)]
    }
}

/// The header of an [`Packet::Eager`].
#[inline]
pub fn emit_eager(env: Envelope, mode: Mode, len: u32, sreq: u64, credit: u32) -> Header {
    let flags = match mode {
        Mode::Standard => 0,
        Mode::Sync => SYNC,
        Mode::Ready => READY,
    };
    with_env(EAGER, flags, 0, env, pair(len, credit), sreq)
}

#[inline]
pub(super) fn emit(packet: &Packet) -> Header {
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    match *packet {
        Packet::EagerShort { env, ready, data } => {
            let (c, d) = data.words();
            with_env(EAGER_SHORT, flag(ready, READY), u16::from(data.len), env, c, d)
        }
        Packet::Eager { env, mode, len, sreq, credit } => emit_eager(env, mode, len, sreq, credit),
        Packet::EagerSyncAck { sreq } => plain(EAGER_SYNC_ACK, 0, 0, sreq, 0, 0),
        Packet::Rts { env, sync, sreq, data_sz, cookie_len } => {
            with_env(RTS, flag(sync, SYNC), cookie_len.0, env, sreq, data_sz)
        }
        Packet::Cts { sreq, rreq, data_sz, cookie_len } => plain(CTS, 0, cookie_len.0, sreq, rreq, data_sz),
        Packet::RndvData { rreq, len } => plain(RNDV_DATA, 0, 0, 0, rreq, len),
        Packet::CancelReq { env, sreq } => with_env(CANCEL_REQ, 0, 0, env, sreq, 0),
        Packet::CancelResp { sreq, ack } => plain(CANCEL_RESP, flag(ack, ACK), 0, sreq, 0, 0),
        Packet::Close { ack } => plain(CLOSE, flag(ack, ACK), 0, 0, 0, 0),
        Packet::Done { req } => plain(DONE, 0, 0, req, 0, 0),
        Packet::Cookie { from_sender, sreq, rreq, cookie_len } => {
            let flags = flag(from_sender, FROM_SENDER);
            plain(COOKIE, flags, cookie_len.0, sreq, rreq, 0)
        }
        Packet::Credit { want, bytes, slots } => plain(CREDIT, flag(want, WANT), 0, pair(bytes, slots), 0, 0),
    }
}

// Within the packet handler, which then takes the fields apart without having put them together.
#[inline(always)]
pub(super) fn parse(header: &Header) -> Result<Packet, PktError> {
    let fields = Fields::new(header);
    match header[0] {
        EAGER_SHORT => {
            let short = Short::of(header).ok_or_else(|| fields.bad_short())?;
            Ok(Packet::EagerShort { env: short.env, ready: short.ready, data: short.to_data(header) })
        }
        EAGER => {
            let mode = match fields.flags {
                0 => Mode::Standard,
                SYNC => Mode::Sync,
                READY => Mode::Ready,
                found => {
                    return Err(PktError::Flags {
                        packet: "Eager",
                        found,
                        allowed: "one of SYNC (0x01) and READY (0x02) is allowed",
                    });
                }
            };
            fields.no_aux("Eager")?;
            let (len, credit) = (fields.c as u32, (fields.c >> 32) as u32);
            Ok(Packet::Eager { env: fields.env(), mode, len, sreq: fields.d, credit })
        }
        _ => fields.parse_rest(),
    }
}

#[inline]
fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

#[inline]
fn with_env(kind: u8, flags: u8, aux: u16, env: Envelope, c: u64, d: u64) -> Header {
    words(prefix(kind, flags, aux, env.context()), env.source_tag(), c, d)
}

#[inline]
fn plain(kind: u8, flags: u8, aux: u16, b: u64, c: u64, d: u64) -> Header {
    words(prefix(kind, flags, aux, 0), b, c, d)
}

#[inline]
fn prefix(kind: u8, flags: u8, aux: u16, context: u32) -> u64 {
    u64::from(kind) | u64::from(flags) << 8 | u64::from(aux) << 16 | u64::from(context) << 32
}

#[inline]
fn words(a: u64, b: u64, c: u64, d: u64) -> Header {
    let mut header = [0; HDR_LEN];
    header[0..8].copy_from_slice(&a.to_le_bytes());
    header[8..16].copy_from_slice(&b.to_le_bytes());
    header[16..24].copy_from_slice(&c.to_le_bytes());
    header[24..32].copy_from_slice(&d.to_le_bytes());
    header
}

#[inline]
fn zero(packet: &'static str, value: u64, first: u8, end: u8) -> Result<(), PktError> {
    if value == 0 { Ok(()) } else { Err(PktError::Reserved { packet, first, end }) }
}

/// The bits of the two words of an eager short message that are behind its data, by the length of
/// that.
const BEHIND: [[u64; 2]; MAX_SHORT + 1] = {
    let mut behind = [[0; 2]; MAX_SHORT + 1];
    let mut len = 0;
    while len < MAX_SHORT {
        behind[len] =
            if len < 8 { [u64::MAX << (8 * len), u64::MAX] } else { [0, u64::MAX << (8 * (len - 8))] };
        len += 1;
    }
    behind
};

/// A header, taken apart but not yet judged.
struct Fields {
    /// Bytes 0..8, and what they are.
    a: u64,
    kind: u8,
    flags: u8,
    aux: u16,
    /// Bytes 4..8.
    context: u32,
    /// Bytes 8..16, 16..24 and 24..32.
    b: u64,
    c: u64,
    d: u64,
}

impl Fields {
    #[inline]
    fn new(header: &Header) -> Fields {
        let word = |first: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&header[first..first + 8]);
            u64::from_le_bytes(bytes)
        };
        let a = word(0);
        Fields {
            a,
            kind: a as u8,
            flags: (a >> 8) as u8,
            aux: (a >> 16) as u16,
            context: (a >> 32) as u32,
            b: word(8),
            c: word(16),
            d: word(24),
        }
    }

    /// Returns true if the data of an eager short message is zero behind its first `len` bytes:
    /// little-endian, these are the upper bits.
    #[inline(always)]
    fn ends_at(&self, len: usize) -> bool {
        let [c, d] = BEHIND[len.min(MAX_SHORT)];
        self.c & c | self.d & d == 0
    }

    #[inline]
    fn env(&self) -> Envelope {
        Envelope::of_words(self.context, self.b)
    }

    /// Returns the reason for which this is no [`Short`], although its type says so.
    #[cold]
    fn bad_short(&self) -> PktError {
        if let Err(e) = self.one_flag("EagerShort", READY, "READY (0x02) is known") {
            return e;
        }
        match usize::from(self.aux) {
            len if len > MAX_SHORT => PktError::ShortLen { found: self.aux },
            len => {
                let first = (HDR_LEN - MAX_SHORT + len) as u8;
                PktError::Reserved { packet: "EagerShort", first, end: HDR_LEN as u8 }
            }
        }
    }

    /// The packets that are not on the path of a small message.
    fn parse_rest(&self) -> Result<Packet, PktError> {
        let Fields { b, c, d, .. } = *self;
        match self.kind {
            EAGER_SYNC_ACK => {
                let name = "EagerSyncAck";
                self.no_flags(name)?;
                self.no_aux(name)?;
                self.no_context(name)?;
                zero(name, c | d, 16, 32)?;
                Ok(Packet::EagerSyncAck { sreq: b })
            }
            RTS => Ok(Packet::Rts {
                env: self.env(),
                sync: self.one_flag("Rts", SYNC, "SYNC (0x01) is known")?,
                sreq: c,
                data_sz: d,
                cookie_len: self.cookie_len("Rts")?,
            }),
            CTS => {
                self.no_flags("Cts")?;
                self.no_context("Cts")?;
                Ok(Packet::Cts { sreq: b, rreq: c, data_sz: d, cookie_len: self.cookie_len("Cts")? })
            }
            RNDV_DATA => {
                let name = "RndvData";
                self.no_flags(name)?;
                self.no_aux(name)?;
                self.no_context(name)?;
                zero(name, b, 8, 16)?;
                Ok(Packet::RndvData { rreq: c, len: d })
            }
            CANCEL_REQ => {
                let name = "CancelReq";
                self.no_flags(name)?;
                self.no_aux(name)?;
                zero(name, d, 24, 32)?;
                let env = self.env();
                Ok(Packet::CancelReq { env, sreq: c })
            }
            CANCEL_RESP => {
                let name = "CancelResp";
                let ack = self.one_flag(name, ACK, "ACK (0x04) is known")?;
                self.no_aux(name)?;
                self.no_context(name)?;
                zero(name, c | d, 16, 32)?;
                Ok(Packet::CancelResp { sreq: b, ack })
            }
            CLOSE => {
                let name = "Close";
                let ack = self.one_flag(name, ACK, "ACK (0x04) is known")?;
                self.no_aux(name)?;
                self.no_context(name)?;
                zero(name, b | c | d, 8, 32)?;
                Ok(Packet::Close { ack })
            }
            DONE => {
                let name = "Done";
                self.no_flags(name)?;
                self.no_aux(name)?;
                self.no_context(name)?;
                zero(name, c | d, 16, 32)?;
                Ok(Packet::Done { req: b })
            }
            COOKIE => {
                let name = "Cookie";
                let from_sender = self.one_flag(name, FROM_SENDER, "FROM_SENDER (0x08) is known")?;
                self.no_context(name)?;
                zero(name, d, 24, 32)?;
                Ok(Packet::Cookie { from_sender, sreq: b, rreq: c, cookie_len: self.cookie_len(name)? })
            }
            CREDIT => {
                let name = "Credit";
                let want = self.one_flag(name, WANT, "WANT (0x10) is known")?;
                self.no_aux(name)?;
                self.no_context(name)?;
                zero(name, c | d, 16, 32)?;
                Ok(Packet::Credit { want, bytes: b as u32, slots: (b >> 32) as u32 })
            }
            found => Err(PktError::Type { found }),
        }
    }

    #[inline]
    fn one_flag(&self, packet: &'static str, bit: u8, allowed: &'static str) -> Result<bool, PktError> {
        let found = self.flags;
        if found & !bit == 0 { Ok(found != 0) } else { Err(PktError::Flags { packet, found, allowed }) }
    }

    fn no_flags(&self, packet: &'static str) -> Result<(), PktError> {
        self.one_flag(packet, 0, "zero is known").map(|_| ())
    }

    #[inline]
    fn no_aux(&self, packet: &'static str) -> Result<(), PktError> {
        zero(packet, u64::from(self.aux), 2, 4)
    }

    fn no_context(&self, packet: &'static str) -> Result<(), PktError> {
        zero(packet, u64::from(self.context), 4, 8)
    }

    fn cookie_len(&self, packet: &'static str) -> Result<CookieLen, PktError> {
        let found = self.aux;
        if usize::from(found) > MAX_COOKIE {
            return Err(PktError::CookieLen { packet, found });
        }
        Ok(CookieLen(found))
    }
}
