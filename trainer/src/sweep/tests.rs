//! Tests of the sweep file, the plan, the folder and the estimates.

use std::collections::BTreeSet;
use std::path::Path;

use super::manifest::Machine;
use super::*;

const TWO_ARMS: &str = r#"
recipe = "quickstart"
seeds = [0, 7]
[set]
"run.updates" = 4
[grid]
"algorithm.n_step" = [8, 32]
[[arms]]
name = "pg"
set = { "algorithm.preset" = "pg" }
[[arms]]
name = "rapid-h4"
set = { "algorithm.preset" = "rapid-paper", "algorithm.h" = 4 }
[compare]
reference = "pg"
margin = 0.02
"#;

fn file(text: &str) -> SweepFile {
    SweepFile::parse("my.toml", text).unwrap()
}

fn plan(text: &str) -> Plan {
    Plan::new(&file(text)).unwrap()
}

/// The error for the file with one text replaced by another.
fn error(from: &str, to: &str) -> String {
    assert!(TWO_ARMS.contains(from), "{from}");
    match SweepFile::parse("my.toml", &TWO_ARMS.replace(from, to)) {
        Err(error) => error.to_string(),
        Ok(file) => Plan::new(&file).unwrap_err().to_string(),
    }
}

fn names(plan: &Plan) -> Vec<&str> {
    plan.runs().map(|run| run.name.as_str()).collect()
}

#[test]
fn every_arm_meets_every_point_of_the_grid_in_a_block_for_each_seed() {
    let plan = plan(TWO_ARMS);
    let points = "pg-n_step=8 rapid-h4-n_step=8 pg-n_step=32 rapid-h4-n_step=32".split(' ');
    let seeds = [0, 7].into_iter();
    let runs = seeds.flat_map(|seed| points.clone().map(move |it| format!("{it}-seed-{seed}")));
    assert!(names(&plan).into_iter().eq(runs));
    assert_eq!(plan.blocks.len(), 2);
    let run = &plan.blocks[1][3];
    let algorithm = &run.config.algorithm;
    assert_eq!((algorithm.h, algorithm.n_step), (4, 32));
    assert_eq!((run.config.run.seed, run.config.run.updates), (7, Some(4)));
    assert_eq!(plan.unmatched(), [""; 0]);
}

#[test]
fn every_round_is_a_block_and_every_second_one_is_in_reverse_order() {
    let text = TWO_ARMS
        .replace("seeds = [0, 7]", "seeds = [0]\nrounds = 2")
        .replace("[8, 32]", "[8]");
    let plan = plan(&text);
    assert_eq!(plan.blocks.len(), 2);
    let runs = "pg 0, rapid-h4 0, rapid-h4 1, pg 1".split(", ");
    let expected = runs.map(|run| run.replace(' ', "-n_step=8-seed-0-round-"));
    assert!(names(&plan).into_iter().eq(expected));
}

#[test]
fn an_arms_settings_override_those_of_every_run_and_keys_need_no_quotes() {
    let text = TWO_ARMS
        .replace("\"run.updates\" = 4", "run.updates = 4\nalgorithm.h = 2")
        .replace("\"algorithm.h\" = 4", "algorithm.h = 8");
    let plan = plan(&text);
    let h: BTreeSet<usize> = plan.runs().map(|run| run.config.algorithm.h).collect();
    assert_eq!(h, BTreeSet::from([2, 8]));
}

