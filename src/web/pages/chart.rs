//! Charts as SVG. plotters draws them with fixed colours; each colour is a key that the style
//! sheet gives the theme's colour, so that one drawing serves light and dark without any script
//! or inline style. Nothing that a sender wrote is drawn: only numbers and our own words.

use super::words;
use crate::domain::time::{DAY_MS, HOUR_MS, MINUTE_MS, Millis, UnixMillis, Window};
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::ops::Range;

/// Axes and their labels.
const AXIS: RGBColor = RGBColor(1, 1, 1);
/// Grid lines.
const GRID: RGBColor = RGBColor(2, 2, 2);
/// First attempts.
const FIRST: RGBColor = RGBColor(3, 3, 3);
/// Retries.
const RETRY: RGBColor = RGBColor(4, 4, 4);
/// Attempts that a limit refused.
const LIMITED: RGBColor = RGBColor(5, 5, 5);
/// Attempts that ended well.
const SERVED: RGBColor = RGBColor(6, 6, 6);
/// Marks that must be seen, such as the promised wait.
const INK: RGBColor = RGBColor(7, 7, 7);
/// The stretch in which an alert fires.
const FIRING: RGBColor = RGBColor(8, 8, 8);

/// How many attempts a ladder draws at most; the table below it holds all.
pub const MAX_RUNGS: usize = 40;

/// A drawing in two widths: the style sheet shows one of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chart {
    /// For screens from 768 px.
    pub wide: String,
    /// For narrower ones.
    pub narrow: String,
}

/// How large a drawing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// As wide as the page.
    Full,
    /// Half of it.
    Half,
}

impl Size {
    /// Pixels of the wide and the narrow drawing.
    const fn pixels(self) -> [(u32, u32); 2] {
        match self {
            Self::Full => [(1160, 240), (360, 220)],
            Self::Half => [(560, 200), (360, 180)],
        }
    }
}

/// A ratio over time beside its threshold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line<'a> {
    /// What is shown.
    pub window: Window,
    /// The ratio at moments in order; `None` where nothing was counted.
    pub points: &'a [(UnixMillis, Option<f64>)],
    /// What it is compared with.
    pub threshold: f64,
    /// Whether it is labelled in percent.
    pub is_share: bool,
    /// When its alert fires or fired.
    pub firing: Option<Window>,
}

/// Counts of one stretch of time on a time line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// Its first moment.
    pub start: UnixMillis,
    /// First attempts.
    pub requests: i64,
    /// Attempts above the first.
    pub retries: i64,
    /// Attempts that a limit refused.
    pub limited: i64,
}

/// One attempt of a ladder, in milliseconds after the operation's first request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rung {
    /// Its number.
    pub attempt: u32,
    /// When it was sent.
    pub sent_ms: i64,
    /// When the answer came.
    pub answered_ms: i64,
    /// The moment from which the server said the next attempt may be sent.
    pub promised_ms: Option<i64>,
    /// How it ended.
    pub end: RungEnd,
}

/// How an attempt ended, as far as a drawing tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RungEnd {
    /// With an answer that served the caller.
    Served,
    /// Refused by a limit.
    Limited,
    /// Otherwise without success.
    Failed,
}

/// A time axis in epoch or relative milliseconds with round steps.
struct TimeAxis {
    range: Range<i64>,
    relative: bool,
}

/// Steps that a time axis may take, in milliseconds.
const STEPS: [i64; 26] = [
    10,
    50,
    100,
    250,
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    15_000,
    30_000,
    MINUTE_MS,
    2 * MINUTE_MS,
    5 * MINUTE_MS,
    10 * MINUTE_MS,
    15 * MINUTE_MS,
    30 * MINUTE_MS,
    HOUR_MS,
    2 * HOUR_MS,
    3 * HOUR_MS,
    6 * HOUR_MS,
    12 * HOUR_MS,
    DAY_MS,
    2 * DAY_MS,
    7 * DAY_MS,
    14 * DAY_MS,
];

