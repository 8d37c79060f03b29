//! Handles: 32 bits in the layout of MPICH's, and tables of the objects that they name.
//!
//! Bits 31 and 30 are 00 for null, 01 for a predefined object, 10 for one that was made at run
//! time; bits 29 to 26 are the kind. A handle of the last sort has a 20-bit index and a 6-bit
//! generation, which changes when its slot is used again. Freed slots are used again in the order
//! in which they were freed. So a stale handle is found out, and does not name another object.

use std::collections::VecDeque;
use std::fmt;

use crate::error::{Class, MpiError, Result};
use crate::stand_in;

const PREDEFINED: u32 = 0b01 << 30;
const DYNAMIC: u32 = 0b10 << 30;
const SORT: u32 = 0b11 << 30;
const KIND_SHIFT: u32 = 26;
const GENERATION_SHIFT: u32 = 20;
const INDEX: u32 = (1 << GENERATION_SHIFT) - 1;
const GENERATIONS: u8 = 1 << (KIND_SHIFT - GENERATION_SHIFT);

/// The kinds of objects, by their number in a handle.
const KINDS: [&str; 16] = [
    "handle of no kind",
    "communicator",
    "group",
    "datatype",
    "file",
    "error handler",
    "operation",
    "info",
    "window",
    "keyval",
    "attribute",
    "request",
    "process group",
    "class of generalized requests",
    "session",
    "stream",
];

/// A handle of one kind of object.
pub trait Handle: Copy + Eq {
    /// Number of the kind.
    const KIND: u32;
    /// Name of the null handle in MPI.
    const NULL_NAME: &'static str;
    /// Class of the error if the handle names nothing.
    const CLASS: Class;

    /// Creates a handle from its number.
    fn from_raw(raw: u32) -> Self;

    /// Returns the number.
    fn raw(self) -> u32;
}

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident, $kind:literal, $class:ident, $null:literal;)*) => {
        $(
            $(#[$doc])*
            #[repr(transparent)]
            #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
            pub struct $name(pub u32);

            impl $name {
                #[doc = concat!("`", $null, "`.")]
                pub const NULL: $name = $name($kind << KIND_SHIFT);

                /// Returns true if this is the null handle.
                #[inline]
                pub fn is_null(self) -> bool {
                    self == $name::NULL
                }
            }

            impl Handle for $name {
                const KIND: u32 = $kind;
                const NULL_NAME: &'static str = $null;
                const CLASS: Class = Class::$class;

                #[inline]
                fn from_raw(raw: u32) -> $name {
                    $name(raw)
                }

                #[inline]
                fn raw(self) -> u32 {
                    self.0
                }
            }

            impl fmt::Debug for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    write!(f, concat!(stringify!($name), "({:#010x})"), self.0)
                }
            }
        )*
    };
}

handles! {
    /// A communicator.
    Comm, 1, COMM, "MPI_COMM_NULL";
    /// A group of processes.
    Group, 2, GROUP, "MPI_GROUP_NULL";
    /// A datatype.
    Datatype, 3, TYPE, "MPI_DATATYPE_NULL";
    /// An open file.
    File, 4, FILE, "MPI_FILE_NULL";
    /// An error handler.
    Errhandler, 5, ERRHANDLER, "MPI_ERRHANDLER_NULL";
    /// A reduction operation.
    Op, 6, OP, "MPI_OP_NULL";
    /// An info: keys with values.
    Info, 7, INFO, "MPI_INFO_NULL";
    /// A window.
    Win, 8, WIN, "MPI_WIN_NULL";
    /// A key of attributes.
    Keyval, 9, KEYVAL, "MPI_KEYVAL_INVALID";
    /// A request.
    Request, 11, REQUEST, "MPI_REQUEST_NULL";
    /// A message that was matched by a probe. Its kind is that of requests.
    Message, 11, REQUEST, "MPI_MESSAGE_NULL";
    /// A session.
    Session, 14, SESSION, "MPI_SESSION_NULL";
    /// A stream of the program.
    Stream, 15, STREAM, "MPIX_STREAM_NULL";
}

