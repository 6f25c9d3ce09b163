//! The figures of the tests: the estimates and intervals of their tables as forest plots.

use super::arms::at_point;
use super::figures::{Figure, Place};
use super::tests_of_arms::Tests;
use crate::report::forest::Forest;
use crate::report::table::points_as_given;

/// All figures that the sweep has tests for.
pub(super) fn all(tests: &Tests<'_, '_>) -> Vec<Figure> {
    let figures = [comparisons(tests), effects(tests)];
    figures.into_iter().flatten().collect()
}

/// The difference of every arm from the reference.
fn comparisons(tests: &Tests<'_, '_>) -> Option<Figure> {
    let reference = tests.compared.first()?.reference.arm;
    let margin = tests.tested.then_some(tests.margin);
    let of_margin = margin.map_or_else(String::new, |margin| {
        format!(
            "; the equivalence margin is ±\u{a0}{}",
            points_as_given(margin)
        )
    });
    let rows = tests.compared.iter().filter_map(|compared| {
        let (found, _) = compared.accuracy.as_ref()?;
        Some((compared.arm.label(), &found.difference))
    });
    let forest = Forest {
        title: format!("Accuracy beside {reference}"),
        note: format!("Pass@1 of each arm − that of {reference}, in points{of_margin}"),
        margin,
        rows: rows.collect(),
    };
    figure("comparisons", &forest)
}

/// The effect of every factor.
fn effects(tests: &Tests<'_, '_>) -> Option<Figure> {
    let rows = tests.effects.iter().filter_map(|effect| {
        let point = effect.arms.first()?.point;
        Some((at_point(effect.factor, point), &effect.effect))
    });
    let forest = Forest {
        title: "Effects of factors on accuracy".into(),
        note: "mean Pass@1 of the arms that have the factor − that of all others, in points".into(),
        margin: None,
        rows: rows.collect(),
    };
    figure("effects", &forest)
}

/// The figure of a table, with its name.
fn figure(table: &'static str, forest: &Forest<'_>) -> Option<Figure> {
    (!forest.rows.is_empty()).then(|| Figure {
        file: format!("{table}.svg"),
        html: forest.render(),
        svg: forest.file(),
        place: Place::Below(table),
    })
}