impl Ranged for TimeAxis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = i64;

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "the result lies within the pixel limits it was scaled to"
    )]
    fn map(&self, value: &i64, limit: (i32, i32)) -> i32 {
        let length = (self.range.end - self.range.start).max(1) as f64;
        let at = (value - self.range.start) as f64 / length;
        limit.0 + (at * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<i64> {
        let wanted = i64::try_from(hint.max_num_points().clamp(2, 12)).unwrap_or(6);
        let length = self.range.end - self.range.start;
        let step = STEPS.iter().copied().find(|s| length / s < wanted).unwrap_or(28 * DAY_MS);
        let first = self.range.start.saturating_add(step - 1).div_euclid(step) * step;
        (0..)
            .map(|i| first.saturating_add(i * step))
            .take_while(|at| *at <= self.range.end)
            .take(64)
            .collect()
    }

    fn range(&self) -> Range<i64> {
        self.range.clone()
    }
}

impl ValueFormatter<i64> for TimeAxis {
    fn format(value: &i64) -> String {
        value.to_string()
    }

    fn format_ext(&self, value: &i64) -> String {
        if self.relative {
            return words::length(Millis(*value));
        }
        let text = UnixMillis(*value).to_rfc3339();
        let part = |from: usize, n: usize| text.chars().skip(from).take(n).collect::<String>();
        if value.rem_euclid(DAY_MS) == 0 {
            part(5, 5)
        } else if value.rem_euclid(MINUTE_MS) == 0 {
            part(11, 5)
        } else {
            part(11, 8)
        }
    }
}

/// Requests and retries stacked on one time axis, limited attempts as a dashed line over them.
/// `id` is unique on the page; `title` and `description` are read out in place of the drawing.
pub fn timeline(
    id: &str,
    title: &str,
    description: &str,
    window: Window,
    width: Millis,
    points: &[Point],
    size: Size,
) -> Chart {
    both(id, title, description, size.pixels(), |svg, size| {
        draw_timeline(svg, size, window, width, points)
    })
}

/// A ratio as a line, its threshold dashed, and the stretch in which its alert fires shaded. `id`,
/// `title` and `description` as above.
pub fn line(id: &str, title: &str, description: &str, line: &Line<'_>, size: Size) -> Chart {
    both(id, title, description, size.pixels(), |svg, size| draw_line(svg, size, line))
}

/// The attempts of one operation: a bar each, the waits between them, promised waits as ticks.
pub fn ladder(id: &str, title: &str, description: &str, rungs: &[Rung]) -> Chart {
    let shown: Vec<Rung> = rungs.iter().copied().take(MAX_RUNGS).collect();
    let rows = u32::try_from(shown.len()).unwrap_or(0);
    let height = 44 + rows * 26;
    both(id, title, description, [(1160, height), (360, height)], |svg, size| {
        draw_ladder(svg, size, &shown)
    })
}

/// A drawing in its two sizes.
fn both(
    id: &str,
    title: &str,
    description: &str,
    [wide, narrow]: [(u32, u32); 2],
    draw: impl Fn(&mut String, (u32, u32)) -> Drawn,
) -> Chart {
    let drawn = |size| {
        let mut svg = String::new();
        // Drawing into a string cannot fail; a chart that did would be left out.
        match draw(&mut svg, size) {
            Ok(()) => svg,
            Err(_) => String::new(),
        }
    };
    let dressed = |size, end: &str, class| {
        dress(&drawn(size), size, &format!("{id}-{end}"), class, title, description)
    };
    Chart { wide: dressed(wide, "w", "chart-wide"), narrow: dressed(narrow, "n", "chart-narrow") }
}

/// Replaces plotters' opening tag by one that scales and is named.
fn dress(
    svg: &str,
    (width, height): (u32, u32),
    id: &str,
    class: &str,
    title: &str,
    description: &str,
) -> String {
    let Some((_, body)) = svg.split_once('>') else { return String::new() };
    let escape = |text: &str| {
        let mut out = String::new();
        for c in text.chars() {
            match c {
                '&' => out.push_str("&amp;"),
                '<' => out.push_str("&lt;"),
                '>' => out.push_str("&gt;"),
                '"' => out.push_str("&quot;"),
                other => out.push(other),
            }
        }
        out
    };
    format!(
        "<svg class=\"chart {class}\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-labelledby=\"{id}-t {id}-d\"><title id=\"{id}-t\">{}</title>\
         <desc id=\"{id}-d\">{}</desc>{body}",
        escape(title),
        escape(description),
    )
}

type Drawn = Result<(), Box<dyn std::error::Error>>;

fn label_style(size: i32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&AXIS)
}

