//! Reports of sweeps with known effects.

mod forms;
mod synthetic;

use std::collections::BTreeMap;
use std::fs;

use synthetic::{Synthetic, Truth, UPDATES, fields};

use crate::sweep::{Event, PlannedRun};

/// Five arms, of which one is the reference.
fn arms(seeds: &str, margin: f64) -> String {
    format!(
        r#"
recipe = "quickstart"
seeds = {seeds}
[set]
"run.updates" = {UPDATES}
[[arms]]
name = "pg"
set = {{ "algorithm.preset" = "pg", "algorithm.h" = 1 }}
[[arms]]
name = "rapid-h2"
set = {{ "algorithm.preset" = "rapid-paper", "algorithm.h" = 2 }}
[[arms]]
name = "rapid-h4"
set = {{ "algorithm.preset" = "rapid-paper", "algorithm.h" = 4 }}
[[arms]]
name = "rapid-h8"
set = {{ "algorithm.preset" = "rapid-paper", "algorithm.h" = 8 }}
[compare]
reference = "pg"
margin = {margin}
"#
    )
}

const FIVE: &str = "[0, 1, 2, 3, 4]";

/// The same truth for all arms but this one.
fn all_but(arm: &str, other: Truth, tasks: usize) -> impl Fn(&PlannedRun) -> Truth {
    let equal = Truth {
        tasks,
        effect: 0.0,
        seconds: 100.0,
    };
    move |run| if run.arm == arm { other } else { equal }
}

/// A sweep of two seeds whose runs are all made, and equal.
fn made() -> Synthetic {
    let sweep = Synthetic::new(&arms("[0, 1]", 0.02));
    sweep.run_all(|_| Truth {
        tasks: 20,
        effect: 0.0,
        seconds: 60.0,
    });
    sweep
}

type Rows = Vec<BTreeMap<String, String>>;

fn verdict(rows: &Rows, arm: &str) -> String {
    let row = rows.iter().find(|row| row["arm"].starts_with(arm)).unwrap();
    row["difference"].clone()
}

fn number(row: &BTreeMap<String, String>, column: &str) -> f64 {
    row[column].parse().unwrap()
}

#[test]
fn a_strong_effect_is_found_and_a_null_effect_is_not() {
    let sweep = Synthetic::new(&arms(FIVE, 0.02));
    let better = Truth {
        tasks: 100,
        effect: 0.12,
        seconds: 50.0,
    };
    sweep.run_all(all_but("rapid-h4", better, 100));
    sweep.page();
    let rows = sweep.csv("comparisons.csv");
    assert_eq!(verdict(&rows, "rapid-h4"), "better");
    for null in ["rapid-h2", "rapid-h8"] {
        assert_eq!(verdict(&rows, null), "undetermined", "{rows:?}");
    }
    let better = rows.iter().find(|row| row["arm"].starts_with("rapid-h4"));
    let better = better.unwrap();
    assert!((number(better, "difference_points") - 12.0).abs() < 4.0);
    assert!(number(better, "difference_points_low") > 0.0);
    // Every pair has half of the time.
    let time = &sweep.csv("time-ratios.csv")[1];
    assert_eq!((&*time["arm"], &*time["reference"]), ("rapid-h4", "pg"));
    assert_eq!(
        ["time_ratio", "time_ratio_low", "p", "paper_time_ratio"].map(|name| time[name].as_str()),
        ["0.500", "", "", "0.88"]
    );
    assert_eq!(time["each_pair"], "0.500; 0.500; 0.500; 0.500; 0.500");
    // 12 points are beyond the margin of 2.
    assert_eq!(better["equivalence"], "refuted");
}

