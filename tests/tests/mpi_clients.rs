//! Programs of others on the MPI library, unmodified, as their packages have them. Short runs of
//! them under each launcher.

use std::path::{Path, PathBuf};
use std::process::Command;

use netmod_tests::jobs::launch::{JOB_LIMIT, Outcome, find_program, launcher_or_skip, run, run_within, skip};
use netmod_tests::jobs::mpi::{Prefix, Starter, installed, lammps, mpi4py, wheel_program};

const JOB: &str = env!("CARGO_BIN_EXE_netmod-job");
/// Folder of Debian's libraries.
const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";
/// Launchers of tests that look closely.
const STARTERS: [Starter; 2] = [Starter::Nmrun, Starter::Hydra];

fn prefix() -> &'static Prefix {
    installed(JOB)
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs")
}

/// A job of somebody's program that needs this library.
struct Client {
    program: PathBuf,
    arguments: Vec<String>,
    ranks: u32,
    environment: Vec<(&'static str, PathBuf)>,
    folder: PathBuf,
    /// Text in the output of a run without errors.
    says: &'static str,
}

impl Client {
    fn new(program: PathBuf, ranks: u32, arguments: &str, says: &'static str) -> Client {
        let arguments = arguments.split_whitespace().map(str::to_owned).collect();
        Client { program, arguments, ranks, environment: Vec::new(), folder: std::env::temp_dir(), says }
    }

