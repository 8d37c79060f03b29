//! Steps of the modelled programs and of misfortune, and the conditions at the end.

use netmod_connection::RejectReason;

use super::{ConnKey, End, Failure, Fifo, LinkEvent, Msg, Phase};
use super::{Model, Rest, Side, Step, World, close, reset, send, wrong};

impl Model {
    /// Adds the steps of the program above a side.
    pub(super) fn program(&self, w: &World, x: usize, out: &mut Vec<Step>) {
        let s = &w.sides[x];
        let usable = !matches!(s.link.phase(), Phase::Failed | Phase::Shut);
        if s.wishes > 0 && usable && !s.asked {
            out.push(self.step(w, |m, w| {
                w.sides[x].wishes -= 1;
                w.sides[x].queued += 1;
                m.on(w, x, LinkEvent::WantSend)
            }));
        }
        if (s.queued > 0 || s.cursor < s.sent)
            && let Some(c) = s.link.up()
        {
            out.push(self.step(w, |m, w| {
                let side = &mut w.sides[x];
                if side.cursor == side.sent {
                    side.queued -= 1;
                    side.sent += 1;
                }
                side.cursor += 1;
                let seq = side.cursor;
                send(w, x, c, Msg::Data(seq))?;
                m.drained(w, x)
            }));
        }
        if s.session != 0
            && s.told < s.arrived
            && let Some(c) = s.link.up()
        {
            out.push(self.step(w, |_, w| w.sides[x].acknowledge().map_or(Ok(()), |ack| send(w, x, c, ack))));
        }
        // A flush that finds nothing more to do, behind a resumption.
        if s.link.is_terminating() && s.link.up().is_some() && s.settled() {
            out.push(self.step(w, |m, w| m.drained(w, x)));
        }
        if s.cancels > 0 && s.queued > 0 && !s.asked {
            out.push(self.step(w, |_, w| {
                w.sides[x].cancels -= 1;
                w.sides[x].queued -= 1;
                Ok(())
            }));
        }
        if s.terminates > 0 && !s.asked {
            out.push(self.step(w, |m, w| {
                let side = &mut w.sides[x];
                side.terminates -= 1;
                side.asked = true;
                let pending = !side.settled();
                w.parted = true;
                m.on(w, x, LinkEvent::Terminate { pending })
            }));
        }
        if s.shutdowns > 0 && !s.asked {
            let peer = &w.sides[1 - x];
            let done = peer.wishes == 0 && peer.queued == 0 && s.got == peer.sent && s.wishes == 0;
            if done || w.faults > 0 {
                out.push(self.step(w, |m, w| {
                    w.faulty |= !done;
                    w.faults -= u8::from(!done);
                    let side = &mut w.sides[x];
                    side.shutdowns -= 1;
                    side.asked = true;
                    let pending = !side.settled();
                    w.parted = true;
                    w.hard |= !done;
                    m.on(w, x, LinkEvent::Shutdown { pending })
                }));
            }
        }
        if s.sleeps > 0 && s.rest == Rest::Awake && !s.asked && s.link.phase() != Phase::Parting {
            out.push(self.step(w, |m, w| {
                w.sides[x].sleeps -= 1;
                w.sides[x].rest = Rest::Settling;
                // Connections end without a goodbye.
                w.faulty = true;
                m.on(w, x, LinkEvent::Sleep)?;
                w.sides[x].link.up().map_or(Ok(()), |c| m.tell(w, x, c))
            }));
        }
        if s.moves > 0 && s.link.can_move() {
            for harsh in [false, true] {
                out.push(self.step(w, |m, w| {
                    w.sides[x].moves -= 1;
                    w.sides[x].harsh = harsh;
                    // Connections end without a goodbye.
                    w.faulty = true;
                    let conn = m.connect(w, x)?;
                    w.conns[conn.0 as usize].moves = true;
                    m.on(w, x, LinkEvent::Moving { conn })
                }));
            }
        }
        // Writing to the old connection shows that the peer has closed it.
        if s.link.moving().is_some()
            && let Some(old) = s.link.conn()
            && w.conns[old.0 as usize].ends[1 - x] == End::Closed
        {
            out.push(self.step(w, |m, w| {
                close(w, x, old)?;
                m.on(w, x, LinkEvent::Lost { conn: old, failure: Failure::Errno(32) })
            }));
        }
        for c in 0..w.conns.len() {
            let conn = &w.conns[c];
            let unheard = conn.dialer == x && conn.ends[1 - x] == End::Unknown && !conn.broken;
            if w.astray > 0 && unheard && s.link.conn() == Some(ConnKey(c as u64)) && s.link.is_patient() {
                out.push(self.step(w, |_, w| {
                    w.astray -= 1;
                    let conn = &mut w.conns[c];
                    conn.ends[1 - x] = End::Closed;
                    conn.to[1 - x] = Fifo::default();
                    conn.to[x].push(Msg::Reject(RejectReason::WrongPeer));
                    Ok(())
                }));
            }
        }
        match s.rest {
            Rest::Awake => {}
            Rest::Settling if s.link.is_quiet() => out.push(self.step(w, |_, w| {
                w.sides[x].rest = Rest::Asleep;
                Ok(())
            })),
            // The peer may take too long.
            Rest::Settling if w.faults > 0 => out.push(self.step(w, |m, w| {
                w.faults -= 1;
                m.on(w, x, LinkEvent::SleepNow)?;
                w.sides[x].rest = Rest::Asleep;
                if w.sides[x].link.is_quiet() { Ok(()) } else { wrong(format!("{x} does not come to rest")) }
            })),
            Rest::Settling => {}
            Rest::Asleep => out.push(self.step(w, |m, w| {
                w.sides[x].rest = Rest::Awake;
                m.on(w, x, LinkEvent::Wake)
            })),
        }
        if s.link.phase() == Phase::Failed && s.wishes > 0 {
            out.push(self.step(w, |m, w| m.on(w, x, LinkEvent::Revive)));
        }
    }

