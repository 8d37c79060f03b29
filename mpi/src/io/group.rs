//! Collective accesses: all processes of a file read or write together.
//!
//! If the parts of different processes lie between each other, the accesses go in two phases: some
//! processes, the aggregators, each have one range of the file. To them the others send what they
//! write, or from them they get what they read, so that the file is accessed in long pieces. An
//! aggregator goes through its range in windows of `cb_buffer_size` bytes.
//!
//! Who needs which bytes is told in front, once: each process tells each aggregator its parts as
//! patterns (`pattern`). From then on both ends know the length of every message.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::data::{Access, Checked, Stream, Way};
use super::file::OpenFile;
use super::hints::Phases;
use super::pattern::{Cursor, Pattern};
use super::port::{Message, Port};
use super::view::Part;
use super::window::Window;
use crate::error::{Class, MpiError, Result};
use crate::status::Status;

/// Bytes of a first message with parts; what has no room in it comes in a second one.
const FIRST: usize = 256;
/// Boundaries of the aggregators' ranges are multiples of so many bytes.
const ALIGN: u64 = 4096;
/// Most windows of a range. An access that needs more is mostly holes: each makes its part alone.
const ROUNDS: u64 = 1 << 16;
/// Numbers that a process tells of its access.
const FACTS: usize = 7;

/// The facts of its access that a process tells.
#[derive(Clone, Copy, Debug)]
struct Facts {
    /// The class of the error of its arguments, or 0.
    class: i64,
    /// First byte in the file, and the one past the last; the same if there are none.
    first: u64,
    end: u64,
    /// Aggregators, the bytes of their windows, and the phases.
    nodes: u64,
    window: u64,
    phases: Phases,
    atomic: bool,
}

impl Facts {
    fn of(access: std::result::Result<&Access, &MpiError>) -> Facts {
        let none =
            Facts { class: 0, first: 0, end: 0, nodes: 1, window: 1, phases: Phases::One, atomic: false };
        match access {
            Err(e) => Facts { class: e.class.0.into(), ..none },
            Ok(access) => {
                let Checked { view, hints, way, atomic, .. } = &access.of;
                let span = view.span(access.data, access.of.len()).unwrap_or(0..0);
                let phases = hints.phases(*way == Way::Read);
                let (nodes, window) = (hints.nodes, hints.window);
                Facts { class: 0, first: span.start, end: span.end, nodes, window, phases, atomic: *atomic }
            }
        }
    }

    fn emit(&self) -> Vec<u8> {
        let numbers = [
            self.class.cast_unsigned(),
            self.first,
            self.end,
            self.nodes,
            self.window,
            self.phases.emit(),
            self.atomic.into(),
        ];
        let numbers: [u64; FACTS] = numbers;
        numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
    }

    fn parse(record: &[u8]) -> Facts {
        let number = |i: usize| record.as_chunks().0.get(i).map_or(0, |b| u64::from_le_bytes(*b));
        Facts {
            class: number(0).cast_signed(),
            first: number(1),
            end: number(2),
            nodes: number(3),
            window: number(4),
            phases: Phases::parse(number(5)),
            atomic: number(6) != 0,
        }
    }

    fn is_empty(&self) -> bool {
        self.first >= self.end
    }
}

/// The aggregators and their ranges, the same in all processes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Plan {
    /// Rank and range of each aggregator, in the order of the file.
    ranges: Vec<(usize, Range<u64>)>,
    /// Bytes of a window.
    window: u64,
}

impl Plan {
    /// Returns the plan for what all have told; `None` if each is to make its access alone. The
    /// hints are those of the first process.
    fn of(all: &[Facts]) -> Option<Plan> {
        let mut used = all.iter().filter(|f| !f.is_empty());
        let Facts { nodes, window, phases, atomic, .. } = *all.first()?;
        let first = *used.next()?;
        let (mut low, mut high, mut before, mut mixed) = (first.first, first.end, first.end, false);
        for facts in used {
            mixed |= facts.first < before;
            before = facts.end;
            low = low.min(facts.first);
            high = high.max(facts.end);
        }
        if phases == Phases::One || atomic || (phases == Phases::Automatic && !mixed) {
            return None;
        }
        let n = all.len() as u64;
        let count = nodes.clamp(1, n);
        let share = (high - low).div_ceil(count).max(1);
        let mut ranges: Vec<(usize, Range<u64>)> = Vec::new();
        let mut start = low;
        for i in 0..count {
            let end =
                if i + 1 == count { high } else { (low + (i + 1) * share).next_multiple_of(ALIGN).min(high) };
            if start < end {
                ranges.push(((i * n / count) as usize, start..end));
            }
            start = start.max(end);
        }
        Some(Plan { ranges, window: window.max(1) }).filter(|plan| plan.rounds() <= ROUNDS)
    }

