//! Ranks of MPI launchers train as one process does, to the byte.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tests::artifacts;
use tests::programs::{Outcome, Verifier, program, rapid, run, start};
use tests::training::{Job, repeating, set};

/// Time limit for a run of these tests.
const LIMIT: Duration = Duration::from_secs(900);

/// A launcher, if it is installed: Open MPI's or MPICH's. Prints that the test is skipped otherwise.
fn launcher(name: &str, more: &[&str]) -> Option<Vec<String>> {
    let found = Command::new(name).arg("--version").output().is_ok();
    if !found {
        let required = std::env::var("RAPID_TEST_MPI").is_ok_and(|value| value == "required");
        assert!(!required, "{name} is not installed");
        artifacts::skipped(&format!(
            "{name} is not installed (apt-get install openmpi-bin mpich)"
        ));
        return None;
    }
    let words = [&[name], more].concat();
    Some(words.into_iter().map(str::to_owned).collect())
}

fn open_mpi() -> Option<Vec<String>> {
    launcher(
        "mpirun.openmpi",
        &[
            "--allow-run-as-root",
            "--oversubscribe",
            "--bind-to",
            "none",
        ],
    )
}

fn mpich() -> Option<Vec<String>> {
    launcher("mpirun.mpich", &[])
}

/// `rapid` as `ranks` ranks of a launcher.
fn launched(launcher: &[String], ranks: usize, arguments: &[String]) -> Command {
    let mut command = Command::new(&launcher[0]);
    command.args(&launcher[1..]);
    command.args(["-n", &ranks.to_string()]);
    command.env("CUDA_VISIBLE_DEVICES", "");
    command.arg(program("rapid")).args(arguments);
    command
}

/// The command line of a small run.
fn training(out: &Path, verifier: &Verifier, inputs: &Path, more: &[&str]) -> Vec<String> {
    let mut arguments: Vec<String> = [
        "train",
        "--recipe",
        "quickstart",
        "--verifier",
        &verifier.url(),
        "--device",
        "cpu",
        "--threads",
        "1",
        "--out",
        out.to_str().unwrap(),
    ]
    .map(str::to_owned)
    .into();
    arguments.extend(repeating(inputs));
    arguments.extend(set(&[
        "run.slices=4",
        "run.updates=4",
        "run.checkpoint_every=2",
        "algorithm.n_step=16",
        "algorithm.group_size=4",
    ]));
    arguments.extend(set(more));
    arguments
}

/// What a run leaves that does not depend on time: its metrics, and its last checkpoint with the optimiser's state.
fn results(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let checkpoint = Path::new("checkpoints/last");
    let mut files = vec![PathBuf::from("metrics.jsonl")];
    for entry in std::fs::read_dir(folder.join(checkpoint)).unwrap() {
        files.push(checkpoint.join(entry.unwrap().file_name()));
    }
    files.sort();
    assert!(files.len() > 4, "{files:?}");
    let read = |file: PathBuf| {
        let content = std::fs::read(folder.join(&file)).unwrap();
        (file, content)
    };
    files.into_iter().map(read).collect()
}

#[track_caller]
fn assert_same(folder: &Path, expected: &Path) {
    for ((file, content), (other, wanted)) in results(folder).into_iter().zip(results(expected)) {
        assert_eq!(file, other);
        // No diff of megabytes.
        assert!(
            content == wanted,
            "{} of {} differs",
            file.display(),
            folder.display()
        );
    }
}

fn finish(command: &mut Command) -> Outcome {
    start(command).finish_within(LIMIT).success()
}

