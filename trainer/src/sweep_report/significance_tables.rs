//! The tables of the tests.

use datasets::passk::Interval;

use super::arms::ArmRuns;
use super::paper_row;
use super::significance::{Compared, Effect, Sloped, Tests};
use crate::paper::PaperResult;
use crate::report::table::{Cell, Columns, Form, POINTS, Table, points_as_given};
use crate::statistics::{Comparison, Contrast, Corrected, Ratio, least_squares};
use crate::sweep::RunState;

const UNTESTED: &str = "Nothing is tested: the sweep file says so.";

/// The accuracy of every arm beside that of the reference.
pub(super) fn comparisons(tests: &Tests<'_, '_>) -> Table {
    let rows = tests.compared.iter().filter_map(|it| {
        let (found, corrected) = it.accuracy.as_ref()?;
        Some((it, found, corrected, with_diverged(&[it.arm, it.reference])))
    });
    let rows: Vec<(&Compared<'_, '_>, &Comparison, &Corrected, String)> = rows.collect();
    let mut note =
        "Pass@1 of the arm − that of the reference, in points, on the same seeds and tasks. "
            .to_owned();
    let mut columns = Columns::of(&rows);
    pair_columns(&mut columns, |row| row.0);
    let margin = points_as_given(tests.margin);
    if tests.tested {
        columns.text("difference", "difference", |(.., it, diverged)| {
            it.difference.to_owned() + diverged
        });
        let within = format!("within ± {margin}");
        columns.text(&within, "equivalence", |(.., it, diverged)| {
            it.equivalence.to_owned() + diverged
        });
    }
    contrast_columns(&mut columns, "difference", tests.tested, |row| {
        (&row.1.difference, &row.3)
    });
    if tests.tested {
        p_column(&mut columns, "p, difference", "p_difference", |row| {
            row.1.difference.p
        });
        p_column(&mut columns, "by Holm", "p_difference_holm", |row| {
            row.2.p_difference
        });
        let (heading, name) = ("bootstrap 90%", "difference_90_points");
        columns.add(heading, name, Form::Interval(2), |(_, found, ..)| {
            points(&found.difference, found.resampled_90)
        });
        let (heading, name) = ("t interval over seeds (90%)", "over_seeds_90_points");
        columns.add(heading, name, Form::Interval(2), |(_, found, ..)| {
            over_seeds(&found.difference, found.over_seeds_90)
        });
        p_column(&mut columns, "p, equivalence", "p_equivalence", |row| {
            row.1.p_equivalence
        });
        p_column(&mut columns, "by Holm", "p_equivalence_holm", |row| {
            row.2.p_equivalence
        });
        note += &format!(
            "“Better” and “worse” need a p-value of at most 0.05 after Holm's correction, and a t interval over seeds without 0. That the accuracies are the same within ± \
             {margin} points needs one too, and both 90% intervals within; it is refuted if both are beyond. All else is undetermined, which is not “the same”."
        );
    } else {
        note += UNTESTED;
    }
    let (heading, name) = ("difference, points", "difference_points");
    let paper = columns.number(heading, name, 1, |row| {
        let (arm, other) = papers(row.0)?;
        Some(arm.pass_at_1.mean - other.pass_at_1.mean)
    });
    paper.of_paper();
    columns.table("comparisons", "Accuracy beside the reference", note)
}

fn p_column<R>(columns: &mut Columns<'_, R>, heading: &str, name: &str, p: impl Fn(&R) -> f64) {
    columns.add(heading, name, Form::P, |row| Cell::number(Some(p(row))));
}

