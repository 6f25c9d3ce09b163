//! The figures of the comparisons.

use std::collections::BTreeMap;
use std::fs;

use super::{Truth, arms};
use crate::sweep_report::tests::synthetic::Synthetic;

/// A sweep in which only H = 4 is better, with the end of its file.
fn sweep(seeds: &str, end: &str) -> Synthetic {
    let sweep = Synthetic::new(&(arms(seeds, 0.0125) + end));
    sweep.run_all(|run| Truth {
        tasks: 100,
        effect: if run.arm == "rapid-h4" { 0.2 } else { 0.0 },
        seconds: 60.0,
    });
    sweep
}

/// The tooltips of the figure of a table, by the table's own digits. `name` has the label of each row, and `value` is the column of the estimates.
fn tooltips(sweep: &Synthetic, table: &str, name: &str, value: &str) -> Vec<String> {
    let ends = |of: &str, row: &BTreeMap<String, String>| {
        format!(
            "{} to {}",
            row[&format!("{of}_low")],
            row[&format!("{of}_high")]
        )
    };
    let rows = sweep.csv(table);
    let tooltip = |row: &BTreeMap<String, String>| {
        let numbers = format!(
            "{} points; 95%: {} by the bootstrap, {} over seeds",
            row[value],
            ends(value, row),
            ends("over_seeds_points", row)
        );
        format!(
            "<title>{}: {}</title>",
            row[name],
            numbers.replace('-', "\u{2212}")
        )
    };
    rows.iter().map(tooltip).collect()
}

#[test]
fn the_figure_of_the_comparisons_has_the_numbers_of_their_table() {
    let sweep = sweep("[0, 1, 2]", "");
    let page = sweep.page();
    let svg = fs::read_to_string(sweep.out().join("comparisons.svg")).unwrap();
    let tooltips = tooltips(&sweep, "comparisons.csv", "arm", "difference_points");
    assert_eq!(tooltips.len(), 3);
    let places: Vec<usize> = tooltips
        .iter()
        .map(|tooltip| {
            svg.find(tooltip)
                .unwrap_or_else(|| panic!("{tooltip}: {svg}"))
        })
        .collect();
    assert!(places.is_sorted(), "{places:?}");
    assert!(tooltips.iter().all(|tooltip| page.contains(tooltip)));
    // A ring for each arm and seed, and one in the legend.
    assert_eq!(svg.matches("class=\"seed\"").count(), 10);
    assert!(page.contains("; the equivalence margin is ±\u{a0}1.25<"));
    assert!(svg.contains("class=\"band\""));
    let order = [
        "Accuracy beside the reference",
        "Accuracy beside pg",
        "Time beside the reference",
    ];
    let order = order.map(|title| page.find(&format!(">{title}<")).unwrap());
    assert!(order.is_sorted(), "{order:?}");
    assert!(page.contains("href=\"comparisons.svg\""));
    assert!(!sweep.out().join("effects.svg").exists());
}

#[test]
fn a_sweep_that_tests_nothing_has_figures_without_a_margin() {
    let effects =
        "tests = false\n[compare.effects]\n\"a large H\" = [\"rapid-h4\", \"rapid-h8\"]\n";
    let sweep = sweep("[0, 1, 2]", effects);
    let page = sweep.page();
    for (name, column) in [
        ("comparisons", "difference_points"),
        ("effects", "effect_points"),
    ] {
        let svg = fs::read_to_string(sweep.out().join(format!("{name}.svg"))).unwrap();
        assert!(
            !svg.contains("class=\"band\"") && !svg.contains("equivalence margin"),
            "{svg}"
        );
        let label = if name == "effects" { "factor" } else { "arm" };
        for tooltip in tooltips(&sweep, &format!("{name}.csv"), label, column) {
            assert!(
                svg.contains(&tooltip) && page.contains(&tooltip),
                "{tooltip}: {svg}"
            );
        }
    }
}

#[test]
fn without_evaluations_there_is_no_figure_of_comparisons() {
    let sweep = Synthetic::new(&arms("[0, 1]", 0.02));
    sweep.run_all(|_| Truth {
        tasks: 0,
        effect: 0.0,
        seconds: 60.0,
    });
    let page = sweep.page();
    assert!(page.contains("href=\"figure-1.svg\"") && !page.contains("comparisons.svg"));
}
