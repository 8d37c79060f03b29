//! Schedules: what one process does in a collective operation.
//!
//! A schedule is a list of steps over buffers that are named, not addressed: it depends on ranks,
//! counts and the shape of types, and can be run against any memory, again and again. Sends and
//! receives are started in their order and go on side by side; a fence waits for all before it.
//! Copies and reductions are done when they are reached.
//!
//! Between two processes messages match in the order of the steps. Processes of the remote group of
//! an intercommunicator are numbered behind those of the local group.

use std::sync::Arc;

/// A buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// The send buffer of the call.
    Send,
    /// The receive buffer, or the only one.
    Recv,
    /// Memory of the schedule, by its place in [`Schedule::rooms`].
    Scratch(u16),
    /// A slot of a process in memory that the processes share; slots are numbered from the first of
    /// the operation on.
    Slot {
        /// Its rank.
        rank: u16,
        /// True for the data beside the flag.
        short: bool,
        /// The slot.
        slot: u32,
    },
}

/// A datatype of the call, by its place in the types that a schedule is run with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeId(pub u32);

/// The facts of a datatype that a schedule has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elem {
    /// The datatype.
    pub ty: TypeId,
    /// Bytes of data.
    pub size: usize,
    /// Bytes from one element to the next.
    pub extent: i64,
    /// True if elements are one run of bytes, which begins at the address of the first.
    pub plain: bool,
}

impl Elem {
    /// A byte. It is the first of the types that every schedule is run with.
    pub const BYTE: Elem = Elem { ty: TypeId(0), size: 1, extent: 1, plain: true };
}

/// Elements in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// The buffer.
    pub base: Base,
    /// Bytes from the buffer's address to that of the first element.
    pub at: i64,
    /// Number of elements.
    pub count: usize,
    /// Their type.
    pub elem: Elem,
}

impl Data {
    /// Elements at the start of a buffer.
    pub fn new(base: Base, count: usize, elem: Elem) -> Data {
        Data { base, at: 0, count, elem }
    }

    /// Returns the bytes of data.
    pub fn bytes(&self) -> usize {
        self.count * self.elem.size
    }

    /// Returns `count` elements from number `first` on; they need not be among the elements of this
    /// one.
    pub fn part(&self, first: usize, count: usize) -> Data {
        self.displaced(first as i64, count)
    }

    /// Returns `count` elements, displaced by a number of elements that may be negative.
    pub fn displaced(&self, by: i64, count: usize) -> Data {
        Data { at: self.at.wrapping_add(by.wrapping_mul(self.elem.extent)), count, ..*self }
    }

    /// Returns the elements from number `range.start` to before `range.end`.
    pub fn range(&self, range: core::ops::Range<usize>) -> Data {
        self.part(range.start, range.len())
    }

    /// Returns the same memory as bytes; `None` if it is not one run.
    pub fn as_bytes(&self) -> Option<Data> {
        self.elem.plain.then(|| Data { count: self.bytes(), elem: Elem::BYTE, ..*self })
    }
}

/// A place for one receiver in a slot that has so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The number of the receiver.
    pub index: u16,
    /// Receivers.
    pub of: u16,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Starts to send.
    Send {
        /// Rank of the receiver.
        to: u32,
        /// The data.
        from: Data,
    },
    /// Starts to receive.
    Recv {
        /// Rank of the sender.
        from: u32,
        /// The place of the data.
        into: Data,
    },
    /// Sets `into` to `from op into`.
    Reduce {
        /// The left operand.
        from: Data,
        /// The right operand and result.
        into: Data,
    },
    /// Sets `into`, which is neither operand, to `left op right`.
    ReduceApart {
        /// The left operand.
        left: Data,
        /// The right operand.
        right: Data,
        /// The result.
        into: Data,
    },
    /// Copies data.
    Copy {
        /// From here.
        from: Data,
        /// To here.
        into: Data,
    },
    /// Copies bytes of elements that are no run of bytes, as they are when they are packed, to a
    /// slot.
    Pack {
        /// The elements.
        from: Data,
        /// The number of the first byte.
        at: usize,
        /// The slot, as bytes.
        into: Data,
    },
    /// Copies the bytes of a slot into such elements.
    Unpack {
        /// The slot, as bytes.
        from: Data,
        /// The elements.
        into: Data,
        /// The number of the first byte.
        at: usize,
    },
    /// Waits for all sends and receives so far.
    Fence,
    /// Waits until a slot of this process may be written.
    AwaitRoom {
        /// The slot.
        slot: u32,
    },
    /// Posts a slot of this process.
    Post {
        /// The slot.
        slot: u32,
    },
    /// Waits until a process has posted a slot.
    AwaitPost {
        /// Its rank.
        rank: u32,
        /// The slot.
        slot: u32,
    },
    /// Puts a block into a slot of this process, or its length if it is longer than the entry.
    Give {
        /// The slot.
        slot: u32,
        /// The place for its receiver.
        entry: Entry,
        /// The block.
        from: Data,
    },
    /// Takes a block out of a process's slot, or compares its length if it is longer than the
    /// entry.
    Take {
        /// The process's rank.
        rank: u32,
        /// The slot.
        slot: u32,
        /// The place for this process.
        entry: Entry,
        /// The place of the block.
        into: Data,
    },
    /// Releases the slots of all processes below this one: they were read.
    Release {
        /// The slot.
        slot: u32,
    },
}

