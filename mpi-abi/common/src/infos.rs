//! Infos, which may be used before the library is initialized and after its end.

use core::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use netmod_mpi::Result;
use netmod_mpi::handle::Info;
use netmod_mpi::info::Infos;

use crate::calls::{self, CODES, Object};

/// The infos of a process without the library.
static OUTSIDE: Mutex<Option<Infos>> = Mutex::new(None);

/// The infos of this process: those of the library while it runs.
#[derive(Debug)]
pub struct AllInfos;

impl AllInfos {
    fn with<T>(&self, f: impl FnOnce(&mut Infos) -> Result<T>) -> Result<T> {
        match calls::library() {
            Some(mpi) => mpi.with_infos(f),
            None => f(OUTSIDE.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default()),
        }
    }

    pub fn info_create(&self) -> Result<Info> {
        self.with(Infos::create)
    }

    pub fn info_create_env(&self) -> Result<Info> {
        self.with(Infos::create_env)
    }

    pub fn info_dup(&self, info: Info) -> Result<Info> {
        self.with(|infos| infos.dup(info))
    }

    pub fn info_free(&self, info: &mut Info) -> Result<()> {
        self.with(|infos| infos.free(info))
    }

    pub fn info_set(&self, info: Info, key: &str, value: &str) -> Result<()> {
        self.with(|infos| infos.set(info, key, value))
    }

    pub fn info_delete(&self, info: Info, key: &str) -> Result<()> {
        self.with(|infos| infos.delete(info, key))
    }

    pub fn info_get(&self, info: Info, key: &str) -> Result<Option<String>> {
        self.with(|infos| Ok(infos.get(info, key)?.map(str::to_owned)))
    }

    pub fn info_get_nkeys(&self, info: Info) -> Result<i32> {
        self.with(|infos| infos.get_nkeys(info))
    }

    pub fn info_get_nthkey(&self, info: Info, n: i32) -> Result<String> {
        self.with(|infos| Ok(infos.get_nthkey(info, n)?.to_owned()))
    }
}

/// Runs a function of infos, and returns its error code. Without the library there is no error
/// handler.
pub fn run(name: &str, function: impl FnOnce(&AllInfos) -> Result<()>) -> c_int {
    match (function(&AllInfos), calls::library()) {
        (Ok(()), _) => 0,
        (Err(error), Some(mpi)) => calls::failed(mpi, name, Object::None, &error),
        (Err(error), None) => CODES.code(&error),
    }
}

/// Returns the infos that were made before the library was initialized, which are its own now.
pub(crate) fn take() -> Option<Infos> {
    OUTSIDE.lock().unwrap_or_else(PoisonError::into_inner).take()
}
