//! The tables of the tests.

use datasets::passk::Interval;

use super::arms::ArmRuns;
use super::paper_row;
use super::tests_of_arms::{Compared, Tests};
use crate::paper::PaperResult;
use crate::report::table::{Cell, Column, Form, POINTS, Table, points_as_given};
use crate::statistics::{Comparison, Contrast, Corrected, least_squares};
use crate::sweep::RunState;

const UNTESTED: &str = "Nothing is tested: the sweep file says so.";

/// The accuracy of every arm beside that of the reference.
pub(super) fn comparisons(tests: &Tests<'_, '_>) -> Table {
    let has_accuracy = |it: &&Compared<'_, '_>| it.accuracy.is_some();
    let pairs: Vec<_> = tests.compared.iter().filter(has_accuracy).collect();
    let found: Vec<&(Comparison, Corrected)> =
        pairs.iter().filter_map(|it| it.accuracy.as_ref()).collect();
    let diverged = pairs
        .iter()
        .map(|it| with_diverged(&[it.arm, it.reference]));
    let diverged: Vec<String> = diverged.collect();
    let differences = found.iter().map(|(found, _)| &found.difference);
    let contrasts = contrast_columns("difference", differences, &diverged, tests.tested);
    let mut note =
        "Pass@1 of the arm − that of the reference, in points, on the same seeds and tasks. "
            .to_owned();
    let mut columns = Vec::from(pair_columns(&pairs));
    if tests.tested {
        let margin = points_as_given(tests.margin);
        let verdicts: Vec<(&Corrected, &String)> =
            found.iter().map(|(_, it)| it).zip(&diverged).collect();
        let verdict = |heading: &str, name, of: fn(&Corrected) -> &str| {
            Column::text(heading, name, &verdicts, |(it, with)| {
                of(it).to_owned() + with
            })
        };
        let p = |heading: &str, name, of: fn(&Comparison, &Corrected) -> f64| {
            let cell = |(found, it): &&(Comparison, Corrected)| Cell::number(Some(of(found, it)));
            Column::new(heading, name, Form::P, &found, cell)
        };
        let interval = |heading: &str, name, cell: fn(&Comparison) -> Cell| {
            Column::new(heading, name, Form::Interval(2), &found, |row| cell(&row.0))
        };
        columns.push(verdict("difference", "difference", |it| it.difference));
        let within = format!("within ± {margin}");
        columns.push(verdict(&within, "equivalence", |it| it.equivalence));
        columns.extend(contrasts);
        columns.extend([
            p("p, difference", "p_difference", |found, _| {
                found.difference.p
            }),
            p("by Holm", "p_difference_holm", |_, it| it.p_difference),
            interval("bootstrap 90%", "difference_90_points", |found| {
                points(&found.difference, found.resampled_90)
            }),
            interval(
                "t interval over seeds (90%)",
                "over_seeds_90_points",
                |found| over_seeds(&found.difference, found.over_seeds_90),
            ),
            p("p, equivalence", "p_equivalence", |found, _| {
                found.p_equivalence
            }),
            p("by Holm", "p_equivalence_holm", |_, it| it.p_equivalence),
        ]);
        note += &format!(
            "“Better” and “worse” need a p-value of at most 0.05 after Holm's correction, and a t interval over seeds without 0. That the accuracies are the same within ± \
             {margin} points needs one too, and both 90% intervals within; it is refuted if both are beyond. All else is undetermined, which is not “the same”."
        );
    } else {
        columns.extend(contrasts);
        note += UNTESTED;
    }
    let (heading, name) = ("difference, points", "difference_points");
    let paper = Column::number(heading, name, 1, &pairs, |pair| {
        let (arm, other) = papers(pair)?;
        Some(arm.pass_at_1.mean - other.pass_at_1.mean)
    });
    columns.push(paper.of_paper());
    let title = "Accuracy beside the reference";
    Table::new("comparisons", title, note, columns)
}