/// Memory of a schedule: so many elements of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Number of elements.
    pub count: usize,
    /// Their type.
    pub ty: TypeId,
}

/// The steps of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// Memory that the steps use.
    pub rooms: Vec<Room>,
    /// Slots that the operation takes, in all processes alike; 0 if it uses messages.
    pub slots: u32,
    /// The operation in a word, for processes that compare it by slots.
    pub signature: u64,
}

impl Schedule {
    /// Takes all steps away, and keeps the memory for the next ones.
    pub fn clear(&mut self) {
        self.steps.clear();
        self.rooms.clear();
        (self.slots, self.signature) = (0, 0);
    }
}

/// A schedule under construction.
#[derive(Debug)]
pub struct Builder {
    /// Rank of this process.
    pub me: usize,
    /// Number of processes.
    pub n: usize,
    schedule: Schedule,
    /// Ranks of the processes of a part of the communicator; `None`: all.
    ranks: Option<Arc<[u32]>>,
}

impl Builder {
    /// Starts the schedule of a process.
    pub fn new(me: usize, n: usize) -> Builder {
        Builder::over(Schedule::default(), me, n)
    }

    /// Starts the schedule of a process, in the memory of another one.
    pub fn over(mut used: Schedule, me: usize, n: usize) -> Builder {
        used.clear();
        Builder { me, n, schedule: used, ranks: None }
    }

    /// Returns the steps.
    pub fn finish(mut self) -> Schedule {
        // The end of a schedule waits for everything.
        while self.schedule.steps.last() == Some(&Step::Fence) {
            self.schedule.steps.pop();
        }
        self.schedule
    }

    /// Adds the steps of a part of the processes, among which this one has the place `me`.
    pub fn within(&mut self, ranks: Arc<[u32]>, me: usize, f: impl FnOnce(&mut Builder)) {
        let all = (self.me, self.n, self.ranks.take());
        (self.me, self.n, self.ranks) = (me, ranks.len(), Some(ranks));
        f(self);
        (self.me, self.n, self.ranks) = all;
    }

    /// Returns the rank of a process in the communicator.
    fn rank(&self, place: usize) -> u32 {
        self.ranks.as_ref().map_or(place as u32, |ranks| ranks[place])
    }

    /// Returns the rank `by` behind this one, around the end.
    pub fn after(&self, by: usize) -> usize {
        (self.me + by) % self.n
    }

    /// Returns the rank `by` before this one, around the start.
    pub fn before(&self, by: usize) -> usize {
        (self.me + self.n - by % self.n) % self.n
    }

    /// Sends data. Nothing is sent if there is none: the receiver knows that, too.
    pub fn send(&mut self, to: usize, from: Data) {
        if from.bytes() > 0 {
            let to = self.rank(to);
            self.schedule.steps.push(Step::Send { to, from });
        }
    }

    /// Receives data, if there is any.
    pub fn recv(&mut self, from: usize, into: Data) {
        if into.bytes() > 0 {
            let from = self.rank(from);
            self.schedule.steps.push(Step::Recv { from, into });
        }
    }

    /// Sends a message without data.
    pub fn signal(&mut self, to: usize) {
        let (to, from) = (self.rank(to), Data::new(Base::Send, 0, Elem::BYTE));
        self.schedule.steps.push(Step::Send { to, from });
    }