#[test]
fn ranks_of_open_mpi_and_of_mpich_train_as_one_process_does() {
    let (Some(_), Some(open_mpi), Some(mpich)) = (artifacts::model(), open_mpi(), mpich()) else {
        return;
    };
    let verifier = Verifier::start(&[]);
    let home = tempfile::tempdir().unwrap();
    let train =
        |name: &str, more: &[&str]| training(&home.path().join(name), &verifier, home.path(), more);
    let alone = home.path().join("alone");
    let _ = finish(&mut rapid(train("alone", &[])));
    let outcome = finish(&mut launched(&open_mpi, 2, &train("two", &[])));
    // The others are silent.
    assert_eq!(
        outcome.stderr.matches("finished after").count(),
        1,
        "{}",
        outcome.stderr
    );
    assert_same(&home.path().join("two"), &alone);

    // Another number of ranks, of another MPI, goes on where one process stopped.
    let lora = ["lora.rank=4", "algorithm.kl=0.01"];
    let adapters = home.path().join("adapters");
    let _ = finish(&mut rapid(train("adapters", &lora)));
    let half = [&lora[..], &["run.updates=2"]].concat();
    let _ = finish(&mut rapid(train("four", &half)));
    let four = home.path().join("four");
    let mut resume: Vec<String> = ["train", "--resume", four.to_str().unwrap()]
        .map(str::to_owned)
        .into();
    resume.extend(set(&["run.updates=4"]));
    let _ = finish(&mut launched(&mpich, 4, &resume));
    assert_same(&four, &adapters);
}

#[test]
fn a_killed_rank_ends_all_and_the_run_goes_on_alone() {
    let (Some(_), Some(open_mpi)) = (artifacts::model(), open_mpi()) else {
        return;
    };
    let verifier = Verifier::start(&[]);
    let home = tempfile::tempdir().unwrap();
    let lora = ["lora.rank=4", "run.updates=6"];
    let expected = home.path().join("expected");
    let _ = finish(&mut rapid(training(
        &expected,
        &verifier,
        home.path(),
        &lora,
    )));

    let out = home.path().join("killed");
    let arguments = training(&out, &verifier, home.path(), &lora);
    let job = Job::new(&out, "quickstart", &verifier, &[]);
    let mut running = start(&mut launched(&open_mpi, 2, &arguments));
    job.reach(&mut running, 3);
    let follower = ranks_below(running.process())
        .into_iter()
        .find(|process| environment(*process, "OMPI_COMM_WORLD_RANK").as_deref() == Some("1"))
        .expect("a second rank");
    let _ = run(Command::new("kill").args(["-9", &follower.to_string()])).success();
    let outcome = running.finish_within(LIMIT);
    assert!(outcome.code != Some(0), "{}", outcome.stderr);
    let _ = finish(&mut rapid(["train", "--resume", out.to_str().unwrap()]));
    assert_same(&out, &expected);
}

#[test]
fn ranks_that_cannot_divide_a_mini_batch_are_refused() {
    let (Some(_), Some(open_mpi)) = (artifacts::model(), open_mpi()) else {
        return;
    };
    let verifier = Verifier::start(&[]);
    let home = tempfile::tempdir().unwrap();
    let out = home.path().join("refused");
    let arguments = training(&out, &verifier, home.path(), &["run.slices=1"]);
    let outcome = start(&mut launched(&open_mpi, 2, &arguments)).finish_within(LIMIT);
    assert!(outcome.code != Some(0));
    assert!(outcome.stderr.contains("run.slices"), "{}", outcome.stderr);
    assert!(!out.exists());
    let doctor = start(&mut launched(&open_mpi, 2, &["doctor".to_owned()])).finish_within(LIMIT);
    assert!(
        doctor.stderr.contains("start this command without it"),
        "{}",
        doctor.stderr
    );
}

/// The processes that a process started, and those that they started.
fn ranks_below(parent: u32) -> Vec<u32> {
    let children = format!("/proc/{parent}/task/{parent}/children");
    let children = std::fs::read_to_string(children).unwrap_or_default();
    let children = children
        .split_whitespace()
        .filter_map(|child| child.parse().ok());
    children
        .flat_map(|child| [vec![child], ranks_below(child)].concat())
        .collect()
}

fn environment(process: u32, name: &str) -> Option<String> {
    let all = std::fs::read(format!("/proc/{process}/environ")).ok()?;
    let all = String::from_utf8_lossy(&all).into_owned();
    let value = all
        .split('\0')
        .find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    value.map(str::to_owned)
}