#[test]
fn a_loss_that_grows_with_h_is_a_falling_slope_and_a_constant_is_none() {
    let sloped = |points_per_doubling: f64| {
        let sweep = Synthetic::new(&arms(FIVE, 0.03));
        sweep.run_all(|run| Truth {
            tasks: 300,
            effect: 0.01 * points_per_doubling * (run.config.algorithm.h as f64).log2(),
            seconds: 100.0,
        });
        let page = sweep.page();
        (sweep.csv("slope.csv").remove(0), page)
    };
    let (falls, page) = sloped(-3.0);
    assert_eq!(falls["conclusion"], "falls");
    assert!(
        (number(&falls, "slope_points") + 3.0).abs() < 0.8,
        "{falls:?}"
    );
    assert_eq!(falls["arms"], "pg · rapid-h2 · rapid-h4 · rapid-h8");
    // Starter mathematics stands beside MATH: 30.6, 29.4, 29.5, 28.7 % at H = 1, 2, 4, 8.
    assert_eq!(falls["paper_slope_points"], "-0.56");
    assert!(page.contains("\u{2212}0.56"));
    let (flat, _) = sloped(0.0);
    assert!(
        ["undetermined", "no slope larger than"]
            .iter()
            .any(|words| flat["conclusion"].starts_with(words)),
        "{flat:?}"
    );
}

#[test]
fn the_papers_tables_are_made_with_its_numbers_beside_ours() {
    let sweep = Synthetic::new(&arms("[0, 1, 2]", 0.02));
    let equal = Truth {
        tasks: 40,
        effect: 0.0,
        seconds: 60.0,
    };
    sweep.run_all(all_but(
        "pg",
        Truth {
            seconds: 90.0,
            ..equal
        },
        40,
    ));
    let page = sweep.page();
    let table_1 = sweep.csv("table-1.csv");
    assert_eq!(table_1[0]["arm"], "before training");
    assert_eq!(table_1[0]["paper_pass_at_1_percent"], "22.4");
    let pg = &table_1[1];
    assert_eq!((pg["arm"].as_str(), pg["minutes"].as_str()), ("pg", "1.50"));
    assert_eq!(
        (
            pg["paper_pass_at_1_percent"].as_str(),
            pg["paper_minutes"].as_str()
        ),
        ("30.6", "289.0")
    );
    assert_eq!(pg["paper_row"], "Table 1, pg");
    let by_h = sweep.csv("table-3.csv");
    let hs: Vec<&str> = by_h.iter().map(|row| row["h"].as_str()).collect();
    assert_eq!(hs, ["1", "2", "4", "8"]);
    assert_eq!(
        (
            by_h[2]["staleness"].as_str(),
            by_h[2]["staleness_sd"].as_str()
        ),
        ("0.041", "0.001")
    );
    assert_eq!(by_h[2]["staleness_quarter"], "0.080");
    assert_eq!(by_h[2]["paper_staleness"], "0.04");
    let table_4 = &sweep.csv("table-4.csv")[0];
    assert_eq!(
        (table_4["metric"].as_str(), table_4["runs"].as_str()),
        ("Pass@1", "9")
    );
    assert!(number(table_4, "r_staleness") > 0.99);
    assert_eq!(table_4["paper_r_time"], "-0.666");
    // The times of the runs with H above 1 are the same.
    assert_eq!(table_4["r_time"], "");
    let clipped = &sweep.csv("figures-2-and-4.csv")[3];
    assert_eq!(
        (
            clipped["tokens"].as_str(),
            clipped["clipped_percent"].as_str()
        ),
        ("18.0", "2.40")
    );
    for figure in [
        "figure-1.svg",
        "figure-2-length.svg",
        "figure-2-inference.svg",
        "figure-3.svg",
        "figure-4.svg",
        "table-3-pass-at-1.svg",
    ] {
        let svg = fs::read_to_string(sweep.out().join(figure)).unwrap();
        assert!(
            svg.starts_with("<svg xmlns=") && !svg.contains("NaN"),
            "{figure}"
        );
        assert!(page.contains(&format!("href=\"{figure}\"")));
    }
    // The run with the largest H, and its token whose weight grew by e^1.25.
    assert!(page.contains(
        "one completion: rapid-h8-seed-0, phase 1, its last update (7 after sampling), task task/3"
    ));
    assert!(page.contains("rapid-h8-seed-0: 1.250 at 3"));
    assert!(!page.contains("NaN") && !page.contains("http-equiv=\"refresh\""));
}

