//! Infos.

use crate::error::Result;
use crate::handle::Info;
use crate::info::Infos;
use crate::instance::Mpi;

impl Mpi {
    /// Runs `f` on the infos of this process.
    ///
    /// # Errors
    /// Those of `f`; after finalize.
    pub fn with_infos<T>(&self, f: impl FnOnce(&mut Infos) -> Result<T>) -> Result<T> {
        self.with(|s| f(&mut s.objects.infos))
    }

    /// Takes infos over that were made before this; their handles stay.
    ///
    /// # Errors
    /// After finalize.
    pub fn adopt_infos(&self, infos: Infos) -> Result<()> {
        self.with_infos(|own| {
            *own = infos;
            Ok(())
        })
    }

    /// Creates an empty info.
    ///
    /// # Errors
    /// If there are too many.
    pub fn info_create(&self) -> Result<Info> {
        self.with(|s| s.objects.infos.create())
    }

    /// Creates an info that tells how this process was started.
    ///
    /// # Errors
    /// If there are too many.
    pub fn info_create_env(&self) -> Result<Info> {
        self.with(|s| s.objects.infos.create_env())
    }

    /// Creates a copy of an info.
    ///
    /// # Errors
    /// A bad handle.
    pub fn info_dup(&self, info: Info) -> Result<Info> {
        self.with(|s| s.objects.infos.dup(info))
    }

    /// Frees an info and sets the handle to null.
    ///
    /// # Errors
    /// A bad or predefined handle.
    pub fn info_free(&self, info: &mut Info) -> Result<()> {
        self.with(|s| s.objects.infos.free(info))
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// A bad handle, key or value.
    pub fn info_set(&self, info: Info, key: &str, value: &str) -> Result<()> {
        self.with(|s| s.objects.infos.set(info, key, value))
    }

    /// Removes a key.
    ///
    /// # Errors
    /// A bad handle; a key that the info has not got.
    pub fn info_delete(&self, info: Info, key: &str) -> Result<()> {
        self.with(|s| s.objects.infos.delete(info, key))
    }

    /// Returns the value of a key, if the info has it.
    ///
    /// # Errors
    /// A bad handle or key.
    pub fn info_get(&self, info: Info, key: &str) -> Result<Option<String>> {
        self.with(|s| Ok(s.objects.infos.get(info, key)?.map(str::to_owned)))
    }

    /// Returns the number of keys.
    ///
    /// # Errors
    /// A bad handle.
    pub fn info_get_nkeys(&self, info: Info) -> Result<i32> {
        self.with(|s| s.objects.infos.get_nkeys(info))
    }

    /// Returns the `n`-th key.
    ///
    /// # Errors
    /// A bad handle or number.
    pub fn info_get_nthkey(&self, info: Info, n: i32) -> Result<String> {
        self.with(|s| Ok(s.objects.infos.get_nthkey(info, n)?.to_owned()))
    }
}