/// Parts of [`TWO_ARMS`], what stands in their place (`\n` is a line break), and a part of the message.
const REFUSED: &str = r#"
seeds = | seed = | unknown field `seed`, expected one of `recipe`, `seeds`
seeds = [0, 7] |  | missing field `seeds`
[0, 7] | [] | `seeds` makes no runs; give at least one
[0, 7] | [7, 7] | `seeds` has 7 twice
[0, 7] | [0, 7]\nrounds = 0 | `rounds` makes no runs
[0, 7] | [0, 7]\nrounds = 10000 | it has 80000 runs
[0, 7] | [-1] | invalid value
name = "pg" | nam = "pg" | unknown field `nam`, expected `name` or `set`
name = "pg" | name = "rapid-h4" | two arms are named rapid-h4
name = "pg" | name = "../pg" | the arm's name `../pg` is part of a folder's name
"run.updates" = 4 | "run.update" = 4 | there is no key `run.update`; did you mean `run.updates`?
"run.updates" = 4 | "run.seed" = 4 | `run.seed` is set by `seeds`
"run.updates" = 4 | "run.updates" = 4\nrun.updates = 5 | `run.updates` is there twice; leave one out
[0, 7] | 3 | expected a list in `seeds`; `rapid sweep --help` shows the form
[8, 32] | 8 | expected a list in `algorithm.n_step`
margin = 0.02 | margin = 0.02\n[compare.effects]\nh = ["rapid"] | [compare.effects]: `h` has rapid, which is not an arm
margin = 0.02 | margin = 0.02\n[compare.effects]\nh = ["pg", "rapid-h4"] | [compare.effects]: `h` needs arms with the factor and arms without it
[8, 32] | [] | `algorithm.n_step` makes no runs
[8, 32] | [8, 8] | `algorithm.n_step` has 8 twice
"run.updates" = 4 | "algorithm.n_step" = 8 | `algorithm.n_step` is in [set] too
"algorithm.h" = 4 | "algorithm.n_step" = 4 | `algorithm.n_step` is in rapid-h4 too
reference = "pg" | reference = "rapid-h" | which is not an arm (did you mean rapid-h4?)
margin = 0.02 | margin = 2 | `margin` is 2; give a share of the samples above 0 and below 1
margin = 0.02 | margin = 0.02\ntarget = 50 | `target` is 50; give a share of the samples above 0 and below 1
margin = | margins = | unknown field `margins`, expected one of `reference`, `margin`
[8, 32] | [8, 30] | the run pg-n_step=30-seed-0: `algorithm.n_step`: 30 completions per update
"rapid-paper", "algorithm.h" = 4 | "pg" | pg-n_step=8-seed-0 and rapid-h4-n_step=8-seed-0 have the same settings
"quickstart" | "quikstart" | did you mean quickstart?
"#;

#[test]
fn what_makes_no_sense_is_refused_with_the_remedy() {
    for line in REFUSED.trim().lines() {
        let [from, to, expected] = Vec::from_iter(line.split(" | "))[..] else {
            panic!("{line}")
        };
        let error = error(from, &to.replace("\\n", "\n"));
        assert!(error.contains(expected), "{to}: {error}");
    }
}

/// Parts of [`TWO_ARMS`], what stands behind each, whether other prompts are certain, and which these are. What fills no phase is dropped, and a phase is as long as
/// H. Each phase has its own replacements.
const OTHER_PROMPTS: &str = r#"
[set] | \nalgorithm.drop_last_phase = true | does not | that are dropped at the end of an epoch
[set] | \nalgorithm.dynamic_sampling = 1 | may not | that replace discarded groups
"algorithm.h" = 4 | , sampling.max_tokens = 9 | may not | that are left out as too long for the model
"#;

#[test]
fn arms_that_see_other_data_are_named() {
    let text = TWO_ARMS.replace("\"algorithm.h\" = 4", "\"algorithm.group_size\" = 4");
    assert_eq!(
        plan(&text).unmatched()[0],
        "rapid-h4-n_step=8-seed-0 does not see the same prompts in the same order as pg-n_step=8-seed-0: they differ in algorithm.group_size"
    );
    for line in OTHER_PROMPTS.trim().lines() {
        let [place, setting, sees, prompts] = Vec::from_iter(line.split(" | "))[..] else {
            panic!("{line}")
        };
        let setting = format!("{place}{setting}").replace("\\n", "\n");
        let sentence = &plan(&TWO_ARMS.replace(place, &setting)).unmatched()[0];
        let start = format!("rapid-h4-n_step=8-seed-0 {sees} see the same prompts");
        assert!(sentence.starts_with(&start), "{sentence}");
        assert!(sentence.ends_with(prompts), "{sentence}");
    }
}

fn create(root: &Path) -> SweepFolder {
    SweepFolder::create(root, file(TWO_ARMS)).unwrap()
}