#[test]
fn every_number_of_the_csv_files_is_on_the_page() {
    let sweep = Synthetic::new(&arms("[0, 1, 2]", 0.02));
    let worse = Truth {
        tasks: 60,
        effect: -0.08,
        seconds: 140.0,
    };
    sweep.run_all(all_but("rapid-h8", worse, 60));
    let page = sweep.page().replace('\u{2212}', "-");
    let mut numbers = 0;
    for entry in fs::read_dir(sweep.out()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "csv") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for field in text.lines().skip(1).flat_map(fields) {
            let text = crate::escape::html(&field).replace('\u{2212}', "-");
            assert!(page.contains(&text), "{field} of {}", path.display());
            numbers += usize::from(field.parse::<f64>().is_ok());
        }
    }
    assert!(numbers > 150, "{numbers}");
}

#[test]
fn runs_that_are_missing_failed_or_diverged_are_named() {
    let sweep = Synthetic::new(&arms("[0, 1, 2]", 0.02));
    let truth = Truth {
        tasks: 40,
        effect: 0.0,
        seconds: 60.0,
    };
    for run in sweep.folder.plan().runs() {
        match run.name.as_str() {
            "rapid-h2-seed-2" => {}
            "rapid-h4-seed-1" => {
                sweep.run(run, truth);
                sweep.end(run, Event::Fail, Some("the verifier does not answer"));
            }
            "rapid-h8-seed-0" => {
                sweep.run(run, truth);
                let reason = "after 3 updates, the loss is not finite. With --resume, the run would compute the same and end here again. Start another";
                sweep.lines(run, "eval.jsonl", &[] as &[u8]);
                sweep.end(run, Event::Fail, Some(reason));
            }
            _ => {
                sweep.run(run, truth);
                sweep.end(run, Event::Finish, None);
            }
        }
    }
    let page = sweep.page();
    for part in [
        "1 of 12 runs are not finished, so every number is preliminary: rapid-h2-seed-2.",
        "rapid-h4-seed-1 failed: the verifier does not answer",
        "rapid-h8-seed-0 diverged: after 3 updates",
        "The comparisons of accuracy leave out the seeds 1, 2, since a run of theirs does not count.",
        "The time ratios leave out the blocks of seeds 1, 2, since a run of theirs is not finished.",
    ] {
        assert!(page.contains(part), "{part}");
    }
    // The blocks of seeds 1 and 2 are left out whole, and a run that diverged has no time.
    let times = sweep.csv("time-ratios.csv");
    let pairs: Vec<&str> = times.iter().map(|row| row["each_pair"].as_str()).collect();
    assert_eq!(pairs, ["1.000", "1.000"], "{times:?}");
    let comparisons = sweep.csv("comparisons.csv");
    let h8 = comparisons
        .iter()
        .find(|row| row["arm"].starts_with("rapid-h8"));
    assert_eq!(
        h8.unwrap()["difference"],
        "undetermined, with 1 diverged run"
    );
    let runs = sweep.csv("runs.csv");
    let run = |name: &str| runs.iter().find(|row| row["run"] == name).unwrap();
    assert_eq!(run("rapid-h2-seed-2")["state"], "to do");
    assert_eq!(run("rapid-h4-seed-1")["pass_at_1_percent"], "");
    // A run that diverged before any evaluation counts as 0.
    assert_eq!(run("rapid-h8-seed-0")["pass_at_1_percent"], "0.0");
    let table_1 = sweep.csv("table-1.csv");
    let h8 = table_1.iter().find(|row| row["arm"] == "rapid-h8").unwrap();
    assert_eq!(
        (h8["seeds"].as_str(), h8["timed_runs"].as_str()),
        ("3", "2")
    );
}

