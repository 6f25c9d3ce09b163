//! `rapid sweep`: killed, continued, made by two processes at once, and with a run that diverges.

use std::path::Path;
use std::time::{Duration, SystemTime};

use datasets::random::SplitMix;
use serde_json::Value;
use tests::artifacts;
use tests::programs::{Running, rapid, start, wait_for};

const RUNS: [&str; 2] = ["pg-seed-0", "rapid-seed-0"];
/// Time limit until a run has begun, or has made an update.
const LIMIT: Duration = Duration::from_secs(300);

const FILE: &str = r#"
recipe = "quickstart"
seeds = [0]
[set]
"run.updates" = 2
"run.checkpoint_every" = 1
"algorithm.group_size" = 4
"algorithm.n_step" = 8
"sampling.max_tokens" = 12
"lora.rank" = 4
"eval.limit" = 8
"eval.samples" = 1
"eval.k" = [1]
"engine.threads" = 1
[[arms]]
name = "pg"
set = { "algorithm.preset" = "pg" }
[[arms]]
name = "rapid"
set = { "algorithm.h" = 2 }
"#;

fn sweep(file: &Path, folder: &Path) -> Running {
    let [file, folder] = [file, folder].map(|path| path.to_str().unwrap());
    start(rapid(["sweep", file, "--out", folder]).env_remove("RAPID_VERIFIER"))
}

/// The lines of the manifest, without one that is being written.
fn manifest(folder: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join("manifest.jsonl")).unwrap_or_default();
    text.split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// How many lines of the manifest are about an event of a run.
fn events(folder: &Path, run: &str, event: &str) -> usize {
    let lines = manifest(folder).into_iter();
    lines
        .filter(|line| line["run"] == run && line["event"] == event)
        .count()
}

/// Whether a run that a process began after the manifest's first `before` lines is under way, and has this file.
fn is_under_way(folder: &Path, before: usize, file: &str) -> bool {
    let lines = manifest(folder);
    let last = lines.iter().skip(before).next_back();
    last.is_some_and(|line| {
        let began = line["event"] == "start" || line["event"] == "resume";
        let run = line["run"].as_str().unwrap();
        began && folder.join("runs").join(run).join(file).is_file()
    })
}

/// Starts a sweep, and kills it with all its processes at a random moment, up to `within` after a run of it has this file.
fn sweep_killed(file: &Path, folder: &Path, has: &str, within: Duration, random: &mut SplitMix) {
    let before = manifest(folder).len();
    let mut process = sweep(file, folder);
    wait_for("a run under way", LIMIT, || {
        let done = process.ended().is_some() || is_under_way(folder, before, has);
        done.then_some(())
    });
    if process.ended().is_some() {
        let _ = process.finish().success();
        return;
    }
    let milliseconds = random.below(within.as_millis() as usize);
    std::thread::sleep(Duration::from_millis(milliseconds as u64));
    let _ = process.kill_with_descendants();
}

#[test]
fn a_sweep_killed_three_times_equals_an_undisturbed_one() {
    let Some(_) = artifacts::model() else { return };
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("sweep.toml");
    std::fs::write(&file, FILE).unwrap();

    let whole = place.path().join("whole");
    let both = [sweep(&file, &whole), sweep(&file, &whole)];
    for process in both {
        let _ = process.finish().success();
    }
    for run in RUNS {
        assert_eq!(events(&whole, run, "start"), 1, "{run}");
        assert_eq!(events(&whole, run, "resume"), 0, "{run}");
        assert_eq!(events(&whole, run, "finish"), 1, "{run}");
    }

    let killed = place.path().join("killed");
    let seed = std::env::var("RAPID_TEST_SEED").map_or_else(
        |_| SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64,
        |seed| seed.parse().unwrap(),
    );
    let repeat = format!("RAPID_TEST_SEED={seed} repeats the kills");
    eprintln!("{repeat}");
    let mut random = SplitMix(seed);
    // The first kill is soon after a run has begun: well before its end, though it is made faster alone. The others are in a run that has made an update, or soon
    // after its end.
    let seconds = manifest(&whole).into_iter();
    let seconds = seconds.filter_map(|line| line["seconds"].as_f64());
    let within = Duration::from_secs_f64(seconds.fold(f64::INFINITY, f64::min) / 4.0);
    for has in ["config.toml", "metrics.jsonl", "metrics.jsonl"] {
        sweep_killed(&file, &killed, has, within, &mut random);
    }
    let _ = sweep(&file, &killed).finish().success();
    let total = |event| -> usize { RUNS.iter().map(|run| events(&killed, run, event)).sum() };
    // No run was stopped at a safe point, and no process saw another one end.
    assert_eq!([total("stop"), total("fail")], [0, 0], "{repeat}");
    assert!(total("resume") > 0, "no kill was in a run: {repeat}");
    for run in RUNS {
        assert_eq!(events(&killed, run, "finish"), 1, "{run}: {repeat}");
        for log in ["metrics.jsonl", "eval.jsonl"] {
            let read = |folder: &Path| std::fs::read(folder.join("runs").join(run).join(log));
            let is_same = read(&whole).unwrap() == read(&killed).unwrap();
            assert!(is_same, "{run}: {log} differs: {repeat}");
        }
    }
}

#[test]
fn a_run_that_diverges_is_an_end_and_is_not_made_again() {
    let long = || artifacts::long("a sweep with a run that diverges");
    let (Some(_), true) = (artifacts::model(), long()) else {
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("sweep.toml");
    let diverging = "set = { \"algorithm.preset\" = \"pg\", \"lora.rank\" = 0, \"optimiser.lr\" = 1.0, \"optimiser.weight_decay\" = 1e6, \"optimiser.clip_norm\" = 0.0 }";
    let text = FILE.replace("set = { \"algorithm.preset\" = \"pg\" }", diverging);
    assert_ne!(text, FILE);
    std::fs::write(&file, text).unwrap();
    let folder = place.path().join("sweep");
    for _ in 0..2 {
        let outcome = sweep(&file, &folder).finish().success();
        let said = "1 run diverged, and would again; the report counts it as it ended: pg-seed-0";
        assert!(outcome.stderr.contains(said), "{outcome:?}");
        assert!(outcome.stderr.contains("finished: 1 run"), "{outcome:?}");
    }
    for run in RUNS {
        assert_eq!(events(&folder, run, "start"), 1, "{run}");
        assert_eq!(events(&folder, run, "resume"), 0, "{run}");
    }
    // Nothing listens there, and runs that have ended ask nobody.
    let [file, folder] = [&file, &folder].map(|path| path.to_str().unwrap());
    let mut again = rapid(["sweep", file, "--out", folder]);
    let _ = start(again.env("RAPID_VERIFIER", "http://127.0.0.1:9"))
        .finish()
        .success();
}