/// The columns of a difference of Pass@1. `of` returns it with a remark, which stands behind the seeds' differences unless the table has `concluded` and shows it there.
fn contrast_columns<R>(
    columns: &mut Columns<'_, R>,
    name: &str,
    concluded: bool,
    of: impl Fn(&R) -> (&Contrast, &String),
) {
    let heading = format!("{name}, points (bootstrap 95%)");
    let name = format!("{name}_points");
    columns.add(&heading, &name, Form::Interval(2), |row| {
        points(of(row).0, of(row).0.resampled)
    });
    let (heading, name) = ("t interval over seeds (95%)", "over_seeds_points");
    columns.add(heading, name, Form::Interval(2), |row| {
        over_seeds(of(row).0, of(row).0.over_seeds)
    });
    columns.text("each seed", "each_seed_points", |row| {
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
    Cell::interval(contrast.estimate, interval, POINTS)
}

/// A contrast with an interval over seeds; nothing for too few seeds.
fn over_seeds(contrast: &Contrast, interval: Option<Interval>) -> Cell {
    interval.map_or(Cell::NONE, |_| points(contrast, interval))
}

/// The columns of an arm and what stands beside it.
fn pair_columns<R>(
    columns: &mut Columns<'_, R>,
    of: impl for<'r> Fn(&'r R) -> &'r Compared<'r, 'r>,
) {
    columns.text("arm", "arm", |row| of(row).arm.label());
    columns.text("beside", "reference", |row| of(row).reference.label());
}

/// The paper's rows of an arm and the reference.
fn papers(compared: &Compared<'_, '_>) -> Option<(&'static PaperResult, &'static PaperResult)> {
    paper_row::of(compared.arm).zip(paper_row::of(compared.reference))
}

/// The remark on how many runs of these arms diverged; empty if none did.
fn with_diverged(arms: &[&ArmRuns<'_>]) -> String {
    let runs = arms.iter().flat_map(|arm| &arm.runs);
    let diverged = runs.filter(|run| run.state == RunState::Diverged);
    match diverged.count() {
        0 => String::new(),
        1 => ", with 1 diverged run".into(),
        more => format!(", with {more} diverged runs"),
    }
}

pub(super) fn effects(tests: &Tests<'_, '_>) -> Table {
    let rows = tests.effects.iter();
    let rows = rows.map(|effect| (effect, with_diverged(&effect.point)));
    let rows: Vec<(&Effect<'_, '_>, String)> = rows.collect();
    let mut columns = Columns::of(&rows);
    columns.text("factor", "factor", |row| row.0.factor.to_owned());
    columns.text("arms that have it", "arms", |row| labels(&row.0.arms));
    contrast_columns(&mut columns, "effect", false, |row| (&row.0.effect, &row.1));
    let note = "Mean Pass@1 of the arms that have the factor − that of all others, in points. Nothing is tested.";
    columns.table("effects", "Effects of factors on accuracy", note)
}

fn labels(arms: &[&ArmRuns<'_>]) -> String {
    let labels = arms.iter().map(|arm| arm.label());
    labels.collect::<Vec<_>>().join(" · ")
}

/// The time of every arm over that of the reference.
pub(super) fn time_ratios(tests: &Tests<'_, '_>) -> Table {
    let rows = tests.compared.iter();
    let rows = rows.filter_map(|compared| Some((compared, compared.time.as_ref()?)));
    let rows: Vec<(&Compared<'_, '_>, &Ratio)> = rows.collect();
    let mut columns = Columns::of(&rows);
    pair_columns(&mut columns, |row| row.0);
    let (heading, name) = ("time ratio (95%)", "time_ratio");
    columns.add(heading, name, Form::Interval(3), |(_, time)| {
        Cell::interval(time.ratio, time.interval, 1.0)
    });
    columns.text("each pair", "each_pair", |(_, time)| {
        let pairs = time.pairs.iter().map(|pair| format!("{pair:.3}"));
        pairs.collect::<Vec<_>>().join("; ")
    });
    let mut note = "Seconds of training per update, over the reference's: the geometric mean of pairs of the same seed and round on one processor, with the t interval of the log \
                    ratio. Blocks of which a run is missing are left out."
        .to_owned();
    if tests.tested {
        columns.add("p", "p", Form::P, |(_, time)| Cell::number(time.p));
        note.push_str(" The p-value is that of equal times by the t test, for one comparison that was chosen in advance: it is not corrected for others.");
    }
    note.push_str(" The paper's is the ratio of its mean times.");
    let paper = columns.number("time ratio", name, 2, |row| {
        let (arm, other) = papers(row.0)?;
        Some(arm.minutes?.mean / other.minutes?.mean)
    });
    paper.of_paper();
    columns.table("time-ratios", "Time beside the reference", note)
}

/// The slope of Pass@1 on log₂ H.
pub(super) fn slopes(tests: &Tests<'_, '_>) -> Table {
    let rows = tests.slopes.iter();
    let rows = rows.map(|it| (it, with_diverged(&it.ladder.rungs)));
    let rows: Vec<(&Sloped<'_, '_>, String)> = rows.collect();
    let mut note =
        "The slope of Pass@1 on log₂ H by least squares, in points per doubling. ".to_owned();
    let mut columns = Columns::of(&rows);
    columns.text("arms", "arms", |row| labels(&row.0.ladder.rungs));
    if tests.tested {
        columns.text("conclusion", "conclusion", |(sloped, diverged)| {
            sloped.slope.conclusion() + diverged
        });
    }
    contrast_columns(&mut columns, "slope", tests.tested, |row| {
        (&row.0.slope.slope, &row.1)
    });
    if tests.tested {
        p_column(&mut columns, "p", "p", |row| row.0.slope.slope.p);
        note += "Both intervals have to agree. It is said to be no larger than the wider interval's end only if the whole range of H then changes Pass@1 by no more than the margin. Several slopes are not corrected for each other.";
    } else {
        note += UNTESTED;
    }
    let paper = columns.number("slope", "slope_points", 2, |(sloped, _)| {
        let of_rung = |rung: &&ArmRuns<'_>| {
            let row = paper_row::of(rung)?;
            Some(((rung.h() as f64).log2(), row.pass_at_1.mean))
        };
        let papers: Option<Vec<(f64, f64)>> = sloped.ladder.rungs.iter().map(of_rung).collect();
        Some(least_squares(&papers?))
    });
    paper.of_paper();
    note += " The paper's is the slope of its printed means.";
    columns.table("slope", "Pass@1 by doublings of H", note)
}