/// The least round number that is not below `n`: 1, 2 or 5 times a power of ten.
fn round_up(n: i64) -> i64 {
    let mut power = 1_i64;
    loop {
        for factor in [1, 2, 4, 5, 8] {
            let candidate = power.saturating_mul(factor);
            if candidate >= n {
                return candidate;
            }
        }
        power = power.saturating_mul(10);
    }
}

/// A count short enough for an axis: `950`, `1.2k`, `3M`.
#[expect(clippy::cast_precision_loss, reason = "rounded to two digits anyway")]
fn short_count(n: i64) -> String {
    let worded = |value: f64, unit: &str| {
        let text = format!("{value:.1}");
        format!("{}{unit}", text.strip_suffix(".0").unwrap_or(&text))
    };
    match n {
        ..1_000 => n.to_string(),
        1_000..1_000_000 => worded(n as f64 / 1e3, "k"),
        1_000_000..1_000_000_000 => worded(n as f64 / 1e6, "M"),
        _ => worded(n as f64 / 1e9, "G"),
    }
}

fn draw_timeline(
    svg: &mut String,
    size: (u32, u32),
    window: Window,
    width: Millis,
    points: &[Point],
) -> Drawn {
    let root = SVGBackend::with_string(svg, size).into_drawing_area();
    let narrow = size.0 < 600;
    let top = points.iter().map(|p| (p.requests + p.retries).max(p.limited)).max().unwrap_or(0);
    // A little air above the highest bar.
    let top = round_up(top.saturating_add(top / 20).max(4));
    let axis = TimeAxis { range: window.from.0..window.to.0, relative: false };
    let mut chart = ChartBuilder::on(&root)
        .margin_top(8)
        .margin_right(if narrow { 22 } else { 24 })
        .x_label_area_size(26)
        .y_label_area_size(if narrow { 38 } else { 46 })
        .build_cartesian_2d(axis, 0_i64..top)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(AXIS)
        .x_labels(if narrow { 5 } else { 11 })
        .y_labels(4)
        .y_label_formatter(&|n| short_count(*n))
        .label_style(label_style(15))
        .draw()?;
    let bar = width.0.max(1);
    let inset = bar / 10;
    let bars = |low: fn(&Point) -> i64, high: fn(&Point) -> i64, colour: RGBColor| {
        points
            .iter()
            .filter(move |p| high(p) > low(p))
            .map(move |p| {
                let left = (p.start.0 + inset).max(window.from.0);
                let right = (p.start.0 + bar - inset).min(window.to.0);
                Rectangle::new([(left, low(p)), (right, high(p))], colour.filled())
            })
            .collect::<Vec<_>>()
    };
    chart.draw_series(bars(|_| 0, |p| p.requests, FIRST))?;
    chart.draw_series(bars(|p| p.requests, |p| p.requests + p.retries, RETRY))?;
    if points.iter().any(|p| p.limited > 0) {
        let line = points
            .iter()
            .map(|p| ((p.start.0 + bar / 2).clamp(window.from.0, window.to.0), p.limited));
        chart.draw_series(DashedLineSeries::new(line, 7, 4, LIMITED.stroke_width(2)))?;
    }
    root.present()?;
    Ok(())
}

