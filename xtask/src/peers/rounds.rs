//! Rounds: each library in turn runs each group of operations.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::cells::{Figure, Program, Rounds};
use super::distance::{Distance, InTurn, TRIES};
use super::library::{CORES, Libraries, Library, Netmod, Ranks};
use super::operation::{OPERATIONS, RATE, START};
use super::{imb, patterns};
use crate::command::output;
use crate::options::Options;

const FLAG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/flag.c");
/// Sizes of messages of two ranks: from 2^0 to 2^22 bytes.
const SIZES: (u32, u32) = (0, 22);
/// Sizes of the rate of one pair.
const RATE_SIZES: (u32, u32) = (3, 3);
const CROWD: u32 = 8;
const STARTED: u32 = 32;
/// Prints the microseconds of a command.
const STOPWATCH: &str =
    "a=$EPOCHREALTIME; \"$@\" >/dev/null || exit; b=$EPOCHREALTIME; echo Start 32 $((${b/./} - ${a/./}))";

/// A kind of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    Latency,
    Bandwidth,
    Rate,
    Crowd,
    Start,
}

/// All operations, as one start of a program runs them.
const STARTS: [(Group, &[&str]); 9] = [
    (Group::Latency, &["PingPong"]),
    (Group::Latency, &["PingPing"]),
    (Group::Latency, &["Sendrecv"]),
    (Group::Latency, &["Exchange"]),
    (Group::Bandwidth, &["Uniband"]),
    (Group::Bandwidth, &["Biband"]),
    (Group::Rate, &[RATE]),
    (Group::Crowd, &["Barrier", "Allreduce"]),
    (Group::Start, &[START]),
];

impl Group {
    /// Returns true if it is measured over a transport.
    fn is_over(self, netmod: Netmod) -> bool {
        netmod == Netmod::Shm || !self.is_crowd()
    }

    fn is_crowd(self) -> bool {
        matches!(self, Group::Crowd | Group::Start)
    }

    fn programs(self) -> &'static [(Program, Library)] {
        use Library::{Intel, Mpich, OpenMpi, Ours};
        use Program::{Imb, Patterns};
        match self {
            Group::Latency | Group::Bandwidth => {
                &[(Imb, Ours), (Imb, Intel), (Imb, Mpich), (Patterns, Ours), (Patterns, OpenMpi)]
            }
            _ => &[(Patterns, Ours), (Patterns, Intel), (Patterns, Mpich), (Patterns, OpenMpi)],
        }
    }

    /// Returns the most iterations of a size, and the most bytes that they may move, so that a size
    /// takes some 10 to 100 ms.
    fn counts(self, netmod: Netmod) -> (u32, u64) {
        match (self, netmod) {
            (Group::Latency, Netmod::Shm) => (20_000, 200 << 20),
            (Group::Latency, Netmod::Tcp) => (4_000, 200 << 20),
            (_, Netmod::Shm) => (2_000, 16 << 20),
            (_, Netmod::Tcp) => (200, 16 << 20),
        }
    }
}

/// The libraries in turn, with the same operations: what is compared.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    steps: Vec<Step>,
}

/// One start of a program.
#[derive(Clone, Debug)]
struct Step {
    group: Group,
    program: Program,
    library: Library,
    netmod: Netmod,
    operations: Vec<&'static str>,
}

/// Returns the turns of a round, with operations whose names have a text in them.
pub(crate) fn turns(netmod: Netmod, filter: &str) -> Vec<Turn> {
    let filter = filter.to_lowercase();
    let mut turns = Vec::new();
    for (group, operations) in STARTS {
        let wanted = |name: &&&str| name.to_lowercase().contains(&filter);
        let operations: Vec<_> = operations.iter().filter(wanted).copied().collect();
        if operations.is_empty() || !group.is_over(netmod) {
            continue;
        }
        let step = |&(program, library)| {
            let operations = operations.clone();
            Step { group, program, library, netmod, operations }
        };
        turns.push(Turn { steps: group.programs().iter().map(step).collect() });
    }
    turns
}