    /// Runs it; none if the test is skipped, for lack of the launcher.
    fn run(&self, test: &str, starter: Starter) -> Option<Outcome> {
        let mut job = prefix().job(test, starter, self.ranks, &self.program)?;
        job.args(&self.arguments).envs(self.environment.iter().cloned()).current_dir(&self.folder);
        let done = run(&mut job);
        assert!(done.status.success() && done.output.contains(self.says), "{}: {done}", self.says);
        Some(done)
    }
}

/// Messages of 5 bytes on, whose bytes are checked, and few of each.
fn netpipe_of(test: &str, longest: u32) -> Option<Client> {
    let Some(program) = find_program("NPmpich2") else {
        skip(&format!("SKIPPED: {test}: NPmpich2 not installed (apt-get install netpipe-mpich2)"));
        return None;
    };
    let arguments = format!("-i -n 3 -u {longest} -o /dev/null");
    Some(Client::new(program, 2, &arguments, "Integrity check passed"))
}

fn imb_of(test: &str, name: &str, ranks: u32, arguments: &str) -> Option<Client> {
    let program = wheel_program(test, name)?;
    Some(Client::new(program, ranks, arguments, "All processes entering MPI_Finalize"))
}

fn python_of(test: &str, bench: &str, says: &'static str) -> Option<Client> {
    let (python, folder) = mpi4py(test)?;
    let mut client = Client::new(python, 3, &format!("-m mpi4py.bench {bench}"), says);
    client.environment = vec![("PYTHONPATH", folder), ("MPI4PY_LIBMPI", prefix().file("lib/libmpi.so.12"))];
    Some(client)
}

fn lammps_of(test: &str, ranks: u32) -> Option<Client> {
    let program = lammps(test)?;
    let arguments = format!("-log none -in {}", sources().join("melt.lammps").display());
    Some(Client::new(program, ranks, &arguments, "Total wall time"))
}

fn scalapack_of(test: &str, name: &str, ranks: u32) -> Option<Client> {
    let folder = Path::new(LIBRARIES).join("scalapack/mpich-tests");
    if !folder.join(name).is_file() {
        skip(&format!("SKIPPED: {test}: {name} not there (apt-get install scalapack-mpi-test)"));
        return None;
    }
    let mut client = Client::new(folder.join(name), ranks, "", "END OF TESTS");
    // Their data lie beside them.
    client.folder = folder;
    Some(client)
}

#[test]
fn netpipe() {
    let Some(client) = netpipe_of("netpipe", 65536) else { return };
    for starter in STARTERS {
        let Some(done) = client.run("netpipe", starter) else { continue };
        assert!(done.output.contains("49153 bytes"), "{done}");
        assert_eq!(done.output.matches("Integrity check passed").count(), 28, "{done}");
    }
}

/// Runs benchmarks of IMB and checks that each of them has begun.
fn imb(test: &str, name: &str, starter: Starter, ranks: u32, benchmarks: &str) {
    let arguments = format!("{benchmarks} -iter 3 -msglog 0:14 -npmin {ranks}");
    let Some(done) = imb_of(test, name, ranks, &arguments).and_then(|c| c.run(test, starter)) else { return };
    for benchmark in benchmarks.split_whitespace() {
        assert!(done.output.contains(&format!("# Benchmarking {benchmark}")), "{benchmark}: {done}");
    }
}

#[test]
fn imb_mpi1() {
    imb("imb_mpi1", "IMB-MPI1", Starter::Nmrun, 2, "PingPong Sendrecv Allreduce");
    imb("imb_mpi1", "IMB-MPI1", Starter::Nmrun, 3, "Bcast Allgather Alltoall Reduce Reduce_scatter Barrier");
    imb("imb_mpi1", "IMB-MPI1", Starter::Hydra, 2, "PingPong Allreduce");
}

#[test]
fn imb_nbc() {
    imb("imb_nbc", "IMB-NBC", Starter::Nmrun, 3, "Ibcast Iallgather Ialltoallv Ireduce_scatter Ibarrier");
}

#[test]
fn imb_p2p() {
    let arguments = "PingPong PingPing Unirandom Birandom SendRecv_Replace -iter 3,10 -msglog 0:12";
    let Some(client) = imb_of("imb_p2p", "IMB-P2P", 2, arguments) else { return };
    let Some(done) = client.run("imb_p2p", Starter::Nmrun) else { return };
    assert_eq!(done.output.matches("# Benchmarking ").count(), 5, "{done}");
}

/// Several threads of each rank, whose data are checked.
#[test]
fn imb_mt() {
    let runtime = Path::new(LIBRARIES).join("libomp.so.5");
    if !runtime.is_file() {
        return skip("SKIPPED: imb_mt: libomp.so.5 not installed (apt-get install libomp5-14)");
    }
    let arguments = "-thread_level multiple -check 1 -warmup 1 -repeat 3 -count 1,1024,65536";
    let Some(mut client) = imb_of("imb_mt", "IMB-MT", 2, arguments) else { return };
    // LLVM's runtime is Intel's under another name.
    let folder = prefix().file("openmp");
    std::fs::create_dir_all(&folder).expect("a folder");
    let link = folder.join("libiomp5.so");
    // It is there from an earlier run.
    let _ = std::os::unix::fs::symlink(runtime, &link);
    assert!(link.is_file(), "{}", link.display());
    let search = format!("{}:{}", prefix().file("lib").display(), folder.display());
    client.says = "# Benchmarking AllReduceMT";
    client.environment = vec![("LD_LIBRARY_PATH", search.into()), ("OMP_NUM_THREADS", "2".into())];
    let Some(done) = client.run("imb_mt", Starter::Nmrun) else { return };
    for benchmark in ["PingPongMT", "ExchangeMT", "BiBandMT", "BcastMT", "ReduceMT", "BarrierMT"] {
        assert!(done.output.contains(&format!("# Benchmarking {benchmark}")), "{benchmark}: {done}");
    }
    assert!(!done.output.to_lowercase().contains("error"), "{done}");
}

#[test]
fn mpi_for_python() {
    let Some((python, folder)) = mpi4py("mpi_for_python") else { return };
    let mut first = Command::new(python);
    first.args(["-c", "from mpi4py import MPI; print(MPI.Get_library_version())"]);
    first.env("PYTHONPATH", folder).env("MPI4PY_LIBMPI", prefix().file("lib/libmpi.so.12"));
    let done = run_within(&mut first, JOB_LIMIT);
    assert!(done.status.success() && done.output.contains("netmod"), "{done}");
    for starter in STARTERS {
        for (bench, says) in [("helloworld", "Hello, World! I am process"), ("ringtest", "time for")] {
            let Some(client) = python_of("mpi_for_python", bench, says) else { continue };
            client.run("mpi_for_python", starter);
        }
    }
}

/// Returns the rows of LAMMPS's table.
fn rows(done: &Outcome) -> Vec<Vec<String>> {
    let table = done.output.lines().skip_while(|line| !line.trim_start().starts_with("Step "));
    let rows = table.take_while(|line| !line.starts_with("Loop time"));
    rows.map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

#[test]
fn lammps_computes_what_it_does_with_mpich() {
    let test = "lammps_computes_what_it_does_with_mpich";
    let Some(client) = lammps_of(test, 2) else { return };
    let Some(hydra) = launcher_or_skip(test, "mpiexec.hydra", "mpich") else { return };
    let library = Path::new(LIBRARIES).join("libmpich.so.12");
    if !library.is_file() {
        return skip(&format!("SKIPPED: {test}: MPICH not installed (apt-get install libmpich12)"));
    }
    // MPICH under the name that the program asks for.
    let folder = prefix().file("mpich");
    std::fs::create_dir_all(&folder).expect("a folder");
    // It is there from an earlier run.
    let _ = std::os::unix::fs::symlink(library, folder.join("libmpi.so.12"));
    let mut reference = Command::new(hydra);
    reference.args(["-n", "2"]).arg(&client.program).args(&client.arguments);
    let done = run(reference.env("LD_LIBRARY_PATH", &folder));
    let wanted = rows(&done);
    assert_eq!(wanted.len(), 1 + 11, "{done}");
    for starter in STARTERS {
        let Some(done) = client.run(test, starter) else { continue };
        assert_eq!(rows(&done), wanted, "{starter:?}");
    }
    let Some(done) = lammps_of(test, 8).and_then(|client| client.run(test, Starter::Nmrun)) else { return };
    let found = rows(&done);
    assert_eq!(found.len(), wanted.len(), "{done}");
    for (row, wanted) in found.iter().zip(&wanted).skip(1) {
        assert_eq!(row.len(), wanted.len(), "{row:?}");
        for (number, wanted) in row.iter().zip(wanted) {
            let [number, wanted] = [number, wanted].map(|n| n.parse::<f64>().expect("a number"));
            assert!((number - wanted).abs() <= 1e-6 * wanted.abs(), "{number}, not {wanted}");
        }
    }
}

#[test]
fn scalapack_solves_and_checks() {
    let test = "scalapack_solves_and_checks";
    for name in ["xdinv", "xddblu", "xdptllt"] {
        let Some(done) = scalapack_of(test, name, 4).and_then(|c| c.run(test, Starter::Nmrun)) else {
            continue;
        };
        assert!(done.output.contains("tests completed and passed residual checks"), "{done}");
        assert!(done.output.contains("    0 tests completed and failed residual checks"), "{done}");
    }
}

#[test]
fn the_old_bindings_of_cxx() {
    let test = "the_old_bindings_of_cxx";
    let Some(compiler) = find_program("mpicxx.mpich") else {
        return skip(&format!("SKIPPED: {test}: mpicxx.mpich not installed (apt-get install libmpich-dev)"));
    };
    let program = prefix().file("programs/bindings");
    std::fs::create_dir_all(prefix().file("programs")).expect("a folder");
    let mut compile = Command::new(compiler);
    compile.args(["-Wall", "-Wextra", "-o"]).arg(&program).arg(sources().join("bindings.cc"));
    let done = run_within(&mut compile, JOB_LIMIT);
    assert!(done.status.success(), "{done}");
    for starter in STARTERS {
        let Some(mut job) = prefix().job(test, starter, 3, &program) else { continue };
        run(&mut job).expect_ok("bindings", 3);
    }
}

/// EZTrace stands between the program and the library, whose functions it calls by their other
/// names.
#[test]
fn a_tool_traces_the_calls() {
    let test = "a_tool_traces_the_calls";
    let Some(tool) = launcher_or_skip(test, "eztrace", "eztrace") else { return };
    let program = prefix().compiled("ring.c");
    let folder = prefix().file("trace");
    // A trace of an earlier run would be in the way.
    let _ = std::fs::remove_dir_all(&folder);
    let mut job = prefix().job(test, Starter::Nmrun, 2, &tool).expect("our launcher");
    job.args(["-t", "mpich", "-o"]).arg(&folder).arg(program);
    run(&mut job).expect_ok("ring", 2);
    let definitions = std::fs::read(folder.join("ring-c_trace/eztrace_log.def")).expect("a trace");
    let text = String::from_utf8_lossy(&definitions);
    for name in ["MPI_Irecv", "MPI_Isend", "MPI_Wait", "MPI_Ssend", "MPI_Recv", "MPI_Barrier", "P#1T#0"] {
        assert!(text.contains(name), "{name}");
    }
}

/// A short run of each client.
fn each_client(test: &str, starter: Starter) {
    let clients = [
        netpipe_of(test, 1024),
        imb_of(test, "IMB-MPI1", 2, "PingPong Allreduce -iter 3 -msglog 0:10 -npmin 2"),
        python_of(test, "ringtest", "time for"),
        lammps_of(test, 2),
        scalapack_of(test, "xddblu", 4),
    ];
    for client in clients.into_iter().flatten() {
        client.run(test, starter);
    }
}

#[test]
fn each_client_under_hydra() {
    each_client("each_client_under_hydra", Starter::Hydra);
}

#[test]
fn each_client_under_slurm_by_pmi2() {
    each_client("each_client_under_slurm_by_pmi2", Starter::Slurm("pmi2"));
}

#[test]
fn each_client_under_slurm_by_pmix() {
    each_client("each_client_under_slurm_by_pmix", Starter::Slurm("pmix"));
}

#[test]
fn each_client_under_open_mpi() {
    each_client("each_client_under_open_mpi", Starter::OpenMpi);
}
