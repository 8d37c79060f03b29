//! Results: each [`Row`] becomes a line of JSON or a line of a table.

use comfy_table::{CellAlignment, Table, TableComponent, presets};
use serde::{Deserialize, Serialize};

/// One result. Fields that do not apply are omitted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// `lat`, `bw`, `bibw`, `rate`, `alltoall`, `barrier`, `flood`, `connect`, `match`, `pair`
    /// or `programs`.
    pub(crate) test: String,
    /// The netmod that carried the messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) netmod: Option<String>,
    /// Message size in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bytes: Option<usize>,
    /// Messages in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) window: Option<usize>,
    /// Number of posted receives in the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) queue: Option<usize>,
    /// Order in which the receives are matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) order: Option<String>,
    /// Number of interfaces per side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) nics: Option<usize>,
    /// For `connect`: `known`, `unused`, `connected` or `latency`. For `pair`: the family of
    /// weights. For `rate` with threads: the thread level. For `programs`: the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<String>,
    /// Threads per process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) threads: Option<usize>,
    /// Engines per device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) engines: Option<usize>,
    /// Ranks or VCs that the memory is divided by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) vcs: Option<u32>,
    /// Median over the rounds.
    pub(crate) value: f64,
    /// `us`, `MB/s`, `msg/s`, `ns`, `s` or `B`.
    pub(crate) unit: String,
    /// Median of the floor over the rounds, in the same unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) floor: Option<f64>,
    /// Name of the floor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) floor_kind: Option<String>,
    /// Median over the rounds of the value divided by the floor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ratio: Option<f64>,
    /// Median over the rounds of the value divided by that of one thread at level Serialized.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ratio_to_serialized: Option<f64>,
    /// Median over the rounds of each round's ratio, where `ratio` is that of the medians.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ratio_by_round: Option<f64>,
    /// Exponent by which the time grows with the number of interfaces, from the next smaller row
    /// on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) growth: Option<f64>,
    /// Processes of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ranks: Option<u32>,
    /// Number of rounds behind the medians.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rounds: Option<usize>,
    /// Value of the best round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) best: Option<f64>,
    /// Floor of its best round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) floor_best: Option<f64>,
    /// Rate of a memcpy of the same size between the same two buffers, in the same unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) memcpy_hot: Option<f64>,
    /// Rate of a memcpy between buffers that no cache holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) memcpy_cold: Option<f64>,
    /// The libfabric provider that carried the messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) provider: Option<String>,
    /// Result of libfabric's `fi_pingpong` for that provider, right after the test, in the same
    /// unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fi_pingpong: Option<f64>,
    /// Result of rdma-core's `ibv_rc_pingpong` for the port of verbs, right after the test, in the
    /// same unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ibv_rc_pingpong: Option<f64>,
    /// Private memory per rank in KiB, median over the ranks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) private_kib: Option<u64>,
    /// Private memory of the largest rank, in KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_private_kib: Option<u64>,
    /// Total bytes allocated for it, with the allocator's headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) heap_bytes: Option<u64>,
    /// Total private bytes that became resident for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) resident_bytes: Option<u64>,
    /// Peak memory of unexpected messages in a rank, in KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unexpected_kib: Option<u64>,
    /// Limit of unexpected messages (`NETMOD_UNEXPECTED_MAX`), in KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unexpected_max_kib: Option<u64>,
    /// Interval that was timed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) measured: Option<String>,
    /// Address that the messages went to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<String>,
}

/// Rounds to four significant digits; more would be noise.
pub(crate) fn rounded(v: f64) -> f64 {
    if v == 0.0 || !v.is_finite() {
        return v;
    }
    let scale = 10f64.powi(3 - v.abs().log10().floor() as i32);
    (v * scale).round() / scale
}

/// Returns the median; NaN for no values.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut v: Vec<f64> = values.to_vec();
    v.sort_by(f64::total_cmp);
    match v.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => v[n / 2],
        n => (v[n / 2 - 1] + v[n / 2]) / 2.0,
    }
}

/// Returns the rows as JSON, one object per line.
pub(crate) fn json(rows: &[Row]) -> String {
    rows.iter().map(line).collect()
}

/// Returns one JSON object and a newline.
pub(crate) fn line<T: Serialize>(row: &T) -> String {
    // serde_json refuses only maps with non-string keys; there are none.
    serde_json::to_string(row).map_or_else(|e| format!("{{\"error\":\"{e}\"}}\n"), |s| s + "\n")
}

/// Formats a size: `8 B`, `64 KiB`, `1 MiB`.
pub(crate) fn size(bytes: usize) -> String {
    match bytes {
        b if b >= 1 << 20 && b % (1 << 20) == 0 => format!("{} MiB", b >> 20),
        b if b >= 1 << 10 && b % (1 << 10) == 0 => format!("{} KiB", b >> 10),
        b => format!("{} B", grouped(b as f64)),
    }
}

