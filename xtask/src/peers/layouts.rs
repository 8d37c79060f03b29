//! Derived datatypes: packed, unpacked, sent and received, beside loops by hand and other MPIs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::cells::Figure;
use super::comparison::{self, Comparison};
use super::distance::{Distance, TRIES};
use super::library::{Library, Netmod, Ranks};
use super::rounds::Programs;
use super::verdict::{self, Verdict};
use super::{patterns, table};
use crate::command::output;
use crate::figures::median;
use crate::progress::Progress;

/// The word that chooses this comparison.
pub(crate) const NAME: &str = "layouts";
/// Bytes of data of the long layouts.
const BYTES: &str = "1048576";
/// The part of our time that a loop by hand should have.
const OF_HAND: f64 = 0.9;
/// The time of a message of a derived type, at most, by that of one without gaps and the pack.
const OF_PARTS: f64 = 1.1;

/// The figures that are judged, and the name of each one's floor in the output.
const JUDGED: [(&str, &str); 5] = [
    ("pack", "hand-pack"),
    ("unpack", "hand-unpack"),
    ("send", "contiguous"),
    ("receive", "contiguous"),
    ("create", ""),
];

/// All figures of a run: layout, what was done, library.
type Figures = BTreeMap<(String, String, Library), Vec<f64>>;

/// One figure of one layout beside its floor and its peers.
#[derive(Clone, Debug)]
struct Row {
    layout: String,
    what: &'static str,
    bytes: usize,
    /// Microseconds of each library.
    times: [f64; Library::ALL.len()],
    /// The loop by hand, or a message without gaps and the pack; none for what has no goal.
    floor: Option<f64>,
    /// Ours by the most that the goal allows, of each run; empty without a goal.
    ratios: Vec<f64>,
}

impl Row {
    /// Returns the verdict. A row fails only by two runs, if there are several.
    fn verdict(&self) -> Option<Verdict> {
        verdict::second(&self.ratios).map(|ratio| verdict::judge(ratio, 1.0))
    }

    fn of(layout: &str, bytes: usize, what: &'static str, below: &str, figures: &Figures) -> Option<Row> {
        let typical = |what: &str, library: Library| {
            figures.get(&(layout.to_owned(), what.to_owned(), library)).map(|all| median(all.clone()))
        };
        let mut times = [0.0; Library::ALL.len()];
        for library in Library::ALL {
            times[library as usize] = typical(what, library)?;
        }
        let ours = times[Library::Ours as usize];
        let peers = times[Library::Mpich as usize].min(times[Library::OpenMpi as usize]);
        let floor = typical(below, Library::Ours);
        let (floor, most) = match what {
            "pack" | "unpack" => {
                // A call alone takes more than such a loop.
                let by_hand = floor.filter(|_| bytes >= 1024).map_or(f64::INFINITY, |hand| hand / OF_HAND);
                (floor, Some(peers.min(by_hand)))
            }
            "send" | "receive" => {
                let packed = typical(if what == "send" { "pack" } else { "unpack" }, Library::Ours)?;
                let parts = floor? + packed;
                (Some(parts), Some(parts * OF_PARTS))
            }
            _ => (None, None),
        };
        let ratios = most.map(|most| ours / most).into_iter().collect();
        Some(Row { layout: layout.to_owned(), what, bytes, times, floor, ratios })
    }

    fn cells(&self) -> Vec<String> {
        let ratios: Vec<_> = self.ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
        let mut cells = vec![self.layout.clone(), self.what.to_owned(), table::size(self.bytes)];
        cells.push(time(self.times[Library::Ours as usize]));
        cells.push(self.floor.map_or_else(String::new, time));
        cells.extend(Library::ALL[1..].iter().map(|library| time(self.times[*library as usize])));
        cells.push(ratios.join(", "));
        cells.push(self.verdict().map_or("no goal", Verdict::name).to_owned());
        cells
    }

    /// Returns the row as one object of JSON.
    fn json(&self) -> String {
        let times: BTreeMap<_, _> =
            Library::ALL.iter().map(|library| (library.name(), self.times[*library as usize])).collect();
        serde_json::json!({ "layout": self.layout, "what": self.what, "size": self.bytes, "unit": "us",
            "times": times, "floor": self.floor, "ratios": self.ratios,
            "verdict": self.verdict().map(Verdict::name) })
        .to_string()
    }
}

fn time(us: f64) -> String {
    match us {
        _ if us < 1.0 => format!("{us:.4}"),
        _ if us < 100.0 => format!("{us:.1}"),
        _ => format!("{us:.0}"),
    }
}

