//! Messages of two ranks by the distance of their cores, which a virtual machine may change at any
//! time: what is compared are parts of a few milliseconds whose distance is known.

use std::collections::BTreeMap;

use super::cells::Program;
use super::comparison::{self, Comparison, Picture};
use super::distance::Distance;
use super::heatmap::{self, Column, Field};
use super::library::{Library, Netmod, Ranks};
use super::operation::{OPERATIONS, Operation, WRITTEN};
use super::rounds::Programs;
use super::table;
use super::verdict::{self, Verdict};
use crate::command::output;
use crate::figures::median;
use crate::progress::Progress;

/// The word that chooses this comparison. `messages:TEXT` chooses the operations with a text in
/// their names.
pub(crate) const NAME: &str = "messages";

/// Sizes from 2^0 to 2^22 bytes.
const SIZES: [&str; 2] = ["0", "22"];
/// The part of all flags that may be faster than those of near cores: for a moment two processors
/// may share a core.
const FASTER: f64 = 0.05;
/// The flag's time, by that of near cores, up to which cores are near, and from which far. It
/// depends on the place of the line, too.
const NEAR: f64 = 2.0;
const FAR: f64 = 2.5;
/// The least number of parts of which a figure is made.
const PARTS: usize = 4;

/// The distance of the cores during a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Apart {
    Near,
    Far,
}

impl Apart {
    /// Returns the class of a part; none if the distance changed meanwhile, or is of neither.
    /// `near` is the time of a flag between near cores.
    fn of(part: &Part, near: f64) -> Option<Apart> {
        let [low, high] = [part.flag.0.min(part.flag.1), part.flag.0.max(part.flag.1)];
        if low >= near / NEAR && high <= near * NEAR {
            Some(Apart::Near)
        } else if low >= near * FAR {
            Some(Apart::Far)
        } else {
            None
        }
    }

    fn name(self) -> &'static str {
        match self {
            Apart::Near => "near",
            Apart::Far => "far",
        }
    }
}

/// A part of a run: a line of what the program prints.
#[derive(Clone, Debug, PartialEq)]
struct Part {
    operation: String,
    bytes: usize,
    /// Microseconds, or messages a second.
    value: f64,
    /// Nanoseconds of a flag before it and after it.
    flag: (f64, f64),
}

impl Part {
    /// Reads a line such as "PingPong 8 0.123 57 58".
    fn parse(line: &str) -> Option<Part> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [operation, bytes, value, before, after] = words[..] else { return None };
        let positive = |word: &str| word.parse::<f64>().ok().filter(|v| v.is_finite() && *v > 0.0);
        let flag = (positive(before)?, positive(after)?);
        Some(Part {
            operation: operation.to_owned(),
            bytes: bytes.parse().ok()?,
            value: positive(value)?,
            flag,
        })
    }
}

fn parse(text: &str) -> Result<Vec<Part>, String> {
    let part = |line: &str| {
        Part::parse(line)
            .ok_or_else(|| format!("a program says {line:?}, not a result with the flag's times"))
    };
    text.lines().map(part).collect()
}

/// One operation of one size with one distance of the cores.
#[derive(Clone, Debug)]
struct Row {
    operation: &'static Operation,
    bytes: usize,
    apart: Apart,
    /// The median of each library; none for those with too few parts.
    figures: [Option<f64>; Library::ALL.len()],
    /// Parts of ours.
    parts: usize,
    /// Ours by the best peer, of each run; for rates the inverse, so that less is better.
    ratios: Vec<f64>,
    best: Library,
}

impl Row {
    /// Returns none without parts of ours or of all peers.
    fn of(operation: &'static Operation, bytes: usize, apart: Apart, parts: &[Vec<f64>; 4]) -> Option<Row> {
        let figures = parts.each_ref().map(|values| (values.len() >= PARTS).then(|| median(values.clone())));
        let ours = figures[Library::Ours as usize]?;
        let ratio = |theirs: f64| if operation.kind.is_time() { ours / theirs } else { theirs / ours };
        let peers = Library::ALL.into_iter().filter(|library| *library != Library::Ours);
        let (best, ratio) = peers
            .filter_map(|library| Some((library, ratio(figures[library as usize]?))))
            .max_by(|a, b| a.1.total_cmp(&b.1))?;
        let parts = parts[Library::Ours as usize].len();
        Some(Row { operation, bytes, apart, figures, parts, ratios: vec![ratio], best })
    }