#[test]
fn a_grid_with_rounds_and_without_evaluations_compares_times_at_each_point() {
    let file = arms("[0]", 0.02)
        .replace(
            "[[arms]]\nname = \"pg\"",
            "[grid]\n\"algorithm.n_step\" = [32, 64]\n[[arms]]\nname = \"pg\"",
        )
        .replace("seeds = [0]", "seeds = [0]\nrounds = 3");
    let sweep = Synthetic::new(&file);
    sweep.run_all(|run| Truth {
        tasks: 0,
        effect: 0.0,
        // A machine that gets slower from round to round.
        seconds: 100.0 * (1.0 + run.round as f64) / (run.config.algorithm.h as f64),
    });
    let page = sweep.page();
    let rows = sweep.csv("time-ratios.csv");
    let arms: Vec<&str> = rows.iter().map(|row| row["arm"].as_str()).collect();
    assert_eq!(
        arms[..2],
        ["rapid-h2, n_step = 32", "rapid-h4, n_step = 32"]
    );
    assert_eq!(rows.len(), 6);
    for (row, ratio) in rows.iter().zip(["0.500", "0.250", "0.125"].iter().cycle()) {
        // The ratio is the same in each round, so nothing is known of its spread.
        let columns = ["time_ratio", "time_ratio_low", "time_ratio_high"];
        assert_eq!(columns.map(|column| row[column].as_str()), [*ratio, "", ""]);
        assert_eq!(row["each_pair"], [*ratio; 3].join("; "));
    }
    for name in ["comparisons.csv", "comparisons.svg"] {
        assert!(!sweep.out().join(name).exists(), "{name}");
    }
    assert!(page.contains(
        "Of one seed, there is no interval over seeds, so nothing is concluded about accuracy."
    ));
    assert!(!sweep.out().join("slope.csv").exists());
    // The charts have a line for each point of the grid.
    assert!(
        page.contains(">rapid-paper, n_step = 32<") && page.contains(">rapid-paper, n_step = 64<")
    );
}

#[test]
fn a_sweep_that_tests_nothing_has_estimates_and_the_effects_of_factors() {
    let effects = r#"tests = false
[compare.effects]
"an even H" = ["rapid-h2", "rapid-h4", "rapid-h8"]
"a large H" = ["rapid-h4", "rapid-h8"]"#;
    let file = arms("[0, 1, 2]", 0.02) + effects;
    let sweep = Synthetic::new(&file);
    sweep.run_all(|run| Truth {
        tasks: 200,
        effect: if run.config.algorithm.h > 2 { 0.2 } else { 0.0 },
        seconds: 60.0,
    });
    let page = sweep.page();
    for table in ["comparisons.csv", "slope.csv", "time-ratios.csv"] {
        let columns: Vec<String> = sweep.csv(table)[0].keys().cloned().collect();
        for word in ["p", "conclusion", "difference", "equivalence"] {
            assert!(!columns.contains(&word.to_owned()), "{table}: {columns:?}");
        }
    }
    assert!(page.contains("Nothing is tested, since the sweep file"));
    let effects = sweep.csv("effects.csv");
    let [large, even] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(large["factor"], "a large H");
    assert_eq!(large["arms"], "rapid-h4 · rapid-h8");
    assert!((number(large, "effect_points") - 20.0).abs() < 3.0);
    assert!(number(large, "effect_points_low") > 0.0);
    // Two of the three arms have the effect, and the reference does not.
    assert!((number(even, "effect_points") - 13.3).abs() < 3.0);
    for (name, label, value) in [
        ("comparisons", "arm", "difference_points"),
        ("effects", "factor", "effect_points"),
    ] {
        let svg = figure_of(&sweep, &page, name, label, value);
        assert!(!svg.contains("class=\"band\""), "{svg}");
    }
}

