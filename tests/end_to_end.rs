//! The two programs together: training on real data with real rewards, and kills of either program.

use std::path::Path;
use std::time::Duration;

use tests::artifacts;
use tests::data;
use tests::programs::{Verifier, rapid, run, start, wait_for};
use tests::training::{Job, repeating, set};

/// The options of a verifier of mathematics alone.
const MATH: [&str; 4] = ["--set", "code.sandbox=none", "--require", "math"];

#[test]
fn killing_a_run_or_its_verifier_does_not_change_the_result() {
    let Some(_) = artifacts::model() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut sets = repeating(folder.path());
    sets.extend(set(&[
        "algorithm.group_size=4",
        "algorithm.n_step=8",
        "algorithm.h=2",
        "run.updates=6",
    ]));
    // The states of all weights take gigabytes, and those of adapters are written in a moment.
    if !artifacts::long() {
        artifacts::skipped("the run trains adapters; RAPID_TEST_LONG=1 trains all weights");
        sets.extend(set(&["lora.rank=4", "optimiser.lr=1e-3"]));
    }
    // Only the run that is killed has checkpoints before its end.
    let [at_the_end, every_third] = [0, 3].map(|every| {
        let every = format!("run.checkpoint_every={every}");
        [&sets[..], &set(&[&every])].concat()
    });
    let mut verifier = Verifier::start(&MATH);

    let undisturbed = Job::new(
        &folder.path().join("undisturbed"),
        "quickstart",
        &verifier,
        &at_the_end,
    );
    let outcome = undisturbed.start().finish().success();
    assert_eq!(outcome.stdout.trim(), undisturbed.folder.to_str().unwrap());
    let lines = undisturbed.lines();
    assert_eq!(lines.len(), 6);
    assert_learning(&lines);
    assert_exact_on_policy(&lines);

    // The run is killed after a checkpoint and a further update without one. Then it is stopped in the middle of a phase.
    let killed = Job::new(
        &folder.path().join("killed"),
        "quickstart",
        &verifier,
        &every_third,
    );
    let mut first = killed.start();
    killed.reach(&mut first, 4);
    assert_eq!(first.kill().code, None);
    let mut second = killed.resume();
    killed.reach(&mut second, 5);
    second.interrupt();
    let stopped = second.finish();
    // It may have finished before the signal arrived.
    assert!(matches!(stopped.code, Some(130 | 0)), "{stopped:?}");
    let _ = killed.resume().finish().success();
    assert_eq!(killed.metrics(), undisturbed.metrics());

    // The verifier is stopped for a while; completions that are sampled meanwhile wait for it.
    let waiting = Job::new(
        &folder.path().join("waiting"),
        "quickstart",
        &verifier,
        &at_the_end,
    );
    let mut running = waiting.start();
    waiting.reach(&mut running, 1);
    verifier.kill();
    waiting.reach(&mut running, 2);
    std::thread::sleep(Duration::from_secs(10));
    assert_eq!(
        running.ended(),
        None,
        "it did not wait: {}",
        running.stderr()
    );
    assert_eq!(
        waiting.lines().len(),
        2,
        "samples were used without their rewards"
    );
    verifier.restart();
    let _ = running.finish().success();
    assert_eq!(waiting.metrics(), undisturbed.metrics());
    assert!(waiting.lines().iter().all(|line| line["masked"] == 0));

    let expected = weights(&undisturbed, 6);
    assert!(
        weights(&killed, 6) == expected && weights(&waiting, 6) == expected,
        "the last weights differ"
    );
}

/// A checkpoint's weights, as bytes.
fn weights(job: &Job, step: usize) -> Vec<u8> {
    let file = format!("checkpoints/step-{step}/model.safetensors");
    std::fs::read(job.folder.join(file)).unwrap()
}

/// The required options of an evaluation, except the model.
fn evaluation(folder: &Path, verifier: &Verifier) -> Vec<String> {
    let tasks = folder.join("repeat.jsonl");
    [
        "eval",
        "--dataset",
        tasks.to_str().unwrap(),
        "--k",
        "1",
        "--device",
        "cpu",
        "--verifier",
        &verifier.url(),
    ]
    .map(str::to_owned)
    .to_vec()
}

