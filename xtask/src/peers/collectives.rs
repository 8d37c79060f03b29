//! Collective operations: IMB-MPI1's and IMB-NBC's, and a C program of the same calls.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cells::{Figure, Program};
use super::comparison::{self, Comparison, Picture};
use super::distance::{Distance, TRIES};
use super::heatmap::Field;
use super::library::{Library, Netmod, Ranks};
use super::rounds::Programs;
use super::verdict::{self, Verdict};
use super::{heatmap, imb, patterns, table};
use crate::command::output;
use crate::figures::median;
use crate::progress::Progress;

/// The word that chooses this comparison. `collectives:TEXT` chooses those with a text in "2
/// Allreduce": ranks and name.
pub(crate) const NAME: &str = "collectives";

/// The operations; each with requests, too, by a name that begins with I.
const OPERATIONS: [&str; 13] = [
    "Barrier",
    "Bcast",
    "Reduce",
    "Allreduce",
    "Reduce_scatter",
    "Gather",
    "Gatherv",
    "Scatter",
    "Scatterv",
    "Allgather",
    "Allgatherv",
    "Alltoall",
    "Alltoallv",
];
/// Ranks of jobs, on two cores.
const RANKS: [u32; 3] = [2, 4, 8];
/// Sizes of more ranks than cores.
const CROWD_SIZES: [usize; 6] = [8, 64, 512, 4 << 10, 32 << 10, 256 << 10];
/// The most that a pair has of the best peer, in the geometric mean over all cells.
const MEAN: f64 = 0.7;
/// Operations of 8 bytes with a goal of their own, and that goal.
const SHORT: ([&str; 3], f64) = (["Barrier", "Bcast", "Allreduce"], 0.6);
/// The programs and libraries in turn.
const TURNS: [(Program, Library); 5] = [
    (Program::Imb, Library::Ours),
    (Program::Imb, Library::Intel),
    (Program::Imb, Library::Mpich),
    (Program::Patterns, Library::Ours),
    (Program::Patterns, Library::OpenMpi),
];

/// An operation, its size, and the ranks of the job.
type Key = (u32, String, usize);
/// All figures of a run.
type Figures = BTreeMap<(Key, Program, Library), Vec<f64>>;

/// One operation of one size beside its peers.
#[derive(Clone, Debug)]
struct Row {
    ranks: u32,
    operation: String,
    bytes: usize,
    /// Microseconds in each turn.
    times: [Option<f64>; TURNS.len()],
    /// Ours by the best peer, of each run.
    ratios: Vec<f64>,
    best: Library,
}

impl Row {
    fn of(key: &Key, figures: &Figures) -> Option<Row> {
        let times = TURNS.map(|(program, library)| {
            figures.get(&(key.clone(), program, library)).map(|t| median(t.clone()))
        });
        let against = |at: usize, ours: usize| Some((times[ours]? / times[at]?, TURNS[at].1));
        // Two calls of MPICH tell nothing.
        let mpich = if key.0 == 2 { against(2, 0) } else { None };
        let all = [against(1, 0), mpich, against(4, 3)];
        let (ratio, best) = all.into_iter().flatten().max_by(|a, b| a.0.total_cmp(&b.0))?;
        let (ranks, operation, bytes) = key.clone();
        Some(Row { ranks, operation, bytes, times, ratios: vec![ratio], best })
    }

    fn goal(&self) -> f64 {
        let is_short = SHORT.0.contains(&self.operation.as_str()) && self.bytes <= 8;
        match self.ranks {
            2 if is_short => SHORT.1,
            2 => 1.0,
            _ => 0.8,
        }
    }

    /// Returns the ratio that is judged: the second, if there are several runs.
    fn judged(&self) -> f64 {
        verdict::second(&self.ratios).unwrap_or(f64::NAN)
    }

    fn verdict(&self) -> Verdict {
        verdict::judge(self.judged(), self.goal())
    }

