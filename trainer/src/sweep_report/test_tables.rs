//! The tables of the tests.

use datasets::passk::Interval;

use super::arms::ArmRuns;
use super::paper_row;
use super::runs::End;
use super::tests_of_arms::{Compared, Sloped, Tests};
use crate::report::table::{Cell, Column, Form, POINTS, Table, points_as_given};
use crate::statistics::{Contrast, SlopeVerdict, least_squares};

/// The accuracy of every arm beside that of the reference.
pub(super) fn comparisons(tests: &Tests<'_, '_>) -> Table {
    let (tested, margin) = (tests.tested, points_as_given(tests.margin));
    let mut columns = Vec::from(pair_columns());
    if tested {
        columns.extend([
            Column::new("difference", "difference", Form::Text),
            Column::new(format!("within ± {margin}"), "equivalence", Form::Text),
        ]);
    }
    columns.extend(contrast_columns("difference"));
    if tested {
        columns.extend([
            Column::new("p, difference", "p_difference", Form::P),
            Column::new("by Holm", "p_difference_holm", Form::P),
            Column::new("bootstrap 90%", "difference_90_points", Form::Interval(2)),
            Column::new(
                "t interval over seeds (90%)",
                "over_seeds_90_points",
                Form::Interval(2),
            ),
            Column::new("p, equivalence", "p_equivalence", Form::P),
            Column::new("by Holm", "p_equivalence_holm", Form::P),
        ]);
    }
    columns.push(Column::paper(
        "difference, points",
        "difference_points",
        Form::Number(1),
    ));
    let of = "Pass@1 of the arm − that of the reference, in points, on the same seeds and tasks.";
    let note = if tested {
        format!(
            "{of} “Better” and “worse” need a p-value of at most 0.05 after Holm's correction, and a t interval over seeds without 0. That the accuracies are the same within ± \
             {margin} points needs one too, and both 90% intervals within; it is refuted if both are beyond. All else is undetermined, which is not “the same”."
        )
    } else {
        format!("{of} Nothing is tested: the sweep file says so.")
    };
    Table {
        name: "comparisons",
        title: "Accuracy beside the reference".into(),
        note,
        columns,
        rows: tests
            .compared
            .iter()
            .filter_map(|compared| comparison(compared, tested))
            .collect(),
    }
}

/// The columns of a difference of Pass@1.
fn contrast_columns(name: &str) -> [Column; 3] {
    [
        Column::new(
            format!("{name}, points (bootstrap 95%)"),
            format!("{name}_points"),
            Form::Interval(2),
        ),
        Column::new(
            "t interval over seeds (95%)",
            "over_seeds_points",
            Form::Interval(2),
        ),
        Column::new("each seed", "each_seed_points", Form::Text),
    ]
}

/// The cells of a difference, with the remark behind what each seed gives.
fn contrast_cells(contrast: &Contrast, remark: &str) -> [Cell; 3] {
    [
        in_points(contrast.estimate, contrast.resampled),
        over_seeds(contrast.estimate, contrast.over_seeds),
        each(&contrast.by_seed, remark),
    ]
}

/// The columns of an arm and what stands beside it.
fn pair_columns() -> [Column; 2] {
    [
        Column::new("arm", "arm", Form::Text),
        Column::new("beside", "reference", Form::Text),
    ]
}

fn pair_cells(compared: &Compared<'_, '_>) -> [Cell; 2] {
    [
        Cell::text(compared.arm.label()),
        Cell::text(compared.reference.label()),
    ]
}

fn comparison(compared: &Compared<'_, '_>, tested: bool) -> Option<Vec<Cell>> {
    let (found, corrected) = compared.accuracy.as_ref()?;
    let papers = paper_row::of(compared.arm).zip(paper_row::of(compared.reference));
    let diverged = with_diverged(&[compared.arm, compared.reference]);
    let estimate = found.difference.estimate;
    let mut cells = Vec::from(pair_cells(compared));
    if tested {
        cells.extend([
            Cell::text(format!("{}{diverged}", corrected.difference.name())),
            Cell::text(format!("{}{diverged}", corrected.equivalence.name())),
        ]);
    }
    let untested = if tested { "" } else { &diverged };
    cells.extend(contrast_cells(&found.difference, untested));
    if tested {
        cells.extend([
            Cell::Number(found.p_difference),
            Cell::Number(corrected.p_difference),
            in_points(estimate, found.resampled_90),
            over_seeds(estimate, found.over_seeds_90),
            Cell::Number(found.p_equivalence),
            Cell::Number(corrected.p_equivalence),
        ]);
    }
    cells.push(Cell::number(
        papers.map(|(arm, other)| arm.pass_at_1.mean - other.pass_at_1.mean),
    ));
    Some(cells)
}

