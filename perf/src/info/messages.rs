//! Which messages of a netmod go eagerly, and in which mode the others move, as the device chooses it.

use netmod_core::Config;
use netmod_lmt::choice::{self, Rates, Side, Wish};
use netmod_lmt::{Mode, Modes, coop, probe};
use serde::Serialize;

use crate::report::grouped;

/// A line of the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Line {
    pub(super) netmod: &'static str,
    /// Bytes, from and to.
    pub(super) sizes: String,
    /// Of the receiver's data and of the node, what the mode depends on; empty if nothing.
    pub(super) data: &'static str,
    pub(super) mode: &'static str,
    pub(super) why: String,
}

/// The table, and why a netmod has fewer modes than it could have.
pub(super) fn table(cfg: &Config) -> (Vec<Line>, Option<String>) {
    let wish = Wish::of_name(cfg.lmt).unwrap_or(Wish::Only(Mode::Null));
    let (mut near, mut far, mut warning) = (Modes::NULL, Modes::NULL, None);
    match coop::place_here() {
        Ok(_) => {
            near = near.with(Mode::Coop);
            // Over a network only if it is asked for.
            if wish == Wish::Only(Mode::Coop) {
                far = near;
            }
        }
        Err(e) => warning = Some(format!("large messages within this node: {e}")),
    }
    if netmod_shm::attach_here().is_ok() {
        near = near.with(Mode::Put).with(Mode::Get);
    }
    let rates = if choice::asks_for_rates(near, wish) { probe::rates() } else { None };
    let mut lines = of_netmod(cfg, netmod_shm::NAME, near, wish, rates);
    lines.extend(of_netmod(cfg, netmod_tcp::NAME, far, wish, rates));
    (lines, warning)
}

fn of_netmod(
    cfg: &Config,
    netmod: &'static str,
    modes: Modes,
    wish: Wish,
    rates: Option<Rates>,
) -> Vec<Line> {
    let mut lines = Vec::new();
    let first = cfg.eager_max as u64 + 1;
    if cfg.eager_max > 0 {
        lines.push(Line {
            netmod,
            sizes: format!("1 to {} bytes", cfg.eager_max),
            data: "",
            mode: "eager",
            why: "at once, as long as the receiver has room (NETMOD_EAGER_MAX)".into(),
        });
    }
    let used = rates.unwrap_or(Rates::ASSUMED);
    let side =
        |contiguous, crowded| Side { modes, wish, min: cfg.lmt_min as u64, contiguous, crowded, rates: used };
    let usual = side(true, false);
    let mut starts = vec![first];
    if side(true, false).min > first && choice::grant(usual, first) != choice::grant(usual, usual.min) {
        starts.push(usual.min);
    }
    for (i, from) in starts.iter().enumerate() {
        let sizes = match starts.get(i + 1) {
            Some(next) => format!("{from} to {} bytes", next - 1),
            None => format!("{from} bytes and more"),
        };
        let cases = [
            ("in one piece", usual),
            ("in pieces", side(false, false)),
            ("in one piece, more ranks than cores", side(true, true)),
            ("in pieces, more ranks than cores", side(false, true)),
        ];
        let chosen = cases.map(|(data, side)| (data, choice::explain(side, *from)));
        let same = chosen.iter().all(|(_, c)| c.0 == chosen[0].1.0);
        for (data, (mode, why)) in chosen.into_iter().take(if same { 1 } else { 4 }) {
            let why = if choice::asks_for_rates(modes, wish) && mode != Mode::Null {
                let (cached, kernel) = (f64::from(used.cached), f64::from(used.kernel));
                format!(
                    "{why} (a copy in a cache {} MB/s, by the kernel {} MB/s)",
                    grouped(cached),
                    grouped(kernel)
                )
            } else {
                why.to_owned()
            };
            let data = if same { "" } else { data };
            lines.push(Line { netmod, sizes: sizes.clone(), data, mode: mode.name(), why });
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modes(cfg: &Config, modes: Modes, rates: Rates) -> Vec<(String, &'static str, &'static str)> {
        let wish = Wish::of_name(cfg.lmt).expect("a mode");
        let lines = of_netmod(cfg, "shm", modes, wish, Some(rates));
        lines.into_iter().map(|l| (l.sizes, l.data, l.mode)).collect()
    }

    #[test]
    fn what_makes_no_difference_is_one_line() {
        let all = Modes::NULL.with(Mode::Coop).with(Mode::Get);
        let line = |sizes: &str, data, mode| (sizes.to_owned(), data, mode);
        let eager = line("1 to 131072 bytes", "", "eager");
        let cfg = Config::default();
        let fast = Rates { cached: 50_000, kernel: 2_000 };
        assert_eq!(modes(&cfg, all, fast), [eager.clone(), line("131073 bytes and more", "", "coop")]);
        let slow = Rates { cached: 27_000, kernel: 10_000 };
        let lines = modes(&cfg, all, slow);
        assert_eq!(lines.len(), 5, "{lines:?}");
        assert_eq!(lines[1], line("131073 bytes and more", "in one piece", "get"));
        assert_eq!(lines[2], line("131073 bytes and more", "in pieces", "coop"));
        let mut late = Config::default();
        late.lmt_min = 1 << 20;
        let lines = modes(&late, all, fast);
        let from = ["131073 to 1048575 bytes", "1048576 bytes and more"];
        assert_eq!(lines[1..], [line(from[0], "", "null"), line(from[1], "", "coop")]);
        late.eager_max = 0;
        assert_eq!(modes(&late, Modes::NULL, fast), [line("1 bytes and more", "", "null")]);
    }
}