    /// Receives a message without data.
    pub fn await_signal(&mut self, from: usize) {
        let (from, into) = (self.rank(from), Data::new(Base::Recv, 0, Elem::BYTE));
        self.schedule.steps.push(Step::Recv { from, into });
    }

    /// Sends to one process while it receives from another, and waits for both.
    pub fn exchange(&mut self, to: usize, data: Data, from: usize, into: Data) {
        self.recv(from, into);
        self.send(to, data);
        self.fence();
    }

    /// Works like [`Builder::exchange`], and copies something else meanwhile.
    pub fn exchange_beside(&mut self, to: usize, data: Data, from: usize, into: Data, copy: (Data, Data)) {
        self.recv(from, into);
        self.send(to, data);
        self.copy(copy.0, copy.1);
        self.fence();
    }

    /// Sets `into` to `from op into`.
    pub fn reduce(&mut self, from: Data, into: Data) {
        if into.bytes() > 0 {
            self.schedule.steps.push(Step::Reduce { from, into });
        }
    }

    /// Sets `into` to `left op right`, of which `right` may be the same.
    pub fn reduce_into(&mut self, left: Data, right: Data, into: Data) {
        if right == into {
            self.reduce(left, into);
        } else if into.bytes() > 0 {
            self.schedule.steps.push(Step::ReduceApart { left, right, into });
        }
    }

    /// Copies data. Both have the same length if the arguments of the call are sound.
    pub fn copy(&mut self, from: Data, into: Data) {
        if from.bytes().max(into.bytes()) > 0 && from != into {
            self.schedule.steps.push(Step::Copy { from, into });
        }
    }

    /// Copies bytes of data from number `at` on to a slot, as many as that has. If the data is
    /// shorter, a step before has failed.
    pub fn copy_in(&mut self, from: Data, at: usize, slot: Data) {
        match from.as_bytes() {
            Some(bytes) => self.copy(bytes.part(at, slot.count), slot),
            None => self.schedule.steps.push(Step::Pack { from, at, into: slot }),
        }
    }

    /// Copies the bytes of a slot into data, from byte number `at` on.
    pub fn copy_out(&mut self, slot: Data, into: Data, at: usize) {
        match into.as_bytes() {
            Some(bytes) => self.copy(slot, bytes.part(at, slot.count)),
            None => self.schedule.steps.push(Step::Unpack { from: slot, into, at }),
        }
    }

    /// Waits for all sends and receives so far.
    pub fn fence(&mut self) {
        if self.schedule.steps.last() != Some(&Step::Fence) {
            self.schedule.steps.push(Step::Fence);
        }
    }

    /// Takes memory for elements of a type.
    pub fn room(&mut self, count: usize, elem: Elem) -> Data {
        let number = self.schedule.rooms.len() as u16;
        self.schedule.rooms.push(Room { count, ty: elem.ty });
        Data::new(Base::Scratch(number), count, elem)
    }

    /// Waits until a slot of this process may be written.
    pub fn await_room(&mut self, slot: u32) {
        self.schedule.steps.push(Step::AwaitRoom { slot });
    }

    /// Posts a slot of this process.
    pub fn post(&mut self, slot: u32) {
        self.schedule.steps.push(Step::Post { slot });
    }

    /// Waits until a process has posted a slot.
    pub fn await_post(&mut self, rank: usize, slot: u32) {
        self.schedule.steps.push(Step::AwaitPost { rank: rank as u32, slot });
    }

    /// Puts a block into a slot of this process.
    pub fn give(&mut self, slot: u32, entry: Entry, from: Data) {
        self.schedule.steps.push(Step::Give { slot, entry, from });
    }

    /// Takes a block out of a process's slot.
    pub fn take(&mut self, rank: usize, slot: u32, entry: Entry, into: Data) {
        self.schedule.steps.push(Step::Take { rank: rank as u32, slot, entry, into });
    }

    /// Releases the slots below this one.
    pub fn release(&mut self, slot: u32) {
        self.schedule.steps.push(Step::Release { slot });
    }

    /// Says how many slots the operation takes, and what it is.
    pub fn takes_slots(&mut self, slots: u32, signature: u64) {
        (self.schedule.slots, self.schedule.signature) = (slots, signature);
    }

    /// Takes memory for bytes.
    pub fn bytes(&mut self, count: usize) -> Data {
        self.room(count, Elem::BYTE)
    }
}

/// Returns the greatest power of two that is not greater than `n > 0`.
pub fn floor_power(n: usize) -> usize {
    1 << n.ilog2()
}
