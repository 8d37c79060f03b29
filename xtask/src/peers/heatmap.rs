//! A picture of the ratios: a row for each operation, a column for each size.

use super::cells::Cell;
use super::table::size;
use super::verdict::Verdict;

/// Pixels of a cell, of the names at the left, and of the head.
const WIDTH: usize = 40;
const HEIGHT: usize = 26;
const LEFT: usize = 90;
const TOP: usize = 56;
/// Pixels below the cells, for the legend.
const BOTTOM: usize = 50;
/// Ratios of the legend.
const LEGEND: [f64; 7] = [0.5, 0.67, 0.8, 1.0, 1.25, 1.5, 2.0];

/// Draws the cells of two ranks. A cell that has failed has a frame.
pub(crate) fn draw(title: &str, cells: &[Cell]) -> String {
    let cells: Vec<&Cell> = cells.iter().filter(|cell| cell.operation.is_pair()).collect();
    let mut sizes: Vec<usize> = cells.iter().map(|cell| cell.bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut names: Vec<&str> = cells.iter().map(|cell| cell.operation.name).collect();
    names.dedup();
    let (width, rows) = (LEFT + WIDTH * sizes.len().max(LEGEND.len()) + 10, HEIGHT * names.len());
    let height = TOP + rows + BOTTOM;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    svg += &text(LEFT, 20, "start", 14, title);
    for (at, bytes) in sizes.iter().enumerate() {
        svg += &text(LEFT + WIDTH * at + WIDTH / 2, TOP - 8, "middle", 11, &size(*bytes));
    }
    for (at, name) in names.iter().enumerate() {
        svg += &text(LEFT - 8, TOP + HEIGHT * at + 17, "end", 11, name);
    }
    for cell in &cells {
        let (Some(row), Some(column)) = (
            names.iter().position(|n| *n == cell.operation.name),
            sizes.iter().position(|s| *s == cell.bytes),
        ) else {
            continue;
        };
        let (x, y) = (LEFT + WIDTH * column, TOP + HEIGHT * row);
        svg += &field(x, y, cell.judged(), cell.verdict() == Verdict::Failed);
    }
    let y = TOP + rows + 16;
    svg += &text(LEFT - 8, y + 17, "end", 11, "ratio");
    for (at, ratio) in LEGEND.iter().enumerate() {
        svg += &field(LEFT + WIDTH * at, y, *ratio, false);
    }
    svg + "</svg>\n"
}

fn text(x: usize, y: usize, anchor: &str, height: usize, text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    format!("<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" font-size=\"{height}\">{text}</text>\n")
}

fn field(x: usize, y: usize, ratio: f64, framed: bool) -> String {
    let colour = colour(ratio);
    let (width, height) = (WIDTH - 2, HEIGHT - 2);
    let frame = if framed { " stroke=\"#000000\" stroke-width=\"1.5\"" } else { "" };
    let square = format!(
        "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{colour}\"{frame}/>\n"
    );
    square + &text(x + width / 2, y + 16, "middle", 11, &format!("{ratio:.2}"))
}

/// Returns a colour: blue where ours is better, white at 1, orange where a peer is better.
///
/// Half and double are the ends of the scale. Those who see no red or green can tell the hues.
fn colour(ratio: f64) -> String {
    let at = ratio.log2().clamp(-1.0, 1.0);
    let end = if at < 0.0 { [74.0, 144.0, 217.0] } else { [236.0, 122.0, 28.0] };
    let mix = |part: f64| (255.0 + (part - 255.0) * at.abs()).round() as u8;
    let [red, green, blue] = end.map(mix);
    format!("#{red:02x}{green:02x}{blue:02x}")
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::some;
    use super::*;

    #[test]
    fn each_cell_of_two_ranks_has_a_square_and_failed_ones_a_frame() {
        let svg = draw("a & b", &some());
        let count = |text: &str| svg.matches(text).count();
        // The ground, two cells, and the legend.
        assert_eq!(count("<rect"), 1 + 2 + LEGEND.len());
        assert_eq!((count("stroke=\"#000000\""), count(">1.50<"), count(">Start<")), (1, 2, 0));
        assert!(svg.contains("a &amp; b") && svg.contains(">64K<") && svg.ends_with("</svg>\n"), "{svg}");
    }

    #[test]
    fn colours_go_from_blue_by_white_to_orange() {
        assert_eq!(colour(1.0), "#ffffff");
        assert_eq!([0.5, 0.1].map(colour), ["#4a90d9", "#4a90d9"]);
        assert_eq!([2.0, 9.0].map(colour), ["#ec7a1c", "#ec7a1c"]);
        assert_ne!(colour(0.9), colour(1.1));
    }
}