    fn cells(&self) -> Vec<String> {
        let mut cells = vec![self.ranks.to_string(), self.operation.clone(), table::size(self.bytes)];
        cells.extend(self.times.map(|time| time.map_or_else(String::new, microseconds)));
        let ratios: Vec<_> = self.ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
        cells.push(format!("{} {}", ratios.join(", "), self.best.name()));
        cells.extend([format!("{:.1}", self.goal()), self.verdict().name().to_owned()]);
        cells
    }

    /// Returns the row as one object of JSON.
    fn json(&self) -> String {
        let name = |(program, library): (Program, Library)| match program {
            Program::Patterns if library == Library::Ours => "ours, C",
            _ => library.name(),
        };
        let times: BTreeMap<_, _> = TURNS.into_iter().map(name).zip(self.times).collect();
        serde_json::json!({ "ranks": self.ranks, "operation": self.operation, "size": self.bytes, "unit": "us",
            "times": times, "best": self.best.name(), "ratios": self.ratios, "goal": self.goal(),
            "verdict": self.verdict().name() })
        .to_string()
    }
}

/// Returns a time in microseconds with three digits or so.
pub(super) fn microseconds(us: f64) -> String {
    match us {
        _ if us < 10.0 => format!("{us:.2}"),
        _ if us < 100.0 => format!("{us:.1}"),
        _ => format!("{us:.0}"),
    }
}

/// The legend of the table.
const NOTE: &str = "\
Times in us of one call, those of the slowest rank; a barrier before each. Ours, Intel MPI and MPICH run the same \
IMB-MPI1, and IMB-NBC with its pure calls (names with I). Open MPI runs a C program of the same calls, beside ours \
in that program (ours, C). The ratio is that to the best peer, which is named behind it. Goals: two ranks on two \
cores 1.0, barrier, bcast and allreduce of 8 bytes 0.6, geometric mean of two ranks 0.7; more ranks than cores 0.8. \
A cell fails above 1.15 of its goal, with several runs in two. MPICH takes milliseconds a call where there are more \
ranks than cores: it makes two, and is not judged there.";

/// The operations that a filter chooses, by their ranks.
#[derive(Clone, Debug, Default, PartialEq)]
struct Chosen(Vec<(u32, Vec<String>)>);

impl Chosen {
    /// Returns what a filter chooses: all without one.
    fn of(filter: &str) -> Chosen {
        let Some(text) = comparison::text_of(filter, NAME) else { return Chosen::default() };
        let mut chosen = Vec::new();
        for ranks in RANKS {
            let with_request = OPERATIONS.map(|name| format!("I{}", name.to_lowercase()));
            for names in [OPERATIONS.map(str::to_owned), with_request] {
                let is_wanted = |name: &String| format!("{ranks} {name}").to_lowercase().contains(&text);
                let names: Vec<_> = names.into_iter().filter(is_wanted).collect();
                if !names.is_empty() {
                    chosen.push((ranks, names));
                }
            }
        }
        Chosen(chosen)
    }
}

/// The rows of all runs, and the distance between the cores in each part of a round.
#[derive(Debug, Default)]
pub(crate) struct Collectives {
    chosen: Chosen,
    rows: Vec<Row>,
    distances: Vec<Distance>,
}

impl Collectives {
    /// Returns what a filter chooses.
    pub(crate) fn of(filter: &str) -> Collectives {
        Collectives { chosen: Chosen::of(filter), ..Collectives::default() }
    }

    /// Returns the ranks of the jobs.
    fn ranks(&self) -> Vec<u32> {
        RANKS.into_iter().filter(|ranks| self.rows.iter().any(|row| row.ranks == *ranks)).collect()
    }

