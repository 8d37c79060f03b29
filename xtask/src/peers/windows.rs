//! One-sided communication: IMB-RMA, the same file for all libraries with its ABI.

use std::collections::BTreeMap;

use super::cells::Figure;
use super::collectives::microseconds;
use super::comparison::{self, Comparison, Picture};
use super::distance::{Distance, TRIES};
use super::heatmap::{self, Column, Field};
use super::library::{Library, Netmod, Ranks};
use super::rounds::Programs;
use super::verdict::{self, Verdict};
use super::{imb, table};
use crate::command::output;
use crate::figures::median;
use crate::progress::Progress;

/// The word that chooses this comparison. `windows:TEXT` chooses the benchmarks with a text in
/// their names.
pub(crate) const NAME: &str = "windows";

/// The benchmarks of two ranks.
const BENCHMARKS: [&str; 17] = [
    "Unidir_put",
    "Unidir_get",
    "Bidir_put",
    "Bidir_get",
    "One_put_all",
    "One_get_all",
    "All_put_all",
    "All_get_all",
    "Put_local",
    "Put_all_local",
    "Exchange_put",
    "Exchange_get",
    "Accumulate",
    "Get_accumulate",
    FETCH,
    "Compare_and_swap",
    "Truly_passive_put",
];
const FETCH: &str = "Fetch_and_op";
/// The libraries in turn.
const TURNS: [Library; 3] = [Library::Ours, Library::Intel, Library::Mpich];
/// Sizes from 2^0 to 2^22 bytes, the most iterations of one, and the most bytes that they may have.
const SIZES: (u32, u32) = (0, 22);
const ITERATIONS: (u32, u64) = (1000, 64 << 20);
/// Goals: of each cell, of a single element that is fetched, and of the geometric mean.
const GOAL: f64 = 1.1;
const FETCH_GOAL: f64 = 0.3;
const MEAN: f64 = 0.8;
/// IMB prints hundredths of a microsecond: a time that it prints as 0 is about so many.
const LEAST: f64 = 0.005;

/// All figures of a run.
type Figures = BTreeMap<(String, usize), [Vec<f64>; TURNS.len()]>;

/// One operation of one size beside its peers.
#[derive(Clone, Debug)]
struct Row {
    operation: String,
    bytes: usize,
    /// Microseconds in each turn.
    times: [f64; TURNS.len()],
    /// Ours by the better peer, of each run.
    ratios: Vec<f64>,
    best: Library,
}

impl Row {
    fn of((operation, bytes): &(String, usize), figures: &[Vec<f64>; TURNS.len()]) -> Row {
        let times = figures.clone().map(|all| median(all).max(LEAST));
        let best = if times[1] <= times[2] { 1 } else { 2 };
        let ratios = vec![times[0] / times[best]];
        Row { operation: operation.clone(), bytes: *bytes, times, ratios, best: TURNS[best] }
    }

    fn goal(&self) -> f64 {
        if self.operation == FETCH { FETCH_GOAL } else { GOAL }
    }

    /// Returns the ratio that is judged: the lowest of the runs.
    fn judged(&self) -> f64 {
        self.ratios.iter().copied().fold(f64::INFINITY, f64::min)
    }

    fn verdict(&self) -> Verdict {
        verdict::judge(self.judged(), self.goal())
    }

    fn cells(&self) -> Vec<String> {
        let mut cells = vec![self.operation.clone(), table::size(self.bytes)];
        cells.extend(self.times.map(microseconds));
        let ratios: Vec<_> = self.ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
        cells.push(format!("{} {}", ratios.join(", "), self.best.name()));
        cells.extend([format!("{:.1}", self.goal()), self.verdict().name().to_owned()]);
        cells
    }
}

/// The legend of the table.
const NOTE: &str = "\
Times in us of one call of IMB-RMA with two ranks, each on a core; those of *aggregate* mode wait for all calls of a \
size at once. The ratio is that to the better peer, which is named behind it. Goals: 1.1 in each cell, 0.3 for a \
single element that is fetched, 0.8 in the geometric mean. A cell fails above 1.15 of its goal, with several runs in \
each of them.";

/// Returns the benchmarks that a filter chooses: all without one.
fn chosen(filter: &str) -> Vec<&'static str> {
    let Some(text) = comparison::text_of(filter, NAME) else { return Vec::new() };
    BENCHMARKS.into_iter().filter(|name| name.to_lowercase().contains(&text)).collect()
}

/// The rows of all runs, and the distance between the cores in each round.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    chosen: Vec<&'static str>,
    rows: Vec<Row>,
    distances: Vec<Distance>,
}

impl Windows {
    /// Returns what a filter chooses.
    pub(crate) fn of(filter: &str) -> Windows {
        Windows { chosen: chosen(filter), ..Windows::default() }
    }
}