/// The rows of all runs, and the distance between the cores in each round.
#[derive(Debug, Default)]
pub(crate) struct Layouts {
    chosen: bool,
    rows: Vec<Row>,
    distances: Vec<Distance>,
}

/// The legend of the table.
const NOTE: &str = "\
Times in us, of `peers/layouts.c`. Floor of pack and unpack: the loop written by hand for this layout in the same C program; of send and \
receive: the same bytes without gaps to the other rank and back an answer without bytes, and the pack or unpack. \
Ratio: ours by the most that the goal allows, of each run. A pack or an unpack may take as long as the better one \
of MPICH and Open MPI, and the loop by 0.9 (not looked at for 32 bytes, where a call takes longer than the loop); \
a message of a derived type 1.1 times its floor. A row fails above 1.15, with several runs in two. Create: a vector \
and a struct are made, committed and freed.";

impl Layouts {
    /// Returns what a filter chooses: all or nothing.
    pub(crate) fn of(filter: &str) -> Layouts {
        let chosen = comparison::text_of(filter, NAME).is_some_and(|text| NAME.contains(&text));
        Layouts { chosen, ..Layouts::default() }
    }

    /// Returns the number of rows with a goal, and of those that fail.
    fn failed(&self) -> (usize, usize) {
        let verdicts: Vec<_> = self.rows.iter().filter_map(Row::verdict).collect();
        (verdicts.len(), verdicts.iter().filter(|verdict| **verdict == Verdict::Failed).count())
    }
}

impl Comparison for Layouts {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "Derived datatypes"
    }

    fn note(&self) -> &'static str {
        NOTE
    }

    fn page(&self, date: &str) -> String {
        format!("{NAME}-{date}")
    }

    fn parts(&self) -> usize {
        usize::from(self.chosen)
    }

    /// # Errors
    /// If a program fails, moves other bytes than the loops do, or does not print all results.
    fn measure(&mut self, programs: &Programs, rounds: usize, progress: &mut Progress) -> Result<(), String> {
        let built = Library::ALL.map(|library| patterns::build(&programs.libraries, library, NAME));
        let built = built.into_iter().collect::<Result<Vec<PathBuf>, String>>()?;
        let (mut figures, mut order) = (Figures::new(), Vec::new());
        for _ in 0..rounds {
            let mut in_turn = programs.in_turn();
            for library in Library::ALL {
                progress.start(&format!("{}: {NAME}", library.name()));
                let program = &built[library as usize];
                let all = in_turn.run(TRIES, || {
                    let mut command =
                        programs.libraries.launch(library, Netmod::Shm, Ranks::Pair, &[], program);
                    patterns::parse(&output(command.arg(BYTES))?)
                })?;
                order = add(&all, library, &mut figures).map_err(|e| format!("{}: {e}", library.name()))?;
            }
            self.distances.push(in_turn.distance());
            progress.advance();
        }
        let rows = rows(&order, &figures);
        self.rows = join(rows, &self.rows);
        Ok(())
    }

    fn distances(&self) -> (&[Distance], &'static str) {
        (&self.distances, "rounds")
    }

    fn markdown(&self) -> String {
        let heads = ["layout", "what", "size", "ours", "floor", "Intel MPI", "MPICH", "Open MPI"];
        let mut text =
            format!("| {} | ratio | verdict |\n|---|---|{}---|\n", heads.join(" | "), "---:|".repeat(7));
        for row in &self.rows {
            text += &format!("| {} |\n", row.cells().join(" | "));
        }
        text
    }

    fn sums(&self) -> Vec<String> {
        let (judged, failed) = self.failed();
        vec![format!("{failed} of {judged} rows with a goal fail")]
    }

    fn json(&self) -> Vec<String> {
        self.rows.iter().map(Row::json).collect()
    }
}

/// Adds the figures of one start; returns the layouts in the order of the output.
fn add(all: &[Figure], library: Library, figures: &mut Figures) -> Result<Vec<(String, usize)>, String> {
    let mut order: Vec<(String, usize)> = Vec::new();
    for figure in all {
        let Some((layout, what)) = figure.operation.split_once(':') else {
            return Err(format!("{:?} is no layout with what is done", figure.operation));
        };
        if figure.value.is_nan() || figure.value <= 0.0 {
            return Err(format!("{}: {}", figure.operation, figure.value));
        }
        if order.last().is_none_or(|last| last.0 != layout) {
            order.push((layout.to_owned(), figure.bytes));
        }
        figures.entry((layout.to_owned(), what.to_owned(), library)).or_default().push(figure.value);
    }
    match order.last() {
        Some((last, _)) if last == "types" => Ok(order),
        _ => Err("the results do not end with the making of types".to_owned()),
    }
}

