//! The queues beside vectors that do the same by searching.

use super::super::*;

/// An operation on the posted or the unexpected queue. `Cancel` and `Remove` name the `n`th last
/// key that was given out, stale or not.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    Post(Pattern),
    TakePosted(Envelope),
    TakeAgain(Envelope),
    Cancel(usize),
    Push(Envelope),
    TakeUnexpected(Pattern),
    Probe(Pattern),
    Remove(usize),
}

/// The queues and their models. An item is the number of the operation that put it in.
pub(super) struct Pair {
    posted: PostedQueue<u64>,
    posted_model: Vec<(Pattern, u64)>,
    posted_keys: Vec<(PostedKey, u64)>,
    /// Number of receives found by the short way.
    pub(super) again: u64,
    unexpected: UnexpectedQueue<Box<u64>>,
    unexpected_model: Vec<(Envelope, u64)>,
    unexpected_keys: Vec<(UnexpectedKey, u64)>,
    next: u64,
}

impl Pair {
    pub(super) fn new() -> Pair {
        Pair {
            posted: PostedQueue::new(),
            posted_model: Vec::new(),
            posted_keys: Vec::new(),
            again: 0,
            unexpected: UnexpectedQueue::new(),
            unexpected_model: Vec::new(),
            unexpected_keys: Vec::new(),
            next: 0,
        }
    }

    pub(super) fn with_seed() -> Pair {
        let seed = [1, 2, 3];
        Pair {
            posted: PostedQueue::with_seed(seed),
            unexpected: UnexpectedQueue::with_seed(seed),
            ..Pair::new()
        }
    }

    /// The length of the longer queue.
    pub(super) fn len(&self) -> usize {
        self.posted_model.len().max(self.unexpected_model.len())
    }

    pub(super) fn apply(&mut self, op: Op) {
        match op {
            Op::Post(pattern) => {
                self.next += 1;
                let key = self.posted.post(pattern, self.next);
                self.posted_model.push((pattern, self.next));
                self.posted_keys.push((key, self.next));
            }
            Op::TakePosted(envelope) => {
                let matching = |(pattern, _): &(Pattern, u64)| pattern.matches(&envelope);
                let at = self.posted_model.iter().position(matching);
                let expected = at.map(|at| self.posted_model.remove(at).1);
                assert_eq!(self.posted.peek_match(&envelope), expected);
                assert_eq!(self.posted.take_match(&envelope), expected);
            }
            Op::TakeAgain(envelope) => {
                let Some(taken) = self.posted.take_again(&envelope) else { return };
                let matching = |(pattern, _): &(Pattern, u64)| pattern.matches(&envelope);
                let at = self.posted_model.iter().position(matching).expect("there is one");
                assert_eq!(self.posted_model.remove(at).1, taken);
                self.again += 1;
            }
            Op::Cancel(nth) => {
                let Some(at) = self.posted_keys.len().checked_sub(nth + 1) else {
                    return;
                };
                let (key, item) = self.posted_keys[at];
                let at = self.posted_model.iter().position(|(_, i)| *i == item);
                let expected = at.map(|at| self.posted_model.remove(at).1);
                assert_eq!(self.posted.cancel(key), expected);
            }
            Op::Push(envelope) => {
                self.next += 1;
                let key = self.unexpected.push(envelope, Box::new(self.next));
                self.unexpected_model.push((envelope, self.next));
                self.unexpected_keys.push((key, self.next));
            }
            Op::TakeUnexpected(pattern) => {
                let at = self.first_unexpected(&pattern);
                let expected = at.map(|at| self.unexpected_model.remove(at));
                let taken = self.unexpected.take_match(&pattern);
                assert_eq!(taken.map(|(envelope, item)| (envelope, *item)), expected);
            }
            Op::Probe(pattern) => {
                let expected = self.first_unexpected(&pattern);
                let expected = expected.map(|at| self.unexpected_model[at]);
                let seen = self.unexpected.peek_match(&pattern);
                assert_eq!(seen.map(|(envelope, item)| (envelope, **item)), expected);
                let key = self.unexpected.find_match(&pattern);
                let seen = key.and_then(|key| self.unexpected.get(key));
                assert_eq!(seen.map(|(envelope, item)| (envelope, **item)), expected);
            }
            Op::Remove(nth) => {
                let Some(at) = self.unexpected_keys.len().checked_sub(nth + 1) else {
                    return;
                };
                let (key, item) = self.unexpected_keys[at];
                let at = self.unexpected_model.iter().position(|(_, i)| *i == item);
                let expected = at.map(|at| self.unexpected_model.remove(at).1);
                assert_eq!(self.unexpected.get_mut(key).map(|item| **item), expected);
                assert_eq!(self.unexpected.remove(key).map(|item| *item), expected);
            }
        }
        assert_eq!(self.posted.len(), self.posted_model.len());
        assert_eq!(self.unexpected.len(), self.unexpected_model.len());
    }

    /// Takes everything of one context out of both queues.
    pub(super) fn drain(&mut self, context: u32) {
        let (out, kept): (Vec<_>, Vec<_>) =
            self.posted_model.drain(..).partition(|(pattern, _)| pattern.context() == context);
        self.posted_model = kept;
        let drained = self.posted.drain_matching(|p, _| p.context() == context);
        let expected: Vec<u64> = out.iter().map(|(_, item)| *item).collect();
        assert_eq!(drained, expected);

        let (out, kept): (Vec<_>, Vec<_>) =
            self.unexpected_model.drain(..).partition(|(envelope, _)| envelope.context() == context);
        self.unexpected_model = kept;
        let drained = self.unexpected.drain_matching(|e, _| e.context() == context);
        let drained: Vec<_> = drained.into_iter().map(|(e, item)| (e, *item)).collect();
        assert_eq!(drained, out);
        self.posted_keys.drain(..self.posted_keys.len() / 2);
        self.unexpected_keys.drain(..self.unexpected_keys.len() / 2);
    }

    /// Compares all that is in the queues, in order.
    pub(super) fn check_all(&self) {
        let posted: Vec<_> = self.posted.iter().map(|(_, p, i)| (p, i)).collect();
        assert_eq!(posted, self.posted_model);
        let unexpected: Vec<_> = self.unexpected.iter().map(|(_, e, i)| (e, **i)).collect();
        assert_eq!(unexpected, self.unexpected_model);
    }

    fn first_unexpected(&self, pattern: &Pattern) -> Option<usize> {
        let mut all = self.unexpected_model.iter();
        all.position(|(envelope, _)| pattern.matches(envelope))
    }
}
