//! A picture of the ratios: a row for each operation, a column for each size or number of ranks.

use super::table::size;

/// Pixels of a cell, of a letter of the names at the left, and of the head.
const WIDTH: usize = 40;
const HEIGHT: usize = 26;
const LETTER: usize = 7;
const TOP: usize = 56;
/// Pixels below the cells, for the legend.
const BOTTOM: usize = 50;
/// Ratios of the legend.
const LEGEND: [f64; 7] = [0.5, 0.67, 0.8, 1.0, 1.25, 1.5, 2.0];

/// A column of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Column {
    Bytes(usize),
    Ranks(u32),
}

impl Column {
    fn head(self) -> String {
        match self {
            Column::Bytes(bytes) => size(bytes),
            Column::Ranks(ranks) => ranks.to_string(),
        }
    }
}

/// A field of a picture.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) column: Column,
    pub(crate) ratio: f64,
    pub(crate) failed: bool,
}

/// Draws fields, those of a name one after the other. One that has failed has a frame.
pub(crate) fn draw(title: &str, fields: &[Field]) -> String {
    let mut columns: Vec<Column> = fields.iter().map(|field| field.column).collect();
    columns.sort_unstable();
    columns.dedup();
    let mut names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
    names.dedup();
    let left = 20 + LETTER * names.iter().map(|name| name.len()).max().unwrap_or(0).max(10);
    let (width, rows) = (left + WIDTH * columns.len().max(LEGEND.len()) + 10, HEIGHT * names.len());
    let height = TOP + rows + BOTTOM;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    svg += &text(left, 20, "start", 14, title);
    for (at, column) in columns.iter().enumerate() {
        svg += &text(left + WIDTH * at + WIDTH / 2, TOP - 8, "middle", 11, &column.head());
    }
    for (at, name) in names.iter().enumerate() {
        svg += &text(left - 8, TOP + HEIGHT * at + 17, "end", 11, name);
    }
    for Field { name, column, ratio, failed } in fields {
        let row = names.iter().position(|n| n == name).unwrap_or(0);
        let at = columns.iter().position(|c| c == column).unwrap_or(0);
        svg += &draw_field(left + WIDTH * at, TOP + HEIGHT * row, *ratio, *failed);
    }
    let y = TOP + rows + 16;
    svg += &text(left - 8, y + 17, "end", 11, "ratio");
    for (at, ratio) in LEGEND.iter().enumerate() {
        svg += &draw_field(left + WIDTH * at, y, *ratio, false);
    }
    svg + "</svg>\n"
}

fn text(x: usize, y: usize, anchor: &str, height: usize, text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    format!("<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" font-size=\"{height}\">{text}</text>\n")
}

fn draw_field(x: usize, y: usize, ratio: f64, framed: bool) -> String {
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
    use super::*;

    #[test]
    fn each_field_has_a_square_and_failed_ones_a_frame() {
        let field = |name: &str, bytes, ratio, failed| Field {
            name: name.into(),
            column: Column::Bytes(bytes),
            ratio,
            failed,
        };
        let fields = [field("PingPong", 8, 1.5, true), field("Uniband", 64 << 10, 0.5, false)];
        let svg = draw("a & b", &fields);
        let count = |text: &str| svg.matches(text).count();
        // The ground, two cells, and the legend.
        assert_eq!(count("<rect"), 1 + 2 + LEGEND.len());
        assert_eq!((count("stroke=\"#000000\""), count(">1.50<"), count(">Uniband<")), (1, 2, 1));
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