#[test]
fn a_folder_keeps_its_sweep_and_refuses_another() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("sweep");
    let unmade = SweepFolder::open(&root).unwrap_err().to_string();
    assert!(unmade.contains("it has no sweep.toml"), "{unmade}");
    SweepFolder::check(&root, &file(TWO_ARMS)).unwrap();
    assert!(!root.exists());
    let folder = create(&root);
    assert_eq!(SweepFolder::open(&root).unwrap(), folder);
    assert_eq!(create(&root), folder);
    let refused = |text: &str, expected: &str| {
        let error = SweepFolder::check(&root, &file(text)).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    };
    refused(
        &TWO_ARMS.replace("[0, 7]", "[0]"),
        "another sweep: its `seeds` is [0, 7], and here [0]; give another folder",
    );
    let recipe = folder.recipe("pg-n_step=8-seed-0");
    std::fs::write(&recipe, "# of other settings").unwrap();
    refused(TWO_ARMS, "pg-n_step=8-seed-0 resolves to other settings");
    // Its creation was interrupted.
    std::fs::remove_file(root.join("sweep.toml")).unwrap();
    create(&root);
    let run = folder.plan.runs().next().unwrap();
    let written = std::fs::read_to_string(&recipe).unwrap();
    assert_eq!(written, run.config.to_toml());
}

#[test]
fn what_is_compared_may_change_and_further_seeds_may_come() {
    let place = tempfile::tempdir().unwrap();
    create(place.path());
    let uncompared = TWO_ARMS.split("[compare]").next().unwrap();
    for text in [
        TWO_ARMS.replace("0.02", "0.25"),
        uncompared.to_owned(),
        TWO_ARMS.replace("[0, 7]", "[0, 7, 3]"),
    ] {
        let changed = SweepFolder::create(place.path(), file(&text)).unwrap();
        assert_eq!(SweepFolder::open(place.path()).unwrap(), changed);
        assert_eq!(changed.file, file(&text));
        for run in changed.plan.runs() {
            assert!(changed.recipe(&run.name).is_file());
        }
    }
    for seeds in ["[0, 7]", "[3, 0, 7]"] {
        let with = file(&TWO_ARMS.replace("[0, 7]", seeds));
        let error = SweepFolder::create(place.path(), with).unwrap_err();
        let expected = format!("its `seeds` is [0, 7, 3], and here {seeds}");
        assert!(error.to_string().contains(&expected), "{error}");
    }
}

#[test]
fn a_finished_run_keeps_its_checkpoints_unless_the_sweep_does_not() {
    for keep in [true, false] {
        let place = tempfile::tempdir().unwrap();
        let text = format!("keep_checkpoints = {keep}{TWO_ARMS}");
        let folder = SweepFolder::create(place.path(), file(&text)).unwrap();
        let run = folder.run("pg-n_step=8-seed-0");
        let folders = ["checkpoints/step-4", "rollouts", "samples"].map(|name| run.join(name));
        for folder in &folders {
            std::fs::create_dir_all(folder).unwrap();
        }
        folder.tidy("pg-n_step=8-seed-0").unwrap();
        folder.tidy("pg-n_step=8-seed-0").unwrap();
        let exist = folders.map(|folder| folder.exists());
        assert_eq!(exist, [keep, keep, true]);
    }
}

fn line(run: &PlannedRun, event: Event, seconds: Option<f64>) -> ManifestLine {
    let machine = Machine {
        processor: "a processor".into(),
        version: "0".into(),
        binary: "00".into(),
    };
    ManifestLine {
        seconds,
        ..ManifestLine::now(&run.name, event, &machine)
    }
}