    fn goal(&self) -> f64 {
        verdict::goal(Netmod::Shm, self.operation, self.bytes)
    }

    /// Returns the ratio that is judged. A row fails only by two runs, if there are several.
    fn judged(&self) -> f64 {
        verdict::second(&self.ratios).unwrap_or(f64::NAN)
    }

    fn verdict(&self) -> Verdict {
        verdict::judge(self.judged(), self.goal())
    }

    fn cells(&self) -> Vec<String> {
        let kind = self.operation.kind;
        let show = |figure: Option<f64>| {
            figure.map_or_else(String::new, |v| table::number(kind, kind.in_unit(v, self.bytes)))
        };
        let ratios: Vec<_> = self.ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
        let mut cells = vec![self.operation.name.to_owned(), table::size(self.bytes)];
        cells.push(self.apart.name().to_owned());
        cells.extend(self.figures.map(show));
        cells.push(format!("{} {}", ratios.join(", "), self.best.name()));
        cells.extend([format!("{:.2}", self.goal()), self.verdict().name().to_owned()]);
        cells
    }

    /// Returns the row as one object of JSON.
    fn json(&self) -> String {
        let kind = self.operation.kind;
        let figure = |library: Library| {
            let figure = self.figures[library as usize]?;
            Some((library.name(), kind.in_unit(figure, self.bytes)))
        };
        let figures: BTreeMap<_, _> = Library::ALL.into_iter().filter_map(figure).collect();
        serde_json::json!({ "operation": self.operation.name, "size": self.bytes, "cores": self.apart.name(),
            "unit": kind.unit(), "figures": figures, "parts": self.parts, "best": self.best.name(),
            "ratios": self.ratios, "goal": self.goal(), "verdict": self.verdict().name() })
        .to_string()
    }
}

/// Returns the operations of two ranks, in the order of the table.
fn operations() -> impl Iterator<Item = &'static Operation> {
    OPERATIONS.iter().filter(|operation| operation.is_pair()).chain(&WRITTEN)
}

/// Makes the rows of all parts of one run, those with near cores first.
fn rows(parts: &[(Library, Part)]) -> Vec<Row> {
    let mut flags: Vec<f64> = parts.iter().flat_map(|(_, part)| [part.flag.0, part.flag.1]).collect();
    flags.sort_by(f64::total_cmp);
    let near = flags.get((flags.len() as f64 * FASTER) as usize).copied().unwrap_or_default();
    let mut values: BTreeMap<_, [Vec<f64>; Library::ALL.len()]> = BTreeMap::new();
    for (library, part) in parts {
        let order = operations().position(|operation| operation.name == part.operation);
        let Some((order, apart)) = order.zip(Apart::of(part, near)) else { continue };
        values.entry((apart, order, part.bytes)).or_default()[*library as usize].push(part.value);
    }
    let row = |(key, values): (&(Apart, usize, usize), &_)| {
        let (apart, order, bytes) = *key;
        Row::of(operations().nth(order)?, bytes, apart, values)
    };
    values.iter().filter_map(row).collect()
}

/// Adds the ratios of an earlier run, which may have other rows.
fn add_earlier(rows: &mut [Row], earlier: &[Row]) {
    for row in rows {
        let same = |other: &&Row| {
            (other.operation.name, other.bytes, other.apart) == (row.operation.name, row.bytes, row.apart)
        };
        if let Some(before) = earlier.iter().find(same) {
            row.ratios = [before.ratios.as_slice(), row.ratios.as_slice()].concat();
        }
    }
}

/// The legend of the table.
const NOTE: &str = "\
Times in us, Uniband and Biband in MB/s, of `peers/patterns.c`: medians of parts of 3 ms with two ranks, each on a \
core. *Near* and *far* is the distance of the two cores, by a flag that goes from one to the other before and after \
each part; parts in which it changed do not count. Uniband and Biband are windows of 64 messages. Of those *written* \
the ranks write what they send and read what has come, which is in the time; the others send the same bytes again and \
again, as most benchmarks do. The ratio is that to \
the best peer, which is named behind it; less is better, also for rates. A row fails above 1.15 of its goal, with \
several runs in two.";

/// The rows of all runs, and the distances of the cores during each job.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    chosen: Vec<&'static str>,
    rows: Vec<Row>,
    distances: Vec<Distance>,
}

