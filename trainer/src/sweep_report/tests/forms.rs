//! Tables whose form depends on what the sweep varies.

use super::{Truth, UPDATES, arms, number};
use crate::sweep::Event;
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

/// A sweep with an arm of another model, with H = 1.
fn of_two_models() -> Synthetic {
    let file = arms("[0, 1]", 0.02).replace(
        "[[arms]]\nname = \"pg\"",
        "[[arms]]\nname = \"gemma\"\nset = { \"model.name\" = \"gemma3-270m\", \"algorithm.h\" = 1 }\n[[arms]]\nname = \"pg\"",
    );
    let sweep = Synthetic::new(&file);
    sweep.run_all(|_| EQUAL);
    sweep
}

#[test]
fn each_model_has_its_own_row_before_training() {
    let sweep = of_two_models();
    sweep.page();
    let table = sweep.csv("table-1.csv");
    let rows: Vec<&str> = table.iter().map(|row| row["arm"].as_str()).collect();
    let bases = ["gemma, before training", "pg, before training"];
    assert_eq!(&rows[..2], bases);
    assert_eq!(rows.len(), 7);
}

#[test]
fn another_model_is_no_rung() {
    let sweep = of_two_models();
    sweep.page();
    let slopes = sweep.csv("slope.csv");
    let rungs: Vec<&str> = slopes.iter().map(|row| row["arms"].as_str()).collect();
    assert_eq!(rungs, ["pg · rapid-h2 · rapid-h4 · rapid-h8"]);
    // Nor is it the lowest rung as the reference.
    let file = arms("[0, 1]", 0.02).replace(
        "set = { \"algorithm.preset\" = \"pg\",",
        "set = { \"model.name\" = \"gemma3-270m\", \"algorithm.preset\" = \"pg\",",
    );
    let sweep = Synthetic::new(&file);
    sweep.run_all(|_| EQUAL);
    let page = sweep.page();
    let slopes = sweep.csv("slope.csv");
    assert_eq!(slopes[0]["arms"], "rapid-h2 · rapid-h4 · rapid-h8");
    assert!(page.contains("since it differs in more than its algorithm"));
}

#[test]
fn without_times_nothing_is_measured_in_seconds() {
    let file = arms("[0, 1]", 0.02) + "target = 0.1\n";
    let sweep = Synthetic::new(&file);
    sweep.run_all(|_| EQUAL);
    sweep.page();
    let of_times = [
        "time-ratios.csv",
        "figure-1.csv",
        "figure-1.svg",
        "figure-2-inference.svg",
        "table-3-time.svg",
    ];
    assert!(of_times.iter().all(|name| sweep.out().join(name).exists()));
    let page = sweep.page_with(false);
    assert!(page.contains("All times are left out (--no-times)."));
    for name in of_times {
        assert!(!sweep.out().join(name).exists(), "{name}");
    }
    for (table, column) in [
        ("table-1.csv", "minutes"),
        ("table-3.csv", "minutes"),
        ("table-4.csv", "r_time"),
        ("figures-2-and-4.csv", "inference_minutes"),
        ("time-to-target.csv", "minutes"),
        ("time-to-target.csv", "each_seed_minutes"),
        ("runs.csv", "minutes"),
    ] {
        let rows = sweep.csv(table);
        assert!(rows.iter().all(|row| row[column].is_empty()), "{table}");
    }
    assert_eq!(number(&sweep.csv("table-1.csv")[1], "seeds"), 2.0);
}

#[test]
fn too_few_tasks_or_seeds_have_no_interval_and_the_page_says_so() {
    for (seeds, tasks, warning) in [
        (
            "[0, 1, 2]",
            15,
            "The evaluations have fewer than 20 different computations",
        ),
        (
            "[0, 1]",
            80,
            "Of two seeds, there is no interval over seeds",
        ),
    ] {
        let sweep = Synthetic::new(&(arms(seeds, 0.02) + "tests = false\n"));
        sweep.run_all(|_| Truth { tasks, ..EQUAL });
        let page = sweep.page();
        assert!(page.contains(warning), "{seeds}");
        let over_seeds = page.contains("with the 95% t interval over runs");
        assert_eq!(over_seeds, seeds == "[0, 1, 2]");
        for row in sweep.csv("comparisons.csv") {
            assert!(!row["difference_points"].is_empty(), "{row:?}");
            assert_eq!(row["difference_points_low"], "", "{row:?}");
            assert_eq!(
                !row["over_seeds_points_low"].is_empty(),
                over_seeds,
                "{row:?}"
            );
        }
    }
}

#[test]
fn a_diverged_run_is_counted_in_what_is_not_tested_too() {
    let effects = "tests = false\n[compare.effects]\n\"a large H\" = [\"rapid-h4\", \"rapid-h8\"]";
    let sweep = Synthetic::new(&(arms("[0, 1]", 0.02) + effects));
    for run in sweep.folder.plan().runs() {
        sweep.run(run, EQUAL);
        if run.name == "rapid-h2-seed-0" {
            let reason = "after 3 updates, the loss is not finite. With --resume, the run would compute the same and end here again. Start another";
            sweep.end(run, Event::Fail, Some(reason));
        } else {
            sweep.end(run, Event::Finish, None);
        }
    }
    sweep.page();
    for (table, row) in [
        ("comparisons.csv", "rapid-h2"),
        ("effects.csv", "a large H"),
        ("slope.csv", "pg · rapid-h2 · rapid-h4 · rapid-h8"),
    ] {
        let rows = sweep.csv(table);
        let found = rows.iter().find(|it| it.values().any(|cell| cell == row));
        let each = &found.unwrap()["each_seed_points"];
        assert!(each.ends_with(", with 1 diverged run"), "{table}: {each}");
    }
    let others = sweep.csv("comparisons.csv");
    let h4 = others.iter().find(|it| it["arm"] == "rapid-h4").unwrap();
    assert!(!h4["each_seed_points"].contains("diverged"), "{h4:?}");
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
    assert_eq!(
        reached["each_seed_updates"],
        format!("{UPDATES}; {UPDATES}")
    );
    assert_eq!(reached["each_seed_minutes"], "1.50; 1.50");
    let not = row("pg");
    assert_eq!((&*not["seeds_that_reach_it"], &*not["minutes"]), ("0", ""));
}

#[test]
fn an_arm_that_chooses_h_during_the_run_is_no_rung_and_has_no_row_of_the_paper() {
    let arm = r#"[[arms]]
name = "auto"
set = { "algorithm.preset" = "rapid-paper", "algorithm.h" = 16, "algorithm.auto_h" = 0.5 }
[compare]"#;
    let sweep = Synthetic::new(&arms("[0, 1]", 0.02).replace("[compare]", arm));
    sweep.run_all(|_| EQUAL);
    sweep.page();
    let by_h = sweep.csv("table-3.csv");
    let hs: Vec<&str> = by_h.iter().map(|row| row["h"].as_str()).collect();
    assert_eq!(hs, ["1", "2", "4", "8"]);
    // Its largest H is 16, but it chose no more than there are updates.
    let figure = std::fs::read_to_string(sweep.out().join("figure-3.svg")).unwrap();
    assert!(figure.contains("rapid-h8-seed-0"), "{figure}");
    let rows = sweep.csv("table-1.csv");
    let row = |arm: &str| rows.iter().find(|row| row["arm"] == arm).unwrap();
    assert_eq!(row("rapid-h4")["paper_row"], "Table 1, rapid-h4");
    assert_eq!(row("auto")["paper_row"], "");
}