#[test]
fn a_checkpoint_is_evaluated_with_its_runs_settings_and_a_killed_evaluation_resumes() {
    let Some(gguf) = artifacts::model() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let verifier = Verifier::start(&MATH);
    let mut sets = repeating(home);
    sets.extend(set(&[
        "algorithm.group_size=2",
        "algorithm.n_step=4",
        "algorithm.h=1",
        "run.updates=1",
        "eval.temperature=0.7",
        // The weights do not change.
        "optimiser.lr=0",
    ]));
    let job = Job::new(&home.join("run"), "quickstart", &verifier, &sets);
    let _ = job.start().finish().success();
    let model = job.folder.join("checkpoints/last");
    assert_generates_the_same(&gguf, &model, home);
    let eval = |model: &Path, more: &[&str]| {
        let mut command = evaluation(home, &verifier);
        command.extend(["--model", model.to_str().unwrap()].map(str::to_owned));
        command.extend(more.iter().map(|word| (*word).to_owned()));
        rapid(command)
    };

    let template = home.join("repeat.txt");
    let (out, by_hand) = (home.join("out.jsonl"), home.join("by-hand.jsonl"));
    let flags = [
        "--template",
        template.to_str().unwrap(),
        "--max-tokens",
        "10",
        "--temperature",
        "0.7",
        "--stop",
        "\n",
        "-n",
        "16",
        "--out",
        by_hand.to_str().unwrap(),
    ];
    let _ = run(&mut eval(&model, &flags)).success();
    let outcome = run(&mut eval(&model, &["--json", "-n", "4"])).success();
    let figures: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    let verdicts = &figures["verdicts"];
    let counted: u64 = ["correct", "incorrect", "malformed"]
        .map(|name| verdicts[name].as_u64().unwrap())
        .iter()
        .sum();
    assert_eq!(counted, 64, "{verdicts}");

    let lenient = Verifier::start(&[&MATH[..], &["--math-policy", "lenient"]].concat());
    let elsewhere = |more: &[&str]| {
        let mut command = evaluation(home, &lenient);
        let model = ["--model", model.to_str().unwrap(), "-n", "1"];
        command.extend(model.iter().chain(more).map(|word| (*word).to_owned()));
        rapid(command)
    };
    let error = run(&mut elsewhere(&[])).failure(1);
    for words in [
        "rapid.toml requires the policies of the training, and --any-verifier accepts others",
        "judges math tasks with `lenient`, and the recipe expects `standard`",
        "start it with `rapid-verifier serve --math-policy standard`",
    ] {
        assert!(error.contains(words), "{error}");
    }
    let _ = run(&mut elsewhere(&["--any-verifier"])).success();

    // The evaluation is killed while completions are sampled, and the template's file has been removed.
    std::fs::remove_file(&template).unwrap();
    let out_flag = ["-n", "16", "--out", out.to_str().unwrap()];
    let stored_file = home.join("out.jsonl.drawn.jsonl");
    let lines = || std::fs::read_to_string(&stored_file).map_or(0, |text| text.lines().count());
    let mut first = start(&mut eval(&model, &out_flag));
    wait_for("a completion", Duration::from_secs(300), || {
        assert!(lines() > 0 || first.ended().is_none(), "{}", first.stderr());
        (lines() > 0).then_some(())
    });
    let _ = first.kill();
    let stored = lines();
    assert!(!out.exists() && (1..256).contains(&stored), "{stored}");
    let error = run(&mut eval(
        &model,
        &[&out_flag[..], &["--seed", "7"]].concat(),
    ))
    .failure(2);
    assert!(
        error.contains("holds") && error.contains("--seed 1") && error.contains("--out"),
        "{error}"
    );
    let resumed = run(&mut eval(&model, &out_flag)).success();
    assert!(
        resumed.stderr.contains("that were sampled before"),
        "{}",
        resumed.stderr
    );
    assert!(
        resumed.stderr.contains("prompts: template repeat.txt,"),
        "{}",
        resumed.stderr
    );
    assert!(std::fs::read(&out).unwrap() == std::fs::read(&by_hand).unwrap());
    assert!(!stored_file.exists() && !home.join("out.jsonl.drawn.json").exists());

    std::fs::write(model.join("rapid.toml"), "version = 1\n[data").unwrap();
    let error = run(&mut eval(&model, &[])).failure(1);
    assert!(
        error.contains("rapid.toml") && error.contains("--template"),
        "{error}"
    );
}

fn assert_learning(lines: &[serde_json::Value]) {
    assert!(
        lines
            .iter()
            .any(|line| line["grad_norm"].as_f64().unwrap() > 0.0),
        "no update had a gradient, so equality would prove little: {lines:#?}"
    );
}