impl Messages {
    /// Returns what a filter chooses.
    pub(crate) fn of(filter: &str) -> Messages {
        let Some(text) = comparison::text_of(filter, NAME) else { return Messages::default() };
        let names = operations().map(|operation| operation.name);
        let chosen = names.filter(|name| name.to_lowercase().contains(&text)).collect();
        Messages { chosen, ..Messages::default() }
    }
}

impl Comparison for Messages {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "Messages of two ranks"
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
        let mut all = Vec::new();
        for _ in 0..rounds {
            for name in &self.chosen {
                for library in Library::ALL {
                    progress.start(&format!("{}: {name}", library.name()));
                    let parts = one(programs, library, name)?;
                    let flags: Vec<_> = parts.iter().flat_map(|part| [part.flag.0, part.flag.1]).collect();
                    self.distances.push(Distance::of(&flags));
                    all.extend(parts.into_iter().map(|part| (library, part)));
                }
                progress.advance();
            }
        }
        let before = std::mem::replace(&mut self.rows, rows(&all));
        add_earlier(&mut self.rows, &before);
        Ok(())
    }

    fn distances(&self) -> (&[Distance], &'static str) {
        (&self.distances, "jobs")
    }

    fn markdown(&self) -> String {
        let heads = ["operation", "size", "cores"].into_iter().chain(Library::ALL.map(Library::name));
        let heads: Vec<_> = heads.chain(["ratio", "goal", "verdict"]).collect();
        let mut text = format!("| {} |\n|---|---:|---|{}---|\n", heads.join(" | "), "---:|".repeat(6));
        for row in &self.rows {
            text += &format!("| {} |\n", row.cells().join(" | "));
        }
        text
    }

    /// Returns a line for each operation and distance.
    fn sums(&self) -> Vec<String> {
        let same = |a: &Row, b: &Row| (a.operation.name, a.apart) == (b.operation.name, b.apart);
        let sum = |rows: &[Row]| {
            let failed = rows.iter().filter(|row| row.verdict() == Verdict::Failed).count();
            let judged: Vec<_> = rows.iter().map(Row::judged).collect();
            let worst = judged.iter().copied().fold(0.0, f64::max);
            format!(
                "{}, {} cores: geometric mean {:.2}, worst {worst:.2}, {failed} of {} rows fail",
                rows[0].operation.name,
                rows[0].apart.name(),
                verdict::mean(&judged),
                rows.len()
            )
        };
        self.rows.chunk_by(same).map(sum).collect()
    }

    fn json(&self) -> Vec<String> {
        self.rows.iter().map(Row::json).collect()
    }

    fn pictures(&self, date: &str) -> Vec<Picture> {
        let of = |apart: Apart| {
            let field = |row: &Row| Field {
                name: row.operation.name.to_owned(),
                column: Column::Bytes(row.bytes),
                ratio: row.judged(),
                failed: row.verdict() == Verdict::Failed,
            };
            let fields: Vec<_> = self.rows.iter().filter(|row| row.apart == apart).map(field).collect();
            let svg =
                heatmap::draw(&format!("Ours by the best peer, {} cores, {date}", apart.name()), &fields);
            let about = format!("ratios by operation and size, {} cores", apart.name());
            (!fields.is_empty()).then(|| Picture { ending: format!("-{}", apart.name()), about, svg })
        };
        [Apart::Near, Apart::Far].into_iter().filter_map(of).collect()
    }
}

