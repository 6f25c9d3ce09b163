//! Reports of sweeps with known effects.

mod synthetic;

use std::collections::BTreeMap;
use std::fs;

use synthetic::{DIVERGED, EQUAL, Synthetic, Truth, UPDATES, fields};

use crate::sweep::{Event, PlannedRun};

/// A sweep file with these arms, each with its preset and H.
fn file(seeds: &str, arms: &[(&str, &str, usize)], compare: &str) -> String {
    let arm = |(name, preset, h): &(&str, &str, usize)| {
        format!(
            "[[arms]]\nname = \"{name}\"\nset = {{ \"algorithm.preset\" = \"{preset}\", \"algorithm.h\" = {h} }}\n"
        )
    };
    let arms: String = arms.iter().map(arm).collect();
    format!(
        "recipe = \"quickstart\"\nseeds = {seeds}\n[set]\n\"run.updates\" = {UPDATES}\n{arms}[compare]\n{compare}"
    )
}

/// Four arms, one of them the reference. `more` is at the end of `[compare]`.
fn arms(seeds: &str, margin: f64, more: &str) -> String {
    let arms = [
        ("pg", "pg", 1),
        ("rapid-h2", "rapid-paper", 2),
        ("rapid-h4", "rapid-paper", 4),
        ("rapid-h8", "rapid-paper", 8),
    ];
    let compare = format!("reference = \"pg\"\nmargin = {margin}\n{more}");
    file(seeds, &arms, &compare)
}

const FIVE: &str = "[0, 1, 2, 3, 4]";

/// The same truth for all arms but this one.
fn all_but(arm: &str, other: Truth) -> impl Fn(&PlannedRun) -> Truth {
    move |run| match run.arm == arm {
        true => other,
        false => Truth {
            effect: 0.0,
            seconds: 100.0,
            ..other
        },
    }
}

fn number(row: &BTreeMap<String, String>, column: &str) -> f64 {
    row[column].parse().unwrap()
}

#[test]
fn a_strong_effect_is_found_and_a_null_effect_is_not() {
    let better = Truth {
        tasks: 100,
        effect: 0.12,
        seconds: 50.0,
    };
    let sweep = Synthetic::made(&arms(FIVE, 0.02, ""), all_but("rapid-h4", better));
    sweep.page(true);
    let verdicts = sweep.column("comparisons", "difference");
    assert_eq!(verdicts, ["undetermined", "better", "undetermined"]);
    let better = &sweep.csv("comparisons")[1];
    assert!((number(better, "difference_points") - 12.0).abs() < 4.0);
    assert!(number(better, "difference_points_low") > 0.0);
    // 12 points are beyond the margin of 2.
    assert_eq!(better["equivalence"], "refuted");
    // Every pair has half of the time.
    let time = &sweep.csv("time-ratios")[1];
    let columns = ["time_ratio", "time_ratio_low", "p", "paper_time_ratio"];
    assert_eq!(columns.map(|name| &*time[name]), ["0.500", "", "", "0.88"]);
    assert_eq!(time["each_pair"], "0.500; 0.500; 0.500; 0.500; 0.500");
}

/// The tables of a sweep with everything that `[compare]` may have.
const ALL: &str = "slope comparisons effects time-ratios time-to-target table-1 table-3 table-4 figure-1 figures-2-and-4 runs";

#[test]
fn every_table_and_figure_has_its_numbers_on_the_page_too() {
    let more = "target = 0.505\n[compare.effects]\n\"a large H\" = [\"rapid-h4\", \"rapid-h8\"]\n";
    let better = Truth {
        effect: 0.2,
        tasks: 100,
        seconds: 90.0,
    };
    let file = arms("[0, 1, 2]", 0.0125, more);
    let sweep = Synthetic::made(&file, all_but("rapid-h4", better));
    insta::assert_snapshot!(sweep.report(true, ALL));
    let page = sweep.page(true);
    let shown = page.replace('\u{2212}', "-");
    let mut numbers = 0;
    for table in ALL.split(' ') {
        for field in sweep.table(table).lines().skip(1).flat_map(fields) {
            let text = crate::escape::html(&field).replace('\u{2212}', "-");
            assert!(shown.contains(&text), "{field} of {table}");
            numbers += usize::from(field.parse::<f64>().is_ok());
        }
    }
    assert!(numbers > 150, "{numbers}");
    let files = fs::read_dir(sweep.out()).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let figures: Vec<String> = names.filter(|name| name.ends_with(".svg")).collect();
    assert_eq!(figures.len(), 10, "{figures:?}");
    for figure in figures {
        let svg = fs::read_to_string(sweep.out().join(&figure)).unwrap();
        assert!(svg.starts_with("<svg xmlns=") && !svg.contains("NaN"));
        assert!(page.contains(&format!("href=\"{figure}\"")), "{figure}");
    }
    // The page has the sweep file's numbers with all of their digits.
    let margin = "Time to a Pass@1 of 50.5% | within ± 1.25< | margin is ±\u{a0}1.25;";
    // The run with the largest H, and its token with a weight that grew by e^1.25.
    let token = "one completion: rapid-h8-seed-0, phase 1, its last update (7 after sampling), task task/3 | rapid-h8-seed-0: 1.250 at 3";
    for words in margin.split(" | ").chain(token.split(" | ")) {
        assert!(page.contains(words), "{words}");
    }
    assert!(!page.contains("NaN") && !page.contains("http-equiv=\"refresh\""));
}