/// Asserts that the sampling and the training policy are the same function: at the first update of a phase every importance weight is exactly 1.
fn assert_exact_on_policy(lines: &[serde_json::Value]) {
    let on_policy = lines.iter().filter(|line| line["update"] == 0);
    assert!(on_policy.clone().count() > 1);
    for line in on_policy {
        for zero in ["ell_mean", "ell_std", "kl_behaviour", "stale_mean_abs_log"] {
            assert_eq!(line[zero].as_f64(), Some(0.0), "{zero}: {line}");
        }
    }
    let stale = lines.iter().filter(|line| line["update"] != 0);
    let moved: Vec<f64> = stale
        .map(|line| line["ell_std"].as_f64().unwrap())
        .collect();
    assert!(
        moved.is_empty() || moved.iter().any(|ell| *ell > 0.0),
        "if weights stayed 1 after an update, this would prove nothing"
    );
}

#[test]
fn mbpp_plus_trains_with_real_rewards() {
    let (Some(_), Some(_), Some(data)) = (
        artifacts::model(),
        artifacts::sandbox(),
        data::holding("mbppplus"),
    ) else {
        return;
    };
    let data = data.folder.to_str().unwrap();
    let verifier = Verifier::start(&["--data-dir", data, "--require", "code"]);
    let folder = tempfile::tempdir().unwrap();
    let mut arguments = ["--data-dir", data].map(str::to_owned).to_vec();
    arguments.extend(set(&[
        "algorithm.group_size=2",
        "algorithm.n_step=4",
        "algorithm.h=1",
        "run.updates=3",
        "run.checkpoint_every=0",
        "eval.samples=0",
        "sampling.max_tokens=48",
    ]));
    let root = folder.path().join("run");
    let job = Job::new(&root, "smollm2-mbppplus", &verifier, &arguments);
    let _ = job.start().finish().success();
    let lines = job.lines();
    assert_eq!(lines.len(), 3);
    assert_exact_on_policy(&lines);
    assert!(lines.iter().all(|line| line["masked"] == 0), "{lines:#?}");
    let samples = job.samples();
    assert_eq!(samples.len(), 12);
    for sample in &samples {
        let task = sample["task"].as_str().unwrap();
        assert!(task.starts_with("mbppplus/"), "{sample}");
        let reward = f64::from(u8::from(sample["verdict"] == "correct"));
        assert_eq!(sample["reward"], reward, "{sample}");
    }
    for file in ["config.json", "model.safetensors", "tokenizer.json"] {
        let path = root.join("checkpoints/step-3").join(file);
        assert!(path.is_file(), "{file} is not in the checkpoint");
    }
    let _ = run(&mut rapid(["report".as_ref(), root.as_os_str()])).success();
    assert!(root.join("report.html").is_file());
}

/// Asserts that the checkpoint of weights that did not change generates the same as the model that they are from.
fn assert_generates_the_same(model: &Path, checkpoint: &Path, folder: &Path) {
    let prompts = folder.join("prompts.jsonl");
    std::fs::write(&prompts, "{\"id\": 1, \"prompt\": \"The capital of France is\"}\n{\"id\": 2, \"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}\n").unwrap();
    let generate = |model: &Path, out: &str| {
        let out = folder.join(out);
        let mut command = rapid(["generate", "--temperature", "0", "--max-tokens", "12"]);
        command.args(["--logprobs", "--device", "cpu", "--model"]);
        command.arg(model).arg("--prompts").arg(&prompts);
        let _ = run(command.arg("--out").arg(&out)).success();
        std::fs::read_to_string(out).unwrap()
    };
    let before = generate(model, "before.jsonl");
    assert!(
        before.lines().count() == 2 && before.contains("Paris"),
        "{before}"
    );
    assert_eq!(before, generate(checkpoint, "after.jsonl"));
}

#[test]
fn a_teacher_without_correct_completions_leaves_no_run_folder() {
    let Some(_) = artifacts::model() else { return };
    let verifier = Verifier::start(&MATH);
    let folder = tempfile::tempdir().unwrap();
    let teacher = folder.path().join("teacher.jsonl");
    let mut sets = repeating(folder.path());
    sets.extend(set(&[
        "algorithm.preset=sft",
        "algorithm.group_size=1",
        "algorithm.h=1",
        "algorithm.n_step=8",
        "run.updates=1",
        &format!("data.teacher={}", teacher.display()),
    ]));
    let job = Job::new(&folder.path().join("run"), "quickstart", &verifier, &sets);
    let line = |answer: u32| {
        let completion = format!(" \\boxed{{{answer}}}");
        serde_json::json!({"task": "repeat/10", "completion": completion}).to_string()
    };
    std::fs::write(&teacher, line(11)).unwrap();
    let error = job.start().finish().failure(1);
    assert!(
        error.contains("0 right, 1 wrong") && !error.contains("--resume"),
        "{error}"
    );
    assert!(!job.folder.exists());
    std::fs::write(&teacher, line(10)).unwrap();
    let _ = job.start().finish().success();
    assert_eq!(job.lines().len(), 1);
}
