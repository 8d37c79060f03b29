//! Route lookups: many queries in few system calls over one socket.

use std::io;
use std::net::IpAddr;

use netmod_matching::{Answer, Destination, Query, Routes};

use crate::dump::Dumper;
use crate::kernel::{Channel, Kernel};
use crate::linux::Linux;
use crate::routes::{self, Form, Verdict};
use crate::sys::Socket;
use crate::wire;

/// Most queries in one datagram. All their answers fit into a socket's default buffer.
const BATCH: usize = 64;

/// Unanswered single queries after which no more are sent.
const PATIENCE: u32 = 3;

/// Most notes that are kept, each with another reason.
const NOTES: usize = 16;

/// The routing tables of a network namespace.
///
/// The kernel decides as for a packet from that source by that interface: rules by source apply,
/// and routes by other interfaces are ignored. The query asks for the entry of the table
/// (`RTM_F_FIB_MATCH`), which tells a route from the kernel's assumption that everything is on-link
/// at an interface given explicitly.
#[derive(Debug)]
pub struct Lookups<C = Socket> {
    channel: Option<C>,
    sequence: u32,
    batch: usize,
    failures: u32,
    request: Vec<u8>,
    buffer: Vec<u8>,
    notes: Vec<String>,
}

/// A query to send.
#[derive(Clone, Copy, Debug)]
struct Ask {
    /// Index among the queries.
    at: usize,
    form: Form,
}

impl Lookups {
    /// Opens the routing tables of the calling thread's network namespace.
    ///
    /// Where they cannot be read, all answers are [`Answer::Unknown`], and a note gives the reason.
    pub fn here() -> Lookups {
        Lookups::by(&Linux::new())
    }
}

impl<C: Channel> Lookups<C> {
    /// Does the same as [`Lookups::here`] with a given kernel.
    pub fn by<K: Kernel<Channel = C>>(kernel: &K) -> Lookups<C> {
        let mut lookups = Lookups {
            channel: None,
            sequence: 0,
            batch: BATCH,
            failures: 0,
            request: Vec::new(),
            buffer: vec![0; 16 << 10],
            notes: Vec::new(),
        };
        match kernel.netlink() {
            Ok(channel) => lookups.channel = Some(channel),
            Err(e) => lookups.note(format!("netlink: {e}; nothing is known of this host's routes")),
        }
        lookups
    }

    /// Returns the notes on unknown answers: human-readable sentences with the reason.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    fn note(&mut self, note: String) {
        if self.notes.len() < NOTES && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Sends as many queries at once as have room; unanswered ones stay without a verdict.
    fn exchange(&mut self, asks: &[Ask], queries: &[Query], verdicts: &mut [Option<Verdict>]) {
        let mut pending: Vec<Ask> = asks.to_vec();
        while !pending.is_empty() && self.channel.is_some() {
            let round: Vec<Ask> = pending.drain(..self.batch.min(pending.len())).collect();
            let lost = match self.round(&round, queries, verdicts) {
                Ok(()) => None,
                Err(e) if is_passing(&e) => Some(e),
                Err(e) => {
                    self.note(format!("netlink: {e}; routes are not asked for any more"));
                    self.channel = None;
                    return;
                }
            };
            let missing = round.iter().filter(|ask| verdicts[ask.at].is_none()).copied();
            let Some(why) = lost else { continue };
            if self.batch > 1 {
                // Fewer queries at once, whose answers have room.
                self.batch /= 2;
                pending.extend(missing);
                continue;
            }
            self.failures += 1;
            self.note(format!("netlink: no answer to a route lookup ({why})"));
            if self.failures >= PATIENCE {
                self.note(
                    "netlink: too many lookups were lost; routes are not asked for any more".to_owned(),
                );
                self.channel = None;
            }
        }
    }

    /// Sends one datagram of queries and reads its answers.
    fn round(
        &mut self,
        round: &[Ask],
        queries: &[Query],
        verdicts: &mut [Option<Verdict>],
    ) -> io::Result<()> {
        let Some(channel) = &mut self.channel else { return Ok(()) };
        self.request.clear();
        let first = self.sequence.wrapping_add(1);
        for ask in round {
            self.sequence = self.sequence.wrapping_add(1);
            routes::ask(&mut self.request, &queries[ask.at], ask.form, self.sequence);
        }
        channel.send(&self.request)?;
        let mut missing = round.len();
        let mut lost = None;
        // Late answers come first; the bound is for a sandbox that imitates the kernel and never
        // stops.
        let mut read_at_most = 4 * BATCH;
        while missing > 0 {
            read_at_most = read_at_most.checked_sub(1).ok_or(io::ErrorKind::WouldBlock)?;
            let len = match channel.receive(&mut self.buffer, lost.is_none()) {
                Ok(len) => len.min(self.buffer.len()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                // The other answers may be there.
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) && lost.is_none() => {
                    lost = Some(e);
                    continue;
                }
                Err(e) => return Err(lost.unwrap_or(e)),
            };
            for message in wire::messages(&self.buffer[..len]).map_while(Result::ok) {
                // A late answer has another number.
                let number = message.sequence.wrapping_sub(first) as usize;
                let Some(ask) = round.get(number).filter(|ask| verdicts[ask.at].is_none()) else { continue };
                verdicts[ask.at] = Some(routes::verdict(&message, &queries[ask.at], ask.form));
                missing -= 1;
            }
        }
        Ok(())
    }
}