impl Comm {
    /// `MPI_COMM_WORLD`: all processes of the job.
    pub const WORLD: Comm = Comm(PREDEFINED | 1 << KIND_SHIFT);
    /// `MPI_COMM_SELF`: this process alone.
    pub const SELF: Comm = Comm(Comm::WORLD.0 + 1);

    /// The handle of a communicator of threads with a number, of which 2^19 differ. Tables know it
    /// by the communicator that it stands for in a thread.
    pub(crate) fn of_threads(number: u32) -> Comm {
        Comm(DYNAMIC | Comm::NULL.0 | stand_in::BIT | (number % stand_in::BIT))
    }

    /// Returns the handle in the tables: the one that this stands for, or itself.
    #[inline]
    pub(crate) fn in_tables(self) -> Comm {
        if self.0 & stand_in::BIT == 0 { self } else { stand_in(self).unwrap_or(self) }
    }
}

impl Datatype {
    /// `MPI_BYTE`.
    pub const BYTE: Datatype = Datatype(0x4c00_010d);
}

impl Group {
    /// `MPI_GROUP_EMPTY`.
    pub const EMPTY: Group = Group(PREDEFINED | 2 << KIND_SHIFT);
}

impl Errhandler {
    /// `MPI_ERRORS_ARE_FATAL`: an error ends the job.
    pub const ARE_FATAL: Errhandler = Errhandler(PREDEFINED | 5 << KIND_SHIFT);
    /// `MPI_ERRORS_RETURN`: the call returns the error's code.
    pub const RETURN: Errhandler = Errhandler(Errhandler::ARE_FATAL.0 + 1);
    /// `MPI_ERRORS_ABORT`: an error ends the processes of the communicator.
    pub const ABORT: Errhandler = Errhandler(Errhandler::ARE_FATAL.0 + 3);
}

impl Info {
    /// `MPI_INFO_ENV`: how this process was started.
    pub const ENV: Info = Info(PREDEFINED | 7 << KIND_SHIFT | 1);
}

impl Request {
    /// A request that was over when its call returned. Its wait gives the empty status.
    pub const COMPLETE: Request = Request(PREDEFINED | 11 << KIND_SHIFT | 1);
    /// A receive from nobody (`MPI_PROC_NULL`), which was over when its call returned.
    pub const FROM_NOBODY: Request = Request(Request::COMPLETE.0 + 1);
}

impl Message {
    /// `MPI_MESSAGE_NO_PROC`: a message of `MPI_PROC_NULL`.
    pub const NO_PROC: Message = Message(PREDEFINED | 11 << KIND_SHIFT);
}

/// Keys of the attributes of `MPI_COMM_WORLD` that the library sets.
impl Keyval {
    /// `MPI_TAG_UB`.
    pub const TAG_UB: Keyval = Keyval(0x6440_0001);
    /// `MPI_HOST`.
    pub const HOST: Keyval = Keyval(0x6440_0003);
    /// `MPI_IO`.
    pub const IO: Keyval = Keyval(0x6440_0005);
    /// `MPI_WTIME_IS_GLOBAL`.
    pub const WTIME_IS_GLOBAL: Keyval = Keyval(0x6440_0007);
    /// `MPI_UNIVERSE_SIZE`.
    pub const UNIVERSE_SIZE: Keyval = Keyval(0x6440_0009);
    /// `MPI_LASTUSEDCODE`.
    pub const LASTUSEDCODE: Keyval = Keyval(0x6440_000b);
    /// `MPI_APPNUM`.
    pub const APPNUM: Keyval = Keyval(0x6440_000d);
}

/// Keys of the attributes that all windows have.
impl Keyval {
    /// `MPI_WIN_BASE`.
    pub const WIN_BASE: Keyval = Keyval(0x6600_0001);
    /// `MPI_WIN_SIZE`.
    pub const WIN_SIZE: Keyval = Keyval(0x6600_0003);
    /// `MPI_WIN_DISP_UNIT`.
    pub const WIN_DISP_UNIT: Keyval = Keyval(0x6600_0005);
    /// `MPI_WIN_CREATE_FLAVOR`.
    pub const WIN_CREATE_FLAVOR: Keyval = Keyval(0x6600_0007);
    /// `MPI_WIN_MODEL`.
    pub const WIN_MODEL: Keyval = Keyval(0x6600_0009);

