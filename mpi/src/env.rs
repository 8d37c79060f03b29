//! Time, the processor's name, and versions.

use std::sync::OnceLock;
use std::time::Instant;

use netmod_core::card::NodeSection;

use crate::error::{Class, MpiError, Result};
use crate::handle::Info;
use crate::instance::Mpi;

/// Returns the name and version of this library, with the version of the standard and the ABI.
pub fn library_version((major, minor): (i32, i32), abi: &str) -> String {
    format!("netmod-mpi {} (MPI {major}.{minor}, {abi})", env!("CARGO_PKG_VERSION"))
}

/// Returns the seconds since a fixed time of this process (`MPI_Wtime`).
pub fn wtime() -> f64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_secs_f64()
}

/// Returns the resolution of [`wtime`] in seconds (`MPI_Wtick`).
pub fn wtick() -> f64 {
    1e-9
}

impl Mpi {
    /// Returns the name of the host (`MPI_Get_processor_name`).
    ///
    /// # Errors
    /// If the system does not tell.
    pub fn get_processor_name(&self) -> Result<String> {
        let node = NodeSection::of_this_process();
        node.map(|node| node.hostname).map_err(|e| MpiError::new(Class::OTHER, e.to_string()))
    }

    /// Returns new memory that other processes of the node can open (`MPI_Alloc_mem`); `None` if
    /// there are none, or no such memory is to be had.
    pub fn allocate_shared(&self, len: usize, alignment: usize) -> Option<*mut u8> {
        let is_shared = self.with(|s| Ok(s.dev.shares_memory())).unwrap_or(false);
        if is_shared { self.anytime().allocated().allocate(len, alignment) } else { None }
    }

    /// Returns the alignment that an info wants of memory (`mpi_minimum_memory_alignment`); 1 if it
    /// has no such hint, or one that is no power of two.
    ///
    /// # Errors
    /// A bad handle.
    pub fn wanted_alignment(&self, info: Info) -> Result<usize> {
        let anytime = self.anytime();
        let infos = anytime.infos();
        let wanted = infos.pairs(info)?.iter().find(|(key, _)| key == "mpi_minimum_memory_alignment");
        let wanted = wanted.and_then(|(_, value)| value.trim().parse::<usize>().ok());
        Ok(wanted.filter(|bytes| bytes.is_power_of_two()).unwrap_or(1))
    }

    /// Takes memory back that [`Mpi::allocate_shared`] has given. Returns false if it is other
    /// memory.
    pub fn free_shared(&self, address: usize) -> bool {
        self.anytime().allocated().free(address)
    }
}