/// Returns true if fewer queries, or the same once more, may succeed.
fn is_passing(e: &io::Error) -> bool {
    e.kind() == io::ErrorKind::WouldBlock
        || matches!(e.raw_os_error(), Some(libc::ENOBUFS | libc::ENOMEM | libc::EMSGSIZE | libc::EINTR))
}

impl<C: Channel> Routes for Lookups<C> {
    fn ask(&mut self, queries: &[Query]) -> Vec<Answer> {
        let mut verdicts: Vec<Option<Verdict>> = vec![None; queries.len()];
        let mut asks = Vec::with_capacity(queries.len());
        for (at, query) in queries.iter().enumerate() {
            if query.from.is_ipv4() == query.to.is_ipv4() {
                asks.push(Ask { at, form: Form::Match });
            } else {
                verdicts[at] = Some(Verdict::Is(Answer::None));
            }
        }
        // An answer may demand another form once or twice: without the source, then the resolved
        // route.
        while !asks.is_empty() {
            self.exchange(&asks, queries, &mut verdicts);
            let again = |ask: &Ask| match verdicts[ask.at] {
                Some(Verdict::Ask(form)) if form != ask.form => Some(Ask { at: ask.at, form }),
                _ => None,
            };
            asks = asks.iter().filter_map(again).collect();
            for ask in &asks {
                verdicts[ask.at] = None;
            }
        }
        verdicts.into_iter().map(|verdict| self.answer(verdict)).collect()
    }

    fn destinations(&mut self) -> Option<Vec<Destination>> {
        let channel = self.channel.as_mut()?;
        let mut dumper = Dumper::after(channel, self.sequence);
        let mut list = |family: i32| {
            let answer = libc::RTM_NEWROUTE;
            dumper.dump(libc::RTM_GETROUTE, &routes::all(family), |_, _| {}, answer, routes::destinations)
        };
        let lists = list(libc::AF_INET).and_then(|v4| {
            // A kernel without IPv6 has no such routes.
            let refused =
                |e: &io::Error| matches!(e.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EOPNOTSUPP));
            let v6 = match list(libc::AF_INET6) {
                Err(e) if refused(&e) => None,
                other => Some(other?),
            };
            Ok((v4, v6))
        });
        self.sequence = dumper.sequence();
        match lists {
            Ok((v4, v6)) => {
                let lists: Vec<_> = std::iter::once(v4).chain(v6).collect();
                let unreadable: usize = lists.iter().map(|l| l.unreadable).sum();
                if unreadable > 0 {
                    self.note(format!("netlink: {unreadable} routes could not be read and are missing"));
                }
                if lists.iter().any(|l| l.incomplete) {
                    self.note("netlink: the list of routes kept changing while it was read".to_owned());
                }
                Some(lists.into_iter().flat_map(|l| l.items).flatten().collect())
            }
            Err(e) => {
                self.note(format!("netlink: {e}; nothing is known of this host's routes"));
                None
            }
        }
    }
}

impl<C: Channel> Lookups<C> {
    /// Returns the number of the interface by which packets between two addresses leave by default.
    ///
    /// `None` if there is no route, or the tables cannot be read.
    pub fn leaves_by(&mut self, from: IpAddr, to: IpAddr) -> Option<u32> {
        let mut verdicts = [None];
        self.exchange(&[Ask { at: 0, form: Form::Free }], &[Query { index: 0, from, to }], &mut verdicts);
        match verdicts {
            [Some(Verdict::By(interface))] => Some(interface),
            _ => None,
        }
    }

    fn answer(&mut self, verdict: Option<Verdict>) -> Answer {
        match verdict {
            Some(Verdict::Is(answer)) => return answer,
            Some(Verdict::Failed(why)) => self.note(format!("netlink: {why}; that route is unknown")),
            Some(Verdict::Refused(code)) => {
                self.note(format!("netlink: {}; that route is unknown", io::Error::from_raw_os_error(code)));
            }
            // A note with the reason exists already.
            Some(Verdict::Ask(_) | Verdict::By(_)) | None => {}
        }
        Answer::Unknown
    }
}

#[cfg(test)]
#[path = "lookups_tests.rs"]
pub(crate) mod tests;
