//! Figures of several rounds, and the cells of a table that they become.

use std::collections::BTreeMap;

use super::library::{Library, Netmod};
use super::operation::{Kind, OPERATIONS, Operation};
use super::verdict::{self, Verdict};
use crate::figures::median;

/// A line of what a program prints.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    pub(crate) operation: String,
    /// Bytes of a message, or ranks.
    pub(crate) bytes: usize,
    /// Microseconds, or messages a second.
    pub(crate) value: f64,
}

/// A program that measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Program {
    /// Intel's IMB-MPI1, the same file for all libraries with its ABI.
    Imb,
    /// `peers/patterns.c`, built for each library.
    Patterns,
}

/// The figures of all rounds.
pub(crate) type Rounds = BTreeMap<(String, usize, Program, Library), Vec<f64>>;

/// Ours beside one peer, in the same program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Against {
    pub(crate) library: Library,
    pub(crate) program: Program,
    pub(crate) ours: f64,
    pub(crate) theirs: f64,
    /// Ours by theirs, for rates the inverse: less is better.
    pub(crate) ratio: f64,
}

/// An operation with one size.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) netmod: Netmod,
    pub(crate) operation: &'static Operation,
    pub(crate) bytes: usize,
    /// Never empty.
    pub(crate) against: Vec<Against>,
    /// The ratios to the best peer in earlier runs.
    pub(crate) earlier: Vec<f64>,
}

impl Cell {
    /// Returns the best of the peers.
    pub(crate) fn best(&self) -> Against {
        self.against.iter().copied().max_by(|a, b| a.ratio.total_cmp(&b.ratio)).unwrap_or(self.against[0])
    }

    /// Returns the figures beside a peer.
    pub(crate) fn beside(&self, library: Library) -> Option<&Against> {
        self.against.iter().find(|against| against.library == library)
    }

    pub(crate) fn goal(&self) -> f64 {
        verdict::goal(self.netmod, self.operation, self.bytes)
    }

    /// Returns the ratio that is judged. A cell fails only by two runs, if there are several: so it
    /// is the second of their ratios.
    pub(crate) fn judged(&self) -> f64 {
        let mut ratios = self.earlier.clone();
        ratios.push(self.best().ratio);
        verdict::second(&ratios).unwrap_or(f64::NAN)
    }

    pub(crate) fn verdict(&self) -> Verdict {
        verdict::judge(self.judged(), self.goal())
    }
}

/// Returns the cells of what was measured, in the order of the tables.
pub(crate) fn cells(netmod: Netmod, rounds: &Rounds) -> Vec<Cell> {
    let mut cells = Vec::new();
    for operation in &OPERATIONS {
        let mut sizes: Vec<usize> =
            rounds.keys().filter(|key| key.0 == operation.name).map(|key| key.1).collect();
        sizes.dedup();
        for bytes in sizes {
            let against: Vec<Against> =
                Library::ALL.iter().filter_map(|peer| against(operation, bytes, *peer, rounds)).collect();
            if !against.is_empty() {
                cells.push(Cell { netmod, operation, bytes, against, earlier: Vec::new() });
            }
        }
    }
    cells
}

/// Adds the ratios of earlier runs, whose cells are the same.
pub(crate) fn add_earlier(cells: &mut [Cell], earlier: &[Cell]) {
    for (cell, other) in cells.iter_mut().zip(earlier) {
        cell.earlier.clone_from(&other.earlier);
        cell.earlier.push(other.best().ratio);
    }
}

fn against(operation: &Operation, bytes: usize, library: Library, rounds: &Rounds) -> Option<Against> {
    if library == Library::Ours {
        return None;
    }
    [Program::Imb, Program::Patterns].into_iter().find_map(|program| {
        let of = |library| {
            let values = rounds.get(&(operation.name.to_owned(), bytes, program, library))?;
            Some(typical(operation.kind, values))
        };
        let (ours, theirs) = (of(Library::Ours)?, of(library)?);
        let ratio = if operation.kind.is_time() { ours / theirs } else { theirs / ours };
        Some(Against { library, program, ours, theirs, ratio })
    })
}