    /// Returns the number of windows of the longest range.
    fn rounds(&self) -> u64 {
        self.ranges
            .iter()
            .map(|(_, range)| (range.end - range.start).div_ceil(self.window))
            .max()
            .unwrap_or(0)
    }

    /// Returns the window of a range in a round; an empty one past its end.
    fn window(&self, range: &Range<u64>, round: u64) -> Range<u64> {
        let start = range.start.saturating_add(round.saturating_mul(self.window)).min(range.end);
        start..start.saturating_add(self.window).min(range.end)
    }
}

/// A collective access, in which a process takes part though its own arguments are wrong.
///
/// # Errors
/// In all processes: the failure of any.
pub(super) async fn all(port: Port, access: Result<Access>) -> Result<Status> {
    // Data is converted first: if that fails, nobody writes.
    let ready = match access {
        Ok(access) => port.outside(move || access.stream().map(|stream| (access, stream))).await,
        Err(e) => Err(e),
    };
    let told =
        port.gather(Facts::of(ready.as_ref().map(|(access, _)| access).map_err(|e| &**e)).emit()).await?;
    let told: Vec<Facts> = told.iter().map(|record| Facts::parse(record)).collect();
    if told.iter().any(|facts| facts.class != 0) {
        return port.settle(ready.map(|_| Status::EMPTY)).await;
    }
    let (access, stream) = ready?;
    let Some(plan) = Plan::of(&told) else {
        let done = port.outside(move || access.run_on(stream)).await;
        return port.settle(done).await;
    };
    let done = two_phases(&port, Arc::new(access), stream, plan).await;
    // A process that has lost a message is not heard of any more.
    if port.is_lost() { done } else { port.settle(done).await }
}

/// The part of a process in the range of an aggregator.
struct Partner {
    rank: usize,
    range: Range<u64>,
    /// The parts of this process in the range, and the first of their bytes in its stream.
    parts: Cursor,
    at: usize,
}

/// The work of an aggregator.
struct Work {
    range: Range<u64>,
    /// The parts of each process.
    parts: Vec<Cursor>,
}

/// An access in two phases. What the file system says is kept, so that the messages go on.
async fn two_phases(port: &Port, access: Arc<Access>, stream: Stream, plan: Plan) -> Result<Status> {
    let mine = Arc::clone(&access);
    let ranges = plan.ranges.clone();
    let patterns = port.outside(move || divide(&mine, &ranges)).await;
    let parts = tell(port, &plan, patterns.iter().map(Pattern::emit).collect()).await?;
    let mut at = 0;
    let partner = |((rank, range), pattern): (&(usize, Range<u64>), Pattern)| {
        let partner = Partner { rank: *rank, range: range.clone(), at, parts: Cursor::new(pattern) };
        at += partner.parts.left() as usize;
        partner
    };
    let partners: Vec<Partner> = plan.ranges.iter().zip(patterns).map(partner).collect();
    let own = plan.ranges.iter().find(|(rank, _)| *rank == port.me);
    let work = own.map(|(_, range)| Work { range: range.clone(), parts });
    let stream = Arc::new(Mutex::new(Some(stream)));
    let (got, failed) = match access.of.way {
        Way::Write => (0, write(port, &access, &plan, partners, work, &stream).await?),
        Way::Read => read(port, &access, &plan, partners, work, &stream).await?,
    };
    if let Some(e) = failed {
        return Err(e);
    }
    match access.of.way {
        Way::Write => Ok(access.written()),
        Way::Read => {
            let stream = stream.lock().take();
            let none = || MpiError::new(Class::INTERN, "the bytes of a collective read are missing");
            port.outside(move || access.take(stream.ok_or_else(none)?, got)).await
        }
    }
}

/// Divides the parts of an access by the aggregators' ranges.
fn divide(access: &Access, ranges: &[(usize, Range<u64>)]) -> Vec<Pattern> {
    let mut all = vec![Pattern::default(); ranges.len()];
    let mut at = 0;
    for (mut start, mut len) in access.of.view.parts(access.data, access.of.len()) {
        while len > 0 {
            while at + 1 < ranges.len() && start >= ranges[at].1.end {
                at += 1;
            }
            // The last range ends with the last part.
            let inside = if at + 1 < ranges.len() { len.min(ranges[at].1.end - start) } else { len };
            all[at].push((start, inside));
            start += inside;
            len -= inside;
        }
    }
    all
}

