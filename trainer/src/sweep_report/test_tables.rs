//! The tables of the tests.

use datasets::passk::Interval;

use super::arms::ArmRuns;
use super::columns::Columns;
use super::paper_row;
use super::tests_of_arms::{Compared, Effect, Sloped, Tests};
use crate::paper::PaperResult;
use crate::report::table::{Cell, Form, POINTS, Table, points_as_given};
use crate::statistics::{Comparison, Contrast, Corrected, Ratio, least_squares};
use crate::sweep::RunState;

const UNTESTED: &str = "Nothing is tested: the sweep file says so.";

/// An arm beside the reference, and how their accuracies compare.
struct Accuracy<'r> {
    compared: &'r Compared<'r, 'r>,
    found: &'r Comparison,
    corrected: &'r Corrected,
    diverged: String,
}

/// The accuracy of every arm beside that of the reference.
pub(super) fn comparisons(tests: &Tests<'_, '_>) -> Table {
    let margin = points_as_given(tests.margin);
    let mut note =
        "Pass@1 of the arm − that of the reference, in points, on the same seeds and tasks. "
            .to_owned();
    let mut columns = pair_columns(|row: &Accuracy<'_>| row.compared);
    if tests.tested {
        columns.text("difference", "difference", |row| {
            format!("{}{}", row.corrected.difference, row.diverged)
        });
        let within = format!("within ± {margin}");
        columns.text(&within, "equivalence", |row| {
            format!("{}{}", row.corrected.equivalence, row.diverged)
        });
    }
    contrast_columns(&mut columns, "difference", tests.tested, |row| {
        (&row.found.difference, &row.diverged)
    });
    if tests.tested {
        columns.p("p, difference", "p_difference", |row| {
            Some(row.found.p_difference)
        });
        columns.p("by Holm", "p_difference_holm", |row| {
            Some(row.corrected.p_difference)
        });
        let (heading, name) = ("bootstrap 90%", "difference_90_points");
        columns.ours(heading, name, Form::Interval(2), |row| {
            points(&row.found.difference, row.found.resampled_90)
        });
        let (heading, name) = ("t interval over seeds (90%)", "over_seeds_90_points");
        columns.ours(heading, name, Form::Interval(2), |row| {
            over_seeds(&row.found.difference, row.found.over_seeds_90)
        });
        columns.p("p, equivalence", "p_equivalence", |row| {
            Some(row.found.p_equivalence)
        });
        columns.p("by Holm", "p_equivalence_holm", |row| {
            Some(row.corrected.p_equivalence)
        });
        note += &format!(
            "“Better” and “worse” need a p-value of at most 0.05 after Holm's correction, and a t interval over seeds without 0. That the accuracies are the same within ± \
             {margin} points needs one too, and both 90% intervals within; it is refuted if both are beyond. All else is undetermined, which is not “the same”."
        );
    } else {
        note += UNTESTED;
    }
    let (heading, name) = ("difference, points", "difference_points");
    columns.papers(heading, name, Form::Number(1), |row| {
        let papers = papers(row.compared);
        Cell::number(papers.map(|(arm, other)| arm.pass_at_1.mean - other.pass_at_1.mean))
    });
    let rows = tests.compared.iter().filter_map(|compared| {
        let (found, corrected) = compared.accuracy.as_ref()?;
        Some(Accuracy {
            compared,
            found,
            corrected,
            diverged: with_diverged(&[compared.arm, compared.reference]),
        })
    });
    columns.table("comparisons", "Accuracy beside the reference", note, rows)
}

/// The columns of a difference of Pass@1. `of` has a remark too, which stands behind what each seed gives unless a conclusion has it.
fn contrast_columns<'a, R: 'a>(
    columns: &mut Columns<'a, R>,
    name: &str,
    concluded: bool,
    of: impl Fn(&R) -> (&Contrast, &String) + Copy + 'a,
) {
    let heading = format!("{name}, points (bootstrap 95%)");
    let name = format!("{name}_points");
    columns.ours(&heading, &name, Form::Interval(2), move |row| {
        points(of(row).0, of(row).0.resampled)
    });
    let (heading, name) = ("t interval over seeds (95%)", "over_seeds_points");
    columns.ours(heading, name, Form::Interval(2), move |row| {
        over_seeds(of(row).0, of(row).0.over_seeds)
    });
    columns.text("each seed", "each_seed_points", move |row| {
        let (contrast, remark) = of(row);
        let seeds = contrast.by_seed.iter();
        let seeds: Vec<String> = seeds.map(|it| format!("{:.1}", POINTS * it)).collect();
        // A text that begins with a hyphen is a formula to a spreadsheet.
        let seeds = seeds.join("; ").replace('-', "\u{2212}");
        if concluded { seeds } else { seeds + remark }
    });
}

/// A contrast with one of its intervals.
fn points(contrast: &Contrast, interval: Option<Interval>) -> Cell {
    let interval = interval.map(|interval| Interval {
        low: POINTS * interval.low,
        high: POINTS * interval.high,
    });
    Cell::Interval(POINTS * contrast.estimate, interval)
}

/// A contrast with an interval over seeds; nothing for too few seeds.
fn over_seeds(contrast: &Contrast, interval: Option<Interval>) -> Cell {
    interval.map_or(Cell::None, |interval| points(contrast, Some(interval)))
}

/// The columns of an arm and what stands beside it.
fn pair_columns<'a, R: 'a>(
    of: impl for<'r> Fn(&'r R) -> &'r Compared<'r, 'r> + Copy + 'a,
) -> Columns<'a, R> {
    let mut columns = Columns::of("arm", "arm", move |row| of(row).arm.label());
    columns.text("beside", "reference", move |row| of(row).reference.label());
    columns
}