    /// Returns the fields of a picture.
    fn fields(&self, ranks: u32) -> Vec<Field> {
        let field = |row: &Row| Field {
            name: row.operation.clone(),
            column: heatmap::Column::Bytes(row.bytes),
            ratio: row.judged(),
            failed: row.verdict() == Verdict::Failed,
        };
        self.rows.iter().filter(|row| row.ranks == ranks).map(field).collect()
    }
}

impl Comparison for Collectives {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "Collective operations"
    }

    fn note(&self) -> &'static str {
        NOTE
    }

    fn parts(&self) -> usize {
        self.chosen.0.len()
    }

    /// # Errors
    /// If ours fails or does not print all results. Peers may have none.
    fn measure(&mut self, programs: &Programs, rounds: usize, progress: &mut Progress) -> Result<(), String> {
        let built = Library::ALL.map(|library| patterns::build(&programs.libraries, library, NAME));
        let built = built.into_iter().collect::<Result<Vec<PathBuf>, String>>()?;
        let mut figures = Figures::new();
        for _ in 0..rounds {
            for (ranks, names) in &self.chosen.0 {
                let mut in_turn = programs.in_turn();
                // More ranks are not bound to the two cores.
                let tries = if *ranks == 2 { TRIES } else { 1 };
                for (program, library) in TURNS {
                    progress.start(&format!("{}: {} with {ranks} ranks", library.name(), names[0]));
                    let built = &built[library as usize];
                    let all =
                        in_turn.run(tries, || Ok(one(programs, (program, library), *ranks, names, built)))?;
                    let all = match all {
                        Ok(all) => all,
                        Err(why) if library == Library::Ours => return Err(why),
                        Err(why) => {
                            eprintln!("xtask: {} has no figures: {why}", library.name());
                            continue;
                        }
                    };
                    for Figure { operation, bytes, value } in all {
                        let key = (*ranks, operation, bytes);
                        figures.entry((key, program, library)).or_default().push(value);
                    }
                }
                self.distances.push(in_turn.distance());
                progress.advance();
            }
        }
        self.rows = join(rows(&self.chosen, &figures), &self.rows);
        Ok(())
    }

    fn distances(&self) -> (&[Distance], &'static str) {
        (&self.distances, "parts")
    }

    fn markdown(&self) -> String {
        let heads =
            ["operation", "size", "ours", "Intel MPI", "MPICH", "ours, C", "Open MPI", "ratio", "goal"];
        let mut text =
            format!("| ranks | {} | verdict |\n|---:|---|{}---|\n", heads.join(" | "), "---:|".repeat(8));
        for row in &self.rows {
            text += &format!("| {} |\n", row.cells().join(" | "));
        }
        text
    }

    /// Returns a line for the jobs of each number of ranks: cells that fail, and the mean.
    fn sums(&self) -> Vec<String> {
        let line = |ranks: u32| {
            let of: Vec<_> = self.rows.iter().filter(|row| row.ranks == ranks).collect();
            let failed = of.iter().filter(|row| row.verdict() == Verdict::Failed).count();
            let mean = verdict::mean(&of.iter().map(|row| row.judged()).collect::<Vec<_>>());
            let goal = if ranks == 2 { format!(", of which the goal is {MEAN}") } else { String::new() };
            format!(
                "{ranks} ranks: {failed} of {} cells fail; geometric mean of the ratios {mean:.2}{goal}",
                of.len()
            )
        };
        self.ranks().into_iter().map(line).collect()
    }

    fn json(&self) -> Vec<String> {
        self.rows.iter().map(Row::json).collect()
    }

    fn pictures(&self, date: &str) -> Vec<Picture> {
        let picture = |ranks: u32| Picture {
            ending: format!("-{ranks}"),
            about: format!("ratios of {ranks} ranks by operation and size"),
            svg: heatmap::draw(&format!("Ours by the best peer, {ranks} ranks, {date}"), &self.fields(ranks)),
        };
        self.ranks().into_iter().map(picture).collect()
    }
}