/// Runs one library, and returns its parts.
fn one(programs: &Programs, library: Library, name: &str) -> Result<Vec<Part>, String> {
    let program = programs.of(Program::Patterns, library);
    let mut command = programs.libraries.launch(library, Netmod::Shm, Ranks::Pair, &[], program);
    command.arg("parts").args(SIZES).arg(name);
    let parts = parse(&output(&mut command)?)?;
    if parts.is_empty() || parts.iter().any(|part| part.operation != name) {
        return Err(format!("{}: results of something else than {name}", library.name()));
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes rows of lines for each library.
    fn of(outputs: [&str; 4]) -> Vec<Row> {
        let mut all = Vec::new();
        for (library, text) in Library::ALL.into_iter().zip(outputs) {
            all.extend(parse(text).expect("results").into_iter().map(|part| (library, part)));
        }
        rows(&all)
    }

    /// Four parts with near cores, and as many with far ones, after one during which that changed.
    fn both(near: f64, far: f64) -> String {
        let lines = |value: f64, flag: &str| format!("PingPong 64 {value} {flag}\n").repeat(PARTS);
        format!("PingPong 64 99 58 250\n{}{}", lines(near, "58 60"), lines(far, "250 245"))
    }

    #[test]
    fn a_line_has_the_flag_before_and_after() {
        let wanted = Part { operation: "PingPong".into(), bytes: 8, value: 0.25, flag: (57.0, 250.5) };
        assert_eq!(parse("PingPong 8 0.25 57 250.5"), Ok(vec![wanted]));
        for line in ["PingPong 8 0.25", "PingPong 8 0 57 58", "PingPong 8 nan 57 58", "PingPong 8 1 57 58 us"]
        {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn near_and_far_cores_are_judged_apart() {
        let rows = of([&both(1.0, 3.0), &both(2.0, 2.0), &both(4.0, 4.0), &both(8.0, 6.0)]);
        let found: Vec<_> = rows.iter().map(|row| (row.apart, row.ratios[0], row.best, row.parts)).collect();
        assert_eq!(found, [(Apart::Near, 0.5, Library::Intel, 4), (Apart::Far, 1.5, Library::Intel, 4)]);
        assert_eq!((rows[0].verdict(), rows[1].verdict()), (Verdict::Reached, Verdict::Failed));
        let messages = Messages { rows, ..Messages::default() };
        let line = "| PingPong | 64 | far | 3.00 | 2.00 | 4.00 | 6.00 | 1.50 Intel MPI | 1.00 | failed |";
        assert!(messages.markdown().lines().any(|l| l == line), "{}", messages.markdown());
        assert_eq!(
            messages.sums()[1],
            "PingPong, far cores: geometric mean 1.50, worst 1.50, 1 of 1 rows fail"
        );
        let endings: Vec<_> = messages.pictures("today").into_iter().map(|picture| picture.ending).collect();
        assert_eq!(endings, ["-near", "-far"]);
        let json: serde_json::Value = serde_json::from_str(&messages.json()[1]).expect("JSON");
        assert_eq!((&json["cores"], &json["figures"]["MPICH"]), (&"far".into(), &4.0.into()));
    }

    #[test]
    fn processors_that_share_a_core_for_a_moment_do_not_count() {
        let lines =
            |value: f64, flag: &str, count: usize| format!("PingPong 64 {value} {flag}\n").repeat(count);
        let ours = lines(9.0, "24 24", PARTS) + &lines(1.0, "145 171", 50);
        let theirs = lines(9.0, "24 24", 1) + &lines(2.0, "115 145", 50);
        let rows = of([&ours, &theirs, "", ""]);
        let found: Vec<_> = rows.iter().map(|row| (row.apart, row.ratios[0], row.parts)).collect();
        assert_eq!(found, [(Apart::Near, 0.5, 50)]);
    }

    #[test]
    fn of_rates_more_is_better() {
        let lines = |value: &str| format!("Uniband 1000 {value} 58 58\n").repeat(PARTS);
        let rows = of([&lines("100"), &lines("50"), &lines("200"), &lines("20")]);
        assert_eq!((rows[0].ratios[0], rows[0].best), (2.0, Library::Mpich));
        assert_eq!(rows[0].cells()[3], "0.1");
    }

    #[test]
    fn a_library_with_few_parts_is_left_out_and_without_ours_there_is_no_row() {
        let few = "PingPong 64 1 58 58";
        let rows = of([&both(1.0, 3.0), few, &both(4.0, 4.0), few]);
        assert_eq!((rows[0].best, rows[0].figures[Library::Intel as usize]), (Library::Mpich, None));
        assert!(of([few, &both(1.0, 3.0), "", ""]).is_empty());
        assert!(of([&both(1.0, 3.0), few, "", ""]).is_empty());
    }

    #[test]
    fn a_row_fails_only_by_two_runs() {
        let run = |ours: f64| of([&both(ours, 1.0), &both(1.0, 1.0), "", ""]);
        let (first, mut second) = (run(2.0), run(1.0));
        assert_eq!(first[0].verdict(), Verdict::Failed);
        add_earlier(&mut second, &first);
        assert_eq!((second[0].ratios.as_slice(), second[0].verdict()), (&[2.0, 1.0][..], Verdict::Reached));
    }

    #[test]
    fn a_filter_chooses_operations_of_two_ranks() {
        assert_eq!(Messages::of("messages:sendrecv").chosen, ["Sendrecv", "Sendrecv-written"]);
        assert_eq!(Messages::of("messages").parts(), 8);
        assert_eq!((Messages::of("PingPong").parts(), Messages::of("messages:barrier").parts()), (0, 0));
    }
}
