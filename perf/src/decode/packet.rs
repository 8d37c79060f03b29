//! Describes a record: its type, and its fields by name.

use ch3_shim::Mode;
use ch3_shim::pkt::Packet;
use ch3_shim::tagmatch::Envelope;
use netmod_core::{Header, NETMOD_FRAME, ReqId};
use netmod_tcp::Control;
use netmod_wrap::capture::record::{Record, What};
use serde_json::{Value, json};

/// A record's type and fields.
#[derive(Debug)]
pub(crate) struct Described {
    /// `Eager`, `Rts`, `Down`, ...
    pub(crate) kind: String,
    /// Fields in the order of display.
    pub(crate) fields: Vec<(&'static str, Value)>,
    /// The packet, if the record has one.
    pub(crate) packet: Option<Packet>,
}

fn req(word: u64) -> Value {
    json!(ReqId::from_wire(word).to_string())
}

fn envelope(env: &Envelope) -> Vec<(&'static str, Value)> {
    vec![("context", json!(env.context())), ("source", json!(env.source())), ("tag", json!(env.tag()))]
}

fn mode(mode: Mode) -> Value {
    json!(match mode {
        Mode::Standard => "standard",
        Mode::Sync => "synchronous",
        Mode::Ready => "ready",
    })
}

fn fields(packet: &Packet) -> (&'static str, Vec<(&'static str, Value)>) {
    match packet {
        Packet::EagerShort { env, ready, data } => {
            let mut f = envelope(env);
            f.push(("bytes", json!(data.as_slice().len())));
            if *ready {
                f.push(("mode", mode(Mode::Ready)));
            }
            f.push(("data", json!(hex(data.as_slice()))));
            ("EagerShort", f)
        }
        Packet::Eager { env, mode: m, len, sreq, credit } => {
            let mut f = envelope(env);
            f.extend([("bytes", json!(len)), ("mode", mode(*m)), ("credit", json!(credit))]);
            if *sreq != 0 {
                f.push(("sreq", req(*sreq)));
            }
            ("Eager", f)
        }
        Packet::EagerSyncAck { sreq } => ("EagerSyncAck", vec![("sreq", req(*sreq))]),
        Packet::Rts { env, sync, sreq, data_sz, cookie_len } => {
            let mut f = envelope(env);
            f.extend([("bytes", json!(data_sz)), ("sreq", req(*sreq)), ("sync", json!(sync))]);
            if cookie_len.get() > 0 {
                f.push(("cookie", json!(cookie_len.get())));
            }
            ("Rts", f)
        }
        Packet::Cts { sreq, rreq, data_sz, cookie_len } => {
            let mut f = vec![("sreq", req(*sreq)), ("rreq", req(*rreq)), ("bytes", json!(data_sz))];
            if cookie_len.get() > 0 {
                f.push(("cookie", json!(cookie_len.get())));
            }
            ("Cts", f)
        }
        Packet::RndvData { rreq, len } => ("RndvData", vec![("rreq", req(*rreq)), ("bytes", json!(len))]),
        Packet::CancelReq { env, sreq } => {
            let mut f = envelope(env);
            f.push(("sreq", req(*sreq)));
            ("CancelReq", f)
        }
        Packet::CancelResp { sreq, ack } => ("CancelResp", vec![("sreq", req(*sreq)), ("ack", json!(ack))]),
        Packet::Close { ack } => ("Close", vec![("ack", json!(ack))]),
        Packet::Done { req: r } => ("Done", vec![("req", req(*r))]),
        Packet::Cookie { from_sender, sreq, rreq, cookie_len } => (
            "Cookie",
            vec![
                ("from_sender", json!(from_sender)),
                ("sreq", req(*sreq)),
                ("rreq", req(*rreq)),
                ("cookie", json!(cookie_len.get())),
            ],
        ),
        Packet::Credit { want, bytes, slots } => {
            ("Credit", vec![("want", json!(want)), ("bytes", json!(bytes)), ("slots", json!(slots))])
        }
    }
}

/// Formats bytes as hexadecimal digits in groups of four bytes.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let groups: Vec<String> =
        bytes.chunks(4).map(|c| c.iter().map(|b| format!("{b:02x}")).collect()).collect();
    groups.join(" ")
}

fn frame(header: &Header) -> Described {
    if header[0] == NETMOD_FRAME {
        // Each netmod has its own control frames; this program decodes only those of tcp.
        let what = match Control::parse(header) {
            Ok(Some(control)) => format!("{control:?}"),
            Ok(None) | Err(_) => format!("kind {} {}", header[1], hex(header)),
        };
        return Described { kind: "control".into(), fields: vec![("frame", json!(what))], packet: None };
    }
    match Packet::parse(header) {
        Ok(packet) => {
            let (kind, fields) = fields(&packet);
            Described { kind: kind.into(), fields, packet: Some(packet) }
        }
        Err(e) => Described {
            kind: "broken".into(),
            fields: vec![("error", json!(e.to_string())), ("header", json!(hex(header)))],
            packet: None,
        },
    }
}

/// Describes a record.
pub(crate) fn describe(record: &Record) -> Described {
    if let Some(header) = &record.header {
        return frame(header);
    }
    let text = String::from_utf8_lossy(&record.data);
    let mut fields = Vec::new();
    if !text.is_empty() {
        fields.push(("text", json!(text)));
    }
    Described { kind: record.what.name().into(), fields, packet: None }
}

/// Returns `->` for a sent frame, `<-` for a received one, `--` for an event.
pub(crate) fn arrow(what: What) -> &'static str {
    match what {
        What::Sent => "->",
        What::Received => "<-",
        _ => "--",
    }
}