/// Tells each aggregator the parts of this process in its range. Returns what this one is told, if
/// it is one.
async fn tell(port: &Port, plan: &Plan, patterns: Vec<Vec<u8>>) -> Result<Vec<Cursor>> {
    let own = plan.ranges.iter().any(|(rank, _)| *rank == port.me);
    let senders = if own { 0..port.n } else { 0..0 };
    let room = FIRST - 8;
    let mut messages: Vec<Message> = senders.clone().map(|rank| Message::Receive(rank, FIRST)).collect();
    for ((rank, _), pattern) in plan.ranges.iter().zip(&patterns) {
        let mut first = (pattern.len() as u64).to_le_bytes().to_vec();
        first.extend(&pattern[..pattern.len().min(room)]);
        first.resize(FIRST, 0);
        messages.push(Message::Send(*rank, first));
    }
    let firsts = port.exchange(messages).await?;
    let length = |first: &[u8]| first.as_chunks().0.first().map_or(0, |b| u64::from_le_bytes(*b) as usize);
    let more = |length: usize| length.saturating_sub(room);
    let mut messages: Vec<Message> = Vec::new();
    for (rank, first) in senders.clone().zip(&firsts).filter(|(_, first)| more(length(first)) > 0) {
        messages.push(Message::Receive(rank, more(length(first))));
    }
    for ((rank, _), pattern) in plan.ranges.iter().zip(patterns).filter(|(_, p)| more(p.len()) > 0) {
        messages.push(Message::Send(*rank, pattern[room..].to_vec()));
    }
    let mut rests = port.exchange(messages).await?.into_iter();
    let told = firsts.into_iter().map(|first| {
        let length = length(&first);
        let mut pattern = first[8..][..length.min(room)].to_vec();
        if more(length) > 0 {
            pattern.extend(rests.next().unwrap_or_default());
        }
        Cursor::new(Pattern::parse(&pattern))
    });
    Ok(told.collect())
}

/// Returns the number of bytes of parts.
fn bytes(parts: &[Part]) -> usize {
    parts.iter().map(|part| part.1 as usize).sum()
}

type Bytes = Arc<Mutex<Option<Stream>>>;

/// Sends what this process writes, and writes what it gets as an aggregator. Returns what has
/// failed here.
async fn write(
    port: &Port,
    access: &Arc<Access>,
    plan: &Plan,
    mut partners: Vec<Partner>,
    mut work: Option<Work>,
    stream: &Bytes,
) -> Result<Option<Box<MpiError>>> {
    let (rounds, mut failed) = (plan.rounds(), None);
    // Data of the round before is written while nothing is locked, together with the packing.
    let mut came: Option<(Window, Vec<Vec<u8>>)> = None;
    for round in 0..=rounds {
        let mut slices = Vec::new();
        for partner in &mut partners {
            let parts = partner.parts.until(plan.window(&partner.range, round).end);
            let len = if round < rounds { bytes(&parts) } else { 0 };
            if len > 0 {
                slices.push((partner.rank, partner.at, len));
                partner.at += len;
            }
        }
        let (before, of, bytes_of) = (came.take(), Arc::clone(access), Arc::clone(stream));
        let is_sound = failed.is_none();
        let (messages, written) = port
            .outside(move || {
                let written = match before {
                    Some((window, data)) if is_sound => window.write(&of.of.disk, &of.of.hints, &data),
                    _ => Ok(()),
                };
                let mut stream = bytes_of.lock();
                let part = |(rank, at, len)| {
                    let part = stream.as_mut().map_or_else(|| vec![0; len], |stream| stream.part(at, len));
                    Message::Send(rank, part)
                };
                (slices.into_iter().map(part).collect::<Vec<_>>(), written)
            })
            .await;
        failed = failed.or(written.err());
        if round == rounds {
            break;
        }
        let window = work.as_mut().map(|work| {
            let end = plan.window(&work.range, round).end;
            Window::new(work.parts.iter_mut().map(|parts| parts.until(end)).collect())
        });
        let mut all: Vec<Message> = Vec::new();
        if let Some(window) = &window {
            all.extend(window.wanted().map(|(rank, len)| Message::Receive(rank, len)));
        }
        all.extend(messages);
        let data = port.exchange(all).await?;
        came = window.map(|window| (window, data));
    }
    Ok(failed)
}