    pub(super) fn faults(&self, w: &World, x: usize, out: &mut Vec<Step>) {
        let faulty = |w: &World| {
            let mut w = w.clone();
            w.faults -= 1;
            w.faulty = true;
            w
        };
        for c in 0..w.conns.len() {
            let conn = &w.conns[c];
            let alive = conn.ends.iter().any(|e| *e != End::Closed) && !conn.broken;
            if alive && x == 0 {
                for lost in [[false, false], [true, false], [false, true], [true, true]] {
                    let mut w = faulty(w);
                    let parting = w.conns[c].ends.contains(&End::Half);
                    w.lossy |= !self.lossless || parting;
                    reset(&mut w.conns[c], lost);
                    out.push(Ok(w));
                }
            }
            // Refused at once: nothing of it ever reaches the peer.
            if conn.dialer == x
                && conn.ends == [0, 1].map(|i| if i == x { End::Open } else { End::Unknown })
                && !conn.broken
            {
                for permanent in [false, true] {
                    let mut w = faulty(w);
                    w.hard |= permanent;
                    w.conns[c].broken = true;
                    w.conns[c].to = Default::default();
                    w.conns[c].ends = [End::Closed; 2];
                    let conn = ConnKey(c as u64);
                    let failure = Failure::Errno(111);
                    let event = LinkEvent::DialFailed { conn, failure, permanent };
                    out.push(self.step(&w, |m, w| m.on(w, x, event)));
                }
            }
        }
        for lost in [false, true] {
            let mut w = faulty(w);
            w.crashed = true;
            w.hard = true;
            for conn in &mut w.conns {
                let mut both = [true; 2];
                both[1 - x] = lost;
                if conn.ends[x] != End::Closed && !conn.broken {
                    reset(conn, both);
                }
                conn.ends[x] = End::Closed;
                conn.to[x] = Fifo::default();
            }
            let old = &w.sides[x];
            w.sides[x] = Side::new(x, old.wishes, old.incarnation + 1, self.mutant);
            out.push(Ok(w));
        }
    }

    /// Nothing happens any more: has everything ended well?
    pub(in super::super) fn check_end(&self, w: &World) -> Result<(), String> {
        for (x, s) in w.sides.iter().enumerate() {
            let phase = s.link.phase();
            if s.rest != Rest::Awake {
                return Err(format!("{x} sleeps for ever"));
            }
            // For one that died or failed while it was being checkpointed; time would end it.
            let waits = |s: &Side| w.hard && s.link.phase() == Phase::Backoff && s.link.is_patient();
            if waits(s) {
                continue;
            }
            if !matches!(phase, Phase::Idle | Phase::Up | Phase::Failed | Phase::Shut) {
                return Err(format!("{x} is stuck in {phase:?}"));
            }
            if s.queued > 0 || s.asked || s.cursor < s.sent {
                return Err(format!("{x} waits for ever, {} queued, in {phase:?}", s.queued));
            }
            if !w.faulty && s.got != w.sides[1 - x].sent {
                return Err(format!("{x} got {} of {}", s.got, w.sides[1 - x].sent));
            }
            let missing = w.sides[1 - x].sent - s.arrived.min(w.sides[1 - x].sent);
            let told = w.sides[1 - x].down || waits(&w.sides[1 - x]);
            if missing > 0 && !told && !w.lossy && !w.crashed {
                return Err(format!("{missing} messages to {x} were lost, and nobody was told"));
            }
            if s.link.up() != w.sides[1 - x].link.up() {
                return Err(format!("{x} is up on {:?} and its peer is not", s.link.up()));
            }
        }
        for (c, conn) in w.conns.iter().enumerate() {
            let key = Some(ConnKey(c as u64));
            for x in 0..2 {
                let leaked = matches!(conn.ends[x], End::Open | End::Half);
                if leaked && w.sides[x].link.up() != key {
                    return Err(format!("{x} has forgotten to close connection {c}"));
                }
            }
        }
        Ok(())
    }
}
