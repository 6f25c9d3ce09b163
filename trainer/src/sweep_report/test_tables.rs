//! The tables of the tests.

use datasets::passk::Interval;

use super::paper_row;
use super::table::{Cell, Column, Form, POINTS, Table};
use super::tests_of_arms::{Compared, Sloped, Tests};
use crate::statistics::{SlopeVerdict, least_squares};
use crate::sweep::SweepFolder;

/// The accuracy of every arm beside that of the reference.
pub(super) fn comparisons(folder: &SweepFolder, tests: &Tests<'_, '_>) -> Table {
    let margin = folder
        .file()
        .compare
        .as_ref()
        .map_or(0.0, |compare| compare.margin);
    Table {
        name: "comparisons",
        title: "Accuracy beside the reference".into(),
        note: format!(
            "Pass@1 of the arm − that of the reference, in points, on the same seeds and tasks. Equivalent: within ± {:.1} points. A verdict needs a p-value of at most 0.05 after \
             Holm's correction, and a t interval over seeds that agrees; else it is undetermined, which is not “the same”.",
            POINTS * margin
        ),
        columns: vec![
            Column::new("arm", "arm", Form::Text),
            Column::new("verdict", "verdict", Form::Text),
            Column::new(
                "difference, points (bootstrap 95%)",
                "difference_points",
                Form::Interval(2),
            ),
            Column::new(
                "t interval over seeds (95%)",
                "over_seeds_points",
                Form::Interval(2),
            ),
            Column::new("each seed", "each_seed_points", Form::Text),
            Column::new("p, difference", "p_difference", Form::Number(4)),
            Column::new("by Holm", "p_difference_holm", Form::Number(4)),
            Column::new("p, equivalence", "p_equivalence", Form::Number(4)),
            Column::new("by Holm", "p_equivalence_holm", Form::Number(4)),
            Column::paper("difference, points", "difference_points", Form::Number(1)),
        ],
        rows: tests.compared.iter().filter_map(comparison).collect(),
    }
}

fn pair_label(compared: &Compared<'_, '_>, operator: char) -> Cell {
    Cell::text(format!(
        "{} {operator} {}",
        compared.arm.label(),
        compared.reference.arm
    ))
}

fn comparison(compared: &Compared<'_, '_>) -> Option<Vec<Cell>> {
    let (found, corrected) = compared.accuracy.as_ref()?;
    let over_seeds = found
        .over_seeds
        .map(|interval| in_points(found.difference, Some(interval)));
    let papers = paper_row::of(compared.arm).zip(paper_row::of(compared.reference));
    Some(vec![
        pair_label(compared, '−'),
        Cell::text(corrected.verdict.name()),
        in_points(found.difference, Some(found.resampled)),
        over_seeds.unwrap_or(Cell::None),
        each(&found.by_seed),
        Cell::Number(found.p_difference),
        Cell::Number(corrected.p_difference),
        Cell::Number(found.p_equivalence),
        Cell::Number(corrected.p_equivalence),
        Cell::number(papers.map(|(arm, other)| arm.pass_at_1.mean - other.pass_at_1.mean)),
    ])
}

/// The time of every arm over that of the reference.
pub(super) fn time_ratios(tests: &Tests<'_, '_>) -> Table {
    Table {
        name: "time-ratios",
        title: "Time beside the reference".into(),
        note: "Seconds of training per update, over the reference's: the geometric mean of pairs of the same seed and round on one processor, with the t interval of the log ratio. \
               The paper's is the ratio of its mean times."
            .into(),
        columns: vec![
            Column::new("arm", "arm", Form::Text),
            Column::new("time ratio (95%)", "time_ratio", Form::Interval(3)),
            Column::new("pairs", "pairs", Form::Number(0)),
            Column::paper("time ratio", "time_ratio", Form::Number(2)),
        ],
        rows: tests.compared.iter().filter_map(time_ratio).collect(),
    }
}

fn time_ratio(compared: &Compared<'_, '_>) -> Option<Vec<Cell>> {
    let ratio = compared.time?;
    let papers = paper_row::of(compared.arm).zip(paper_row::of(compared.reference));
    let papers = papers.and_then(|(arm, other)| Some(arm.minutes?.mean / other.minutes?.mean));
    Some(vec![
        pair_label(compared, '∕'),
        Cell::Interval(ratio.ratio, ratio.interval),
        Cell::Number(ratio.pairs as f64),
        Cell::number(papers),
    ])
}

fn in_points(value: f64, interval: Option<Interval>) -> Cell {
    let interval = interval.map(|interval| Interval {
        low: POINTS * interval.low,
        high: POINTS * interval.high,
    });
    Cell::Interval(POINTS * value, interval)
}

/// The values of the seeds, in points.
fn each(values: &[f64]) -> Cell {
    let values: Vec<String> = values
        .iter()
        .map(|value| format!("{:.1}", POINTS * value))
        .collect();
    // A text that begins with a hyphen is a formula to a spreadsheet.
    Cell::text(values.join("; ").replace('-', "\u{2212}"))
}

/// The slope of Pass@1 on log₂ H.
pub(super) fn slopes(tests: &Tests<'_, '_>) -> Table {
    Table {
        name: "slope",
        title: "Pass@1 by doublings of H".into(),
        note: "The slope of Pass@1 on log₂ H by least squares, in points per doubling. Both intervals have to agree. It is said to be no larger than the wider interval's end only if \
               the whole range of H then changes Pass@1 by no more than the margin. The paper's is the slope of its printed means."
            .into(),
        columns: vec![
            Column::new("arms", "arms", Form::Text),
            Column::new("conclusion", "conclusion", Form::Text),
            Column::new("slope (bootstrap 95%)", "slope_points", Form::Interval(2)),
            Column::new("t interval over seeds (95%)", "over_seeds_points", Form::Interval(2)),
            Column::new("each seed", "each_seed_points", Form::Text),
            Column::new("p", "p", Form::Number(4)),
            Column::paper("slope", "slope_points", Form::Number(2)),
        ],
        rows: tests.slopes.iter().map(slope).collect(),
    }
}

fn slope(sloped: &Sloped<'_, '_>) -> Vec<Cell> {
    let (slope, rungs) = (&sloped.slope, &sloped.ladder.rungs);
    let names: Vec<String> = rungs.iter().map(|rung| rung.label()).collect();
    let conclusion = match slope.verdict() {
        SlopeVerdict::Rises => "rises".to_owned(),
        SlopeVerdict::Falls => "falls".to_owned(),
        SlopeVerdict::NoLargerThan(largest) => {
            format!("no slope larger than {:.2} either way", POINTS * largest)
        }
        SlopeVerdict::Undetermined => "undetermined".to_owned(),
    };
    let papers: Vec<(f64, f64)> = rungs
        .iter()
        .filter_map(|rung| {
            let row = paper_row::of(rung)?;
            Some(((rung.h() as f64).log2(), row.pass_at_1.mean))
        })
        .collect();
    vec![
        Cell::text(names.join(" · ")),
        Cell::text(conclusion),
        in_points(slope.slope, Some(slope.resampled)),
        slope.over_seeds.map_or(Cell::None, |interval| {
            in_points(slope.slope, Some(interval))
        }),
        each(&slope.by_seed),
        Cell::Number(slope.p),
        Cell::number((papers.len() == rungs.len()).then(|| least_squares(&papers))),
    ]
}