/// Formats a whole number with separators.
pub(crate) fn grouped(v: f64) -> String {
    let digits = format!("{v:.0}");
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// Formats a value with its unit.
pub(crate) fn amount(v: f64, unit: &str) -> String {
    match unit {
        "msg/s" if v >= 1e6 => format!("{:.2} M/s", v / 1e6),
        "msg/s" => format!("{}/s", grouped(v)),
        "MB/s" => format!("{} MB/s", grouped(v)),
        "us" if v >= 1000.0 => format!("{} us", grouped(v)),
        _ if v >= 100.0 => format!("{v:.0} {unit}"),
        _ if v >= 10.0 => format!("{v:.1} {unit}"),
        _ => format!("{v:.2} {unit}"),
    }
}

impl Row {
    /// Returns the description of the measured quantity.
    pub(crate) fn title(&self) -> &'static str {
        match (self.test.as_str(), self.kind.as_deref()) {
            ("connect", Some("known")) => return "memory per known rank",
            ("connect", Some("unused")) => return "memory per unconnected VC",
            ("connect", Some("connected")) => return "memory per connected VC",
            ("connect", Some("latency")) => return "latency beside idle connections",
            ("rate", Some("Serialized")) => return "message rate, Serialized",
            ("rate", Some("Multiple")) => return "message rate, Multiple",
            ("pair", Some("uniform")) => return "assignment, uniform weights",
            ("pair", Some("random")) => return "assignment, random weights",
            ("pair", Some("sparse")) => return "assignment, a quarter of the edges",
            ("pair", Some("product")) => return "assignment, products as weights",
            ("programs", Some("ping-pong")) => return "ping-pong (half a round trip)",
            ("programs", Some("ping-pong, 1 us")) => return "with 1 us of computing",
            ("programs", Some("ping-pong, 5 us")) => return "with 5 us of computing",
            ("programs", Some("halo")) => return "halo exchange with four neighbours",
            ("programs", Some("allreduce")) => return "allreduce by recursive doubling",
            ("programs", Some("many to one")) => return "many to one (a message)",
            _ => {}
        }
        match self.test.as_str() {
            "lat" => "latency (half a round trip)",
            "bw" => "bandwidth, one way",
            "bibw" => "bandwidth, both ways at once",
            "rate" => "message rate",
            "match" => "tag matching",
            "barrier" => "a barrier of all ranks",
            "alltoall" => "all to all, start to finalize",
            "flood" => "many to one slow rank",
            _ => "result",
        }
    }

    /// Formats the size of a message or queue.
    pub(crate) fn extent(&self) -> String {
        if let (Some(n), "connect") = (self.vcs, self.test.as_str()) {
            return grouped(f64::from(n));
        }
        if let (Some(threads), Some(engines), Some(b)) = (self.threads, self.engines, self.bytes) {
            return format!("{}, threads {threads}, engines {engines}", size(b));
        }
        if let Some(n) = self.nics {
            return format!("{n} x {n}");
        }
        match (self.bytes, self.queue) {
            (_, Some(q)) => format!("{} receives", grouped(q as f64)),
            (Some(b), _) => size(b),
            _ if self.test == "barrier" => format!("{} ranks", self.ranks.unwrap_or_default()),
            _ => String::new(),
        }
    }

    /// Returns the expected range of the ratio.
    pub(crate) fn good(&self) -> &'static str {
        match self.kind.as_deref() {
            Some("unused") => return "up to 256 B",
            Some("connected") => return "up to 16384 B",
            Some("latency") => return "up to 1.10",
            Some("Serialized" | "Multiple") => return "",
            _ => {}
        }
        match (self.nics, self.kind.as_deref()) {
            (Some(4), _) => return "up to 0.50 us",
            (Some(30), _) => return "up to 15 us",
            (Some(150), _) => return "up to 5,000 us",
            (Some(300), Some("product")) => return "up to 40,000 us",
            (Some(300), _) => return "up to 10,000 us",
            _ => {}
        }
        if self.netmod.as_deref() == Some(netmod_ofi::NAME) {
            let one_sided = self.floor_kind.as_ref().is_some_and(|k| k.starts_with("fi_"));
            return match (self.test.as_str(), self.bytes) {
                ("lat", Some(b)) if b <= 64 => "up to 1.15",
                ("bw", Some(b)) if b >= 4 << 20 && one_sided => "0.90 or more",
                ("bw", Some(b)) if b >= 4 << 20 => "0.95 or more",
                _ => "",
            };
        }
        let shm = self.netmod.as_deref() == Some(netmod_shm::NAME);
        match (self.test.as_str(), self.bytes) {
            ("lat", Some(b)) if shm && b <= 64 => "up to 1.80",
            ("bw", Some(b)) if shm && b >= 64 << 20 => "1.00 or more",
            ("bw", Some(b)) if shm && b >= 4 << 20 => "0.80 or more",
            ("bw", Some(b)) if shm && b >= 1 << 20 => "0.75 or more",
            ("bw", Some(b)) if shm && b >= 64 << 10 => "0.42 or more",
            ("rate", Some(b)) if shm && b <= 8 => "30 M/s here",
            ("lat" | "bw" | "rate", _) if shm => "",
            ("lat", Some(b)) if b <= 64 => "up to 1.06",
            ("lat", Some(b)) if b <= 1024 => "up to 1.08",
            ("lat", Some(b)) if b <= 8192 => "up to 1.15",
            ("bw", Some(b)) if b >= 1 << 20 => "0.90 or more",
            ("bw", Some(b)) if b >= 64 << 10 => "0.85 or more",
            ("rate", Some(b)) if b <= 64 => "10 or more",
            ("match", _) => "up to 2",
            _ => "",
        }
    }
}

