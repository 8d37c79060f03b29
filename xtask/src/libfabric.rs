//! A second libfabric for the tests, of another version than the system's.
//!
//! It is part of Intel's MPI runtime: libfabric 2.4 with its providers, in the wheel `impi-rt` of
//! PyPI. libfabric has a BSD licence; the wheel has the Intel Simplified Software License, which
//! permits use without change. It is fetched when tests run and kept in the target folder. The
//! project contains nothing of it and passes nothing on.

use std::path::PathBuf;

use crate::command::root;
use crate::options::Options;
use crate::wheel::Wheel;

/// The variable that names the library to the tests.
pub(crate) const VARIABLE: &str = "NETMOD_TEST_OFI_LIBRARY";

/// The package with Intel MPI and its version, and the SHA-256 of its wheel.
pub(crate) const INTEL: (&str, &str) =
    ("impi-rt==2021.18.1", "51ca89c1e64e60d86a7d40a7d6124312ba63aafc03fb6aacc140b3c66371d814");

/// The wheel and its parts that are used. This build of libfabric offers only the abilities of the
/// provider of the highest priority, unless that one finds no hardware, as psm2 does. The
/// benchmarks are programs for every library with the ABI of MPICH, and tests of ours.
const WHEEL: Wheel = Wheel {
    package: INTEL.0,
    sha256: INTEL.1,
    parts: "lib/libfabric.so.1 lib/libtcp-fi.so lib/libshm-fi.so lib/librxm-fi.so lib/libpsmx2-fi.so \
            bin/IMB-MPI1 bin/IMB-P2P bin/IMB-MT bin/IMB-NBC",
};

/// Returns the library: from the environment, from an earlier run, or a new one.
///
/// # Errors
/// If there is none, as what is not tested without it.
pub(crate) fn second(options: Options) -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os(VARIABLE).filter(|p| !p.is_empty()) {
        return Ok(path.into());
    }
    let folder = root().join("target").join("libfabric-2");
    let got = WHEEL.get(options, &folder);
    got.map(|()| folder.join("libfabric.so.1"))
        .map_err(|why| format!("what depends on libfabric's version ({why}; {VARIABLE} can name it)"))
}