    /// Returns true if the library sets the attributes of this key.
    pub(crate) fn is_predefined(self) -> bool {
        self.0 >> 30 == 1
    }
}

/// A slot of a table.
#[derive(Debug)]
struct Slot<T> {
    generation: u8,
    value: Option<T>,
}

/// The objects of one kind, by handle.
#[derive(Debug)]
pub struct Table<H, T> {
    predefined: Vec<Option<T>>,
    slots: Vec<Slot<T>>,
    /// Free slots, the one that was freed first at the front.
    free: VecDeque<u32>,
    live: usize,
    kind: std::marker::PhantomData<H>,
}

impl<H: Handle, T> Default for Table<H, T> {
    fn default() -> Self {
        Table::new()
    }
}

impl<H: Handle, T> Table<H, T> {
    /// Creates an empty table.
    pub fn new() -> Table<H, T> {
        Table::with_predefined([])
    }

    /// Creates a table with predefined objects, the first of index 0; `None` where there is none.
    pub fn with_predefined(predefined: impl IntoIterator<Item = Option<T>>) -> Table<H, T> {
        Table {
            predefined: predefined.into_iter().collect(),
            slots: Vec::new(),
            free: VecDeque::new(),
            live: 0,
            kind: std::marker::PhantomData,
        }
    }

    /// Adds an object; the first one has the index 0.
    ///
    /// # Errors
    /// If the table is full.
    #[inline]
    pub fn insert(&mut self, value: T) -> Result<H> {
        let index = match self.free.pop_front() {
            Some(index) => index,
            None => self.grow()?,
        };
        let slot = &mut self.slots[index as usize];
        slot.generation = (slot.generation + 1) % GENERATIONS;
        // It was free: without this the compiler keeps the value elsewhere while it drops nothing.
        std::mem::forget(slot.value.replace(value));
        self.live += 1;
        let generation = u32::from(slot.generation);
        Ok(H::from_raw(DYNAMIC | H::KIND << KIND_SHIFT | generation << GENERATION_SHIFT | index))
    }

    /// Adds a slot, whose first object will have the generation 0.
    #[cold]
    fn grow(&mut self) -> Result<u32> {
        let index = self.slots.len() as u32;
        if index > INDEX {
            return Err(self.full());
        }
        self.slots.push(Slot { generation: GENERATIONS - 1, value: None });
        Ok(index)
    }

    #[cold]
    fn full(&self) -> Box<MpiError> {
        let what = KINDS[H::KIND as usize];
        let text =
            format!("{} objects of kind {what} exist, and no more can; free some first", self.slots.len());
        MpiError::new(Class::OTHER, text)
    }

    /// Returns the object of a handle; `None` if there is none.
    #[inline]
    pub fn find(&self, handle: H) -> Option<&T> {
        match locate(handle)? {
            Where::Predefined(index) => self.predefined.get(index)?.as_ref(),
            Where::Slot(index, generation) => {
                let Some(slot) = self.slots.get(index) else { return self.find(stand_in(handle)?) };
                if slot.generation == generation { slot.value.as_ref() } else { None }
            }
        }
    }

    /// Returns the object of a handle; `None` if there is none.
    #[inline]
    pub fn find_mut(&mut self, handle: H) -> Option<&mut T> {
        match locate(handle)? {
            Where::Predefined(index) => self.predefined.get_mut(index)?.as_mut(),
            Where::Slot(index, _) if index >= self.slots.len() => self.find_mut(stand_in(handle)?),
            Where::Slot(index, generation) => {
                let slot = self.slots.get_mut(index)?;
                if slot.generation == generation { slot.value.as_mut() } else { None }
            }
        }
    }

    /// Returns the object of a handle.
    ///
    /// # Errors
    /// If it names nothing, with the class that MPI has for this kind.
    #[inline]
    pub fn get(&self, handle: H) -> Result<&T> {
        self.find(handle).ok_or_else(|| invalid(handle))
    }

