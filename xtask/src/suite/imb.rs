//! Intel's MPI benchmarks, as the wheel `impi-rt` has them: each benchmark for itself, briefly.

use std::path::{Path, PathBuf};

use super::judge::Ended;
use super::programs::{self, Run, wrong_status};
use super::report::Outcome;
use super::{Asked, folder};
use crate::libfabric;
use crate::options::Options;

const SUITE: &str = "imb";
/// Seconds for a benchmark.
const LIMIT: u64 = 60;
/// LLVM's runtime of OpenMP, which is Intel's under another name.
const OPENMP: &str = "/usr/lib/x86_64-linux-gnu/libomp.so.5";

/// Benchmarks of IMB-MPI1; the last five run only if they are named.
const MPI1: &str = "PingPong PingPing Sendrecv Exchange Allreduce Reduce Reduce_local Reduce_scatter \
    Reduce_scatter_block Allgather Allgatherv Gather Gatherv Scatter Scatterv Alltoall Alltoallv Bcast \
    Barrier Uniband Biband PingPongSpecificSource PingPongAnySource PingPingAnySource";
/// Benchmarks of IMB-NBC, each of which is there with `_pure` behind its name, too.
const NBC: &str = "Ibcast Iallgather Iallgatherv Igather Igatherv Iscatter Iscatterv Ialltoall Ialltoallv \
    Ireduce Ireduce_scatter Iallreduce Ibarrier";
const P2P: &str = "PingPong PingPing Unirandom Birandom Corandom SendRecv_Replace";
/// Benchmarks of IMB-MT; they check their data.
const MT: &str = "PingPongMT PingPingMT SendRecvMT ExchangeMT UniBandMT BiBandMT BarrierMT BcastMT ReduceMT \
    AllReduceMT";

/// Fetches the programs, and runs the benchmarks that are wanted.
///
/// # Errors
/// If they cannot be fetched; those of [`programs::run`].
pub(crate) fn run(asked: &Asked) -> Result<Vec<Outcome>, String> {
    let library =
        libfabric::second(Options::default()).map_err(|without| format!("not tested: {without}"))?;
    let programs = library.parent().ok_or("the library has no folder")?;
    let openmp = openmp(&folder(SUITE))?;
    let mut runs = Vec::new();
    for ranks in [2, 3] {
        for benchmark in MPI1.split_whitespace() {
            runs.push(benchmarks(programs, "IMB-MPI1", benchmark, ranks));
        }
        for benchmark in NBC.split_whitespace() {
            runs.push(benchmarks(programs, "IMB-NBC", benchmark, ranks));
            runs.push(benchmarks(programs, "IMB-NBC", &format!("{benchmark}_pure"), ranks));
        }
    }
    let p2p = P2P.split_whitespace().map(|benchmark| (benchmark, 2));
    for (benchmark, ranks) in p2p.chain([("Stencil2D", 4), ("Stencil3D", 8)]) {
        let words = format!("{benchmark} -iter 5,10 -msglog 0:16");
        runs.push(benchmark_of(programs, "IMB-P2P", benchmark, ranks, &words));
    }
    for benchmark in MT.split_whitespace() {
        let words = format!("{benchmark} -thread_level multiple -check 1 -repeat 3 -count 1,1024,65536");
        let mut run = benchmark_of(programs, "IMB-MT", benchmark, 2, &words);
        run.environment = vec![("OMP_NUM_THREADS".into(), "2".into())];
        run.libraries = vec![openmp.clone()];
        runs.push(run);
    }
    programs::run(SUITE, asked, runs, LIMIT)
}

fn benchmarks(programs: &Path, program: &str, benchmark: &str, ranks: u32) -> Run {
    let words = format!("{benchmark} -iter 5 -msglog 0:16 -npmin {ranks}");
    benchmark_of(programs, program, benchmark, ranks, &words)
}

fn benchmark_of(programs: &Path, program: &str, benchmark: &str, ranks: u32, words: &str) -> Run {
    Run {
        list: format!("{program}, {ranks} ranks"),
        name: format!("{program} {benchmark} {ranks}"),
        program: programs.join(program),
        folder: folder(SUITE),
        ranks,
        arguments: words.split_whitespace().map(str::to_owned).collect(),
        environment: Vec::new(),
        libraries: Vec::new(),
        fault,
    }
}

/// Makes a folder in which the runtime of OpenMP has the name that IMB-MT asks for.
fn openmp(folder: &Path) -> Result<PathBuf, String> {
    if !Path::new(OPENMP).is_file() {
        return Err(format!("IMB-MT needs {OPENMP}: apt-get install libomp5-14"));
    }
    let place = folder.join("openmp");
    let fault = |e: std::io::Error| format!("{}: {e}", place.display());
    std::fs::create_dir_all(&place).map_err(fault)?;
    let link = place.join("libiomp5.so");
    if !link.exists() {
        std::os::unix::fs::symlink(OPENMP, link).map_err(fault)?;
    }
    Ok(place)
}

/// Returns what is wrong with a benchmark: its status, no results, or data that differ.
fn fault(run: &Run, ended: &Ended) -> Option<String> {
    let benchmark = run.arguments.first()?;
    if ended.status != Some(0) {
        return Some(wrong_status(ended));
    }
    if let Some(line) = ended.output.lines().find(|line| line.to_lowercase().contains("error")) {
        return Some(line.to_owned());
    }
    // With its results there are lines that begin with a number.
    let Some((_, results)) = ended.output.split_once(&format!("# Benchmarking {benchmark}")) else {
        return Some("it has not run".to_owned());
    };
    let is_result = |line: &str| line.split_whitespace().next().is_some_and(|w| w.parse::<f64>().is_ok());
    (!results.lines().any(is_result)).then(|| "no results".to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::programs::tests::ended;
    use super::*;

    #[test]
    fn a_benchmark_has_results_and_no_errors() {
        let run = benchmarks(Path::new("/p"), "IMB-MPI1", "Bcast", 2);
        let good = "# Benchmarking Bcast\n   #bytes t\n    0  10  1.5\n";
        assert_eq!(fault(&run, &ended(0, good)), None);
        assert_eq!(fault(&run, &ended(1, good)).as_deref(), Some("ended with status 1"));
        let wrong = format!("{good}1: Error Bcast, size = 4\n");
        assert_eq!(fault(&run, &ended(0, &wrong)).as_deref(), Some("1: Error Bcast, size = 4"));
        let none = "# Benchmarking Bcast\n   #bytes t\n";
        assert_eq!(fault(&run, &ended(0, none)).as_deref(), Some("no results"));
        assert_eq!(fault(&run, &ended(0, "")).as_deref(), Some("it has not run"));
    }
}
