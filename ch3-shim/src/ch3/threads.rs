//! Threads as senders and receivers: the places and contexts that name threads of processes.
//!
//! The layer above may give ranks to threads. The *place of a thread* is that of its process, with
//! the thread's number above it. Messages between threads have contexts of their own: this process
//! knows one by the communicator's id and the thread that receives, and packets carry the thread
//! that sends, too. When a message arrives, that moves from the context to the source. So matching
//! knows nothing of threads, and a receive from any source takes messages of all of them.
//!
//! ```text
//! bit   31        30      29       28..21        20..13        12..0
//!       internal  remote  threads  receiver + 1  sender + 1    communicator
//! ```
//!
//! The bit of remote groups is set on the wire alone, where no context of the job has it, so that
//! messages without threads are not asked for them.

use crate::tagmatch::{Envelope, Pattern};

/// Bit of the contexts of remote groups.
pub(super) const REMOTE: u32 = 1 << 30;
/// Bits of a process's place in that of its thread.
const PLACE_BITS: u32 = 23;
const PLACE: u32 = (1 << PLACE_BITS) - 1;
/// Bits of a communicator's context.
const COMM_BITS: u32 = 13;
/// Bits of a thread's number, which is one more than its index.
const THREAD_BITS: u32 = 8;
const SENDER_SHIFT: u32 = COMM_BITS;
const RECEIVER_SHIFT: u32 = COMM_BITS + THREAD_BITS;
const THREAD: u32 = (1 << THREAD_BITS) - 1;
/// Bit of the contexts of messages between threads.
const THREADS: u32 = 1 << 29;

/// Most threads of a process that have places.
pub const MOST_THREADS: u32 = THREAD;

/// Returns the place of a thread of a process, by its index. `None` if there is none: processes
/// have places below 2^23 for that, and [`MOST_THREADS`] threads.
pub fn thread_place(process: u32, thread: u32) -> Option<u32> {
    (process <= PLACE && thread < MOST_THREADS).then_some(process | (thread + 1) << PLACE_BITS)
}

/// Returns the place of the process that a place is of, by itself or one of its threads.
pub fn process_of(place: u32) -> u32 {
    place & PLACE
}

/// Returns the index of the thread that a place is of; `None` for the place of a process.
pub fn thread_of(place: u32) -> Option<u32> {
    if is_thread(place) { Some((place >> PLACE_BITS) - 1) } else { None }
}

/// Returns true if a place is one of a thread.
fn is_thread(place: u32) -> bool {
    place > PLACE && place < 1 << 31
}

/// Returns the context of messages to a thread of this process; `None` if the context of the
/// communicator has more than 13 bits, or there is no such thread.
pub(crate) fn context_of(comm: u32, thread: u32) -> Option<u32> {
    let fits = comm < 1 << COMM_BITS && thread < MOST_THREADS;
    fits.then_some(THREADS | (thread + 1) << RECEIVER_SHIFT | comm)
}

/// Returns true if messages of a context go to a thread.
fn is_of_thread(context: u32) -> bool {
    context & (THREADS | REMOTE) == THREADS
}

/// Returns the context, as packets carry it, of messages to a thread's place from the thread to
/// which messages of `own` go.
pub(crate) fn to_wire(own: u32, place: u32) -> Option<u32> {
    let (sender, receiver) = (own >> RECEIVER_SHIFT & THREAD, place >> PLACE_BITS);
    let comm = own & ((1 << COMM_BITS) - 1);
    (is_of_thread(own) && is_thread(place))
        .then_some(REMOTE | THREADS | receiver << RECEIVER_SHIFT | sender << SENDER_SHIFT | comm)
}

/// Returns the envelope of a message that a thread of the process at `place` has sent, if packets
/// carry it as `env`.
pub(super) fn of_wire(env: Envelope, place: u32) -> Option<Envelope> {
    let context = env.context();
    let (sender, receiver) = (context >> SENDER_SHIFT & THREAD, context >> RECEIVER_SHIFT & THREAD);
    if context >> 29 != (REMOTE | THREADS) >> 29 || sender == 0 || receiver == 0 {
        return None;
    }
    let source = thread_place(place, sender - 1)?.cast_signed();
    Some(Envelope::new(context & !(REMOTE | THREAD << SENDER_SHIFT), source, env.tag()))
}

/// Returns the place of the process whose messages have this source in a context; wild ones stay
/// wild.
pub(crate) fn process_of_source(context: u32, source: i32) -> i32 {
    if is_of_thread(context) && source >= 0 {
        process_of(source.cast_unsigned()).cast_signed()
    } else {
        source
    }
}

/// Returns the place of the process that a pattern asks for; wild ones stay wild.
pub(super) fn asked(pattern: &Pattern) -> i32 {
    process_of_source(pattern.context(), pattern.source())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tagmatch::ANY_SOURCE;

    #[test]
    fn a_message_between_threads_says_who_has_sent_it() {
        for (sender, receiver, process, comm) in [(0, 0, 0, 0), (3, 254, PLACE, 8191), (254, 0, 17, 4)] {
            let own = context_of(comm, sender).expect("a context");
            let to = thread_place(99, receiver).expect("a place");
            let wire = to_wire(own, to).expect("on the wire");
            let env = of_wire(Envelope::new(wire, 5, 7), process).expect("of a thread");
            assert_eq!(Some(env.context()), context_of(comm, receiver));
            let from = thread_place(process, sender).expect("a place");
            assert_eq!((env.source(), env.tag()), (from.cast_signed(), 7));
            assert_eq!(
                (process_of(from), thread_of(from), thread_of(process)),
                (process, Some(sender), None)
            );
            assert_eq!(asked(&Pattern::new(env.context(), env.source(), 7)), process.cast_signed());
            assert_eq!(asked(&Pattern::new(env.context(), ANY_SOURCE, 7)), ANY_SOURCE);
            assert_eq!(asked(&Pattern::new(comm, from.cast_signed(), 7)), from.cast_signed());
        }
    }

    #[test]
    fn names_of_no_threads_are_refused() {
        assert_eq!((thread_place(PLACE + 1, 0), thread_place(0, MOST_THREADS)), (None, None));
        assert_eq!((context_of(8192, 0), context_of(0, MOST_THREADS)), (None, None));
        let own = context_of(1, 1).expect("a context");
        assert_eq!((to_wire(own, 3), to_wire(1, thread_place(3, 1).expect("a place"))), (None, None));
        let wire = to_wire(own, thread_place(3, 1).expect("a place")).expect("on the wire");
        let no_threads = [wire & !THREADS, wire & !REMOTE, wire | 1 << 31];
        let nobody = [wire & !(THREAD << SENDER_SHIFT), wire & !(THREAD << RECEIVER_SHIFT)];
        for context in no_threads.into_iter().chain(nobody) {
            assert_eq!(of_wire(Envelope::new(context, 0, 0), 0), None, "{context:#x}");
        }
        assert_eq!(of_wire(Envelope::new(wire, 0, 0), PLACE + 1), None);
    }
}
