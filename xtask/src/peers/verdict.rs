//! Goals of cells, and verdicts on them.

use super::library::Netmod;
use super::operation::{Kind, Operation, RATE};

/// A cell fails above its goal times this. Machines are noisy.
const NOISE: f64 = 1.15;

/// The verdict on a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Reached,
    /// Above the goal, by no more than noise may be.
    Near,
    Failed,
}

impl Verdict {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Verdict::Reached => "reached",
            Verdict::Near => "near",
            Verdict::Failed => "failed",
        }
    }
}

/// Returns the highest ratio to the best peer that is wanted.
pub(crate) fn goal(netmod: Netmod, operation: &Operation, bytes: usize) -> f64 {
    match (netmod, operation.kind) {
        _ if operation.name == RATE => 1.0 / 1.5,
        (Netmod::Tcp, Kind::Time) if bytes <= 16 << 10 => 0.95,
        (Netmod::Tcp, _) => 1.0,
        // Jobs of more ranks than cores.
        (Netmod::Shm, _) if !operation.is_pair() => 1.0,
        (Netmod::Shm, _) if bytes <= 16 => 0.9,
        (Netmod::Shm, _) if bytes >= 1 << 20 => 0.75,
        (Netmod::Shm, _) => 1.0,
    }
}

/// Judges a ratio.
pub(crate) fn judge(ratio: f64, goal: f64) -> Verdict {
    if ratio <= goal {
        Verdict::Reached
    } else if ratio <= goal * NOISE {
        Verdict::Near
    } else {
        Verdict::Failed
    }
}

/// Returns the ratio that is judged where a cell fails only by two runs: the second, if there are
/// several.
pub(crate) fn second(ratios: &[f64]) -> Option<f64> {
    let mut ratios = ratios.to_vec();
    ratios.sort_by(|a, b| b.total_cmp(a));
    ratios.get(1).or(ratios.first()).copied()
}

/// Returns the geometric mean.
pub(crate) fn mean(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::super::operation::OPERATIONS;
    use super::*;

    #[test]
    fn goals_depend_on_size_and_transport() {
        let of = |netmod, name: &str, bytes| {
            let operation = OPERATIONS.iter().find(|o| o.name == name).expect("an operation");
            goal(netmod, operation, bytes)
        };
        for (name, bytes, wanted) in [
            ("PingPong", 1, 0.9),
            ("PingPong", 16, 0.9),
            ("PingPong", 32, 1.0),
            ("Uniband", 512 << 10, 1.0),
            ("Uniband", 1 << 20, 0.75),
            ("Rate", 8, 1.0 / 1.5),
            ("Barrier", 8, 1.0),
            ("Start", 32, 1.0),
        ] {
            assert_eq!(of(Netmod::Shm, name, bytes), wanted, "{name} {bytes}");
        }
        assert_eq!(of(Netmod::Tcp, "PingPong", 16 << 10), 0.95);
        assert_eq!(of(Netmod::Tcp, "PingPong", 32 << 10), 1.0);
        assert_eq!(of(Netmod::Tcp, "Uniband", 8), 1.0);
    }

    #[test]
    fn a_cell_fails_above_the_noise() {
        assert_eq!(judge(0.9, 0.9), Verdict::Reached);
        assert_eq!(judge(1.0, 0.9), Verdict::Near);
        assert_eq!(judge(1.04, 0.9), Verdict::Failed);
        assert_eq!(judge(f64::NAN, 0.9), Verdict::Failed);
    }

    #[test]
    fn two_runs_are_judged_by_the_better_one() {
        assert_eq!([second(&[]), second(&[2.0]), second(&[1.0, 3.0, 2.0])], [None, Some(2.0), Some(2.0)]);
        assert_eq!(mean(&[0.5, 2.0]), 1.0);
    }
}