    /// Returns the object of a handle.
    ///
    /// # Errors
    /// As [`Table::get`].
    #[inline]
    pub fn get_mut(&mut self, handle: H) -> Result<&mut T> {
        self.find_mut(handle).ok_or_else(|| invalid(handle))
    }

    /// Removes an object that was made at run time.
    ///
    /// # Errors
    /// As [`Table::get`], and for predefined objects.
    #[inline]
    pub fn remove(&mut self, handle: H) -> Result<T> {
        let value = match locate(handle) {
            Some(Where::Slot(index, generation)) => self
                .slots
                .get_mut(index)
                .filter(|slot| slot.generation == generation)
                .and_then(|slot| Some((index, slot.value.take()?))),
            _ => None,
        };
        let Some((index, value)) = value else { return Err(invalid(handle)) };
        self.free.push_back(index as u32);
        self.live -= 1;
        Ok(value)
    }

    /// Returns the number of objects that were made at run time.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Returns true if no object was made at run time.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Iterates over the objects that were made at run time.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(|slot| slot.value.as_mut())
    }

    /// Iterates over the objects that were made at run time, with their handles.
    pub fn iter(&self) -> impl Iterator<Item = (H, &T)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| {
            let generation = u32::from(slot.generation);
            let raw = DYNAMIC | H::KIND << KIND_SHIFT | generation << GENERATION_SHIFT | index as u32;
            Some((H::from_raw(raw), slot.value.as_ref()?))
        })
    }
}

/// The place of an object in its table.
enum Where {
    Predefined(usize),
    /// Index and generation.
    Slot(usize, u8),
}

/// Returns the place that a handle names; `None` if it is of another kind or null.
#[inline]
fn locate<H: Handle>(handle: H) -> Option<Where> {
    let raw = handle.raw();
    let kind = H::KIND << KIND_SHIFT;
    if raw & !((1 << KIND_SHIFT) - 1) == DYNAMIC | kind {
        let generation = (raw >> GENERATION_SHIFT) as u8 % GENERATIONS;
        return Some(Where::Slot((raw & INDEX) as usize, generation));
    }
    let predefined = raw & !((1 << KIND_SHIFT) - 1) == PREDEFINED | kind;
    predefined.then_some(Where::Predefined((raw & ((1 << KIND_SHIFT) - 1)) as usize))
}

/// Returns the handle that one of no table stands for in this thread.
#[cold]
fn stand_in<H: Handle>(handle: H) -> Option<H> {
    let own = if H::KIND == Comm::KIND { stand_in::own(handle.raw())? } else { return None };
    Some(H::from_raw(own))
}

