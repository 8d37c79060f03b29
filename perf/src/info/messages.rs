//! Describes the sizes at which a netmod sends eagerly, and the modes that the device chooses for
//! larger messages.

use ch3_shim::Config;
use netmod_lmt::choice::{self, Policy, Side};
use netmod_lmt::rates::{FROM, Measured, Rates};
use netmod_lmt::{Mode, Modes, coop, probe};
use serde::Serialize;

use crate::report::grouped;

/// A line of the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Line {
    pub(super) netmod: &'static str,
    /// Range of sizes in bytes.
    pub(super) sizes: String,
    /// Layout of the receiver's data and state of the node that the mode depends on; empty if it
    /// depends on neither.
    pub(super) data: &'static str,
    pub(super) mode: &'static str,
    pub(super) why: String,
}

/// Returns the table, and the reason if a netmod lacks a mode.
pub(super) fn table(cfg: &Config) -> (Vec<Line>, Option<String>) {
    let policy = Policy::of_name(cfg.lmt).unwrap_or(Policy::Only(Mode::Null));
    let (mut near, mut far, mut warning) = (Modes::NULL, Modes::NULL, None);
    match coop::shm_domain() {
        Ok(_) => {
            near = near.with(Mode::Coop);
            // Over a network only if the user asks for it.
            if policy == Policy::Only(Mode::Coop) {
                far = near;
            }
        }
        Err(e) => warning = Some(format!("large messages within this node: {e}")),
    }
    if netmod_shm::attach_here().is_ok() {
        near = near.with(Mode::Put).with(Mode::Get);
    }
    let mut measured = Measured::default();
    let mut rates = |bytes| measured.at(bytes, |len| probe::rates(len).unwrap_or(Rates::ASSUMED));
    let joint = |crowded| netmod_shm::joint_from(&cfg.shm, crowded) as u64;
    let room = netmod_shm::room_between(2) as u64;
    let mut lines = of_netmod(cfg, netmod_shm::NAME, near, policy, room, &mut rates, joint);
    lines.extend(of_netmod(cfg, netmod_tcp::NAME, far, policy, 0, &mut rates, |_| u64::MAX));
    (lines, warning)
}

/// Reason for sending eagerly.
const EAGER: &str = "eager, as long as the receiver has room (NETMOD_EAGER_MAX)";

/// Added where the model makes only the first choice.
const TRIED: &str = ", unless autotuning finds otherwise for contiguous data";