/// Sizes of an operation.
fn sizes(ranks: u32) -> Vec<usize> {
    if ranks == 2 { (2..=22).map(|log| 1 << log).collect() } else { CROWD_SIZES.to_vec() }
}

/// Returns the most iterations of a size, and the most bytes that they may have.
fn counts(library: Library, ranks: u32) -> (u32, u64) {
    match (ranks, library) {
        (2, _) => (1000, 64 << 20),
        (_, Library::Mpich) => (2, 16 << 20),
        _ => (100, 16 << 20),
    }
}

/// Runs one library, and returns its figures.
fn one(
    programs: &Programs,
    (program, library): (Program, Library),
    ranks: u32,
    names: &[String],
    built: &Path,
) -> Result<Vec<Figure>, String> {
    let (iterations, volume) = counts(library, ranks);
    let job = if ranks == 2 { Ranks::Pair } else { Ranks::Crowd(ranks) };
    let launch = |program: &Path| programs.libraries.launch(library, Netmod::Shm, job, &[], program);
    let list: Vec<_> = sizes(ranks).iter().map(usize::to_string).collect();
    let figures = match program {
        Program::Imb => {
            let file = programs.libraries.programs().join(format!("sizes-{ranks}"));
            std::fs::write(&file, list.join("\n") + "\n").map_err(|e| format!("{}: {e}", file.display()))?;
            let with_requests = names[0].starts_with('I');
            let mut command = launch(&programs.imb(if with_requests { "IMB-NBC" } else { "IMB-MPI1" }));
            let ending = if with_requests { "_pure" } else { "" };
            command.args(names.iter().map(|name| format!("{name}{ending}")));
            command.args(["-npmin", &ranks.to_string(), "-zero_size", "off", "-msglen"]).arg(&file);
            command.args(["-iter", &format!("{iterations},{}", volume >> 20)]);
            let mut figures = imb::parse(&output(&mut command)?)?;
            for figure in &mut figures {
                figure.operation = figure.operation.trim_end_matches("_pure").to_owned();
            }
            figures
        }
        Program::Patterns => {
            let mut command: Command = launch(built);
            command.args([iterations.to_string(), volume.to_string(), list.join(",")]).args(names);
            patterns::parse(&output(&mut command)?)?
        }
    };
    let barriers = names.iter().filter(|name| name.ends_with("arrier")).count();
    let wanted = (names.len() - barriers) * list.len() + barriers;
    if figures.len() != wanted || figures.iter().any(|figure| figure.value.is_nan()) {
        return Err(format!(
            "{}: {} of {wanted} results of {}",
            library.name(),
            figures.len(),
            names.join(", ")
        ));
    }
    Ok(figures)
}

fn rows(chosen: &Chosen, figures: &Figures) -> Vec<Row> {
    let mut rows = Vec::new();
    for (ranks, names) in &chosen.0 {
        for name in names {
            let sizes = if name.ends_with("arrier") { vec![0] } else { sizes(*ranks) };
            rows.extend(
                sizes.into_iter().filter_map(|bytes| Row::of(&(*ranks, name.clone(), bytes), figures)),
            );
        }
    }
    rows
}