fn draw_line(svg: &mut String, size: (u32, u32), line: &Line<'_>) -> Drawn {
    let root = SVGBackend::with_string(svg, size).into_drawing_area();
    let narrow = size.0 < 400;
    let Line { window, points, threshold, is_share, firing } = *line;
    let highest = points.iter().filter_map(|(_, value)| *value).fold(threshold, f64::max);
    let top = round_top(highest * 1.1);
    let axis = TimeAxis { range: window.from.0..window.to.0, relative: false };
    let mut chart = ChartBuilder::on(&root)
        .margin_top(8)
        .margin_right(if narrow { 22 } else { 24 })
        .x_label_area_size(26)
        .y_label_area_size(52)
        .build_cartesian_2d(axis, 0.0..top)?;
    if let Some(firing) = firing {
        let within = |at: UnixMillis| at.0.clamp(window.from.0, window.to.0);
        let (from, to) = (within(firing.from), within(firing.to));
        chart.draw_series([Rectangle::new([(from, 0.0), (to, top)], FIRING.filled())])?;
        chart.draw_series([PathElement::new(vec![(from, 0.0), (from, top)], AXIS)])?;
    }
    let label = |value: &f64| {
        if is_share {
            let text = format!("{:.1}", value * 100.0);
            format!("{} %", text.strip_suffix(".0").unwrap_or(&text))
        } else {
            let text = format!("{value:.1}");
            text.strip_suffix(".0").unwrap_or(&text).to_owned()
        }
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(AXIS)
        .x_labels(if narrow { 4 } else { 7 })
        .y_labels(4)
        .y_label_formatter(&label)
        .label_style(label_style(15))
        .draw()?;
    let dashed = [(window.from.0, threshold), (window.to.0, threshold)];
    chart.draw_series(DashedLineSeries::new(dashed, 7, 4, INK.stroke_width(2)))?;
    // A gap in the numbers is a gap in the line.
    for part in points.split(|(_, value)| value.is_none()) {
        let known = part.iter().filter_map(|(at, value)| Some((at.0, (*value)?)));
        let known: Vec<(i64, f64)> = known.collect();
        if let [alone] = known[..] {
            chart.draw_series([Circle::new(alone, 2, LIMITED.filled())])?;
        } else {
            chart.draw_series(LineSeries::new(known, LIMITED.stroke_width(2)))?;
        }
    }
    root.present()?;
    Ok(())
}

/// The least round ratio that is not below `value`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "ratios on pages stay far below 2^53 thousandths"
)]
fn round_top(value: f64) -> f64 {
    let thousandths = (value * 1_000.0).ceil().clamp(10.0, 1e12) as i64;
    round_up(thousandths) as f64 / 1_000.0
}

