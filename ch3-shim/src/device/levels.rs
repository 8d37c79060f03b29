//! Thread levels as types: who may use a device is checked by the compiler.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use forks::Local;

use super::{Builder, Vci};
use crate::error::Result;

pub(super) mod sealed {
    use super::{Builder, Result};

    /// A level's way of holding the process's engine.
    pub trait Sealed {
        type Store;
        fn build(builder: Builder) -> Result<Self::Store>;
    }

    /// Levels at which a device is used through `&mut`.
    pub trait Exclusive: Sealed {
        fn vci(store: &Self::Store) -> &super::Vci;
        fn vci_mut(store: &mut Self::Store) -> &mut super::Vci;
    }
}

/// A thread level: which threads of the process may use a [`Device`].
pub trait Level: sealed::Sealed {
    /// Its name in MPI.
    const NAME: &'static str;
}

/// A level at which one thread at a time uses the device, through `&mut`: [`Funneled`] and
/// [`Serialized`].
pub trait Exclusive: Level + sealed::Exclusive {}

/// Only the thread that made the device uses it (`MPI_THREAD_FUNNELED`, and `MPI_THREAD_SINGLE`).
///
/// ```
/// use ch3_shim::{Device, Funneled};
/// let mut dev = Device::init_thread::<Funneled>()?;
/// dev.progress()?;
/// dev.finalize()?;
/// # Ok::<(), ch3_shim::Error>(())
/// ```
///
/// It cannot be moved to another thread:
///
/// ```compile_fail,E0277
/// use ch3_shim::{Device, Funneled};
/// # fn f(dev: Device<Funneled>) {
/// std::thread::spawn(move || dev.rank());
/// # }
/// ```
///
/// nor lent to one:
///
/// ```compile_fail,E0277
/// use ch3_shim::{Device, Funneled};
/// # fn f(dev: &mut Device<Funneled>) {
/// std::thread::scope(|s| {
///     s.spawn(|| dev.progress());
/// });
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Funneled {}

/// One thread at a time uses the device, whichever (`MPI_THREAD_SERIALIZED`): what a [`Device`] is
/// if nothing else is said.
///
/// ```
/// use ch3_shim::Device;
/// let dev = Device::init()?;
/// let other = std::thread::spawn(move || {
///     let mut dev = dev;
///     dev.progress().map(|_| dev)
/// });
/// other.join().expect("a thread that does not panic")?.finalize()?;
/// # Ok::<(), ch3_shim::Error>(())
/// ```
///
/// It cannot be shared:
///
/// ```compile_fail,E0277
/// use ch3_shim::{Device, Serialized};
/// # fn f(dev: &Device<Serialized>) {
/// std::thread::scope(|s| {
///     s.spawn(|| dev.rank());
/// });
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Serialized {}

/// One engine, and in `M` which threads may have it.
#[derive(Debug)]
pub struct Held<M> {
    vci: Local<Vci>,
    _threads: PhantomData<M>,
}

macro_rules! exclusive {
    ($level:ty, $marker:ty, $name:literal) => {
        impl sealed::Sealed for $level {
            type Store = Held<$marker>;
            fn build(builder: Builder) -> Result<Held<$marker>> {
                Ok(Held { vci: Local::new(builder.build_vci()?), _threads: PhantomData })
            }
        }
        impl sealed::Exclusive for $level {
            #[inline]
            fn vci(store: &Held<$marker>) -> &Vci {
                &store.vci
            }
            #[inline]
            fn vci_mut(store: &mut Held<$marker>) -> &mut Vci {
                &mut store.vci
            }
        }
        impl Level for $level {
            const NAME: &'static str = $name;
        }
        impl Exclusive for $level {}
    };
}

// A raw pointer is neither Send nor Sync, a cell is Send.
exclusive!(Funneled, *const (), "MPI_THREAD_FUNNELED");
exclusive!(Serialized, Cell<()>, "MPI_THREAD_SERIALIZED");

/// One MPI process: its requests, queues and ways to the other processes of the job.
///
/// `L` says which threads may use it: [`Funneled`], [`Serialized`] or
/// [`Multiple`](super::Multiple). At the first two levels a device is a [`Vci`], whose methods are
/// its own.
pub struct Device<L: Level = Serialized> {
    pub(super) store: L::Store,
}

impl<L: Level> std::fmt::Debug for Device<L>
where
    L::Store: std::fmt::Debug,
{
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device").field("level", &L::NAME).field("store", &self.store).finish()
    }
}

impl Device {
    /// Joins the job that the environment describes, with the netmods that `NETMOD` allows, at
    /// level [`Serialized`] (`MPI_Init`).
    ///
    /// # Errors
    /// A configuration variable with a bad value, a launcher that cannot be spoken to, no network
    /// to listen on.
    pub fn init() -> Result<Device> {
        Builder::from_env()?.build()
    }

    /// Works like [`Device::init`], at the given level (`MPI_Init_thread`).
    ///
    /// # Errors
    /// As [`Device::init`].
    pub fn init_thread<L: Level>() -> Result<Device<L>> {
        Builder::from_env()?.build_thread()
    }
}

impl Builder {
    /// Joins the job: opens the netmods, publishes the card, waits for all processes.
    ///
    /// # Errors
    /// No netmod could be opened; the process manager failed.
    pub fn build(self) -> Result<Device> {
        self.build_thread()
    }

    /// Works like [`Builder::build`], at the given level.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn build_thread<L: Level>(self) -> Result<Device<L>> {
        Ok(Device { store: L::build(self)? })
    }
}

impl<L: Exclusive> Deref for Device<L> {
    type Target = Vci;

    #[inline]
    fn deref(&self) -> &Vci {
        L::vci(&self.store)
    }
}

impl<L: Exclusive> DerefMut for Device<L> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Vci {
        L::vci_mut(&mut self.store)
    }
}

impl<L: Exclusive> Device<L> {
    /// Leaves the job: waits until all processes want to, closes all connections by agreement, and
    /// leaves nothing behind.
    ///
    /// # Errors
    /// If the process manager fails, a peer does not close its connection in time, or a process has
    /// failed and that was not acknowledged ([`Vci::ack_failures`]); everything local is released
    /// all the same, and it takes a limited time (`NETMOD_CLOSE_TIMEOUT` for each stage, 120 s for
    /// the process manager's answer) however many have failed.
    pub fn finalize(mut self) -> Result<()> {
        self.finalize_in_place()
    }

    /// Ends the whole job with an exit code; under a launcher that kills every process.
    pub fn abort(mut self, code: i32, message: &str) -> ! {
        self.abort_in_place(code, message)
    }
}
