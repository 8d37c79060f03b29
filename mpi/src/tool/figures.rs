//! Performance variables: the figures of the device.

use ch3_shim::Counters;

use super::{Value, Verbosity, enums};

/// Class of a performance variable (`MPI_T_PVAR_CLASS_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureClass {
    /// An item of an enumeration.
    State = 240,
    /// A number in use now.
    Level = 241,
    /// The most that was in use.
    HighWatermark = 244,
    /// A number of events.
    Counter = 246,
    /// A sum over events.
    Aggregate = 247,
    /// A time in seconds.
    Timer = 248,
}

impl FigureClass {
    /// Returns true if a handle counts from its start on. The others tell the state of the process.
    pub fn counts(self) -> bool {
        matches!(self, FigureClass::Counter | FigureClass::Aggregate | FigureClass::Timer)
    }
}

/// The process as its figures tell it.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    /// Item of the enumeration of the state.
    pub(super) state: i32,
    pub(super) counters: Counters,
}

/// The way to a figure's number.
#[derive(Clone, Copy, Debug)]
enum Source {
    Count(fn(&Counters) -> u64),
    Seconds(fn(&Counters) -> f64),
    State,
    /// A count of the netmod of this name.
    Netmod(&'static str, fn(&netmod_core::VcStats) -> u64),
}

/// A performance variable.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Its name.
    pub name: String,
    /// Its meaning, in one line.
    pub meaning: String,
    /// Its audience.
    pub verbosity: Verbosity,
    /// Its class.
    pub class: FigureClass,
    /// Name of its category.
    pub category: &'static str,
    source: Source,
}

impl Figure {
    /// Returns the index of its enumeration.
    pub fn enumeration(&self) -> Option<usize> {
        matches!(self.source, Source::State).then_some(enums::STATE)
    }

    /// Returns its value in a process.
    pub(super) fn value(&self, now: &Snapshot) -> Value {
        match self.source {
            Source::Count(count) => Value::Number(count(&now.counters)),
            Source::Seconds(seconds) => Value::Real(seconds(&now.counters)),
            Source::State => Value::Int(now.state),
            Source::Netmod(name, count) => {
                let netmod = now.counters.netmods.iter().find(|(known, _)| *known == name);
                Value::Number(netmod.map_or(0, |(_, stats)| count(stats)))
            }
        }
    }
}

/// Netmods whose traffic is told.
pub(super) const NETMODS: [&str; 4] = ["shm", "tcp", "ofi", "verbs"];

/// Makes the list of the figures of the whole device.
macro_rules! figures {
    ($($category:literal: { $($name:literal $class:ident $verbosity:ident |$c:ident| $count:expr, $meaning:literal;)* })*) => {
        vec![$($(Figure {
            name: $name.into(),
            meaning: $meaning.into(),
            verbosity: Verbosity::$verbosity,
            class: FigureClass::$class,
            category: $category,
            source: Source::Count(|$c| $count),
        },)*)*]
    };
}