fn draw_ladder(svg: &mut String, size: (u32, u32), rungs: &[Rung]) -> Drawn {
    let root = SVGBackend::with_string(svg, size).into_drawing_area();
    let narrow = size.0 < 600;
    let last = rungs.iter().map(|r| r.answered_ms).max().unwrap_or(0).max(1);
    let promised = rungs.iter().filter_map(|r| r.promised_ms).max().unwrap_or(0);
    // A promise far beyond the last answer would press all bars into a corner: it is left out of
    // the axis, and an arrow at the edge stands for it.
    let end = if promised <= last.saturating_mul(10) { promised.max(last) } else { last };
    let end = end.saturating_add(end / 25).max(10);
    let rows = i32::try_from(rungs.len()).unwrap_or(0).max(1);
    let axis = TimeAxis { range: 0..end, relative: true };
    let mut chart = ChartBuilder::on(&root)
        .margin_top(6)
        .margin_right(if narrow { 16 } else { 30 })
        .x_label_area_size(26)
        .y_label_area_size(34)
        .build_cartesian_2d(axis, (f64::from(rows))..0.0)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(AXIS)
        .x_labels(if narrow { 4 } else { 9 })
        .label_style(label_style(15))
        .draw()?;
    let least = (end / i64::from(size.0)).max(1) * 4;
    for (row, rung) in (0_i32..).zip(rungs) {
        let row = f64::from(row);
        let colour = match rung.end {
            RungEnd::Served => SERVED,
            RungEnd::Limited => LIMITED,
            RungEnd::Failed => RETRY,
        };
        if let Some(next) = rungs.iter().find(|r| r.attempt == rung.attempt + 1)
            && next.sent_ms > rung.answered_ms
        {
            let wait = [(rung.answered_ms, row + 0.5), (next.sent_ms, row + 0.5)];
            chart.draw_series(DashedLineSeries::new(wait, 3, 3, AXIS.stroke_width(2)))?;
        }
        let right = rung.answered_ms.max(rung.sent_ms + least).min(end);
        let bar = [(rung.sent_ms, row + 0.2), (right, row + 0.8)];
        chart.draw_series([Rectangle::new(bar, colour.filled())])?;
        match rung.promised_ms {
            Some(at) if at <= end => {
                let tick = vec![(at, row + 0.1), (at, row + 0.9)];
                chart.draw_series([PathElement::new(tick, INK.stroke_width(3))])?;
            }
            Some(_) => {
                let width = (end / i64::from(size.0)).max(1) * 9;
                let arrow =
                    vec![(end - width, row + 0.2), (end, row + 0.5), (end - width, row + 0.8)];
                chart.draw_series([Polygon::new(arrow, INK.filled())])?;
            }
            None => {}
        }
    }
    let area = chart.plotting_area();
    for (row, rung) in (0_i32..).zip(rungs) {
        let (x, y) = area.map_coordinate(&(0, f64::from(row) + 0.5));
        let style = label_style(15).pos(Pos::new(HPos::Right, VPos::Center));
        root.draw(&Text::new(rung.attempt.to_string(), (x - 6, y), style))?;
    }
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window() -> Window {
        Window { from: UnixMillis(0), to: UnixMillis(HOUR_MS) }
    }

    #[test]
    fn a_time_line_is_named_and_has_no_style_of_its_own() {
        let points = [
            Point { start: UnixMillis(0), requests: 40, retries: 10, limited: 12 },
            Point { start: UnixMillis(MINUTE_MS), requests: 0, retries: 0, limited: 0 },
        ];
        let chart = timeline("c", "A <b>", "d", window(), Millis(MINUTE_MS), &points, Size::Full);
        for svg in [&chart.wide, &chart.narrow] {
            assert!(svg.contains("role=\"img\"") && svg.contains("A &lt;b&gt;"), "{svg}");
            assert!(!svg.contains("style="), "{svg}");
            assert!(svg.contains("#040404") && svg.contains("#050505"), "{svg}");
            assert!(svg.contains("00:30") || svg.contains("00:15"), "{svg}");
        }
    }

    #[test]
    fn empty_and_extreme_numbers_still_draw() {
        let none = timeline("c", "t", "d", window(), Millis(MINUTE_MS), &[], Size::Half);
        assert!(none.wide.contains("</svg>"));
        let huge = Point { start: UnixMillis(0), requests: 1 << 50, retries: 1 << 50, limited: 0 };
        let chart = timeline("c", "t", "d", window(), Millis(MINUTE_MS), &[huge], Size::Full);
        assert!(chart.wide.contains("</svg>"));
        let rung = Rung {
            attempt: 1,
            sent_ms: 0,
            answered_ms: 0,
            promised_ms: Some(i64::MAX / 4),
            end: RungEnd::Limited,
        };
        assert!(ladder("l", "t", "d", &[rung]).wide.contains("#070707"));
        assert!(ladder("l", "t", "d", &[]).narrow.contains("</svg>"));
    }

    #[test]
    fn a_ratio_is_drawn_beside_its_threshold_with_gaps_and_the_firing() {
        let at = |minute: i64| UnixMillis(minute * MINUTE_MS);
        let points = [(at(1), Some(0.1)), (at(2), Some(0.4)), (at(3), None), (at(9), Some(0.9))];
        let firing = Some(Window { from: at(2), to: at(900) });
        let line =
            |points| Line { window: window(), points, threshold: 0.2, is_share: true, firing };
        let chart = super::line("c", "t", "d", &line(&points), Size::Half);
        for svg in [&chart.wide, &chart.narrow] {
            assert_eq!(svg.matches("stroke=\"#050505\"").count(), 1, "a line");
            assert!(svg.matches("stroke=\"#070707\"").count() > 5, "dashes");
            assert_eq!(svg.matches("<circle").count(), 1, "{svg}");
            assert!(svg.contains("#080808") && svg.contains("50 %") && !svg.contains("style="));
        }
        let empty = super::line("c", "t", "d", &line(&[]), Size::Full);
        assert!(empty.wide.contains("</svg>") && !empty.wide.contains("#050505"));
        let huge = super::line("c", "t", "d", &line(&[(at(1), Some(1e300))]), Size::Full);
        assert!(huge.wide.contains("</svg>"));
        for (value, top) in [(0.22, 0.4), (0.0, 0.01), (1.0, 1.0), (3.3, 4.0)] {
            assert!((round_top(value) - top).abs() < 1e-9, "{value}");
        }
    }

    #[test]
    fn axis_labels_are_short_and_round() {
        for (n, text) in [(950, "950"), (1200, "1.2k"), (3_000_000, "3M")] {
            assert_eq!(short_count(n), text);
        }
        assert_eq!([round_up(3), round_up(11), round_up(501)], [4, 20, 800]);
    }
}