/// The paper's rows of an arm and the reference.
fn papers(compared: &Compared<'_, '_>) -> Option<(&'static PaperResult, &'static PaperResult)> {
    paper_row::of(compared.arm).zip(paper_row::of(compared.reference))
}

/// What stands behind a conclusion if runs of these arms diverged.
fn with_diverged(arms: &[&ArmRuns<'_>]) -> String {
    let runs = arms.iter().flat_map(|arm| &arm.runs);
    let diverged = runs.filter(|run| run.state == RunState::Diverged);
    match diverged.count() {
        0 => String::new(),
        1 => ", with 1 diverged run".into(),
        more => format!(", with {more} diverged runs"),
    }
}

/// The effects of factors on accuracy.
pub(super) fn effects(tests: &Tests<'_, '_>) -> Table {
    type Row<'r> = (&'r Effect<'r, 'r>, String);
    let mut columns = Columns::of("factor", "factor", |(effect, _): &Row<'_>| {
        effect.factor.to_owned()
    });
    columns.text("arms that have it", "arms", |(effect, _)| {
        labels(&effect.arms)
    });
    contrast_columns(&mut columns, "effect", false, |(effect, diverged)| {
        (&effect.effect, diverged)
    });
    let rows = tests.effects.iter();
    let rows = rows.map(|effect| (effect, with_diverged(&effect.point)));
    let note = "Mean Pass@1 of the arms that have the factor − that of all others, in points. Nothing is tested.";
    columns.table("effects", "Effects of factors on accuracy", note, rows)
}

fn labels(arms: &[&ArmRuns<'_>]) -> String {
    let labels = arms.iter().map(|arm| arm.label());
    labels.collect::<Vec<_>>().join(" · ")
}

/// The time of every arm over that of the reference.
pub(super) fn time_ratios(tests: &Tests<'_, '_>) -> Table {
    type Row<'r> = (&'r Compared<'r, 'r>, &'r Ratio);
    let mut note = "Seconds of training per update, over the reference's: the geometric mean of pairs of the same seed and round on one processor, with the t interval of the log \
                    ratio. Blocks of which a run is missing are left out."
        .to_owned();
    let mut columns = pair_columns(|(compared, _): &Row<'_>| compared);
    let (heading, name) = ("time ratio (95%)", "time_ratio");
    columns.ours(heading, name, Form::Interval(3), |(_, time)| {
        Cell::Interval(time.ratio, time.interval)
    });
    columns.text("each pair", "each_pair", |(_, time)| {
        let pairs = time.pairs.iter().map(|pair| format!("{pair:.3}"));
        pairs.collect::<Vec<_>>().join("; ")
    });
    if tests.tested {
        columns.p("p", "p", |(_, time)| time.p);
        note.push_str(" The p-value is that of equal times by the t test, for one comparison that was chosen in advance: it is not corrected for others.");
    }
    note.push_str(" The paper's is the ratio of its mean times.");
    let (heading, name) = ("time ratio", "time_ratio");
    columns.papers(heading, name, Form::Number(2), |(compared, _)| {
        let ratio =
            papers(compared).and_then(|(arm, other)| Some(arm.minutes?.mean / other.minutes?.mean));
        Cell::number(ratio)
    });
    let rows = tests.compared.iter();
    let rows = rows.filter_map(|compared| Some((compared, compared.time.as_ref()?)));
    columns.table("time-ratios", "Time beside the reference", note, rows)
}

/// The slope of Pass@1 on log₂ H.
pub(super) fn slopes(tests: &Tests<'_, '_>) -> Table {
    type Row<'r> = (&'r Sloped<'r, 'r>, String);
    let mut note =
        "The slope of Pass@1 on log₂ H by least squares, in points per doubling. ".to_owned();
    let mut columns = Columns::of("arms", "arms", |(sloped, _): &Row<'_>| {
        labels(&sloped.ladder.rungs)
    });
    if tests.tested {
        columns.text("conclusion", "conclusion", |(sloped, diverged)| {
            format!("{}{diverged}", sloped.slope.conclusion())
        });
    }
    contrast_columns(&mut columns, "slope", tests.tested, |(sloped, diverged)| {
        (&sloped.slope.slope, diverged)
    });
    if tests.tested {
        columns.p("p", "p", |(sloped, _)| Some(sloped.slope.p));
        note += "Both intervals have to agree. It is said to be no larger than the wider interval's end only if the whole range of H then changes Pass@1 by no more than the margin. Several slopes are not corrected for each other.";
    } else {
        note += UNTESTED;
    }
    columns.papers("slope", "slope_points", Form::Number(2), |(sloped, _)| {
        let of_rung = |rung: &&ArmRuns<'_>| {
            let row = paper_row::of(rung)?;
            Some(((rung.h() as f64).log2(), row.pass_at_1.mean))
        };
        let papers: Option<Vec<(f64, f64)>> = sloped.ladder.rungs.iter().map(of_rung).collect();
        Cell::number(papers.map(|papers| least_squares(&papers)))
    });
    let rows = tests.slopes.iter();
    let rows = rows.map(|sloped| (sloped, with_diverged(&sloped.ladder.rungs)));
    note += " The paper's is the slope of its printed means.";
    columns.table("slope", "Pass@1 by doublings of H", note, rows)
}