/// Reads what others need as an aggregator, and gets what this process needs. Returns the number of
/// bytes that were there, and what has failed here.
async fn read(
    port: &Port,
    access: &Arc<Access>,
    plan: &Plan,
    mut partners: Vec<Partner>,
    mut work: Option<Work>,
    stream: &Bytes,
) -> Result<(usize, Option<Box<MpiError>>)> {
    let (mut got, mut failed) = (0, None);
    // Data of the round before is unpacked while nothing is locked, together with the reads.
    let mut came: Vec<(usize, Vec<u8>)> = Vec::new();
    for round in 0..=plan.rounds() {
        let window = work.as_mut().filter(|_| round < plan.rounds()).map(|work| {
            let end = plan.window(&work.range, round).end;
            Window::new(work.parts.iter_mut().map(|parts| parts.until(end)).collect())
        });
        let (before, of, bytes_of) = (std::mem::take(&mut came), Arc::clone(access), Arc::clone(stream));
        let sent = port
            .outside(move || {
                if let Some(stream) = bytes_of.lock().as_mut() {
                    before.iter().for_each(|(at, part)| stream.set(*at, part));
                }
                let Some(window) = window else { return (Vec::new(), None) };
                match window.read(&of.of.disk, &of.of.hints) {
                    Ok(data) => (data, None),
                    // They learn the reason at the end.
                    Err(e) => (window.wanted().map(|(rank, _)| (rank, Vec::new())).collect(), Some(e)),
                }
            })
            .await;
        let (data, why) = sent;
        failed = failed.or(why);
        let (mut messages, mut places) = (Vec::new(), Vec::new());
        for partner in &mut partners {
            let len = bytes(&partner.parts.until(plan.window(&partner.range, round).end));
            if len > 0 {
                messages.push(Message::Upto(partner.rank, len));
                places.push(partner.at);
                partner.at += len;
            }
        }
        messages.extend(data.into_iter().map(|(rank, part)| Message::Send(rank, part)));
        if round == plan.rounds() {
            break;
        }
        let received = port.exchange(messages).await?;
        got += received.iter().map(Vec::len).sum::<usize>();
        came = places.into_iter().zip(received).collect();
    }
    Ok((got, failed))
}

/// An access of all processes in the order of ranks, by the shared file pointer.
///
/// # Errors
/// In all processes: the failure of any.
pub(super) async fn ordered(port: Port, file: Arc<OpenFile>, checked: Result<Checked>) -> Result<Status> {
    let etypes = checked.as_ref().map_or(-1, |checked| checked.etypes().cast_signed());
    let all = port.numbers(etypes).await?;
    if all.iter().any(|etypes| *etypes < 0) {
        return port.settle(checked.map(|_| Status::EMPTY)).await;
    }
    let total: u64 = all.iter().map(|etypes| etypes.cast_unsigned()).sum();
    let first = port.me == 0;
    let moved = port.outside(move || if first { file.shared.add(total) } else { Ok(0) }).await;
    let start = port.numbers(moved.as_ref().map_or(-1, |start| start.cast_signed())).await?[0];
    let before: u64 = all[..port.me].iter().map(|etypes| etypes.cast_unsigned()).sum();
    let done = match (moved, checked) {
        (Ok(_), Ok(checked)) if start >= 0 => {
            port.outside(move || checked.at(start.cast_unsigned().saturating_add(before))?.run()).await
        }
        (Err(e), _) | (_, Err(e)) => Err(e),
        // The first process tells why.
        _ => Ok(Status::EMPTY),
    };
    port.settle(done).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(first: u64, end: u64) -> Facts {
        Facts { class: 0, first, end, nodes: 2, window: 4096, phases: Phases::Automatic, atomic: false }
    }

    #[test]
    fn plans_cover_what_is_accessed() {
        assert_eq!(Plan::of(&[facts(0, 100), facts(100, 200)]), None, "side by side");
        assert_eq!(Plan::of(&[facts(0, 0), facts(5, 5)]), None, "nothing");
        assert_eq!(Plan::of(&[facts(0, 100), facts(50, 1 << 60)]), None, "too sparse");
        assert_eq!(Plan::of(&[Facts { phases: Phases::One, ..facts(0, 100) }, facts(50, 200)]), None);
        let plan = Plan::of(&[facts(10, 20_000), facts(20, 30_000), facts(0, 0)]).expect("mixed");
        assert_eq!(plan.ranges, [(0, 10..16_384), (1, 16_384..30_000)]);
        assert_eq!((plan.rounds(), plan.window(&(10..16_384), 3)), (4, 12_298..16_384));
        assert_eq!(plan.window(&(16_384..30_000), 4), 30_000..30_000);
        let small = Plan::of(&[Facts { phases: Phases::Two, ..facts(1, 2) }, facts(2, 3)]).expect("wanted");
        assert_eq!(small.ranges, [(0, 1..3)], "an aggregator without a range is none");
    }

    #[test]
    fn facts_are_read_as_they_were_told() {
        let told = Facts { class: 12, phases: Phases::Two, atomic: true, ..facts(1 << 40, 1 << 41) };
        let read = Facts::parse(&told.emit());
        assert_eq!(format!("{read:?}"), format!("{told:?}"));
        assert_eq!(told.emit().len(), 8 * FACTS);
    }
}
