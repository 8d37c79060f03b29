//! Results of a transport, and the verdicts on whole tables.

use super::cells::Cell;
use super::distance::Distance;
use super::library::{Library, Netmod};
use super::verdict::Verdict;

/// The most that a cell has of its goal in a table that has reached it.
const WORST: f64 = 1.3;
/// The part of a table's cells that may fail.
const FAILING: f64 = 0.03;

/// A library, its version, and the transport that it says it uses.
pub(crate) type Used = (Library, String, String);

/// The results of one transport.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) netmod: Netmod,
    pub(crate) used: Vec<Used>,
    /// The distance between the cores in each turn.
    pub(crate) distances: Vec<Distance>,
    pub(crate) cells: Vec<Cell>,
}

impl Measured {
    /// Returns a sentence on the distance between the cores.
    pub(crate) fn cores(&self) -> String {
        cores(&self.distances, "turns")
    }
}

/// Returns a sentence on the distance between the cores, in turns or rounds.
pub(crate) fn cores(all: &[Distance], what: &str) -> String {
    let least = all.iter().map(|d| d.flag.0).fold(f64::INFINITY, f64::min);
    let most = all.iter().map(|d| d.flag.1).fold(0.0, f64::max);
    let changed = all.iter().filter(|d| !d.steady).count();
    format!(
        "A flag took {least:.0} to {most:.0} ns from core to core; {changed} of {} {what} were measured while \
         that changed.",
        all.len()
    )
}

/// Returns the verdicts on the operations of two ranks and on the others.
pub(crate) fn sums(cells: &[Cell]) -> Vec<(&'static str, Sum)> {
    let of = |pair| Sum::of(cells.iter().filter(move |cell| cell.operation.is_pair() == pair));
    let sums = [("point to point", of(true)), ("rate, crowd and start", of(false))];
    sums.into_iter().filter(|(_, sum)| sum.cells > 0).collect()
}

/// The verdict on several cells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sum {
    pub(crate) cells: usize,
    pub(crate) failed: usize,
    /// The highest ratio by its goal.
    pub(crate) worst: f64,
}

impl Sum {
    pub(crate) fn of<'a>(cells: impl IntoIterator<Item = &'a Cell>) -> Sum {
        let mut sum = Sum { cells: 0, failed: 0, worst: 0.0 };
        for cell in cells {
            sum.cells += 1;
            sum.failed += usize::from(cell.verdict() == Verdict::Failed);
            sum.worst = sum.worst.max(cell.judged() / cell.goal());
        }
        sum
    }

    /// Returns true if the cells together have reached their goal.
    pub(crate) fn reached(&self) -> bool {
        self.failed as f64 <= FAILING * self.cells as f64 && self.worst <= WORST
    }

    /// Returns it in words.
    pub(crate) fn words(&self) -> String {
        let verdict = if self.reached() { "goal reached" } else { "goal not reached" };
        format!(
            "{verdict}: {} of {} cells fail, the worst has {:.2} of its goal",
            self.failed, self.cells, self.worst
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::cells::cells;
    use super::super::cells::tests::rounds;
    use super::*;

    #[test]
    fn the_distances_are_told() {
        let steady = |flag| Distance { flag, steady: true };
        let distances = vec![steady((55.0, 60.0)), Distance { flag: (58.0, 270.0), steady: false }];
        let measured = Measured { netmod: Netmod::Shm, used: Vec::new(), distances, cells: Vec::new() };
        let words = measured.cores();
        assert!(words.contains("55 to 270 ns") && words.contains("1 of 2 turns"), "{words}");
    }

    #[test]
    fn a_table_may_have_a_few_failures_and_none_far_off() {
        let table = |failing: usize, value: &str| {
            let mut lines = String::new();
            for at in 0..100 {
                let bytes = 32 + at;
                let ours = if at < failing { value } else { "1" };
                lines += &format!("PingPong {bytes} Imb Ours {ours}\nPingPong {bytes} Imb Intel 1\n");
            }
            Sum::of(&cells(Netmod::Shm, &rounds(&lines)))
        };
        assert!(table(3, "1.25").reached());
        assert!(!table(4, "1.25").reached());
        assert!(!table(1, "1.35").reached());
        let words = table(4, "1.25").words();
        assert_eq!(words, "goal not reached: 4 of 100 cells fail, the worst has 1.25 of its goal");
    }
}
