//! Delivery on a connection: the netmod's part of it, and the arrivals that are mistakes.

use super::super::socket::{End, Fifo, Msg};
use super::{Model, Rest, Stop, World, close, send, wrong};
use crate::link::{ConnKey, Failure, HandshakeParams, LinkEvent, Pending, Phase};

impl Model {
    /// The next message of a connection comes to a side.
    pub(super) fn deliver(&self, w: &mut World, x: usize, c: usize) -> Result<(), Stop> {
        let key = ConnKey(c as u64);
        let Some(m) = w.conns[c].to[x].pop() else { return Ok(()) };
        let conn = &mut w.conns[c];
        if conn.ends[x] == End::Closed {
            return Ok(());
        }
        if conn.ends[x] == End::Unknown && w.sides[x].rest == Rest::Asleep {
            // Nobody listens.
            let dialler = &w.sides[1 - x].link;
            if dialler.is_resuming() && !dialler.is_patient() && w.faults == self.faults {
                return wrong(format!("{x} sleeps, and its peer takes it for dead"));
            }
            conn.ends[x] = End::Closed;
            conn.to[x] = Fifo::default();
            conn.to[1 - x].push(Msg::Reset);
            return Ok(());
        }
        if conn.ends[x] == End::Unknown {
            if let Msg::Hello { session, position, incarnation } = m {
                conn.ends[x] = End::Open;
                conn.told[x] = position;
                let fresh = if self.resume { c as u64 + 1 } else { 0 };
                let params = HandshakeParams {
                    session: session.into(),
                    fresh,
                    incarnation: incarnation.into(),
                    dial: c as u64 + 1,
                };
                return self.on(w, x, LinkEvent::Incoming { conn: key, params });
            }
            conn.ends[x] = End::Closed; // cut off in the handshake: nobody's link hears of it
            return Ok(());
        }
        if matches!(m, Msg::Data(_) | Msg::Ack(_) | Msg::Suspend) && w.sides[x].link.up() == Some(key) {
            self.on(w, x, LinkEvent::Heard)?;
        }
        let conn = &mut w.conns[c];
        match m {
            Msg::Hello { .. } => wrong("a second hello"),
            Msg::Accept { position, incarnation, dials } => {
                conn.told[x] = position;
                let fresh = if self.resume { c as u64 + 1 } else { 0 };
                let session = if conn.session == 0 { fresh } else { conn.session.into() };
                let (incarnation, dials) = (incarnation.into(), dials.into());
                self.on(w, x, LinkEvent::Accepted { conn: key, session, incarnation, dials })
            }
            Msg::Ready => {
                conn.accepted = true;
                self.on(w, x, LinkEvent::Ready { conn: key })
            }
            Msg::Reject(reason) => {
                conn.farewell[x] = true;
                self.on(w, x, LinkEvent::Rejected { conn: key, reason })
            }
            Msg::Goodbye => {
                conn.farewell[x] = true;
                let s = &mut w.sides[x];
                if s.link.up() == Some(key) {
                    // No acknowledgement will follow.
                    s.acked = s.cursor;
                    s.left = true;
                }
                let pending = match s {
                    s if s.cursor < s.sent => Pending::Partial,
                    s if s.queued > 0 => Pending::Whole,
                    _ => Pending::Nothing,
                };
                self.on(w, x, LinkEvent::Goodbye { conn: key, pending })
            }
            Msg::Data(seq) => self.data(w, x, c, seq),
            Msg::Ack(position) => {
                let s = &mut w.sides[x];
                if self.late && s.session == 0 && s.link.phase() == Phase::Parting {
                    // The peer has begun a session on a connection that this side had said goodbye
                    // on.
                    return Ok(());
                }
                if s.link.conn() != Some(key) || s.session == 0 {
                    return wrong(format!("{x} gets an acknowledgement of nothing"));
                }
                s.acked = s.acked.max(s.tx_base + position);
                if s.acked > s.cursor {
                    return wrong(format!("the peer of {x} has read what was not sent"));
                }
                if s.link.up().is_some() { self.drained(w, x) } else { Ok(()) }
            }
            Msg::Suspend => {
                if w.sides[x].link.up() == Some(key) {
                    self.begin_session(w, x, key)?;
                    if w.sides[x].session == 0 {
                        return Ok(());
                    }
                    send(w, x, key, Msg::Suspended)?;
                }
                self.on(w, x, LinkEvent::PeerSleeps)
            }
            Msg::Suspended if w.sides[x].link.up() == Some(key) => self.on(w, x, LinkEvent::PeerKnows),
            Msg::Suspended => Ok(()),
            Msg::Withdrawn => {
                conn.farewell[x] = true;
                self.gone(w, x, c, Failure::Withdrawn)
            }
            Msg::Fin if conn.farewell[x] => Ok(()),
            Msg::Fin if !w.faulty => {
                wrong(format!("{x} reads the end of connection {c}, and no goodbye before it"))
            }
            Msg::Fin => self.gone(w, x, c, Failure::Eof),
            Msg::Reset => self.gone(w, x, c, Failure::Errno(104)),
        }
    }

    /// The connection is no more; the netmod has closed its end.
    fn gone(&self, w: &mut World, x: usize, c: usize, failure: Failure) -> Result<(), Stop> {
        let conn = ConnKey(c as u64);
        let link = &w.sides[x].link;
        let dialing = link.phase() == Phase::Dialing && w.conns[c].dialer == x || link.moving() == Some(conn);
        close(w, x, conn)?;
        if dialing {
            self.on(w, x, LinkEvent::DialFailed { conn, failure, permanent: false })
        } else {
            self.on(w, x, LinkEvent::Lost { conn, failure })
        }
    }

    fn data(&self, w: &mut World, x: usize, c: usize, seq: u8) -> Result<(), Stop> {
        let s = &mut w.sides[x];
        let mine = s.link.conn() == Some(ConnKey(c as u64));
        if !mine || !matches!(s.link.phase(), Phase::Up | Phase::Parting) {
            return wrong(format!("{x} gets data on connection {c}, which it has not adopted"));
        }
        let next = s.got + 1;
        let strict = !w.faulty || seq < next || (self.lossless && !w.hard && !w.parted);
        if seq != next && strict && !w.crashed {
            return wrong(format!("{x} gets message {seq} instead of {next}"));
        }
        s.got = seq;
        s.arrived += 1;
        Ok(())
    }
}