/// Puts the ratios of earlier runs before those of the last.
fn join(mut rows: Vec<Row>, earlier: &[Row]) -> Vec<Row> {
    for row in &mut rows {
        let key = |row: &Row| (row.ranks, row.operation.clone(), row.bytes);
        if let Some(before) = earlier.iter().find(|before| key(before) == key(row)) {
            row.ratios = [before.ratios.as_slice(), row.ratios.as_slice()].concat();
        }
    }
    rows
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Makes figures of lines such as "2 Bcast 8 Imb Ours 1 2 3".
    fn figures(lines: &str) -> Figures {
        let mut figures = Figures::new();
        for line in lines.lines() {
            let words: Vec<_> = line.split_whitespace().collect();
            let key =
                (words[0].parse().expect("ranks"), words[1].to_owned(), words[2].parse().expect("size"));
            let program = if words[3] == "Imb" { Program::Imb } else { Program::Patterns };
            let library = Library::ALL.into_iter().find(|library| format!("{library:?}") == words[4]);
            let values = words[5..].iter().map(|word| word.parse().expect("a figure")).collect();
            figures.insert((key, program, library.expect("a library")), values);
        }
        figures
    }

    /// Makes two rows, of which one fails.
    pub(crate) fn some() -> Collectives {
        let lines = "2 Bcast 8 Imb Ours 0.2 0.9 0.3\n2 Bcast 8 Imb Intel 0.6\n2 Bcast 8 Imb Mpich 1\n\
                     2 Bcast 8 Patterns Ours 0.4\n2 Bcast 8 Patterns OpenMpi 1\n\
                     8 Ibarrier 0 Imb Ours 20\n8 Ibarrier 0 Imb Intel 10";
        let rows = rows(&Chosen::of(""), &figures(lines));
        Collectives { rows, ..Collectives::default() }
    }

    #[test]
    fn a_row_has_all_libraries_and_the_ratio_to_the_best() {
        let table = some().markdown();
        for line in [
            "| 2 | Bcast | 8 | 0.30 | 0.60 | 1.00 | 0.40 | 1.00 | 0.50 Intel MPI | 0.6 | reached |",
            "| 8 | Ibarrier | 0 | 20.0 | 10.0 |  |  |  | 2.00 Intel MPI | 0.8 | failed |",
        ] {
            assert!(table.lines().any(|l| l == line), "{line}: {table}");
        }
        let json: serde_json::Value = serde_json::from_str(&some().rows[0].json()).expect("JSON");
        assert_eq!((&json["times"]["ours, C"], &json["verdict"]), (&0.4.into(), &"reached".into()));
    }

    #[test]
    fn open_mpi_is_compared_in_the_program_that_it_runs() {
        let lines = "2 Bcast 8 Imb Ours 1\n2 Bcast 8 Imb Intel 2\n2 Bcast 8 Patterns Ours 3\n\
                     2 Bcast 8 Patterns OpenMpi 4";
        let rows = rows(&Chosen::of("collectives:2 bcast"), &figures(lines));
        assert_eq!((rows[0].ratios[0], rows[0].best), (0.75, Library::OpenMpi));
    }

    #[test]
    fn sums_tell_failures_and_the_geometric_mean() {
        let mut all = some();
        let mut other = all.rows[0].clone();
        (other.operation, other.ratios) = ("Allreduce".into(), vec![2.0]);
        all.rows.push(other);
        let sums = all.sums();
        assert_eq!(
            sums[0],
            "2 ranks: 1 of 2 cells fail; geometric mean of the ratios 1.00, of which the goal is 0.7"
        );
        assert_eq!(sums[1], "8 ranks: 1 of 1 cells fail; geometric mean of the ratios 2.00");
        assert_eq!(all.fields(8).iter().map(|field| field.failed).collect::<Vec<_>>(), [true]);
    }

    #[test]
    fn a_cell_fails_only_by_two_runs() {
        let all = join(some().rows, &some().rows);
        assert_eq!(all[1].verdict(), Verdict::Failed);
        let mut better = some().rows;
        better[1].ratios = vec![0.5];
        assert_eq!(join(better, &some().rows)[1].verdict(), Verdict::Reached);
    }

    #[test]
    fn a_filter_chooses_ranks_and_names() {
        assert_eq!(
            Chosen::of("collectives:8 ired").0,
            [(8, vec!["Ireduce".into(), "Ireduce_scatter".into()])]
        );
        assert_eq!(Chosen::of("").0.len(), 6);
        assert_eq!(Chosen::of("collectives"), Chosen::of(""));
        assert_eq!(["ping", "collectives:none"].map(Chosen::of), [Chosen::default(), Chosen::default()]);
    }
}
