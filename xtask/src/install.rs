//! Programs and libraries that tests need from the system.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::run;
use crate::options::Options;

/// A program or a file of the system: its Debian package, and what is not tested without it.
pub(crate) struct Need {
    pub(crate) program: &'static str,
    package: &'static str,
    without: &'static str,
}

const HYDRA: &str =
    "jobs under Debian's mpiexec.hydra (PMI-1 and PMI-2, by descriptor and by port, two virtual nodes)";
const SLURM: &str = "jobs under Slurm's srun (PMI-1, PMI-2, PMIx, two virtual nodes)";
const OPENMPI: &str = "jobs under Open MPI's mpirun (PMIx)";
const OFI: &str = "the netmod ofi over the system's libfabric";
const VERBS: &str = "what is loaded of libibverbs";
/// Tests that need a device: that of the virtual machine.
pub(crate) const RDMA: &str = "what needs an RDMA device (cargo xtask vm-test)";

const fn need(program: &'static str, package: &'static str, without: &'static str) -> Need {
    Need { program, package, without }
}

/// Tests that need a compiler for another processor.
pub(crate) const AARCH64: &str = "the workspace for aarch64";

/// Needs of all tests, without [`VM`] and [`NEEDS_AARCH64`].
pub(crate) const NEEDS: &[Need] = &[
    need("mpiexec.hydra", "mpich", HYDRA),
    need("mpirun.openmpi", "openmpi-bin", OPENMPI),
    need("libpmix.so.2", "libpmix2", OPENMPI),
    need("srun", "slurm-client", SLURM),
    need("slurmctld", "slurmctld", SLURM),
    need("slurmd", "slurmd", SLURM),
    need("munged", "munge", SLURM),
    need("slurm-wlm/mpi_pmi2.so", "slurm-wlm-basic-plugins", SLURM),
    need("mpicc.mpich", "libmpich-dev", "the comparison with MPICH (cargo xtask peers)"),
    need("libmpich.so.12", "libmpich12", "the exported names of the MPI library against MPICH's"),
    need("NPmpich2", "netpipe-mpich2", "NetPIPE on the MPI library"),
    need("hdf5/mpich/libhdf5.so", "libhdf5-mpich-dev", "parallel HDF5 on the MPI library"),
    need("scalapack/mpich-tests/xdinv", "scalapack-mpi-test", "ScaLAPACK's tests on the MPI library"),
    need("eztrace", "eztrace", "a tool between programs and the MPI library"),
    need("libomp.so.5", "libomp5-14", "IMB-MT on the MPI library"),
    need("nm", "binutils", "the exported names of the MPI library"),
    need("c++", "g++", "programs in C++ on the MPI library"),
    need("gfortran", "gfortran", "programs in Fortran on the MPI library"),
    need("cmake", "cmake", "CMake's search for the MPI library"),
    need("make", "make", "CMake's search for the MPI library"),
    need("pkg-config", "pkg-config", "pkg-config's search for the MPI library"),
    need("mpicc.openmpi", "libopenmpi-dev", "the comparison with Open MPI (cargo xtask peers)"),
    need("libfabric.so.1", "libfabric1", OFI),
    // The link without a version comes with the headers.
    need("libfabric.so", "libfabric-dev", "the layout of libfabric's structures against its headers"),
    need("fi_pingpong", "libfabric-bin", "the comparison with libfabric's own fi_pingpong"),
    need("libibverbs.so.1", "libibverbs1", VERBS),
    need("libibverbs.so", "libibverbs-dev", "the layout of libibverbs's structures against its header"),
    need("cc", "gcc", "the layout of the structures of libfabric and libibverbs against their headers"),
    need("modulecmd", "environment-modules", "the archive's file for environment modules"),
    need("pip3", "python3-pip", "what depends on libfabric's version"),
    // The plugin mpi/pmix loads the library by the name that only this package has.
    need("pmix2/lib/libpmix.so", "libpmix-dev", "jobs under srun --mpi=pmix"),
];

/// Needs of a build for aarch64, and of running it.
pub(crate) const NEEDS_AARCH64: &[Need] = &[
    need("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu", AARCH64),
    need("/usr/aarch64-linux-gnu/lib/libc.so", "libc6-dev-arm64-cross", AARCH64),
    need("qemu-aarch64", "qemu-user", AARCH64),
];

/// Needs of the virtual machine, whose host must be like it.
pub(crate) const VM: &[Need] = if cfg!(all(target_arch = "x86_64", target_os = "linux")) {
    &[
        need("qemu-system-x86_64", "qemu-system-x86", RDMA),
        need("xz", "xz-utils", RDMA),
        need("ip", "iproute2", RDMA),
        need("rdma", "iproute2", RDMA),
        need("ibv_rc_pingpong", "ibverbs-utils", RDMA),
        // The drivers of devices; that of rxe has another name in each version.
        need("libmlx5.so.1", "ibverbs-providers", RDMA),
    ]
} else {
    &[]
};

/// Returns true if a program, or a library or another file by its path, is there. A relative path
/// begins in one of the folders of libraries.
fn is_there(need: &Need) -> bool {
    if !need.program.contains(".so") && !need.program.contains('/') {
        return which(need.program).is_some();
    }
    let below = |dir: &Path| dir.join(need.program).exists();
    let lib = Path::new("/usr/lib");
    let Ok(folders) = std::fs::read_dir(lib) else { return false };
    below(lib) || folders.flatten().any(|folder| below(&folder.path()))
}

/// Returns true if all of them are there.
pub(crate) fn all_there(needs: &[Need]) -> bool {
    needs.iter().all(is_there)
}

/// Returns true if a program is on the path.
pub(crate) fn has(program: &str) -> bool {
    on_path(program).is_some()
}

/// Returns the path of a program; those of administrators are not in everybody's PATH.
pub(crate) fn which(program: &str) -> Option<PathBuf> {
    let of_root = ["/usr/sbin", "/sbin"].into_iter().map(|dir| Path::new(dir).join(program));
    on_path(program).or_else(|| of_root.into_iter().find(|path| path.is_file()))
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|path| path.is_file())
}

pub(crate) fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|o| o.stdout.trim_ascii() == b"0")
}

/// Installs what is missing, if possible. Returns what stays untested, and prints how to change it.
pub(crate) fn install<'a>(
    options: Options,
    needs: impl IntoIterator<Item = &'a Need> + Clone,
) -> Result<Vec<String>, String> {
    let missing = || needs.clone().into_iter().filter(|n| !is_there(n)).collect::<Vec<_>>();
    let mut packages: Vec<&str> = missing().iter().map(|n| n.package).collect();
    packages.dedup();
    if packages.is_empty() {
        return Ok(Vec::new());
    }
    let apt = Path::new("/usr/bin/apt-get").exists();
    if apt && is_root() && !options.no_install {
        eprintln!("xtask: installing {}", packages.join(" "));
        run(Command::new("apt-get").arg("update").arg("-q"))?;
        run(Command::new("apt-get")
            .args(["install", "-y", "-q", "--no-install-recommends"])
            .args(&packages)
            .env("DEBIAN_FRONTEND", "noninteractive"))?;
    } else {
        eprintln!(
            "xtask: for all tests run once:  sudo apt-get install --no-install-recommends {}",
            packages.join(" ")
        );
    }
    Ok(missing().iter().map(|n| format!("{} ({} is not installed)", n.without, n.program)).collect())
}
