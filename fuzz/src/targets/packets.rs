//! Contents of a connection: headers of packets, cookies of large messages, frames.

use ch3_shim::pkt::{CookieLen, Packet};
use ch3_shim::tagmatch::Envelope;
use netmod_core::HDR_LEN;
use netmod_core::rma::RemoteKey;
use netmod_framed::wire::{FRAME_HEADER, FrameHeader, Kind, Slot};
use netmod_lmt::cookie::{Cookie, Keyed, Offer, RingName, ShmDomain};
use netmod_lmt::{Modes, Window};
use netmod_tcp::{CONTROL_LEN, Control};

use crate::Outcome;

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let env = Envelope::new(3, 1, 77);
    let none = CookieLen::NONE;
    let packets = [
        Packet::Eager { env, mode: ch3_shim::Mode::Sync, len: 64, sreq: 5, credit: 9 },
        Packet::EagerSyncAck { sreq: 5 },
        Packet::Rts { env, sync: true, sreq: 5, data_sz: 1 << 20, cookie_len: none },
        Packet::Cts { sreq: 5, rreq: 6, data_sz: 1 << 20, cookie_len: none },
        Packet::RndvData { rreq: 6, len: 1 << 20 },
        Packet::CancelReq { env, sreq: 5 },
        Packet::CancelResp { sreq: 5, ack: true },
        Packet::Close { ack: false },
        Packet::Done { req: 6 },
        Packet::Cookie { from_sender: true, sreq: 5, rreq: 6, cookie_len: none },
        Packet::Credit { want: true, bytes: 4096, slots: 2 },
    ];
    packets.iter().map(|p| p.emit().to_vec()).collect()
}

/// A packet's header, which has one form.
pub(super) fn packet(input: &[u8]) -> Outcome {
    let Some(header) = input.first_chunk::<HDR_LEN>() else { return too_short(input) };
    let parsed = Packet::parse(header);
    if let Ok(packet) = &parsed {
        assert_eq!(packet.emit(), *header);
    }
    Outcome::of(&parsed)
}

fn too_short(input: &[u8]) -> Outcome {
    Outcome::of(&Err::<(), _>(("TooShort", input.len())))
}

pub(super) fn cookie_seeds() -> Vec<Vec<u8>> {
    let key = RemoteKey::new(&[9; 16]).expect("a short key");
    let keyed = Keyed { window: Window { index: 0, at: 0, len: 65_536 }, key };
    let domain = ShmDomain { boot: [1; 16], device: 2, pids: 3, user: 4 };
    let cookies = [
        Cookie::Offer(Offer { modes: Modes::NULL.with(netmod_lmt::Mode::Get), domain, first: Some(keyed) }),
        Cookie::GrantPut(keyed),
        Cookie::GrantCoop(RingName([6; 16])),
        Cookie::Window(keyed),
        Cookie::WindowAck(3),
        Cookie::Refuse,
        Cookie::Abort,
        Cookie::Wake,
        Cookie::Rest(Some((RingName([6; 16]), 12))),
        Cookie::Rested,
    ];
    cookies.iter().map(Cookie::emit).collect()
}

/// A cookie, which has one form.
pub(super) fn cookie(input: &[u8]) -> Outcome {
    let parsed = Cookie::parse(input);
    if let Ok(cookie) = &parsed {
        assert_eq!(cookie.emit(), input);
    }
    Outcome::of(&parsed)
}

pub(super) fn control_seeds() -> Vec<Vec<u8>> {
    let frames = [
        Control::Goodbye,
        Control::Withdrawn,
        Control::Ack { position: 99 },
        Control::Suspend { connection: 2 },
        Control::Suspended { connection: 2 },
        Control::Moved { port: 4000 },
    ];
    frames.iter().map(|c| c.emit().to_vec()).collect()
}

/// A control frame of tcp, which has one form.
pub(super) fn control(input: &[u8]) -> Outcome {
    let Some(frame) = input.first_chunk::<CONTROL_LEN>() else { return too_short(input) };
    let parsed = Control::parse(frame);
    if let Ok(Some(control)) = &parsed {
        assert_eq!(control.emit(), *frame);
    }
    Outcome::of(&parsed)
}

pub(super) fn frame_seeds() -> Vec<Vec<u8>> {
    let slot = Slot { number: 3, token: 0x1234_5678 };
    let header = |kind| FrameHeader { kind, ask: kind == Kind::Credit, returned: 7, slot, seq: 11 };
    let kinds = [Kind::Data, Kind::Credit, Kind::Dial, Kind::Answer, Kind::Fin, Kind::FinAck, Kind::Reset];
    kinds.iter().map(|kind| header(*kind).to_bytes().to_vec()).collect()
}

/// The header of a framed netmod's frame, which has one form.
pub(super) fn frame(input: &[u8]) -> Outcome {
    let Some(header) = input.first_chunk::<FRAME_HEADER>() else { return too_short(input) };
    let parsed = FrameHeader::parse(header).ok_or("no frame");
    if let Ok(frame) = &parsed {
        assert_eq!(frame.to_bytes(), *header);
    }
    Outcome::of(&parsed)
}