fn of_netmod(
    cfg: &Config,
    netmod: &'static str,
    modes: Modes,
    policy: Policy,
    room: u64,
    rates: &mut impl FnMut(u64) -> Rates,
    joint_from: impl Fn(bool) -> u64,
) -> Vec<Line> {
    let (said, min) = (cfg.eager_max as u64, cfg.lmt_min as u64);
    let by_rates = choice::asks_for_rates(modes, policy);
    let most = if by_rates && cfg.leaves_eager_open() { said.max(room) } else { said };
    let mut choices = |from: u64| {
        let rates = if by_rates && from >= min { rates(from) } else { Rates::ASSUMED };
        let explain = |contiguous, crowded| {
            let joint = joint_from(crowded) <= from;
            let side = Side { modes, policy, min, contiguous, crowded, joint, rates };
            let got = choice::may_be_got(Side { contiguous: true, ..side }, from);
            if from <= if crowded || got { said } else { most } {
                return ("eager", EAGER, false);
            }
            let (mode, why) = choice::explain(side, from);
            (mode.name(), why, choice::is_tried(side, from))
        };
        let cases = [
            ("in one piece", explain(true, false)),
            ("in pieces", explain(false, false)),
            ("in one piece, more ranks than cores", explain(true, true)),
            ("in pieces, more ranks than cores", explain(false, true)),
        ];
        (cases, rates)
    };
    let mut starts: Vec<u64> =
        FROM.into_iter().chain([1, said + 1, most + 1, min, joint_from(false)]).collect();
    starts.sort_unstable();
    let mut ranges: Vec<(u64, _)> = Vec::new();
    for from in starts.into_iter().filter(|from| (1..u64::MAX).contains(from)) {
        let now = choices(from);
        let shown = |cases: &[(_, (&'static str, &'static str, bool)); 4]| {
            cases.map(|(_, (mode, why, tried))| {
                (mode, if mode == Mode::Null.name() { "" } else { why }, tried)
            })
        };
        if ranges.last().is_none_or(|(_, (before, _))| shown(before) != shown(&now.0)) {
            ranges.push((from, now));
        }
    }
    let mut lines = Vec::new();
    for (i, (from, (cases, rates))) in ranges.iter().enumerate() {
        let sizes = match ranges.get(i + 1) {
            Some((next, _)) => format!("{from} to {} bytes", next - 1),
            None => format!("{from} bytes and more"),
        };
        let same = cases.iter().all(|(_, c)| c.0 == cases[0].1.0);
        for (data, (mode, why, tried)) in cases.iter().take(if same { 1 } else { 4 }) {
            let why = if by_rates && ![Mode::Null.name(), "eager"].contains(mode) {
                let rates = [rates.cached, rates.copied, rates.kernel].map(|r| grouped(r.into()));
                let [cached, copied, kernel] = &rates;
                let until = if *tried { TRIED } else { "" };
                format!(
                    "{why}{until} (copies in a cache {cached} MB/s, of so much {copied}, by the kernel {kernel})"
                )
            } else {
                (*why).to_owned()
            };
            let data = if same { "" } else { *data };
            lines.push(Line { netmod, sizes: sizes.clone(), data, mode, why });
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modes(cfg: &Config, modes: Modes, rates: Rates) -> Vec<(String, &'static str, &'static str)> {
        let policy = Policy::of_name(cfg.lmt).expect("a mode");
        let lines = of_netmod(cfg, "shm", modes, policy, 0, &mut |_| rates, |_| u64::MAX);
        lines.into_iter().map(|l| (l.sizes, l.data, l.mode)).collect()
    }

    #[test]
    fn each_length_has_its_rates() {
        let policy = Policy::of_name("auto").expect("a mode");
        let all = Modes::NULL.with(Mode::Coop).with(Mode::Get);
        let (mut asked, cfg) = (Vec::new(), Config::default());
        let mut rates = |bytes| {
            asked.push(bytes);
            let long = bytes >= 2 << 20;
            Rates {
                cached: 50_000,
                copied: if long { 10_000 } else { 50_000 },
                kernel: if long { 4_000 } else { 150_000 },
            }
        };
        let lines = of_netmod(&cfg, "shm", all, policy, 0, &mut rates, |_| u64::MAX);
        let one_piece = lines.iter().filter(|l| l.data.is_empty() || l.data == "in one piece");
        let found: Vec<_> = one_piece.map(|l| (&*l.sizes, l.mode)).collect();
        let get = ("131073 to 2097151 bytes", "get");
        let coop = ("2097152 bytes and more", "coop");
        assert_eq!(found, [("1 to 131072 bytes", "eager"), get, coop]);
        // From the size at which both are tried, the model no longer decides.
        let tried: Vec<_> =
            lines.iter().filter(|l| l.why.contains(TRIED)).map(|l| (&*l.sizes, l.data)).collect();
        assert_eq!(tried, [(get.0, "in one piece"), (coop.0, "")]);
        asked.dedup();
        assert_eq!(asked, [cfg.lmt_min as u64, FROM[0], cfg.eager_max as u64 + 1, FROM[1], FROM[2], FROM[3]]);
    }

    #[test]
    fn gets_that_both_sides_copy_have_a_line() {
        let both = Modes::NULL.with(Mode::Coop).with(Mode::Get);
        let slow = Rates { cached: 27_000, copied: 27_000, kernel: 13_000 };
        let joint_from = |crowded| if crowded { u64::MAX } else { 1 << 20 };
        let lines = of_netmod(&Config::default(), "shm", both, Policy::Auto, 0, &mut |_| slow, joint_from);
        let gets: Vec<&Line> = lines.iter().filter(|l| l.data == "in one piece").collect();
        let [alone, joint] = gets[..] else { panic!("{lines:?}") };
        assert_eq!((&*alone.sizes, alone.mode), ("131073 to 1048575 bytes", "coop"));
        assert_eq!((&*joint.sizes, joint.mode), ("1048576 bytes and more", "get"));
        assert!(joint.why.contains("each side"), "{lines:?}");
    }

    #[test]
    fn what_has_room_goes_eagerly_where_ranks_have_a_core_each() {
        let all = Modes::NULL.with(Mode::Coop).with(Mode::Get);
        let fast = Rates { cached: 50_000, copied: 50_000, kernel: 2_000 };
        let lines = |cfg: &Config| {
            let lines = of_netmod(cfg, "shm", all, Policy::Auto, 512 << 10, &mut |_| fast, |_| u64::MAX);
            lines.into_iter().map(|l| format!("{} {} {}", l.sizes, l.data, l.mode)).collect::<Vec<_>>()
        };
        let between = "131073 to 524288 bytes in";
        let found = lines(&Config::default());
        assert_eq!(found.first().map(|l| &**l), Some("1 to 131072 bytes  eager"));
        assert_eq!(
            found[1..],
            [
                format!("{between} one piece eager"),
                format!("{between} pieces eager"),
                format!("{between} one piece, more ranks than cores coop"),
                format!("{between} pieces, more ranks than cores coop"),
                "524289 bytes and more  coop".to_owned(),
            ]
        );
        let close = Rates { kernel: 25_000, ..fast };
        let room = 512 << 10;
        let close =
            of_netmod(&Config::default(), "shm", all, Policy::Auto, room, &mut |_| close, |_| u64::MAX);
        assert_eq!(
            (&*close[1].sizes, close[1].mode),
            ("131073 to 8388607 bytes", "coop"),
            "autotuning finds out"
        );
        let mut said = Config::default();
        said.set("NETMOD_EAGER_MAX", "128K").expect("a size");
        assert_eq!(lines(&said), ["1 to 131072 bytes  eager", "131073 bytes and more  coop"]);
    }

    #[test]
    fn what_makes_no_difference_is_one_line() {
        let all = Modes::NULL.with(Mode::Coop).with(Mode::Get);
        let line = |sizes: &str, data, mode| (sizes.to_owned(), data, mode);
        let eager = line("1 to 131072 bytes", "", "eager");
        let cfg = Config::default();
        let fast = Rates { cached: 50_000, copied: 50_000, kernel: 2_000 };
        assert_eq!(modes(&cfg, all, fast), [eager.clone(), line("131073 bytes and more", "", "coop")]);
        let slow = Rates { cached: 27_000, copied: 27_000, kernel: 11_000 };
        let lines = modes(&cfg, all, slow);
        assert_eq!((lines.len(), &lines[0]), (5, &eager), "{lines:?}");
        let crowded = "in one piece, more ranks than cores";
        assert_eq!(lines[1], line("131073 bytes and more", "in one piece", "coop"));
        assert_eq!(lines[3], line("131073 bytes and more", crowded, "get"));
        // The user's threshold wins.
        let mut said = Config::default();
        said.set("NETMOD_EAGER_MAX", "64K").expect("a size");
        let lines = modes(&said, all, slow);
        assert_eq!((lines.len(), &lines[0]), (9, &line("1 to 65536 bytes", "", "eager")), "{lines:?}");
        let mut late = Config::default();
        late.lmt_min = 1 << 20;
        let lines = modes(&late, all, fast);
        let from = ["131073 to 1048575 bytes", "1048576 bytes and more"];
        assert_eq!(lines[1..], [line(from[0], "", "null"), line(from[1], "", "coop")]);
        late.eager_max = 0;
        assert_eq!(modes(&late, Modes::NULL, fast), [line("1 bytes and more", "", "null")]);
    }
}
