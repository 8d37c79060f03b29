//! `--plot`: latency and bandwidth over message size, each with its floor, as an SVG file.

use std::ops::Range;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::error::{During, Failure, Result};
use crate::report::{Row, amount, size};

const PANEL: (u32, u32) = (900, 520);

/// Contents of one panel.
#[derive(Debug)]
struct Panel<'r> {
    rows: Vec<&'r Row>,
}

/// Draws the rows, a panel for each test and netmod that has sizes.
///
/// # Errors
/// If there is nothing to draw, or the file cannot be written.
pub(crate) fn draw(file: &Path, rows: &[Row]) -> Result<()> {
    let mut panels: Vec<Panel<'_>> = Vec::new();
    for row in rows.iter().filter(|r| r.bytes.is_some() && r.floor.is_some() && r.value > 0.0) {
        let same = |p: &&mut Panel<'_>| p.rows.iter().all(|r| r.test == row.test && r.netmod == row.netmod);
        match panels.iter_mut().find(same) {
            Some(p) => p.rows.push(row),
            None => panels.push(Panel { rows: vec![row] }),
        }
    }
    if panels.iter().any(|p| p.rows.len() > 1) {
        // The tour also has single points, which make no curve.
        panels.retain(|p| p.rows.len() > 1);
    }
    if panels.is_empty() {
        return Err(Failure::new(format!(
            "{}: there is no result with a message size to draw",
            file.display()
        )));
    }
    let mut text = String::new();
    render(&mut text, &mut panels)
        .map_err(|e| Failure::new(format!("cannot draw {}: {e}", file.display())))?;
    std::fs::write(file, text).during(format!("write {}", file.display()))
}

type Outcome = std::result::Result<(), Box<dyn std::error::Error>>;

fn render(text: &mut String, panels: &mut [Panel<'_>]) -> Outcome {
    let root = SVGBackend::with_string(text, (PANEL.0, PANEL.1 * panels.len() as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    for (area, panel) in root.split_evenly((panels.len(), 1)).iter().zip(panels) {
        panel.rows.sort_by_key(|r| r.bytes);
        panel.draw(area)?;
    }
    root.present()?;
    Ok(())
}

impl Panel<'_> {
    fn points(&self, of: impl Fn(&Row) -> Option<f64>) -> Vec<(f64, f64)> {
        self.rows.iter().filter_map(|r| Some((r.bytes? as f64, of(r)?))).collect()
    }

    fn ranges(&self) -> (Range<f64>, Range<f64>) {
        let (mut x, mut y) = ((f64::INFINITY, 0f64), (f64::INFINITY, 0f64));
        for (bytes, v) in self.points(|r| Some(r.value)).into_iter().chain(self.points(|r| r.floor)) {
            x = (x.0.min(bytes), x.1.max(bytes));
            y = (y.0.min(v), y.1.max(v));
        }
        (x.0 / 1.3..x.1 * 1.3, y.0 / 1.5..y.1 * 1.5)
    }

    fn draw<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
    ) -> std::result::Result<(), Box<dyn std::error::Error>>
    where
        B::ErrorType: 'static,
    {
        let Some(first) = self.rows.first() else { return Ok(()) };
        let netmod = first.netmod.clone().unwrap_or_default();
        // Short messages may have another floor.
        let mut kinds: Vec<&str> = self.rows.iter().filter_map(|r| r.floor_kind.as_deref()).collect();
        kinds.dedup();
        let floor_kind = kinds.join(", then ");
        let unit = first.unit.clone();
        let (x, y) = self.ranges();
        let mut chart = ChartBuilder::on(area)
            .caption(format!("{}, netmod {netmod}", first.title()), ("sans-serif", 20))
            .margin(14)
            .x_label_area_size(44)
            .y_label_area_size(90)
            .build_cartesian_2d(x.log_scale().base(2.0), y.log_scale())?;
        chart
            .configure_mesh()
            .x_desc("message size")
            .x_label_formatter(&|b| size(*b as usize))
            .y_label_formatter(&|v| amount(*v, &unit))
            .light_line_style(WHITE)
            .draw()?;
        let curves = [
            (format!("netmod {netmod}"), BLUE, self.points(|r| Some(r.value))),
            (format!("floor: {floor_kind}"), RGBColor(150, 150, 150), self.points(|r| r.floor)),
        ];
        for (name, colour, points) in curves {
            chart
                .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?
                .label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 22, y)], colour.stroke_width(2)));
            chart.draw_series(points.iter().map(|p| Circle::new(*p, 3, colour.filled())))?;
        }
        let place =
            if unit == "us" { SeriesLabelPosition::UpperLeft } else { SeriesLabelPosition::LowerRight };
        chart
            .configure_series_labels()
            .position(place)
            .background_style(WHITE.mix(0.9))
            .border_style(BLACK.mix(0.3))
            .draw()?;
        Ok(())
    }
}