/// Returns the median; of rates, which have two modes, that of the better half.
fn typical(kind: Kind, values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    if !kind.is_time() {
        values.sort_by(|a, b| b.total_cmp(a));
        values.truncate(values.len().div_ceil(2));
    }
    median(values)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Makes rounds of lines such as "PingPong 8 Imb Ours 1 2 3".
    pub(crate) fn rounds(lines: &str) -> Rounds {
        let mut rounds = Rounds::new();
        for line in lines.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let program = if words[2] == "Imb" { Program::Imb } else { Program::Patterns };
            let library = Library::ALL.into_iter().find(|l| format!("{l:?}") == words[3]).expect("a library");
            let values = words[4..].iter().map(|word| word.parse().expect("a number")).collect();
            rounds.insert((words[0].into(), words[1].parse().expect("bytes"), program, library), values);
        }
        rounds
    }

    #[test]
    fn the_best_peer_is_the_one_with_the_highest_ratio() {
        let rounds = rounds(
            "PingPong 8 Imb Ours 1 2 9\nPingPong 8 Imb Intel 4 4 4\nPingPong 8 Imb Mpich 8 8 8\n\
             PingPong 8 Patterns Ours 3 3 3\nPingPong 8 Patterns OpenMpi 2 2 2",
        );
        let cells = cells(Netmod::Shm, &rounds);
        assert_eq!(cells.len(), 1);
        let (library, program) = (Library::OpenMpi, Program::Patterns);
        let wanted = Against { library, program, ours: 3.0, theirs: 2.0, ratio: 1.5 };
        assert_eq!(cells[0].best(), wanted);
        assert_eq!(cells[0].beside(Library::Mpich).map(|a| (a.ours, a.ratio)), Some((2.0, 0.25)));
        assert_eq!(cells[0].verdict(), Verdict::Failed);
    }

    #[test]
    fn of_rates_more_is_better_and_the_better_half_counts() {
        let rounds = rounds("Uniband 1000 Imb Ours 100 200 300 400\nUniband 1000 Imb Intel 50 700 60 800");
        let cells = cells(Netmod::Shm, &rounds);
        let best = cells[0].best();
        assert_eq!((best.ours, best.theirs, best.ratio), (400.0, 800.0, 2.0));
        assert_eq!(cells[0].operation.kind.in_unit(best.ours, cells[0].bytes), 0.4);
    }

    #[test]
    fn a_cell_fails_only_by_two_runs() {
        let run = |ours: &str| {
            cells(Netmod::Shm, &rounds(&format!("PingPong 64 Imb Ours {ours}\nPingPong 64 Imb Intel 1")))
        };
        let (first, mut second, mut third) = (run("2"), run("0.5"), run("1.2"));
        assert_eq!(first[0].verdict(), Verdict::Failed);
        add_earlier(&mut second, &first);
        assert_eq!((second[0].judged(), second[0].verdict()), (0.5, Verdict::Reached));
        add_earlier(&mut third, &second);
        assert_eq!((third[0].earlier.as_slice(), third[0].judged()), (&[2.0, 0.5][..], 1.2));
        assert_eq!(third[0].verdict(), Verdict::Failed);
    }

    #[test]
    fn operations_keep_their_order_and_sizes_theirs() {
        let lines = ["Start 32", "PingPong 16", "PingPong 2", "Rate 8"];
        let lines = lines.map(|key| format!("{key} Patterns Ours 1\n{key} Patterns Intel 1\n"));
        let cells = cells(Netmod::Shm, &rounds(&lines.concat()));
        let found: Vec<_> = cells.iter().map(|cell| (cell.operation.name, cell.bytes)).collect();
        assert_eq!(found, [("PingPong", 2), ("PingPong", 16), ("Rate", 8), ("Start", 32)]);
    }
}