fn rows(order: &[(String, usize)], figures: &Figures) -> Vec<Row> {
    let mut rows = Vec::new();
    for (what, floor) in JUDGED {
        rows.extend(order.iter().filter_map(|(layout, bytes)| Row::of(layout, *bytes, what, floor, figures)));
    }
    rows
}

/// Puts the ratios of earlier runs before those of the last.
fn join(mut rows: Vec<Row>, earlier: &[Row]) -> Vec<Row> {
    for (row, before) in rows.iter_mut().zip(earlier) {
        row.ratios = [before.ratios.as_slice(), row.ratios.as_slice()].concat();
    }
    rows
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Makes one row that fails.
    pub(crate) fn some() -> Layouts {
        let rows = of(["a:hand-pack 4096 9\na:pack 4096 10", PEER, "a:pack 4096 0.5", "a:pack 4096 200"]);
        Layouts { rows, ..Layouts::default() }
    }

    /// Makes rows of what the program prints for each library.
    fn of(outputs: [&str; 4]) -> Vec<Row> {
        let (mut figures, mut order) = (Figures::new(), Vec::new());
        for (library, text) in Library::ALL.into_iter().zip(outputs) {
            let text = format!("{text}\ntypes:create 0 0.2");
            order = add(&patterns::parse(&text).expect("results"), library, &mut figures).expect("all");
        }
        rows(&order, &figures)
    }

    const PEER: &str = "a:hand-pack 4096 9\na:pack 4096 30";

    #[test]
    fn a_pack_is_judged_by_the_loop_and_by_the_better_peer() {
        let pack = |ours: &str, ompi: &str| {
            of([&format!("a:hand-pack 4096 9\na:pack 4096 {ours}"), PEER, PEER, ompi])[0].ratios[0]
        };
        assert_eq!(pack("10", PEER), 1.0);
        assert_eq!(pack("5", PEER), 0.5);
        assert_eq!(pack("10", "a:pack 4096 8"), 1.25);
        let short = "a:hand-pack 32 1\na:pack 32 4";
        assert_eq!(of([short, short, short, "a:pack 32 5"])[0].ratios, [1.0], "no loop for short ones");
    }

    #[test]
    fn messages_are_judged_by_their_parts() {
        let text = "a:pack 4096 4\na:unpack 4096 9\na:contiguous 4096 6\na:send 4096 11\na:receive 4096 33";
        let rows = of([text; 4]);
        let ratio = |what| rows.iter().find(|row| row.what == what).map(|row| (row.floor, row.ratios[0]));
        assert_eq!(ratio("send"), Some((Some(10.0), 1.0)));
        assert_eq!(ratio("receive"), Some((Some(15.0), 2.0)));
    }

    #[test]
    fn a_row_fails_only_by_two_runs() {
        let run = |ours: &str| of([&format!("a:hand-pack 4096 9\na:pack 4096 {ours}"), PEER, PEER, PEER]);
        let both = join(run("9"), &run("20"));
        assert_eq!((both[0].ratios.as_slice(), both[0].verdict()), (&[2.0, 0.9][..], Some(Verdict::Reached)));
        assert_eq!(join(run("20"), &both)[0].verdict(), Some(Verdict::Failed));
        assert_eq!((both[1].what, both[1].verdict()), ("create", None));
    }

    #[test]
    fn the_table_has_all_libraries_and_the_ratios() {
        let layouts = some();
        let table = layouts.markdown();
        let line = "| a | pack | 4K | 10.0 | 9.0 | 30.0 | 0.5000 | 200 | 20.00 | failed |";
        assert!(table.contains(line), "{table}");
        assert!(table.contains("| types | create | 0 | 0.2000 |  | 0.2000 |"), "{table}");
        assert_eq!(layouts.failed(), (1, 1));
        let json: serde_json::Value = serde_json::from_str(&layouts.rows[0].json()).expect("JSON");
        assert_eq!((&json["times"]["MPICH"], &json["verdict"]), (&0.5.into(), &"failed".into()));
    }

    #[test]
    fn an_output_that_ends_early_is_an_error() {
        for text in ["", "a:pack 4096 3", "pack 4096 3\ntypes:create 0 1", "a:pack 4096 0\ntypes:create 0 1"]
        {
            let all = patterns::parse(text).expect("lines");
            assert!(add(&all, Library::Ours, &mut Figures::new()).is_err(), "{text:?}");
        }
    }
}