/// Returns all figures.
#[rustfmt::skip]
pub(super) fn list() -> Vec<Figure> {
    let mut all = figures! {
        "queues": {
            "posted_recvq_length" Level UserDetail |c| c.posted, "receives that wait for a message";
            "unexpected_recvq_length" Level UserDetail |c| c.unexpected, "messages that wait for a receive";
            "unexpected_recvq_buffer_size" Level UserDetail |c| c.device.unexpected_bytes, "bytes of messages that wait for a receive";
            "unexpected_recvq_length_high" HighWatermark UserDetail |c| c.device.unexpected_high, "most messages that waited for a receive at once";
            "unexpected_memory_high" HighWatermark TunerDetail |c| c.device.unexpected_memory_high, "highest charge of messages that waited for a receive, in bytes: those that were held, and 256 for each";
            "unexpected_messages" Counter TunerBasic |c| c.device.unexpected, "messages that arrived before their receive was posted";
            "requests" Level TunerDetail |c| c.requests, "requests under way, or finished and not yet waited for";
        }
        "flow control": {
            "eager_declined" Counter TunerBasic |c| c.device.eager_declined, "short messages that were announced, since the peer's window had no room";
            "sends_waited" Counter TunerBasic |c| c.device.sends_waited, "sends that had to wait before they could even be announced";
            "credits_sent" Counter TunerDetail |c| c.device.credits_sent, "packets sent that only return room or ask for it";
            "credits_received" Counter TunerDetail |c| c.device.credits_received, "packets received that only return room or ask for it";
            "ready_unmatched" Counter TunerDetail |c| c.device.ready_unmatched, "ready sends that found no receive";
            "truncated" Counter TunerDetail |c| c.device.truncated, "messages longer than their receive's buffer";
        }
        "large messages": {
            "large_null_messages" Counter TunerBasic |c| c.large.messages[0], "large messages received as ordinary ones";
            "large_put_messages" Counter TunerBasic |c| c.large.messages[1], "large messages that their senders have written to this process";
            "large_get_messages" Counter TunerBasic |c| c.large.messages[2], "large messages that this process has read from their senders";
            "large_coop_messages" Counter TunerBasic |c| c.large.messages[3], "large messages received through shared memory that both sides copy through";
            "large_null_bytes" Aggregate TunerBasic |c| c.large.bytes[0], "bytes of large_null_messages";
            "large_put_bytes" Aggregate TunerBasic |c| c.large.bytes[1], "bytes of large_put_messages";
            "large_get_bytes" Aggregate TunerBasic |c| c.large.bytes[2], "bytes of large_get_messages";
            "large_coop_bytes" Aggregate TunerBasic |c| c.large.bytes[3], "bytes of large_coop_messages";
            "windows_registered" Counter TunerDetail |c| c.device.rekeys, "parts of large messages, beyond the first of each, that were registered for the peer";
        }
        "progress": {
            "busy_polls" Counter TunerDetail |c| c.busy_polls, "polls that have found something";
            "sleeps" Counter TunerBasic |c| c.sleeps, "times that a wait has slept, and was woken";
            "helper_wakeups" Counter TunerDetail |c| c.helper.wakes, "times that the thread was woken that sends what is staged";
            "helper_pushes" Counter TunerDetail |c| c.helper.pushes, "times that this thread has sent something";
        }
        "connections": {
            "connections" Level UserDetail |c| c.vcs, "processes that this one has or had messages with";
            "connections_resumed" Counter UserDetail |c| c.resumed, "lost connections that were resumed";
        }
    };
    let plain = |name: &str, meaning: &str, class, source| Figure {
        name: name.into(), meaning: meaning.into(), verbosity: Verbosity::UserBasic, class, category: "progress", source,
    };
    all.push(plain("state", "state of the process", FigureClass::State, Source::State));
    all.push(plain("age", "seconds since MPI was initialized", FigureClass::Timer, Source::Seconds(|c| c.age)));
    for netmod in NETMODS {
        all.extend(of_netmod(netmod));
    }
    all
}

/// Returns the figures of a netmod.
fn of_netmod(netmod: &'static str) -> impl Iterator<Item = Figure> {
    type Count = fn(&netmod_core::VcStats) -> u64;
    let rows: [(&str, FigureClass, Count, &str); 6] = [
        ("messages_sent", FigureClass::Counter, |s| s.tx_msgs, "packets sent"),
        ("messages_received", FigureClass::Counter, |s| s.rx_msgs, "packets received"),
        ("bytes_sent", FigureClass::Aggregate, |s| s.tx_bytes, "bytes of packets sent, headers included"),
        (
            "bytes_received",
            FigureClass::Aggregate,
            |s| s.rx_bytes,
            "bytes of packets received, headers included",
        ),
        ("messages_queued", FigureClass::Counter, |s| s.tx_queued, "packets that could not go at once"),
        ("connects", FigureClass::Counter, |s| u64::from(s.connects), "connections made"),
    ];
    rows.into_iter().map(move |(name, class, count, meaning)| Figure {
        name: format!("{netmod}_{name}"),
        meaning: format!("{meaning} over {netmod}"),
        verbosity: Verbosity::UserDetail,
        class,
        category: netmod,
        source: Source::Netmod(netmod, count),
    })
}