/// What stands behind a conclusion if runs of these arms diverged.
fn with_diverged(arms: &[&ArmRuns<'_>]) -> String {
    let runs = arms.iter().flat_map(|arm| &arm.runs);
    match runs
        .filter(|run| matches!(run.end, End::Diverged(_)))
        .count()
    {
        0 => String::new(),
        1 => ", with 1 diverged run".into(),
        more => format!(", with {more} diverged runs"),
    }
}

/// The effects of factors on accuracy.
pub(super) fn effects(tests: &Tests<'_, '_>) -> Table {
    let rows = tests.effects.iter().map(|effect| {
        let names: Vec<String> = effect.arms.iter().map(|arm| arm.label()).collect();
        let mut cells = vec![Cell::text(effect.factor), Cell::text(names.join(" · "))];
        cells.extend(contrast_cells(
            &effect.effect,
            &with_diverged(&effect.point),
        ));
        cells
    });
    let mut columns = vec![
        Column::new("factor", "factor", Form::Text),
        Column::new("arms that have it", "arms", Form::Text),
    ];
    columns.extend(contrast_columns("effect"));
    Table {
        name: "effects",
        title: "Effects of factors on accuracy".into(),
        note: "Mean Pass@1 of the arms that have the factor − that of all others, in points. Nothing is tested.".into(),
        columns,
        rows: rows.collect(),
    }
}

/// The time of every arm over that of the reference.
pub(super) fn time_ratios(tests: &Tests<'_, '_>) -> Table {
    let tested = tests.tested;
    let p = tested.then(|| Column::new("p", "p", Form::P));
    let mut note = "Seconds of training per update, over the reference's: the geometric mean of pairs of the same seed and round on one processor, with the t interval of the log \
                    ratio. Blocks of which a run is missing are left out."
        .to_owned();
    if tested {
        note.push_str(" The p-value is that of equal times by the t test, for one comparison that was chosen in advance: it is not corrected for others.");
    }
    note.push_str(" The paper's is the ratio of its mean times.");
    let columns = [
        Column::new("time ratio (95%)", "time_ratio", Form::Interval(3)),
        Column::new("each pair", "each_pair", Form::Text),
    ];
    Table {
        name: "time-ratios",
        title: "Time beside the reference".into(),
        note,
        columns: pair_columns()
            .into_iter()
            .chain(columns)
            .chain(p)
            .chain([Column::paper("time ratio", "time_ratio", Form::Number(2))])
            .collect(),
        rows: tests
            .compared
            .iter()
            .filter_map(|compared| time_ratio(compared, tested))
            .collect(),
    }
}

fn time_ratio(compared: &Compared<'_, '_>, tested: bool) -> Option<Vec<Cell>> {
    let ratio = compared.time.as_ref()?;
    let papers = paper_row::of(compared.arm).zip(paper_row::of(compared.reference));
    let papers = papers.and_then(|(arm, other)| Some(arm.minutes?.mean / other.minutes?.mean));
    let pairs: Vec<String> = ratio
        .pairs
        .iter()
        .map(|pair| format!("{pair:.3}"))
        .collect();
    let mut cells = Vec::from(pair_cells(compared));
    cells.extend([
        Cell::Interval(ratio.ratio, ratio.interval),
        Cell::text(pairs.join("; ")),
    ]);
    cells.extend(tested.then(|| Cell::number(ratio.p)));
    cells.push(Cell::number(papers));
    Some(cells)
}

/// An interval over seeds; nothing for too few seeds.
fn over_seeds(value: f64, interval: Option<Interval>) -> Cell {
    interval.map_or(Cell::None, |interval| in_points(value, Some(interval)))
}

fn in_points(value: f64, interval: Option<Interval>) -> Cell {
    let interval = interval.map(|interval| Interval {
        low: POINTS * interval.low,
        high: POINTS * interval.high,
    });
    Cell::Interval(POINTS * value, interval)
}

/// The values of the seeds, in points, and a remark behind them.
fn each(values: &[f64], remark: &str) -> Cell {
    let values: Vec<String> = values
        .iter()
        .map(|value| format!("{:.1}", POINTS * value))
        .collect();
    // A text that begins with a hyphen is a formula to a spreadsheet.
    let values = values.join("; ").replace('-', "\u{2212}");
    Cell::text(format!("{values}{remark}"))
}

/// The slope of Pass@1 on log₂ H.
pub(super) fn slopes(tests: &Tests<'_, '_>) -> Table {
    let tested = tests.tested;
    let mut columns = vec![Column::new("arms", "arms", Form::Text)];
    columns.extend(tested.then(|| Column::new("conclusion", "conclusion", Form::Text)));
    columns.extend(contrast_columns("slope"));
    columns.extend(tested.then(|| Column::new("p", "p", Form::P)));
    columns.push(Column::paper("slope", "slope_points", Form::Number(2)));
    let of = "The slope of Pass@1 on log₂ H by least squares, in points per doubling.";
    let note = if tested {
        format!(
            "{of} Both intervals have to agree. It is said to be no larger than the wider interval's end only if the whole range of H then changes Pass@1 by no more than the margin. Several slopes are not corrected for each other."
        )
    } else {
        format!("{of} Nothing is tested: the sweep file says so.")
    };
    Table {
        name: "slope",
        title: "Pass@1 by doublings of H".into(),
        note: format!("{note} The paper's is the slope of its printed means."),
        columns,
        rows: tests
            .slopes
            .iter()
            .map(|sloped| slope(sloped, tested))
            .collect(),
    }
}

fn slope(sloped: &Sloped<'_, '_>, tested: bool) -> Vec<Cell> {
    let (slope, rungs) = (&sloped.slope, &sloped.ladder.rungs);
    let names: Vec<String> = rungs.iter().map(|rung| rung.label()).collect();
    let conclusion = match slope.verdict() {
        SlopeVerdict::Rises => "rises".to_owned(),
        SlopeVerdict::Falls => "falls".to_owned(),
        SlopeVerdict::NoLargerThan(largest) => {
            // Rounded up: not even a hundredth beyond the interval is claimed.
            let largest = (100.0 * POINTS * largest).ceil() / 100.0;
            format!("no slope larger than {largest:.2} either way")
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
    let mut cells = vec![Cell::text(names.join(" · "))];
    let diverged = with_diverged(rungs);
    cells.extend(tested.then(|| Cell::text(format!("{conclusion}{diverged}"))));
    let untested = if tested { "" } else { &diverged };
    cells.extend(contrast_cells(&slope.slope, untested));
    cells.extend(tested.then_some(Cell::Number(slope.p)));
    cells.push(Cell::number(
        (papers.len() == rungs.len()).then(|| least_squares(&papers)),
    ));
    cells
}