impl Comparison for Windows {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "One-sided communication"
    }

    fn note(&self) -> &'static str {
        NOTE
    }

    fn parts(&self) -> usize {
        self.chosen.len()
    }

    /// # Errors
    /// If a library fails or does not print all results.
    fn measure(&mut self, programs: &Programs, rounds: usize, progress: &mut Progress) -> Result<(), String> {
        let mut figures = Figures::new();
        for _ in 0..rounds {
            for name in &self.chosen {
                let mut in_turn = programs.in_turn();
                for (turn, library) in TURNS.into_iter().enumerate() {
                    progress.start(&format!("{}: {name}", library.name()));
                    for Figure { operation, bytes, value } in
                        in_turn.run(TRIES, || one(programs, library, name))?
                    {
                        figures.entry((operation, bytes)).or_default()[turn].push(value);
                    }
                }
                self.distances.push(in_turn.distance());
                progress.advance();
            }
        }
        if let Some((key, _)) = figures.iter().find(|(_, turns)| turns.iter().any(Vec::is_empty)) {
            return Err(format!("{} of {} bytes: not all libraries have results", key.0, key.1));
        }
        let before = std::mem::take(&mut self.rows);
        self.rows = figures.iter().map(|(key, turns)| Row::of(key, turns)).collect();
        for (row, before) in self.rows.iter_mut().zip(before) {
            row.ratios.extend(before.ratios);
        }
        Ok(())
    }

    fn distances(&self) -> (&[Distance], &'static str) {
        (&self.distances, "rounds")
    }

    fn markdown(&self) -> String {
        let heads = ["operation", "size", "ours", "Intel MPI", "MPICH", "ratio", "goal", "verdict"];
        let mut text = format!("| {} |\n|---|{}---|\n", heads.join(" | "), "---:|".repeat(6));
        for row in &self.rows {
            text += &format!("| {} |\n", row.cells().join(" | "));
        }
        text
    }

    /// Returns a line on each operation, and one on all.
    fn sums(&self) -> Vec<String> {
        let sum = |name: &str, rows: &[&Row]| {
            let failed = rows.iter().filter(|row| row.verdict() == Verdict::Failed).count();
            let mean = verdict::mean(&rows.iter().map(|row| row.judged()).collect::<Vec<_>>());
            let worst = rows.iter().map(|row| row.judged()).fold(0.0, f64::max);
            format!(
                "{name}: geometric mean {mean:.2}, worst {worst:.2}, {failed} of {} cells fail",
                rows.len()
            )
        };
        let mut names: Vec<&str> = self.rows.iter().map(|row| row.operation.as_str()).collect();
        names.dedup();
        let of = |name: &&str| self.rows.iter().filter(|row| row.operation == *name).collect::<Vec<_>>();
        let mut lines: Vec<_> = names.iter().map(|name| sum(name, &of(name))).collect();
        let all = self.rows.iter().collect::<Vec<_>>();
        lines.push(format!("{}; the goal of the mean is {MEAN}", sum("all", &all)));
        lines
    }

    fn json(&self) -> Vec<String> {
        let object = |row: &Row| {
            let times: BTreeMap<_, _> = TURNS.map(Library::name).into_iter().zip(row.times).collect();
            serde_json::json!({ "operation": row.operation, "size": row.bytes, "unit": "us", "times": times,
                "best": row.best.name(), "ratios": row.ratios, "goal": row.goal(),
                "verdict": row.verdict().name() })
            .to_string()
        };
        self.rows.iter().map(object).collect()
    }

    fn pictures(&self, date: &str) -> Vec<Picture> {
        let field = |row: &Row| Field {
            name: row.operation.clone(),
            column: Column::Bytes(row.bytes),
            ratio: row.judged(),
            failed: row.verdict() == Verdict::Failed,
        };
        let fields: Vec<_> = self.rows.iter().map(field).collect();
        let svg = heatmap::draw(&format!("Ours by the better peer, one-sided, {date}"), &fields);
        vec![Picture { ending: String::new(), about: "ratios by operation and size".to_owned(), svg }]
    }
}

/// Runs one library, and returns its figures.
fn one(programs: &Programs, library: Library, name: &str) -> Result<Vec<Figure>, String> {
    let program = programs.imb("IMB-RMA");
    let mut command = programs.libraries.launch(library, Netmod::Shm, Ranks::Pair, &[], &program);
    command.args(imb::arguments(&[name], ITERATIONS.0, ITERATIONS.1, SIZES));
    let figures = imb::parse(&output(&mut command)?)?;
    if figures.iter().any(|figure| figure.operation == name) {
        Ok(figures)
    } else {
        Err(format!("{}: no results of {name}", library.name()))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Makes two rows, of which one fails.
    pub(crate) fn some() -> Windows {
        let mut figures = Figures::new();
        figures.insert(("Fetch_and_op".into(), 4), [vec![0.05, 0.2, 0.06], vec![0.3], vec![0.5]]);
        figures.insert(("Unidir_put".into(), 8), [vec![0.4], vec![0.3], vec![0.0]]);
        let rows = figures.iter().map(|(key, turns)| Row::of(key, turns)).collect();
        Windows { rows, ..Windows::default() }
    }

    #[test]
    fn a_row_has_all_libraries_and_the_ratio_to_the_better() {
        let table = some().markdown();
        for line in [
            "| Fetch_and_op | 4 | 0.06 | 0.30 | 0.50 | 0.20 Intel MPI | 0.3 | reached |",
            "| Unidir_put | 8 | 0.40 | 0.30 | 0.01 | 80.00 MPICH | 1.1 | failed |",
        ] {
            assert!(table.lines().any(|l| l == line), "{line}: {table}");
        }
        let json: serde_json::Value = serde_json::from_str(&some().json()[0]).expect("JSON");
        assert_eq!((&json["times"]["ours"], &json["verdict"]), (&0.06.into(), &"reached".into()));
    }

    #[test]
    fn sums_tell_failures_and_the_geometric_mean() {
        let sums = some().sums();
        assert_eq!(sums[0], "Fetch_and_op: geometric mean 0.20, worst 0.20, 0 of 1 cells fail");
        let all = "all: geometric mean 4.00, worst 80.00, 1 of 2 cells fail; the goal of the mean is 0.8";
        assert_eq!(sums[2], all);
    }

    #[test]
    fn a_filter_chooses_names() {
        assert_eq!(chosen("windows:fetch"), [FETCH]);
        assert_eq!((chosen(""), chosen("windows")), (BENCHMARKS.to_vec(), BENCHMARKS.to_vec()));
        assert!(chosen("ping").is_empty() && chosen("windows:none").is_empty());
    }
}
