//! An error is one paragraph that names the thing and the remedy, with the documented exit code: 2 if the command line has to be changed, else 1.

use std::ffi::OsString;
use std::process::Stdio;
use std::time::Duration;

use tests::artifacts;
use tests::disk::Disk;
use tests::programs::{
    Verifier, assert_has, free_port, rapid, rapid_verifier, run, start, wait_for,
};

fn words(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

#[test]
fn the_error_names_a_damaged_model_file() {
    let folder = tempfile::tempdir().unwrap();
    let [path, prompts, out] = ["damaged.gguf", "p.jsonl", "out"].map(|n| folder.path().join(n));
    std::fs::write(&prompts, "{\"id\": 1, \"prompt\": \"Hello\"}\n").unwrap();
    let mut command = rapid(words("generate --max-tokens 1 --device cpu"));
    command.arg("--model").arg(&path);
    command.arg("--prompts").arg(prompts).arg("--out").arg(&out);
    let error = run(&mut command).failure(2);
    assert!(error.contains("damaged.gguf"), "{error}");
    let whole = artifacts::model().map(|model| std::fs::read(model).unwrap());
    let whole = whole.unwrap_or_else(|| b"this is no model, but as long as a header".to_vec());
    for length in [0, 4, 40, 1_000_000.min(whole.len() / 2), whole.len() - 1] {
        std::fs::write(&path, &whole[..length]).unwrap();
        let error = run(&mut command).failure(1);
        assert!(error.contains("damaged.gguf"), "{length} bytes: {error}");
        assert!(!out.exists(), "a failed run left its output");
    }
}

#[test]
fn the_error_names_a_verifier_that_does_not_answer() {
    let Some(_) = artifacts::model() else { return };
    let folder = tempfile::tempdir().unwrap();
    let url = format!("http://127.0.0.1:{}", free_port());
    let mut command = rapid(words(
        "train --recipe quickstart --device cpu --set verifier.patience_s=1 --verifier",
    ));
    let out = folder.path().join("run");
    command.arg(&url).arg("--out").arg(&out);
    let error = run(&mut command).failure(1);
    assert_has(&error, &[&url, "rapid-verifier serve"]);
    assert!(!out.exists());
    let mut command = rapid(words("train --recipe quickstart"));
    let error = run(command.env("RAPID_VERIFIER", "nowhere")).failure(2);
    assert_has(&error, &["`nowhere` is not the address"]);
    let error = run(command.args(["--verifier", "elsewhere"])).failure(2);
    assert_has(&error, &["`elsewhere` is not the address"]);
}

#[test]
fn the_wait_for_a_verifier_is_reported() {
    // It accepts connections and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let Some(_) = artifacts::model() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut command = rapid(words("train --recipe quickstart --device cpu --verifier"));
    let out = folder.path().join("run");
    command.arg(&url).arg("--out").arg(out);
    let running = start(&mut command);
    wait_for("a message", Duration::from_secs(60), || {
        let error = running.stderr();
        error
            .contains(&format!("waiting for the verifier at {url}"))
            .then_some(())
    });
    let _ = running.kill();
}

/// Command lines with a number out of range, an unknown name, or options that do not go together, each with a part of the remedy.
const WRONG_VALUES: &str = "
generate --model m --prompts p --out o --threads 100000 | 1 to 1024
generate --model m --prompts p --out o -n 0 | 1 to 10000
generate --model m --prompts p --out o -n 1000000000 | 1 to 10000
generate --model m --prompts p --out o --temperature -1 | give 0, which is greedy
generate --model m --prompts p --out o --template t | cannot be used with
generate --model m --prompts p --out o --split eval | cannot be used with
generate --model m --prompts p --out o --data-dir d | cannot be used with
generate --model m --prompts p --out Cargo.toml | Cargo.toml exists already
eval --model m --dataset starter-math --verifier http://127.0.0.1:9 --out Cargo.toml | Cargo.toml exists already
eval --model m --dataset d --verifier http://127.0.0.1:9 --top-p -1 | give a number above 0
eval --model m --dataset d --verifier http://127.0.0.1:9 --k -1 | give a whole number from 1 to
bench step --shared-tokens -1 | give a whole number from 0
bench rollout --prompt-tokens 99999999999 | 1 to 1048576
bench rollout --prompts 99999999999999 | 100000000 tokens
study estimator --out o --groups 99999999999 | 4 to 1000000
study estimator --out o --groups 3 | do not tell a bias from noise
study estimator | --out <DIR>
study estimator --out o --model m | --behaviour <MODEL>
study estimator --out o --behaviour m | --model <MODEL>
study estimator --out o --temperature 0 | at 0 there is nothing to sample
sweep f --block -1 | give a whole number from 1 on
quickstart --device gpu | give auto, cpu, cuda or cuda:N
quickstart --resume r --seed 1 | cannot be used with
quickstart --seed -1 | give a whole number
train --resume a --out b | cannot be used with
train --recipe quickstart --threads -1 | 1 to 1024
study estimator --out o --model m --behaviour m --dataset d | --verifier
study estimator --out o --model m --verifier http://127.0.0.1:9 | --behaviour
train --recipe quickstart --dry-run --threads 99999999999 | 1 to 1024
train --recipe quickstart --dry-run --set engine.threads=99999999999 | at most 1024
train --recipe quickstart --dry-run --set run.updates=9223372036854775800 | at most 10000000
train --recipe quickstart --dry-run --set model.name=smolm2 | did you mean `smollm2-135m-instruct
train --recipe quickstart --dry-run --set model.name=nothere.gguf | give it as `model.path`
train --recipe quickstart --dry-run --set lr=1 | --set optimiser.lr=1
train --recipe quickstart --dry-run --set run.update=3 | run.updates
train --recipe quikstart --dry-run | did you mean quickstart?
fetch smollm2 | did you mean `model:smollm2-135m-instruct
";

#[test]
fn a_wrong_number_or_name_is_refused_at_once_with_a_remedy() {
    for line in WRONG_VALUES.trim().lines() {
        let (command, expected) = line.split_once(" | ").unwrap();
        let error = run(rapid(words(command)).env_remove("RAPID_VERIFIER")).failure(2);
        assert!(error.contains(expected), "{command}: {error}");
    }
}

#[test]
fn a_sweep_without_a_fit_verifier_is_refused_before_its_folder() {
    let place = tempfile::tempdir().unwrap();
    let (file, folder) = (place.path().join("s.toml"), place.path().join("sweep"));
    let text = "recipe = \"smollm2-mbppplus\"\nseeds = [0]\n[set]\n\"data.dataset\" = \"starter-code\"\n[[arms]]\nname = \"a\"\n";
    std::fs::write(&file, text).unwrap();
    let mut sweep = rapid(["sweep"]);
    sweep.arg(file).arg("--out").arg(&folder);
    let error = run(sweep.env_remove("RAPID_VERIFIER")).failure(2);
    assert_has(&error, &["a-seed-0 has code tasks", "--verifier"]);
    assert!(!folder.exists());
}

#[test]
fn a_full_disk_is_named_at_the_start_and_later_and_the_run_can_be_resumed() {
    let Some(_) = artifacts::model() else { return };
    let Some(disk) = Disk::mount("size=64m") else {
        return;
    };
    let folder = disk.path().join("run");
    let verifier = Verifier::start(&["--set", "code.sandbox=none", "--require", "math"]);
    let mut train = rapid(words(
        "train --recipe quickstart --device cpu --set eval.samples=0 --set run.updates=1 --set algorithm.n_step=4 --set algorithm.group_size=4 --set algorithm.h=1 --set sampling.max_tokens=4 --verifier",
    ));
    train.arg(verifier.url()).arg("--out").arg(&folder);
    let refused = run(&mut train).failure(1);
    assert_has(&refused, &["is free: ", "make room"]);
    assert!(!refused.contains("--resume"), "{refused}");
    assert!(!folder.exists());
    // There was room at the start.
    disk.remount("size=4g");
    let running = start(&mut train);
    let config = folder.join("config.toml");
    wait_for("the run folder", Duration::from_secs(300), || {
        config.is_file().then_some(())
    });
    disk.remount("size=64m");
    let error = running.finish().failure(1);
    let run = folder.to_str().unwrap();
    assert_has(&error, &[run, "space", "--resume"]);
    assert!(config.is_file(), "the run folder is gone");
}

/// A pipe that its reader has closed, as after `| head`.
fn closed_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

#[test]
fn a_closed_pipe_changes_no_exit_code() {
    for (mut command, code) in [
        (rapid(words("fetch")), 0),
        (rapid(words("train --recipe quikstart --dry-run")), 2),
        (rapid_verifier(words("bench math")), 0),
        (
            rapid_verifier(words(
                "doctor --log debug --no-disk-cache --set code.sandbox=none",
            )),
            1,
        ),
        (rapid_verifier(words("serve --listen 0.0.0.0:0")), 2),
    ] {
        let status = command.stdout(closed_pipe()).stderr(closed_pipe()).status();
        assert_eq!(status.unwrap().code(), Some(code), "{command:?}");
    }
}
