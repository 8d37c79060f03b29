//! Jobs of which a rank is killed at a random moment: the test `mpi_kills`, with many moments.

use super::{Asked, extension};
use crate::command::{cargo, run as run_command};
use crate::options::Options;
use crate::{libfabric, mpi4py};

/// Moments for each program.
const MOMENTS: &str = "50";
/// The variable that tells the test their number.
const COUNT: &str = "NETMOD_TEST_MPI_KILLS";
/// The variable that names the folder of mpi4py's tests.
pub(crate) const PYTHON_TESTS: &str = "NETMOD_TEST_PYTHON_TESTS";

/// Runs the test.
///
/// # Errors
/// If something cannot be fetched, or the test fails.
pub(super) fn run(asked: &Asked) -> Result<(), String> {
    let mut test = cargo();
    test.args(["test", "-p", "netmod-tests", "--test", "mpi_kills"]);
    if asked.list {
        return run_command(test.args(["--", "--list"]));
    }
    test.args(["--", "--nocapture", "--test-threads=1"]).args(&asked.filter);
    test.env(COUNT, MOMENTS).env("NETMOD_TEST_NO_SKIP", "1").env(PYTHON_TESTS, extension::tests()?);
    test.env(libfabric::VARIABLE, libfabric::second(Options::default())?);
    test.env(mpi4py::VARIABLE, mpi4py::folder(Options::default())?);
    test.envs(asked.environment.iter().map(|(name, value)| (name, value)));
    run_command(&mut test)
}