#[test]
fn runs_that_are_missing_failed_damaged_or_unlike_their_plan_are_named() {
    // The data set no longer exists either.
    let data = "[set]\n\"data.dataset\" = \"/gone.jsonl\"";
    let file = arms("[0, 1, 2, 3]", 0.02, "").replace("[set]", data);
    let sweep = Synthetic::new(&file);
    for run in sweep.folder.plan.runs() {
        let (event, reason) = match run.name.as_str() {
            "rapid-h2-seed-2" => continue,
            "rapid-h4-seed-1" => (Event::Fail, Some("the verifier does not answer")),
            "rapid-h8-seed-0" => (Event::Fail, Some(DIVERGED)),
            _ => (Event::Finish, None),
        };
        let few = Truth { tasks: 15, ..EQUAL };
        sweep.run(run, few);
        sweep.end(run, event, reason);
    }
    let edit = |run: &str, file: &str, edit: &dyn Fn(&str) -> String| {
        let file = sweep.file(run, file);
        fs::write(&file, edit(&fs::read_to_string(&file).unwrap())).unwrap();
    };
    // It diverged before any evaluation.
    edit("rapid-h8-seed-0", "eval.jsonl", &|_| String::new());
    edit("rapid-h8-seed-3", "eval.jsonl", &|_| {
        "\"no record\"\n".into()
    });
    edit("pg-seed-3", "config.toml", &|text| {
        let mut config: toml::Table = text.parse().unwrap();
        config["optimiser"]["lr"] = toml::Value::from(0.5);
        config.to_string()
    });
    edit("rapid-h2-seed-3", "metrics.jsonl", &|text| {
        let last = text.lines().last().unwrap();
        let step = |number: usize| format!("\"step\":{number}");
        text.to_owned() + &last.replace(&step(UPDATES), &step(UPDATES + 1)) + "\n"
    });
    edit("rapid-h4-seed-3", "metrics.jsonl", &|text| {
        text.split_inclusive('\n').skip(1).collect()
    });
    let report = sweep.report(true, "comparisons time-ratios table-1 runs");
    let place = sweep.folder.root.display().to_string();
    insta::assert_snapshot!(report.replace(&place, "FOLDER"));
    let page = Synthetic::new(&arms(FIVE, 0.02, "")).page(true);
    assert!(page.contains("20 of 20 runs are not finished"));
}

#[test]
fn a_grid_without_evaluations_compares_times_at_each_point() {
    let grid = "[grid]\n\"algorithm.n_step\" = [32, 64]\n[[arms]]";
    let file = arms("[0]\nrounds = 3", 0.02, "").replacen("[[arms]]", grid, 1);
    let sweep = Synthetic::made(&file, |run| Truth {
        tasks: 0,
        effect: 0.0,
        // A machine that gets slower from round to round.
        seconds: 100.0 * (1.0 + run.round as f64) / (run.config.algorithm.h as f64),
    });
    insta::assert_snapshot!(sweep.report(true, "time-ratios table-3 table-4"));
    for name in ["comparisons.csv", "comparisons.svg", "slope.csv"] {
        assert!(!sweep.out().join(name).exists(), "{name}");
    }
    // The charts have a line for each point of the grid.
    let page = sweep.page(true);
    assert!(page.contains(">rapid-paper, n_step = 32<"));
    assert!(page.contains(">rapid-paper, n_step = 64<"));
}