/// The figure of a table, after checks that its tooltips have the table's digits: `label` is the column with the names of the rows, `value` that of the estimates.
fn figure_of(sweep: &Synthetic, page: &str, name: &str, label: &str, value: &str) -> String {
    let svg = fs::read_to_string(sweep.out().join(format!("{name}.svg"))).unwrap();
    let rows = sweep.csv(&format!("{name}.csv"));
    for row in &rows {
        let ends = |of: &str| {
            let [low, high] = ["low", "high"].map(|end| &row[&format!("{of}_{end}")]);
            format!("{low} to {high}")
        };
        let (resampled, over_seeds) = (ends(value), ends("over_seeds_points"));
        let numbers = format!(
            "{} points; 95%: {resampled} by the bootstrap, {over_seeds} over seeds",
            row[value]
        );
        let numbers = numbers.replace('-', "\u{2212}");
        let tooltip = format!("<title>{}: {numbers}</title>", row[label]);
        assert!(
            svg.contains(&tooltip) && page.contains(&tooltip),
            "{tooltip}: {svg}"
        );
    }
    // A ring for each row and seed.
    let seeds = sweep.folder.file().seeds.len();
    assert_eq!(svg.matches("class=\"seed\"").count(), rows.len() * seeds);
    svg
}

#[test]
fn the_figure_of_the_comparisons_is_below_their_table() {
    let sweep = Synthetic::new(&arms("[0, 1, 2]", 0.0125));
    let better = Truth {
        tasks: 100,
        effect: 0.2,
        seconds: 60.0,
    };
    sweep.run_all(all_but("rapid-h4", better, 100));
    let page = sweep.page();
    let svg = figure_of(&sweep, &page, "comparisons", "arm", "difference_points");
    assert!(svg.contains("class=\"band\""));
    assert!(page.contains("; the equivalence margin is ±\u{a0}1.25;"));
    let order = [
        "Accuracy beside the reference",
        "Accuracy beside pg",
        "Time beside the reference",
    ];
    let order = order.map(|title| page.find(&format!(">{title}<")).unwrap());
    assert!(order.is_sorted(), "{order:?}");
    assert!(!sweep.out().join("effects.svg").exists());
}

#[test]
fn a_data_set_that_is_gone_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("mine.jsonl");
    let line = |id: usize| {
        format!(
            "{{\"id\": \"m/{id}\", \"split\": \"eval\", \"kind\": \"math\", \"question\": \"What is {id} + 1?\", \"answer\": \"{}\"}}\n",
            id + 1
        )
    };
    let train = "{\"id\": \"m/t\", \"split\": \"train\", \"kind\": \"math\", \"question\": \"What is 1 + 1?\", \"answer\": \"2\"}\n";
    fs::write(
        &data,
        train.to_owned() + &(0..40).map(line).collect::<String>(),
    )
    .unwrap();
    let settings = format!("[set]\n\"data.dataset\" = \"{}\"", data.display());
    let sweep = Synthetic::new(&arms("[0, 1]", 0.02).replace("[set]", &settings));
    sweep.run_all(|_| Truth {
        tasks: 40,
        effect: 0.0,
        seconds: 60.0,
    });
    let sentence = "each task is taken for a computation of its own";
    assert!(!sweep.page().contains(sentence));
    fs::remove_file(&data).unwrap();
    let page = sweep.page();
    assert!(
        page.contains(sentence) && page.contains("mine.jsonl"),
        "{page}"
    );
}

#[test]
fn a_sweep_without_runs_has_a_page_that_says_so() {
    let sweep = Synthetic::new(&arms(FIVE, 0.02));
    let page = sweep.page();
    assert!(page.contains("20 of 20 runs are not finished"));
    assert!(page.contains("<b>0 of 20</b>"));
    assert_eq!(sweep.csv("runs.csv").len(), 20);
}

