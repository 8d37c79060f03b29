//! The table of cells: as text, in Markdown, and as JSON.

use serde_json::json;

use super::cells::Cell;
use super::library::Library;
use super::operation::Kind;

/// Heads of the columns.
const HEADS: [&str; 10] =
    ["operation", "size", "ours", "Intel MPI", "MPICH", "ours, C", "Open MPI", "ratio", "goal", "verdict"];

/// The legend of the table.
pub(crate) const NOTE: &str = "\
Times in us, Uniband and Biband in MB/s, Rate in messages a second (one pair, 8 bytes, windows of 64). \
Barrier and Allreduce (8 bytes): 8 ranks on 2 cores. Start: start, one barrier and end of 32 ranks on 2 cores. \
Two ranks, one on each core, run the same IMB-MPI1 on ours, Intel's and MPICH's library. Open MPI runs a C program \
with the same patterns; it is compared with ours in that program (ours, C). The last four operations are of that \
program alone. The ratio is that to the best peer, named behind it; less is better, also for rates. Before it are those of earlier runs: with several, \
a cell fails only if it does so in two.";

/// Returns the table as text with aligned columns.
pub(crate) fn text(cells: &[Cell]) -> String {
    let rows: Vec<_> = [HEADS.map(str::to_owned)].into_iter().chain(cells.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEADS.len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = format!("{:<1$}", row[0], widths[0]);
        for (word, width) in row.iter().zip(&widths).skip(1) {
            line += &format!("  {word:>width$}");
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// Returns the table in Markdown.
pub(crate) fn markdown(cells: &[Cell]) -> String {
    let mut text = format!("| {} |\n|---|{}\n", HEADS.join(" | "), "---:|".repeat(HEADS.len() - 1));
    for cell in cells {
        text += &format!("| {} |\n", row(cell).join(" | "));
    }
    text
}

fn row(cell: &Cell) -> [String; HEADS.len()] {
    let show = |value: Option<f64>| {
        value.map_or_else(String::new, |v| {
            number(cell.operation.kind, cell.operation.kind.in_unit(v, cell.bytes))
        })
    };
    let theirs = |library| show(cell.beside(library).map(|against| against.theirs));
    let first = cell.against[0];
    let other = cell.against.iter().find(|against| against.program != first.program);
    let best = cell.best();
    let earlier: String = cell.earlier.iter().map(|ratio| format!("{ratio:.2}, ")).collect();
    [
        cell.operation.name.to_owned(),
        size(cell.bytes),
        show(Some(first.ours)),
        theirs(Library::Intel),
        theirs(Library::Mpich),
        show(other.map(|against| against.ours)),
        theirs(Library::OpenMpi),
        format!("{earlier}{:.2} {}", best.ratio, best.library.name()),
        format!("{:.2}", cell.goal()),
        cell.verdict().name().to_owned(),
    ]
}

/// Returns a figure as the tables show it, in the unit of its kind.
pub(crate) fn number(kind: Kind, value: f64) -> String {
    match kind {
        Kind::Time if value < 10.0 => format!("{value:.2}"),
        Kind::Time if value < 100.0 => format!("{value:.1}"),
        Kind::Bandwidth if value < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Returns a size as "64K".
pub(crate) fn size(bytes: usize) -> String {
    match bytes {
        _ if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{}M", bytes >> 20),
        _ if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{}K", bytes >> 10),
        _ => bytes.to_string(),
    }
}

/// Returns a cell as one object of JSON.
pub(crate) fn json(cell: &Cell) -> String {
    let kind = cell.operation.kind;
    let value = |v: f64| kind.in_unit(v, cell.bytes);
    let peers = cell.against.iter().map(|against| {
        json!({ "name": against.library.name(), "ours": value(against.ours),
                "theirs": value(against.theirs), "ratio": against.ratio })
    });
    let best = cell.best();
    json!({ "netmod": cell.netmod.name(), "operation": cell.operation.name, "size": cell.bytes,
            "unit": kind.unit(), "peers": peers.collect::<Vec<_>>(), "best": best.library.name(),
            "ratio": best.ratio, "earlier": cell.earlier, "goal": cell.goal(), "verdict": cell.verdict().name() })
    .to_string()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::cells::tests::rounds;
    use super::super::cells::{add_earlier, cells};
    use super::super::library::Netmod;
    use super::*;

    /// Makes a few cells.
    pub(crate) fn some() -> Vec<Cell> {
        cells(
            Netmod::Shm,
            &rounds(
                "PingPong 8 Imb Ours 0.2\nPingPong 8 Imb Intel 0.25\nPingPong 8 Imb Mpich 0.5\n\
                 PingPong 8 Patterns Ours 0.3\nPingPong 8 Patterns OpenMpi 0.2\n\
                 Uniband 65536 Imb Ours 200000\nUniband 65536 Imb Intel 100000\n\
                 Start 32 Patterns Ours 70000\nStart 32 Patterns OpenMpi 140000",
            ),
        )
    }

    #[test]
    fn a_row_has_ours_the_peers_and_the_verdict() {
        let table = markdown(&some());
        for line in [
            "| PingPong | 8 | 0.20 | 0.25 | 0.50 | 0.30 | 0.20 | 1.50 Open MPI | 0.90 | failed |",
            "| Uniband | 64K | 13107 | 6554 |  |  |  | 0.50 Intel MPI | 1.00 | reached |",
            "| Start | 32 | 70000 |  |  |  | 140000 | 0.50 Open MPI | 1.00 | reached |",
        ] {
            assert!(table.lines().any(|l| l == line), "{line}: {table}");
        }
    }

    #[test]
    fn ratios_of_earlier_runs_are_before_the_last() {
        let mut cells = some();
        add_earlier(&mut cells, &some());
        let table = markdown(&cells);
        assert!(table.contains("| 1.50, 1.50 Open MPI |"), "{table}");
    }

    #[test]
    fn columns_of_text_are_aligned() {
        let text = text(&some());
        let ends: Vec<usize> = text.lines().map(|line| line.find("reached").unwrap_or(0)).collect();
        assert_eq!((text.lines().count(), ends[2]), (4, ends[3]));
        assert!(ends[2] > 0, "{text}");
    }

    #[test]
    fn each_cell_is_one_line_of_json() {
        let lines: Vec<String> = some().iter().map(json).collect();
        let first: serde_json::Value = serde_json::from_str(&lines[0]).expect("JSON");
        assert_eq!((&first["best"], &first["verdict"]), (&json!("Open MPI"), &json!("failed")));
        assert_eq!(
            first["peers"][0],
            json!({ "name": "Intel MPI", "ours": 0.2, "theirs": 0.25, "ratio": 0.8 })
        );
        assert!(lines.iter().all(|line| !line.contains('\n')));
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!([8, 1 << 10, 1536, 4 << 20].map(size), ["8", "1K", "1536", "4M"]);
    }
}
