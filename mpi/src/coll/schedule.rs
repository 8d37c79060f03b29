//! Schedules: what one process does in a collective operation.
//!
//! A schedule is a list of steps over buffers that are named, not addressed: it depends on ranks,
//! counts and the shape of types, and can be run against any memory, again and again. Sends and
//! receives are started in their order and go on side by side; a fence waits for all before it.
//! Copies and reductions are done when they are reached.
//!
//! Between two processes messages match in the order of the steps. Processes of the remote group of
//! an intercommunicator are numbered behind those of the local group.

/// A buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// The send buffer of the call.
    Send,
    /// The receive buffer, or the only one.
    Recv,
    /// Memory of the schedule, by its place in [`Schedule::rooms`].
    Scratch(u16),
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
    /// Copies data.
    Copy {
        /// From here.
        from: Data,
        /// To here.
        into: Data,
    },
    /// Waits for all sends and receives so far.
    Fence,
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
}

/// A schedule under construction.
#[derive(Debug)]
pub struct Builder {
    /// Rank of this process.
    pub me: usize,
    /// Number of processes.
    pub n: usize,
    schedule: Schedule,
}

impl Builder {
    /// Starts the schedule of a process.
    pub fn new(me: usize, n: usize) -> Builder {
        Builder { me, n, schedule: Schedule::default() }
    }

    /// Returns the steps.
    pub fn finish(mut self) -> Schedule {
        // The end of a schedule waits for everything.
        while self.schedule.steps.last() == Some(&Step::Fence) {
            self.schedule.steps.pop();
        }
        self.schedule
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
            self.schedule.steps.push(Step::Send { to: to as u32, from });
        }
    }

    /// Receives data, if there is any.
    pub fn recv(&mut self, from: usize, into: Data) {
        if into.bytes() > 0 {
            self.schedule.steps.push(Step::Recv { from: from as u32, into });
        }
    }

    /// Sends a message without data.
    pub fn signal(&mut self, to: usize) {
        let from = Data::new(Base::Send, 0, Elem::BYTE);
        self.schedule.steps.push(Step::Send { to: to as u32, from });
    }

    /// Receives a message without data.
    pub fn await_signal(&mut self, from: usize) {
        let into = Data::new(Base::Recv, 0, Elem::BYTE);
        self.schedule.steps.push(Step::Recv { from: from as u32, into });
    }

    /// Sends to one process while it receives from another, and waits for both.
    pub fn exchange(&mut self, to: usize, data: Data, from: usize, into: Data) {
        self.recv(from, into);
        self.send(to, data);
        self.fence();
    }

    /// Sets `into` to `from op into`.
    pub fn reduce(&mut self, from: Data, into: Data) {
        if into.bytes() > 0 {
            self.schedule.steps.push(Step::Reduce { from, into });
        }
    }

    /// Copies data. Both have the same length if the arguments of the call are sound.
    pub fn copy(&mut self, from: Data, into: Data) {
        if from.bytes().max(into.bytes()) > 0 && from != into {
            self.schedule.steps.push(Step::Copy { from, into });
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

    /// Takes memory for bytes.
    pub fn bytes(&mut self, count: usize) -> Data {
        self.room(count, Elem::BYTE)
    }
}

/// Returns the greatest power of two that is not greater than `n > 0`.
pub fn floor_power(n: usize) -> usize {
    1 << n.ilog2()
}
