//! Tables whose form depends on what the sweep varies.

use super::{Truth, UPDATES, arms, number};
use crate::sweep_report::tests::synthetic::Synthetic;

const EQUAL: Truth = Truth {
    tasks: 40,
    effect: 0.0,
    seconds: 60.0,
};

#[test]
fn every_estimator_has_rungs_of_its_own_and_only_the_papers_has_its_numbers() {
    let arm = |preset: &str, h: usize| {
        format!(
            "[[arms]]\nname = \"{preset}-{h}\"\nset = {{ \"algorithm.preset\" = \"{preset}\", \"algorithm.h\" = {h} }}\n"
        )
    };
    let all: String = ["rapid-paper", "rapid-loo", "pg"]
        .iter()
        .flat_map(|preset| [1, 4, 16].map(|h| arm(preset, h)))
        .collect();
    let file = format!(
        "recipe = \"quickstart\"\nseeds = [0, 1]\n[set]\n\"run.updates\" = {UPDATES}\n{all}[compare]\nreference = \"pg-1\"\nmargin = 0.02\n"
    );
    let sweep = Synthetic::new(&file);
    sweep.run_all(|_| EQUAL);
    let page = sweep.page();
    let by_h = sweep.csv("table-3.csv");
    let rows: Vec<&str> = by_h.iter().map(|row| row["arm"].as_str()).collect();
    assert_eq!(rows.len(), 9, "{rows:?}");
    assert_eq!(&rows[3..6], ["rapid-loo-1", "rapid-loo-4", "rapid-loo-16"]);
    // The paper has RAPID at H = 4 and 16, and PG at 1.
    let of_paper: Vec<&str> = by_h
        .iter()
        .filter(|row| !row["paper_minutes"].is_empty())
        .map(|row| row["arm"].as_str())
        .collect();
    assert_eq!(of_paper, ["rapid-paper-4", "rapid-paper-16", "pg-1"]);
    assert_eq!(sweep.csv("slope.csv").len(), 3);
    let correlations = sweep.csv("table-4.csv");
    let estimators: Vec<&str> = correlations
        .iter()
        .filter(|row| row["metric"] == "Pass@1")
        .map(|row| row["estimator"].as_str())
        .collect();
    assert_eq!(estimators, ["rapid-paper", "rapid-loo", "pg"]);
    assert!(page.contains("Several slopes are not corrected for each other"));
}

#[test]
fn each_model_has_its_own_row_before_training() {
    let file = arms("[0, 1]", 0.02).replace(
        "[[arms]]\nname = \"pg\"",
        "[[arms]]\nname = \"gemma\"\nset = { \"model.name\" = \"gemma3-270m\", \"algorithm.h\" = 1 }\n[[arms]]\nname = \"pg\"",
    );
    let sweep = Synthetic::new(&file);
    sweep.run_all(|_| EQUAL);
    sweep.page();
    let table = sweep.csv("table-1.csv");
    let rows: Vec<&str> = table.iter().map(|row| row["arm"].as_str()).collect();
    let bases = ["gemma, before training", "pg, before training"];
    assert_eq!(&rows[..2], bases);
    assert_eq!(rows.len(), 7);
}

#[test]
fn the_time_to_the_target_is_that_of_the_first_evaluation_that_reaches_it() {
    let file = arms("[0, 1]", 0.0125) + "target = 0.505\n";
    let sweep = Synthetic::new(&file);
    sweep.run_all(|run| Truth {
        tasks: 300,
        effect: if run.arm == "rapid-h4" { 0.2 } else { 0.0 },
        seconds: 90.0,
    });
    let page = sweep.page();
    // The page has the sweep file's numbers with all of their digits.
    for words in [
        "Time to a Pass@1 of 50.5%",
        "within ± 1.25<",
        "the same within ± 1.25 points",
    ] {
        assert!(page.contains(words), "{words}");
    }
    let rows = sweep.csv("time-to-target.csv");
    let row = |arm: &str| rows.iter().find(|row| row["arm"] == arm).unwrap();
    let reached = row("rapid-h4");
    assert_eq!(number(reached, "seeds_that_reach_it"), 2.0);
    assert_eq!(number(reached, "updates"), UPDATES as f64);
    assert_eq!(reached["minutes"], "1.50");
    let not = row("pg");
    assert_eq!((&*not["seeds_that_reach_it"], &*not["minutes"]), ("0", ""));
}
