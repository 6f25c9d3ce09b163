//! An error is one paragraph that names the thing and the remedy, with the documented exit code: 2 if the command line has to be changed, else 1.

use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::time::Duration;

use tests::artifacts;
use tests::programs::{Verifier, free_port, rapid, rapid_verifier, run, start, wait_for};

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
    let mut arguments =
        words("train --recipe quickstart --device cpu --set verifier.patience_s=1 --verifier");
    arguments.extend([
        url.clone().into(),
        "--out".into(),
        folder.path().join("run").into(),
    ]);
    let error = run(&mut rapid(arguments)).failure(1);
    assert!(
        error.contains(&url) && error.contains("rapid-verifier serve"),
        "{error}"
    );
    let mut command = rapid(words("train --recipe quickstart"));
    let error = run(command.env_remove("RAPID_VERIFIER")).failure(2);
    assert!(
        error.contains("--verifier") && error.contains("RAPID_VERIFIER"),
        "{error}"
    );
    let error = run(command.env("RAPID_VERIFIER", "nowhere")).failure(2);
    assert!(error.contains("`nowhere` is not the address"), "{error}");
    let error = run(command.args(["--verifier", "elsewhere"])).failure(2);
    assert!(error.contains("`elsewhere` is not the address"), "{error}");
}

#[test]
fn the_wait_for_a_verifier_is_reported() {
    // It accepts connections and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let Some(_) = artifacts::model() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut command = rapid(words("train --recipe quickstart --device cpu --verifier"));
    command
        .arg(&url)
        .arg("--out")
        .arg(folder.path().join("run"));
    let running = start(&mut command);
    wait_for("a message", Duration::from_secs(60), || {
        let error = running.stderr();
        error
            .contains(&format!("waiting for the verifier at {url}"))
            .then_some(())
    });
    let _ = running.kill();
}

/// Command lines with a number out of range or an unknown name, each with a part of the remedy.
const WRONG_VALUES: &str = "
generate --model m --prompts p --out o --threads 100000 | 1 to 1024
generate --model m --prompts p --out o -n 1000000000 | 1 to 10000
generate --model m --prompts p --out o --temperature -1 | give 0, which is greedy
generate --model m --prompts Cargo.toml --out Cargo.toml | is the file of --prompts
generate --model m --prompts p --out Cargo.toml | Cargo.toml exists already
eval --model m --dataset starter-math --verifier http://127.0.0.1:9 --out Cargo.toml | Cargo.toml exists already
bench rollout --prompt-tokens 99999999999 | 1 to 1048576
bench rollout --prompts 99999999999999 | 100000000 tokens
study estimator --out o --groups 99999999999 | 4 to 1000000
study estimator --out o --groups 3 | do not tell a bias from noise
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
fn a_sweep_that_no_verifier_can_judge_is_refused_before_its_folder_is_made() {
    let place = tempfile::tempdir().unwrap();
    let (file, folder) = (place.path().join("s.toml"), place.path().join("sweep"));
    let text = "recipe = \"smollm2-mbppplus\"\nseeds = [0]\n[set]\n\"data.dataset\" = \"starter-code\"\n[[arms]]\nname = \"a\"\n";
    std::fs::write(&file, text).unwrap();
    let arguments = [
        "sweep".as_ref(),
        file.as_os_str(),
        "--out".as_ref(),
        folder.as_os_str(),
    ];
    let error = run(rapid(arguments).env_remove("RAPID_VERIFIER")).failure(2);
    assert!(
        error.contains("a-seed-0 has code tasks") && error.contains("--verifier"),
        "{error}"
    );
    assert!(!folder.exists());
}

#[test]
fn a_full_disk_is_named_at_the_start_and_later_and_the_run_can_be_resumed() {
    let Some(_) = artifacts::model() else { return };
    let folder = tempfile::tempdir().unwrap();
    let small = folder.path().join("small");
    std::fs::create_dir(&small).unwrap();
    let mount = |options: &str| {
        let mut command = Command::new("mount");
        command
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(&small);
        command.output().is_ok_and(|out| out.status.success())
    };
    if !mount("size=64m") {
        artifacts::skipped("a full disk needs a small file system, which only root may mount");
        return;
    }
    let verifier = Verifier::start(&["--set", "code.sandbox=none", "--require", "math"]);
    let mut arguments = words(
        "train --recipe quickstart --device cpu --set eval.samples=0 --set run.updates=1 --set algorithm.n_step=4 --set algorithm.group_size=4 --set algorithm.h=1 --set sampling.max_tokens=4 --verifier",
    );
    arguments.extend([
        verifier.url().into(),
        "--out".into(),
        small.join("run").into(),
    ]);
    let refused = run(&mut rapid(&arguments)).failure(1);
    assert!(
        refused.contains("is free: ")
            && refused.contains("make room")
            && !refused.contains("--resume"),
        "{refused}"
    );
    assert!(!small.join("run").exists());
    // There was room at the start.
    assert!(mount("remount,size=4g"));
    let running = start(&mut rapid(&arguments));
    let config = small.join("run/config.toml");
    wait_for("the run folder", Duration::from_secs(300), || {
        config.is_file().then_some(())
    });
    assert!(mount("remount,size=64m"));
    let outcome = running.finish();
    let config = config.is_file();
    let _ = Command::new("umount").arg(&small).status();
    let error = outcome.failure(1);
    assert!(
        error.contains("small/run") && error.contains("space") && error.contains("--resume"),
        "{error}"
    );
    assert!(config, "the run folder is gone");
}

/// A pipe whose reader has closed it, as after `| head`.
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
