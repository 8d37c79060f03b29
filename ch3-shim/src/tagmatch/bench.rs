//! Micro-benchmarks of tag matching: the time of one operation at a given queue length.
//!
//! Each function fills a queue with `queue_len` distinct entries (payload: a 64-bit handle), runs
//! `iterations` operations to warm up, and measures `iterations` more. One operation takes an
//! entry and puts it back, so that the length stays. The result is the mean in nanoseconds. On a
//! shared machine take the median of many short runs, with the queue lengths interleaved.

use std::hint::black_box;
use std::time::Instant;

use super::{ANY_SOURCE, ANY_TAG, Envelope, Pattern, PostedQueue, UnexpectedQueue};

const CONTEXT: u32 = 4;
const SOURCE: i32 = 1;

/// A form of receive, for the wildcard measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Source and tag given.
    Exact,
    /// Source given, any tag: entries have distinct sources.
    AnyTag,
    /// Any source, tag given: entries have distinct tags.
    AnySource,
    /// Neither given: entries have distinct contexts.
    AnyBoth,
}

impl Form {
    /// All forms.
    pub const ALL: [Form; 4] = [Form::Exact, Form::AnyTag, Form::AnySource, Form::AnyBoth];

    /// The `i`th of many distinct messages, and the receive that gets it and no other.
    fn pair(self, i: usize) -> (Envelope, Pattern) {
        let i = i as i32;
        let (context, source, tag) = (CONTEXT, SOURCE, 7);
        match self {
            Form::Exact => (Envelope::new(context, source, i), Pattern::new(context, source, i)),
            Form::AnyTag => (Envelope::new(context, i, tag), Pattern::new(context, i, ANY_TAG)),
            Form::AnySource => (Envelope::new(context, source, i), Pattern::new(context, ANY_SOURCE, i)),
            Form::AnyBoth => {
                (Envelope::new(i as u32, source, tag), Pattern::new(i as u32, ANY_SOURCE, ANY_TAG))
            }
        }
    }
}

/// The entry that is taken next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Uniformly random.
    Random,
    /// The order of insertion.
    InOrder,
    /// Uniformly random, and not known before the previous operation has ended: the latency
    /// of an operation, where [`Order::Random`] allows the processor to overlap several.
    Dependent,
}

/// Nanoseconds to match a message with one of `queue_len` exact posted receives, drawn at random,
/// and to post that receive again.
pub fn exact_random(queue_len: usize, iterations: usize) -> f64 {
    posted(Form::Exact, Order::Random, queue_len, iterations)
}

/// Measures [`exact_random`] with messages in the order of the receives.
pub fn exact_in_order(queue_len: usize, iterations: usize) -> f64 {
    posted(Form::Exact, Order::InOrder, queue_len, iterations)
}

/// Nanoseconds to match a message with one of `queue_len` posted receives and to post it again.
pub fn posted(form: Form, order: Order, queue_len: usize, iterations: usize) -> f64 {
    let mut queue = PostedQueue::new();
    for i in 0..queue_len {
        queue.post(form.pair(i).1, i as u64);
    }
    measure(order, queue_len, iterations, |i| {
        let (envelope, pattern) = form.pair(i);
        let item = queue.take_match(&envelope).unwrap_or(u64::MAX);
        black_box(queue.post(pattern, item));
        item
    })
}

/// Nanoseconds to take one of `queue_len` unexpected messages with a receive of the given form
/// and to put a message in its place.
pub fn unexpected(form: Form, order: Order, queue_len: usize, iterations: usize) -> f64 {
    let mut queue = UnexpectedQueue::new();
    for i in 0..queue_len {
        queue.push(form.pair(i).0, i as u64);
    }
    measure(order, queue_len, iterations, |i| {
        let (envelope, pattern) = form.pair(i);
        let item = queue.take_match(&pattern).map_or(u64::MAX, |(_, item)| item);
        black_box(queue.push(envelope, item));
        item
    })
}

/// Nanoseconds to post and match a receive whose tag was never used before, while `queue_len`
/// receives of other tags wait.
pub fn fresh_tags(queue_len: usize, iterations: usize) -> f64 {
    let mut queue = PostedQueue::new();
    for i in 0..queue_len {
        queue.post(Form::Exact.pair(i).1, i as u64);
    }
    let mut tag = queue_len;
    measure(Order::InOrder, queue_len, iterations, |_| {
        let (envelope, pattern) = Form::Exact.pair(tag & i32::MAX as usize);
        tag += 1;
        black_box(queue.post(pattern, tag as u64));
        queue.take_match(&envelope).unwrap_or(u64::MAX)
    })
}

/// Nanoseconds to find that a message matches none of `queue_len` posted receives.
pub fn no_match(queue_len: usize, iterations: usize) -> f64 {
    let mut queue = PostedQueue::new();
    for i in 0..queue_len {
        queue.post(Form::Exact.pair(i).1, i as u64);
    }
    measure(Order::Random, queue_len, iterations, |i| {
        let (envelope, _) = Form::Exact.pair(i + queue_len);
        queue.take_match(&envelope).unwrap_or(0)
    })
}

fn measure(
    order: Order,
    queue_len: usize,
    iterations: usize,
    mut operation: impl FnMut(usize) -> u64,
) -> f64 {
    let queue_len = queue_len.max(1);
    match order {
        Order::InOrder => {
            let mut at = 0;
            time(iterations, || {
                let here = at;
                at = if here + 1 == queue_len { 0 } else { here + 1 };
                black_box(operation(here));
            })
        }
        Order::Random => {
            let mut random = Random::new();
            time(iterations, || {
                black_box(operation(random.below(queue_len)));
            })
        }
        Order::Dependent => {
            let mut random = Random::new();
            time(iterations, || {
                // The item's value is not in what is added, but the processor cannot know.
                let item = operation(random.below(queue_len));
                random.0 = random.0.wrapping_add(item & black_box(0));
            })
        }
    }
}

/// The mean of the second of two runs.
fn time(iterations: usize, mut operation: impl FnMut()) -> f64 {
    for _ in 0..iterations {
        operation();
    }
    let start = Instant::now();
    for _ in 0..iterations {
        operation();
    }
    start.elapsed().as_nanos() as f64 / iterations.max(1) as f64
}

/// A counter through a mixing function: cheap, and with no chain from one number to the next.
struct Random(u64);

impl Random {
    fn new() -> Random {
        Random(0x1234_5678_9abc_def0)
    }

    #[inline]
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(mixed) * bound as u128) >> 64) as usize
    }
}