#[test]
fn a_sweep_that_tests_nothing_has_estimates_with_its_diverged_runs() {
    let more = "tests = false\n[compare.effects]\n\"an even H\" = [\"rapid-h2\", \"rapid-h4\", \"rapid-h8\"]\n\"a large H\" = [\"rapid-h4\", \"rapid-h8\"]";
    let sweep = Synthetic::new(&arms("[0, 1, 2]", 0.02, more));
    for run in sweep.folder.plan.runs() {
        let effect = if run.config.algorithm.h > 2 { 0.2 } else { 0.0 };
        let truth = Truth {
            tasks: 200,
            effect,
            ..EQUAL
        };
        sweep.run(run, truth);
        match run.name.as_str() {
            "rapid-h2-seed-0" => sweep.end(run, Event::Fail, Some(DIVERGED)),
            _ => sweep.end(run, Event::Finish, None),
        }
    }
    insta::assert_snapshot!(sweep.report(true, "comparisons slope time-ratios effects"));
    let large = &sweep.csv("effects")[0];
    assert!((number(large, "effect_points") - 20.0).abs() < 3.0);
    assert!(number(large, "effect_points_low") > 0.0);
    let svg = fs::read_to_string(sweep.out().join("comparisons.svg")).unwrap();
    assert!(!svg.contains("class=\"band\""));
}

#[test]
fn every_estimator_has_its_rungs_and_the_papers_its_numbers() {
    let presets = [("rapid", "rapid-paper"), ("loo", "rapid-loo"), ("pg", "pg")];
    let arms = presets.map(|(name, preset)| [1, 4, 16].map(|h| (format!("{name}-{h}"), preset, h)));
    let arms = arms.as_flattened().iter();
    let arms = arms.map(|(name, preset, h)| (&**name, *preset, *h));
    let arms: Vec<_> = arms.collect();
    // Two seeds have no interval.
    let file = file("[0, 1]", &arms, "reference = \"pg-1\"\nmargin = 0.02\n");
    let sweep = Synthetic::made(&file, |_| EQUAL);
    insta::assert_snapshot!(sweep.report(true, "comparisons slope table-3 table-4"));
}

#[test]
fn another_model_or_an_arm_that_chooses_h_is_no_rung() {
    let gemma = "[[arms]]\nname = \"gemma\"\nset = { \"model.name\" = \"gemma3-270m\", \"algorithm.h\" = 1 }\n[[arms]]";
    let auto = "[[arms]]\nname = \"auto\"\nset = { \"algorithm.preset\" = \"rapid-paper\", \"algorithm.h\" = 16, \"algorithm.auto_h\" = 0.5 }\n[compare]";
    let file = arms("[0, 1]", 0.02, "");
    let more = file.replacen("[[arms]]", gemma, 1);
    let more = more.replace("[compare]", auto);
    let sweep = Synthetic::made(&more, |_| EQUAL);
    sweep.page(true);
    assert_eq!(sweep.column("table-3", "h"), ["1", "2", "4", "8"]);
    let before = &sweep.column("table-1", "arm")[..2];
    assert_eq!(before, ["gemma, before training", "pg, before training"]);
    // The arm that chooses has no row of the paper, and chose no more than there are updates.
    let papers = sweep.column("table-1", "paper_row");
    assert_eq!([&*papers[3], &*papers[7]], ["Table 1, pg", ""]);
    let figure = fs::read_to_string(sweep.out().join("figure-3.svg")).unwrap();
    assert!(figure.contains("rapid-h8-seed-0"), "{figure}");
    // A reference with another model is not the lowest rung either.
    let pg = "\"algorithm.preset\" = \"pg\",";
    let other = file.replace(pg, &format!("\"model.name\" = \"gemma3-270m\", {pg}"));
    let sweep = Synthetic::made(&other, |_| EQUAL);
    assert!(sweep.page(true).contains("the reference is no rung"));
    assert_eq!(sweep.column("table-3", "h"), ["2", "4", "8"]);
}

#[test]
fn without_times_nothing_is_measured_in_seconds() {
    const OF_TIMES: &str =
        "time-ratios.csv figure-1.csv figure-1.svg figure-2-inference.svg table-3-time.svg";
    let sweep = Synthetic::made(&arms("[0, 1]", 0.02, "target = 0.1\n"), |_| EQUAL);
    sweep.page(true);
    let exists = |name: &str| sweep.out().join(name).exists();
    assert!(OF_TIMES.split(' ').all(exists));
    let tables = "time-to-target table-1 table-3 table-4 figures-2-and-4 runs";
    insta::assert_snapshot!(sweep.report(false, tables));
    assert!(!OF_TIMES.split(' ').any(exists));
}