impl Turn {
    /// Runs each library, and adds the figures to those of the rounds. `say` is told what runs.
    ///
    /// # Errors
    /// If a program fails or does not print all results.
    pub(crate) fn run(
        &self,
        programs: &Programs,
        rounds: &mut Rounds,
        say: &dyn Fn(&str),
    ) -> Result<Distance, String> {
        let mut turn = programs.in_turn();
        for step in &self.steps {
            let tries = if step.group.is_crowd() { 1 } else { TRIES };
            let figures = turn.run(tries, || {
                say(&step.words());
                step.run(programs)
            })?;
            for figure in figures {
                let key = (figure.operation, figure.bytes, step.program, step.library);
                rounds.entry(key).or_default().push(figure.value);
            }
        }
        Ok(turn.distance())
    }
}

impl Step {
    /// Returns what it does, in words.
    fn words(&self) -> String {
        format!("{}, {}: {}", self.netmod.name(), self.library.name(), self.operations.join(", "))
    }

    /// Runs it, and returns its results.
    fn run(&self, programs: &Programs) -> Result<Vec<Figure>, String> {
        let text = output(&mut self.command(programs))?;
        self.figures(&text).map_err(|why| format!("{}: {why}", self.words()))
    }

    fn command(&self, programs: &Programs) -> Command {
        let (first, last) = if self.group == Group::Rate { RATE_SIZES } else { SIZES };
        let (iterations, volume) = self.group.counts(self.netmod);
        let ranks = match self.group {
            Group::Crowd => Ranks::Crowd(CROWD),
            Group::Start => Ranks::Crowd(STARTED),
            _ => Ranks::Pair,
        };
        let program = programs.of(self.program, self.library);
        let before: &[&str] =
            if self.group == Group::Start { &["bash", "-c", STOPWATCH, "stopwatch"] } else { &[] };
        let mut command = programs.libraries.launch(self.library, self.netmod, ranks, before, program);
        match self.group {
            Group::Crowd => command.arg("crowd"),
            Group::Start => command.arg("start"),
            _ if self.program == Program::Imb => {
                command.args(imb::arguments(&self.operations, iterations, volume, (first, last)))
            }
            group => {
                let words = [iterations.into(), volume, first.into(), last.into()];
                command.args(words.map(|number: u64| number.to_string()));
                command.args(if group == Group::Rate { &["Uniband"] } else { self.operations.as_slice() })
            }
        };
        command
    }

    /// Reads an output, which has to have all results.
    fn figures(&self, text: &str) -> Result<Vec<Figure>, String> {
        let mut figures = match self.program {
            Program::Imb => imb::parse(text)?,
            Program::Patterns => patterns::parse(text)?,
        };
        if self.group == Group::Rate {
            figures.iter_mut().for_each(|figure| figure.operation = RATE.to_owned());
        }
        // A crowd runs both of its operations.
        figures.retain(|figure| self.operations.contains(&figure.operation.as_str()));
        let sizes = match self.group {
            Group::Latency | Group::Bandwidth => (SIZES.1 - SIZES.0 + 1) as usize,
            _ => 1,
        };
        let wanted = self.operations.len() * sizes;
        match figures.iter().find(|figure| figure.value.is_nan() || figure.value <= 0.0) {
            _ if figures.len() != wanted => Err(format!("{} of {wanted} results", figures.len())),
            Some(figure) => Err(format!("{} of {} bytes: {}", figure.operation, figure.bytes, figure.value)),
            None => Ok(figures),
        }
    }
}

/// The programs that measure.
#[derive(Debug)]
pub(crate) struct Programs {
    pub(crate) libraries: Libraries,
    pub(crate) options: Options,
    imb: PathBuf,
    flag: PathBuf,
    patterns: [PathBuf; Library::ALL.len()],
}

impl Programs {
    /// Finds and builds them.
    ///
    /// # Errors
    /// If one cannot be built.
    pub(crate) fn prepare(libraries: Libraries, options: Options) -> Result<Programs, String> {
        let mut patterns = Vec::new();
        for library in Library::ALL {
            patterns.push(patterns::build(&libraries, library, "patterns")?);
        }
        let patterns = patterns.try_into().map_err(|_| "a program for each library".to_owned())?;
        let imb = libraries.root_of(Library::Intel).join("bin/IMB-MPI1");
        let flag = libraries.programs().join("flag");
        build_flag(&flag)?;
        Ok(Programs { libraries, options, imb, flag, patterns })
    }