/// Makes an empty table without lines between its rows.
pub(crate) fn plain_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY).set_header(header.to_vec());
    table.remove_style(TableComponent::HorizontalLines).remove_style(TableComponent::MiddleIntersections);
    table
}

/// Formats the rows as a human-readable table.
pub(crate) fn table(rows: &[Row]) -> String {
    let mut table = plain_table(&["test", "size", "netmod", "here", "floor", "ratio", "good is"]);
    for r in rows {
        table.add_row([
            r.title().to_string(),
            r.extent(),
            r.netmod.clone().unwrap_or_default(),
            amount(r.value, &r.unit),
            r.floor.map_or_else(String::new, |f| amount(f, &r.unit)),
            r.ratio.map_or_else(String::new, |x| format!("{x:.2}")),
            r.good().to_string(),
        ]);
    }
    for (i, column) in table.column_iter_mut().enumerate() {
        if (3..6).contains(&i) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("{table}\n")
}

/// Formats the floors of the rows, one per line, and the remarks of each row.
pub(crate) fn remarks(rows: &[Row]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for r in rows {
        if let (Some(kind), Some(how), Some(resident)) = (&r.kind, &r.measured, r.resident_bytes) {
            let heap = r.heap_bytes.map_or_else(|| "unknown".to_string(), |b| grouped(b as f64));
            lines.push(format!("{kind}: {how}; {heap} B of heap, {} B resident", grouped(resident as f64)));
            continue;
        }
        if let (Some(threads), Some(engines), Some(ratio)) = (r.threads, r.engines, r.ratio_to_serialized) {
            lines.push(format!(
                "threads {threads}, engines {engines}: floor is {}; {ratio:.2} times one thread at level Serialized",
                r.floor_kind.as_deref().unwrap_or("not known")
            ));
            continue;
        }
        let line = match (&r.floor_kind, &r.measured, r.private_kib) {
            (Some(kind), ..) => format!("floor of {}: {kind}", r.test),
            (None, Some(from), Some(kib)) => format!(
                "time from {from}; private memory of a rank: {} KiB (median), {} KiB (largest)",
                grouped(kib as f64),
                grouped(r.max_private_kib.unwrap_or(kib) as f64)
            ),
            _ => continue,
        };
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    for r in rows {
        if let (Some(n), Some(growth)) = (r.nics, r.growth) {
            lines.push(format!("{} up to {n} x {n}: time grows with exponent {growth:.2}", r.title()));
        }
    }
    for r in rows {
        let caches = [("hot", r.memcpy_hot), ("cold", r.memcpy_cold)];
        let known: Vec<String> = caches
            .iter()
            .filter_map(|(name, v)| Some(format!("{} {name}", amount((*v)?, &r.unit))))
            .collect();
        if !known.is_empty() {
            lines.push(format!("memcpy beside {} of {}: {}", r.test, r.extent(), known.join(", ")));
        }
        if let Some(v) = r.ibv_rc_pingpong {
            lines.push(format!(
                "ibv_rc_pingpong of {}, half a round trip: {}",
                r.extent(),
                amount(v, &r.unit)
            ));
        }
        if let (Some(provider), Some(v)) = (&r.provider, r.fi_pingpong) {
            lines.push(format!("fi_pingpong of {} over {provider}: {}", r.extent(), amount(v, &r.unit)));
        }
    }
    lines.iter().map(|l| format!("{l}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_digits_are_kept() {
        assert_eq!(rounded(2.34567), 2.346);
        assert_eq!(rounded(123_456.0), 123_500.0);
        assert_eq!(rounded(0.000123456), 0.0001235);
        assert_eq!(rounded(0.0), 0.0);
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn amounts_are_readable() {
        assert_eq!(size(8), "8 B");
        assert_eq!(size(65536), "64 KiB");
        assert_eq!(size(1_500_000), "1,500,000 B");
        assert_eq!(amount(3_400_000.0, "msg/s"), "3.40 M/s");
        assert_eq!(amount(3.6, "us"), "3.60 us");
        assert_eq!(amount(12345.6, "MB/s"), "12,346 MB/s");
    }

    #[test]
    fn what_does_not_apply_is_left_out() {
        let row =
            Row { test: "match".into(), queue: Some(10), value: 41.0, unit: "ns".into(), ..Row::default() };
        assert_eq!(json(&[row]), "{\"test\":\"match\",\"queue\":10,\"value\":41.0,\"unit\":\"ns\"}\n");
    }
}