#[test]
fn a_run_is_claimed_by_one_process_until_it_has_ended() {
    let place = tempfile::tempdir().unwrap();
    let folder = create(place.path());
    let [run, other] = [0, 1].map(|number| &folder.plan.blocks[0][number]);
    let claim = |run| folder.claim(run).unwrap();
    let state = |run| claim(run).map(|(_, state)| state);
    let (log, first) = claim(run).unwrap();
    assert_eq!(first, RunState::Absent);
    assert_eq!(state(run), None);
    // The run's process holds the log too.
    let inherited = log.try_clone().unwrap();
    drop(log);
    assert_eq!(state(run), None);
    drop(inherited);

    for run in [run, other] {
        std::fs::create_dir(folder.run(&run.name)).unwrap();
        std::fs::write(folder.run(&run.name).join("config.toml"), "").unwrap();
    }
    folder.record(&line(run, Event::Start, None)).unwrap();
    assert_eq!(state(run), Some(RunState::Begun));
    folder.record(&line(run, Event::Finish, Some(1.0))).unwrap();
    assert_eq!(state(run), Some(RunState::Finished));

    // A run that failed is made again, and one that diverged is not.
    const DIVERGED: &str = "after 3 updates, the loss is not finite. With --resume, the run would compute the same and end here again. Start another";
    let fail = |reason: &str| {
        let line = ManifestLine {
            reason: Some(reason.into()),
            ..line(other, Event::Fail, Some(1.0))
        };
        folder.record(&line).unwrap();
    };
    fail("the verifier is gone");
    assert_eq!(state(other), Some(RunState::Failed));
    fail(DIVERGED);
    // A process that was killed while it tried again.
    folder.record(&line(other, Event::Resume, None)).unwrap();
    assert_eq!(state(other), Some(RunState::Diverged));
}

#[test]
fn the_chats_of_all_runs_have_the_date_on_which_the_sweep_began() {
    let place = tempfile::tempdir().unwrap();
    let text = TWO_ARMS.replace("[set]", "[set]\n\"data.chat\" = true");
    let folder = SweepFolder::create(place.path(), file(&text)).unwrap();
    let dates = |folder: &SweepFolder| -> BTreeSet<String> {
        let dates = folder.plan.runs().map(|run| &run.config.data.chat_date);
        dates.map(|date| date.clone().unwrap()).collect()
    };
    let today = dates(&folder);
    assert_eq!(today.len(), 1);
    let today = today.first().unwrap();
    // It began on another day, and gets a seed.
    for run in folder.plan.runs() {
        let path = folder.recipe(&run.name);
        let recipe = std::fs::read_to_string(&path).unwrap();
        assert!(recipe.contains(today));
        std::fs::write(&path, recipe.replace(today, "2020-02-29")).unwrap();
    }
    let grown = file(&text.replace("[0, 7]", "[0, 7, 3]"));
    for folder in [
        SweepFolder::open(place.path()),
        SweepFolder::create(place.path(), grown),
    ] {
        let began = BTreeSet::from(["2020-02-29".to_owned()]);
        assert_eq!(dates(&folder.unwrap()), began);
    }
}

#[test]
fn a_runs_time_is_estimated_from_the_most_alike_runs() {
    let plan = plan(TWO_ARMS);
    let completions = |run: &PlannedRun| run.config.algorithm.n_step * 10;
    let (first, other) = (&plan.blocks[0][0], &plan.blocks[0][2]);
    let equal = &plan.blocks[1][0];
    let mut manifest = vec![
        line(first, Event::Start, None),
        line(first, Event::Stop, Some(10.0)),
        line(first, Event::Resume, None),
        line(first, Event::Finish, Some(30.0)),
    ];
    let finished = estimate::finished(&plan, &manifest);
    let by_settings = Some((40.0, "finished runs of these settings"));
    let by_completions = Some((160.0, "completions of other runs"));
    for (run, finished, rate, expected) in [
        (first, &[][..], None, None),
        (first, &[], Some(4.0), Some((20.0, "--rate"))),
        (equal, &finished, Some(4.0), by_settings),
        (other, &finished, None, by_completions),
    ] {
        let found = estimate::seconds(run, finished, completions, rate);
        assert_eq!(found, expected);
    }
    // Nobody measured the process that was killed.
    manifest.remove(1);
    assert_eq!(estimate::finished(&plan, &manifest), []);
}

#[test]
fn every_committed_sweep_is_planned() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/study/rapid/sweeps");
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let plan = SweepFile::read(&path).and_then(|file| Plan::new(&file));
        let plan = plan.unwrap_or_else(|error| panic!("{error}"));
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        // Batches are dropped at the ends of epochs, so the later prompts of these arms are others.
        let dropped = plan.runs().any(|run| run.config.algorithm.drop_last_phase);
        assert_eq!(plan.unmatched().is_empty(), !dropped, "{name}");
        names.insert(name);
    }
    for stage in ["pilot", "time", "main", "why", "autopsy", "transfer", "sft"] {
        assert!(names.contains(stage), "{stage}");
    }
}