    /// Begins runs in turn that are compared.
    pub(super) fn in_turn(&self) -> InTurn<'_> {
        InTurn::new(|| self.flag())
    }

    /// Returns the nanoseconds of a flag from one core to the other.
    fn flag(&self) -> Result<f64, String> {
        let text = output(self.libraries.on_cores(&self.flag).args(CORES.split(',')))?;
        let value = text.trim().strip_prefix("flag ").and_then(|value| value.parse().ok());
        value.ok_or_else(|| format!("{} says {text:?}, which is not a result", self.flag.display()))
    }

    /// Returns another program of the package of IMB-MPI1.
    pub(super) fn imb(&self, name: &str) -> PathBuf {
        self.imb.with_file_name(name)
    }

    pub(crate) fn of(&self, program: Program, library: Library) -> &Path {
        match program {
            Program::Imb => &self.imb,
            Program::Patterns => &self.patterns[library as usize],
        }
    }
}

fn build_flag(program: &Path) -> Result<(), String> {
    output(Command::new("cc").args(["-O2", "-pthread", "-o"]).arg(program).arg(FLAG)).map(|_| ())
}

/// Returns the names of all operations.
pub(crate) fn names() -> Vec<&'static str> {
    OPERATIONS.iter().map(|operation| operation.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(group: Group) -> Step {
        let steps = turns(Netmod::Shm, "").into_iter().flat_map(|turn| turn.steps);
        steps.into_iter().find(|step| step.group == group).expect("a step")
    }

    #[test]
    fn a_round_runs_what_is_wanted_on_each_library() {
        let all = turns(Netmod::Shm, "");
        assert_eq!(all.iter().map(|turn| turn.steps.len()).sum::<usize>(), 6 * 5 + 3 * 4);
        let named: Vec<_> = STARTS.iter().flat_map(|(_, operations)| *operations).copied().collect();
        assert_eq!(named, names());
        let some = turns(Netmod::Tcp, "ping");
        let words: Vec<_> = some.iter().map(|turn| turn.steps[4].words()).collect();
        assert_eq!(words, ["tcp, Open MPI: PingPong", "tcp, Open MPI: PingPing"]);
        assert!(turns(Netmod::Tcp, "barrier").is_empty());
    }

    #[test]
    fn a_run_without_all_results_is_an_error() {
        let rate = step(Group::Rate).figures("Uniband 8 1e7").expect("a result");
        assert_eq!((rate[0].operation.as_str(), rate[0].value), ("Rate", 1e7));
        let crowd = step(Group::Crowd).figures("Barrier 8 20\nAllreduce 8 30").expect("results");
        assert_eq!(crowd.len(), 2);
        assert_eq!(step(Group::Crowd).figures("Barrier 8 20"), Err("1 of 2 results".into()));
        assert!(step(Group::Start).figures("Start 32 0").is_err());
        assert!(step(Group::Start).figures("").is_err());
    }

    #[test]
    fn the_flag_wants_two_cores() {
        let folder = std::env::temp_dir().join(format!("netmod-flag-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let program = folder.join("flag");
        build_flag(&program).expect("it builds");
        let why = output(Command::new(&program).arg("0")).expect_err("one is missing");
        assert!(why.contains("wants two cores"), "{why}");
        let why = output(Command::new(&program).args(["0", "1000000"])).expect_err("there is none");
        assert!(why.contains("cannot be bound"), "{why}");
        std::fs::remove_dir_all(&folder).expect("the folder goes");
    }

    #[test]
    fn the_stopwatch_counts_microseconds_and_fails_with_the_command() {
        let run = |words: &[&str]| {
            let mut command = Command::new("bash");
            output(command.args(["-c", STOPWATCH, "stopwatch"]).args(words))
        };
        let figures = patterns::parse(&run(&["sleep", "0.05"]).expect("an end")).expect("a result");
        assert!(figures[0].value >= 5e4 && figures[0].value < 5e7, "{figures:?}");
        assert!(run(&["false"]).is_err());
    }
}