/// The columns of differences of Pass@1. What is said of diverged runs stands behind what each seed gives, unless a conclusion says it.
fn contrast_columns<'a>(
    name: &str,
    contrasts: impl Iterator<Item = &'a Contrast>,
    diverged: &[String],
    is_concluded: bool,
) -> [Column; 3] {
    let rows: Vec<(&Contrast, &String)> = contrasts.zip(diverged).collect();
    let heading = format!("{name}, points (bootstrap 95%)");
    let name = format!("{name}_points");
    [
        Column::new(heading, name, Form::Interval(2), &rows, |(it, _)| {
            points(it, it.resampled)
        }),
        Column::new(
            "t interval over seeds (95%)",
            "over_seeds_points",
            Form::Interval(2),
            &rows,
            |(it, _)| over_seeds(it, it.over_seeds),
        ),
        Column::text("each seed", "each_seed_points", &rows, |(it, diverged)| {
            let seeds = it.by_seed.iter().map(|it| format!("{:.1}", POINTS * it));
            // A text that begins with a hyphen is a formula to a spreadsheet.
            let seeds = Vec::from_iter(seeds).join("; ").replace('-', "\u{2212}");
            if is_concluded {
                seeds
            } else {
                seeds + diverged
            }
        }),
    ]
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
fn pair_columns(pairs: &[&Compared<'_, '_>]) -> [Column; 2] {
    [
        Column::text("arm", "arm", pairs, |pair| pair.arm.label()),
        Column::text("beside", "reference", pairs, |pair| pair.reference.label()),
    ]
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
    let rows = &tests.effects;
    let diverged: Vec<String> = rows.iter().map(|it| with_diverged(&it.point)).collect();
    let contrasts = rows.iter().map(|it| &it.effect);
    let mut columns = vec![
        Column::text("factor", "factor", rows, |it| it.factor.to_owned()),
        Column::text("arms that have it", "arms", rows, |it| labels(&it.arms)),
    ];
    columns.extend(contrast_columns("effect", contrasts, &diverged, false));
    let note = "Mean Pass@1 of the arms that have the factor − that of all others, in points. Nothing is tested.";
    Table::new("effects", "Effects of factors on accuracy", note, columns)
}

fn labels(arms: &[&ArmRuns<'_>]) -> String {
    let labels = arms.iter().map(|arm| arm.label());
    labels.collect::<Vec<_>>().join(" · ")
}

/// The time of every arm over that of the reference.
pub(super) fn time_ratios(tests: &Tests<'_, '_>) -> Table {
    let timed = |it: &&Compared<'_, '_>| it.time.is_some();
    let pairs: Vec<_> = tests.compared.iter().filter(timed).collect();
    let times: Vec<_> = pairs.iter().filter_map(|it| it.time.as_ref()).collect();
    let (heading, name) = ("time ratio (95%)", "time_ratio");
    let mut columns = Vec::from(pair_columns(&pairs));
    columns.extend([
        Column::new(heading, name, Form::Interval(3), &times, |time| {
            Cell::interval(time.ratio, time.interval, 1.0)
        }),
        Column::text("each pair", "each_pair", &times, |time| {
            let pairs = time.pairs.iter().map(|pair| format!("{pair:.3}"));
            pairs.collect::<Vec<_>>().join("; ")
        }),
    ]);
    let mut note = "Seconds of training per update, over the reference's: the geometric mean of pairs of the same seed and round on one processor, with the t interval of the log \
                    ratio. Blocks of which a run is missing are left out."
        .to_owned();
    if tests.tested {
        columns.push(Column::new("p", "p", Form::P, &times, |it| {
            Cell::number(it.p)
        }));
        note.push_str(" The p-value is that of equal times by the t test, for one comparison that was chosen in advance: it is not corrected for others.");
    }
    note.push_str(" The paper's is the ratio of its mean times.");
    let paper = Column::number("time ratio", name, 2, &pairs, |pair| {
        let (arm, other) = papers(pair)?;
        Some(arm.minutes?.mean / other.minutes?.mean)
    });
    columns.push(paper.of_paper());
    Table::new("time-ratios", "Time beside the reference", note, columns)
}

/// The slope of Pass@1 on log₂ H.
pub(super) fn slopes(tests: &Tests<'_, '_>) -> Table {
    let rows = &tests.slopes;
    let diverged = rows.iter().map(|it| with_diverged(&it.ladder.rungs));
    let diverged: Vec<String> = diverged.collect();
    let slopes = rows.iter().map(|it| &it.slope.slope);
    let contrasts = contrast_columns("slope", slopes, &diverged, tests.tested);
    let mut columns = vec![Column::text("arms", "arms", rows, |it| {
        labels(&it.ladder.rungs)
    })];
    let mut note =
        "The slope of Pass@1 on log₂ H by least squares, in points per doubling. ".to_owned();
    if tests.tested {
        let concluded: Vec<_> = rows.iter().zip(&diverged).collect();
        let conclusion = ("conclusion", "conclusion");
        columns.push(Column::text(conclusion.0, conclusion.1, &concluded, |it| {
            it.0.slope.conclusion() + it.1
        }));
        columns.extend(contrasts);
        let p = Column::new("p", "p", Form::P, rows, |it| {
            Cell::number(Some(it.slope.slope.p))
        });
        columns.push(p);
        note += "Both intervals have to agree. It is said to be no larger than the wider interval's end only if the whole range of H then changes Pass@1 by no more than the margin. Several slopes are not corrected for each other.";
    } else {
        columns.extend(contrasts);
        note += UNTESTED;
    }
    let paper = Column::number("slope", "slope_points", 2, rows, |it| {
        let of_rung = |rung: &&ArmRuns<'_>| {
            let row = paper_row::of(rung)?;
            Some(((rung.h() as f64).log2(), row.pass_at_1.mean))
        };
        let papers: Option<Vec<(f64, f64)>> = it.ladder.rungs.iter().map(of_rung).collect();
        Some(least_squares(&papers?))
    });
    columns.push(paper.of_paper());
    note += " The paper's is the slope of its printed means.";
    Table::new("slope", "Pass@1 by doublings of H", note, columns)
}