/// Returns the error of a handle that names no object, with the reason.
#[cold]
pub fn invalid<H: Handle>(handle: H) -> Box<MpiError> {
    let raw = handle.raw();
    let what = KINDS[H::KIND as usize];
    let kind = raw >> KIND_SHIFT & 0xf;
    let text = if raw == H::KIND << KIND_SHIFT {
        format!("the {what} is {}; give one that exists", H::NULL_NAME)
    } else if kind != H::KIND || raw & SORT == 0 || raw & SORT == SORT {
        match KINDS.get(kind as usize).filter(|_| kind != 0 && raw & SORT != SORT) {
            Some(other) if kind != H::KIND => {
                format!("the handle {raw:#010x} is that of a {other}; a {what} is needed")
            }
            _ => format!("{raw:#010x} is no handle; a {what} is needed"),
        }
    } else if raw & SORT == PREDEFINED {
        format!(
            "{raw:#010x} is none of the predefined objects, or one that this call does not take; give another {what}"
        )
    } else if H::KIND == Comm::KIND && raw & stand_in::BIT != 0 {
        format!(
            "this thread has not started the communicator of threads {raw:#010x} (MPIX_Threadcomm_start), or that \
             was freed"
        )
    } else {
        format!("the {what} {raw:#010x} does not exist: it was freed, or the variable was never set")
    };
    MpiError::new(H::CLASS, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_have_mpichs_layout() {
        assert_eq!((Comm::NULL.0, Comm::WORLD.0, Comm::SELF.0), (0x0400_0000, 0x4400_0000, 0x4400_0001));
        assert_eq!(
            (Group::NULL.0, Group::EMPTY.0, Datatype::NULL.0),
            (0x0800_0000, 0x4800_0000, 0x0c00_0000)
        );
        assert_eq!((Errhandler::ARE_FATAL.0, Errhandler::RETURN.0), (0x5400_0000, 0x5400_0001));
        assert_eq!((Errhandler::ABORT.0, Errhandler::NULL.0), (0x5400_0003, 0x1400_0000));
        assert_eq!((Info::ENV.0, Info::NULL.0, Op::NULL.0), (0x5c00_0001, 0x1c00_0000, 0x1800_0000));
        assert_eq!(
            (Request::NULL.0, Message::NULL.0, Message::NO_PROC.0),
            (0x2c00_0000, 0x2c00_0000, 0x6c00_0000)
        );
        assert_eq!((Win::NULL.0, Session::NULL.0, Keyval::NULL.0), (0x2000_0000, 0x3800_0000, 0x2400_0000));
        let mut table = Table::<Comm, i32>::new();
        assert_eq!(table.insert(1).map(|c| c.0), Ok(0x8400_0000));
        assert_eq!(table.insert(2).map(|c| c.0), Ok(0x8400_0001));
    }

    #[test]
    fn a_stale_handle_names_nothing_while_its_slot_is_used_again() {
        let mut table = Table::<Group, usize>::new();
        let mut stale = Vec::new();
        for i in 0..usize::from(GENERATIONS) - 1 {
            let handle = table.insert(i).expect("room");
            assert_eq!(table.get(handle), Ok(&i));
            assert_eq!(table.remove(handle), Ok(i));
            stale.push(handle);
        }
        let last = table.insert(99).expect("room");
        assert_eq!((table.get(last), table.len()), (Ok(&99), 1));
        for handle in stale {
            let error = table.get(handle).expect_err("a stale handle");
            assert_eq!(error.class, Class::GROUP);
            assert!(error.text.contains("was freed"), "{}", error.text);
            assert!(table.remove(handle).is_err());
        }
    }

    #[test]
    fn the_slot_that_was_freed_first_is_used_first() {
        let mut table = Table::<Info, u8>::new();
        let all: Vec<Info> = (0..3).map(|i| table.insert(i).expect("room")).collect();
        for handle in [all[1], all[0], all[2]] {
            table.remove(handle).expect("it exists");
        }
        let again: Vec<u32> = (0..3).map(|i| table.insert(i).expect("room").0 & INDEX).collect();
        assert_eq!(again, [1, 0, 2]);
    }

    #[test]
    fn errors_say_what_the_handle_is() {
        let table = Table::<Comm, u8>::with_predefined([Some(1), None]);
        assert_eq!(table.get(Comm::WORLD), Ok(&1));
        let text = |raw| table.get(Comm(raw)).expect_err("no communicator").text;
        assert!(text(0x0400_0000).contains("MPI_COMM_NULL"));
        assert!(text(0x4c00_0405).contains("that of a datatype; a communicator is needed"));
        assert!(text(0x4400_0001).contains("none of the predefined"));
        assert!(text(0x8400_0007).contains("was never set"));
        assert!(text(7).contains("is no handle"), "{}", text(7));
        assert!(text(u32::MAX).contains("is no handle"), "{}", text(u32::MAX));
    }

    #[test]
    fn a_full_table_says_so() {
        let mut table = Table::<Request, ()>::new();
        for _ in 0..=INDEX {
            table.insert(()).expect("room");
        }
        let error = table.insert(()).expect_err("full");
        assert_eq!(error.class, Class::OTHER);
        assert!(error.text.contains("1048576 objects of kind request"), "{}", error.text);
        table.remove(Request(0xac00_0005)).expect("it exists");
        assert_eq!(table.insert(()), Ok(Request(0xac10_0005)));
        assert_eq!(table.iter().count(), 1 << GENERATION_SHIFT);
    }
}