#[test]
fn a_run_with_a_damaged_log_is_named_and_does_not_count() {
    let sweep = made();
    let run = sweep.folder.plan().runs().next().unwrap();
    sweep.lines(run, "eval.jsonl", &["no record"]);
    let page = sweep.page();
    assert!(page.contains("pg-seed-0 failed: "), "{page}");
    assert!(page.contains("pg-seed-0/eval.jsonl, line 1"), "{page}");
    let runs = sweep.csv("runs.csv");
    assert_eq!(
        (&*runs[0]["state"], &*runs[1]["state"]),
        ("failed", "finished")
    );
}

#[test]
fn a_run_that_is_not_what_was_planned_is_named() {
    let sweep = made();
    assert!(!sweep.page().contains("its plan"));
    let mut runs = sweep.folder.plan().runs();
    let (settings, longer, cut) = (
        runs.next().unwrap(),
        runs.next().unwrap(),
        runs.next().unwrap(),
    );
    let mut config = settings.config.clone();
    config.optimiser.lr *= 2.0;
    let file = sweep.folder.run(&settings.name).join("config.toml");
    fs::write(file, config.to_toml()).unwrap();
    let edit = |run: &PlannedRun, edit: &dyn Fn(&str) -> String| {
        let file = sweep.folder.run(&run.name).join("metrics.jsonl");
        fs::write(&file, edit(&fs::read_to_string(&file).unwrap())).unwrap();
    };
    edit(longer, &|text| {
        let last = text.lines().last().unwrap();
        let step = |number: usize| format!("\"step\":{number}");
        text.to_owned() + &last.replace(&step(UPDATES), &step(UPDATES + 1)) + "\n"
    });
    edit(cut, &|text| {
        let lines: Vec<&str> = text.lines().skip(1).collect();
        lines.join("\n") + "\n"
    });
    let page = sweep.page();
    for sentence in [
        format!("{}: its settings are not those of its plan.", settings.name),
        format!(
            "{}: it made {} updates, and its plan has {UPDATES}.",
            longer.name,
            UPDATES + 1
        ),
        format!(
            "{}: it has no evaluation after its last update.",
            longer.name
        ),
        format!(
            "{}: its log has {} of {UPDATES} updates.",
            cut.name,
            UPDATES - 1
        ),
    ] {
        assert!(page.contains(&sentence), "{sentence}: {page}");
    }
}

#[test]
fn a_run_that_diverged_stays_so_when_it_is_begun_again() {
    let sweep = made();
    let run = sweep.folder.plan().runs().next().unwrap();
    let manifest = sweep.folder.root().join("manifest.jsonl");
    let lines = fs::read_to_string(&manifest).unwrap();
    let others = lines.lines().filter(|line| !line.contains(&run.name));
    let others: String = others.map(|line| format!("{line}\n")).collect();
    fs::write(&manifest, others).unwrap();
    let reason = "after 3 updates, the loss is not finite. With --resume, the run would compute the same and end here again. Start another";
    sweep.end(run, Event::Fail, Some(reason));
    sweep.end(run, Event::Resume, None);
    sweep.page();
    assert_eq!(sweep.csv("runs.csv")[0]["state"], "diverged");
}

#[test]
fn tables_and_figures_of_an_earlier_report_do_not_stay_and_files_of_others_do() {
    let sweep = made();
    let file = |name: &str| sweep.out().join(name);
    fs::create_dir_all(sweep.out()).unwrap();
    // Named as a table, which this sweep does not have.
    fs::write(file("effects.csv"), "mine").unwrap();
    sweep.page();
    let of_runs = ["slope.csv", "comparisons.csv", "figure-3.svg"].map(file);
    assert!(of_runs.iter().all(|path| path.is_file()));
    fs::write(file("comparisons.csv"), "mine").unwrap();
    fs::remove_dir_all(sweep.folder.root().join("runs")).unwrap();
    sweep.page();
    assert_eq!(of_runs.map(|path| path.exists()), [false, true, false]);
    for name in ["effects.csv", "comparisons.csv"] {
        assert_eq!(fs::read_to_string(file(name)).unwrap(), "mine");
    }
}
