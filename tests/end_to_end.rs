//! The two programs together: training on real data with real rewards, and kills of either program.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tests::artifacts;
use tests::data;
use tests::programs::{Verifier, assert_has, rapid, run, start, wait_for};
use tests::training::{Job, repeating, set};

/// The options of a verifier of mathematics alone.
const MATH: [&str; 4] = ["--set", "code.sandbox=none", "--require", "math"];

#[test]
fn killing_a_run_or_its_verifier_does_not_change_the_result() {
    let Some(_) = artifacts::model() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut sets = repeating(folder.path());
    let sizes = "algorithm.group_size=4 algorithm.n_step=8 algorithm.h=2 run.updates=6";
    sets.extend(set(sizes));
    // The states of all weights take gigabytes, and those of adapters are written in a moment.
    if !artifacts::long("training of all weights, in place of adapters") {
        sets.extend(set("lora.rank=4 optimiser.lr=1e-3"));
    }
    // Only the run that is killed has checkpoints before its end.
    let [at_the_end, every_third] = [0, 3].map(|every| {
        let every = set(&format!("run.checkpoint_every={every}"));
        [&sets[..], &every].concat()
    });
    let mut verifier = Verifier::start(&MATH);
    let [undisturbed, killed, waiting] = [
        ("undisturbed", &at_the_end),
        ("killed", &every_third),
        ("waiting", &at_the_end),
    ]
    .map(|(name, sets)| {
        let out = folder.path().join(name);
        Job::new(&out, "quickstart", Some(&verifier), sets)
    });

    let outcome = undisturbed.start().finish().success();
    assert_eq!(outcome.stdout.trim(), undisturbed.folder.to_str().unwrap());
    let lines = undisturbed.lines();
    assert_eq!(lines.len(), 6);
    let mut norms = lines.iter().map(|line| line["grad_norm"].as_f64());
    let is_learning = norms.any(|norm| norm > Some(0.0));
    assert!(is_learning, "equality would prove little: {lines:#?}");
    assert_exact_on_policy(&lines);

    // The run is killed after a checkpoint and a further update without one. Then it is stopped in the middle of a phase.
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
    let mut running = waiting.start();
    waiting.reach(&mut running, 1);
    verifier.kill();
    waiting.reach(&mut running, 2);
    std::thread::sleep(Duration::from_secs(10));
    assert_eq!(running.ended(), None, "it waits: {}", running.stderr());
    let used = waiting.lines().len();
    assert_eq!(used, 2, "samples were used without their rewards");
    verifier.restart();
    let _ = running.finish().success();
    assert_eq!(waiting.metrics(), undisturbed.metrics());
    assert!(waiting.lines().iter().all(|line| line["masked"] == 0));

    let expected = weights(&undisturbed, 6);
    for job in [killed, waiting] {
        assert!(weights(&job, 6) == expected, "the last weights differ");
    }
}

/// Two graders: one gives half a reward for another number than the right one, the other a reward for brevity.
const GRADERS: &str = r#"
import json, sys
for line in sys.stdin:
    item = json.loads(line)
    text = item["completion"]
    if sys.argv[1] == "brief":
        reward = 1 / (1 + len(text))
    else:
        reward = 1 if item["task"]["answer"] in text else 0.5 if "boxed" in text else 0
    print(json.dumps({"id": item["id"], "reward": reward}), flush=True)
"#;

#[test]
fn a_killed_mixture_with_custom_graders_resumes_to_the_byte() {
    let Some(_) = artifacts::model() else { return };
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let program = home.join("reward.py");
    std::fs::write(&program, GRADERS).unwrap();
    let grader = |name: &str| {
        let program = program.display();
        format!("[graders.{name}]\ncommand = [\"python3\", \"{program}\", \"{name}\"]\n")
    };
    let configuration = home.join("verifier.toml");
    std::fs::write(&configuration, grader("number") + &grader("brief")).unwrap();
    // A mixture of tasks for the first grader and of mathematics. Its sets have the template of `repeating`, so that key goes, with the data set.
    let mut sets = repeating(home).split_off(4);
    let record =
        |n: u32, kind: &str| format!("{{{kind}\"question\": \"{n}\", \"answer\": \"{n}\"}}\n");
    for (name, kind) in [("number", "\"kind\": \"number\", "), ("plain", "")] {
        let records: String = (10..90).step_by(5).map(|n| record(n, kind)).collect();
        let file = home.join(format!("{name}.jsonl"));
        std::fs::write(&file, records).unwrap();
        let (file, folder) = (file.display(), home.display());
        sets.extend(set(&format!(
            "data.sets.{name}.dataset={file} data.sets.{name}.template={folder}/repeat.txt"
        )));
    }
    let configuration = format!("verifier.config={}", configuration.display());
    sets.extend(set(&configuration));
    let rewards = "reward.terms.short.grader=brief reward.terms.short.weight=0.5";
    let shares = "data.sets.number.weight=3 data.sets.plain.weight=1";
    let sizes = "algorithm.group_size=4 algorithm.n_step=8 algorithm.h=2 run.updates=4";
    let others = "run.checkpoint_every=2 lora.rank=4 optimiser.lr=1e-3";
    sets.extend([rewards, shares, sizes, others].into_iter().flat_map(set));
    let [undisturbed, killed] =
        ["undisturbed", "killed"].map(|name| Job::new(&home.join(name), "quickstart", None, &sets));
    let _ = undisturbed.start().finish().success();
    let mut first = killed.start();
    killed.reach(&mut first, 3);
    assert_eq!(first.kill().code, None);
    let _ = killed.resume().finish().success();
    assert_eq!(killed.metrics(), undisturbed.metrics());
    assert!(weights(&killed, 4) == weights(&undisturbed, 4));

    for line in undisturbed.lines() {
        let short = line["terms"]["short"].as_f64();
        assert!(short > Some(0.0) && line["masked"] == 0, "{line}");
    }
    let samples = undisturbed.samples();
    let of_number =
        |sample: &&serde_json::Value| sample["task"].as_str().unwrap().starts_with("number/");
    let number = samples.iter().filter(of_number);
    let count = number.clone().count();
    assert!((1..samples.len()).contains(&count), "{samples:#?}");
    assert!(number.clone().any(|sample| sample["reward"] == 0.5));
    for sample in &samples {
        let length = sample["completion"].as_str().unwrap().chars().count();
        let short = sample["terms"]["short"].as_f64().unwrap();
        let expected = 1.0 / (1.0 + length as f64);
        assert!((short - expected).abs() < 1e-12, "{sample}");
    }
}

fn weights(job: &Job, step: usize) -> Vec<u8> {
    let file = format!("checkpoints/step-{step}/model.safetensors");
    std::fs::read(job.folder.join(file)).unwrap()
}

/// An evaluation of a model, with more options.
fn evaluation(folder: &Path, verifier: &Verifier, model: &Path, more: &[&str]) -> Command {
    let mut command = rapid(["eval", "--k", "1", "--device", "cpu", "--dataset"]);
    command.arg(folder.join("repeat.jsonl"));
    command.args(["--verifier", &verifier.url(), "--model"]);
    command.arg(model).args(more);
    command
}

#[test]
fn a_killed_evaluation_of_a_checkpoint_resumes_with_its_settings() {
    let Some(gguf) = artifacts::model() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let verifier = Verifier::start(&MATH);
    let mut sets = repeating(home);
    let sizes = "algorithm.group_size=2 algorithm.n_step=4 algorithm.h=1 run.updates=1";
    // The weights do not change.
    let others = "eval.temperature=0.7 optimiser.lr=0";
    sets.extend([sizes, others].into_iter().flat_map(set));
    let job = Job::new(&home.join("run"), "quickstart", Some(&verifier), &sets);
    let _ = job.start().finish().success();
    let model = job.folder.join("checkpoints/last");
    assert_generates_the_same(&gguf, &model, home);
    for form in ["hf", "gguf"] {
        let out = home.join(format!("{form}.gguf"));
        let mut command = rapid(["export", "--to", form, "--out"]);
        let _ = run(command.arg(&out).arg(&job.folder)).success();
        assert_generates_the_same(&gguf, &out, home);
    }
    let card = std::fs::read_to_string(home.join("hf.gguf/README.md")).unwrap();
    let parts = ["# run-step-1\n", "Not evaluated.", "base_model: ["];
    assert_has(&card, &parts);
    let parts = ["`optimiser.lr` | 0", "math-", "repeat.jsonl", "~~~~text"];
    assert_has(&card, &parts);
    let eval = |more: &[&str]| evaluation(home, &verifier, &model, more);

    let template = home.join("repeat.txt");
    let (out, by_hand) = (home.join("out.jsonl"), home.join("by-hand.jsonl"));
    let mut command = eval(&["--stop", "\n", "-n", "16"]);
    command.args(["--max-tokens", "10", "--temperature", "0.7"]);
    command.arg("--template").arg(&template);
    let _ = run(command.arg("--out").arg(&by_hand)).success();
    let outcome = run(&mut eval(&["--json", "-n", "4"])).success();
    let figures: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    let verdicts = &figures["verdicts"];
    let counted =
        ["correct", "incorrect", "malformed"].map(|name| verdicts[name].as_u64().unwrap());
    assert_eq!(counted.iter().sum::<u64>(), 64, "{verdicts}");

    let lenient = Verifier::start(&[&MATH[..], &["--math-policy", "lenient"]].concat());
    let elsewhere =
        |more: &[&str]| run(evaluation(home, &lenient, &model, &["-n", "1"]).args(more));
    assert_has(
        &elsewhere(&[]).failure(1),
        &[
            "rapid.toml requires the policies of the training, and --any-verifier accepts others",
            "judges math tasks with `lenient`, and the recipe expects `standard`",
            "start it with `rapid-verifier serve --math-policy standard`",
        ],
    );
    let _ = elsewhere(&["--any-verifier"]).success();

    // The evaluation is killed while completions are sampled, and the template's file has been removed.
    std::fs::remove_file(&template).unwrap();
    let out_flag = ["-n", "16", "--out", out.to_str().unwrap()];
    let stored_file = home.join("out.jsonl.drawn.jsonl");
    let lines = || std::fs::read_to_string(&stored_file).map_or(0, |text| text.lines().count());
    let mut first = start(&mut eval(&out_flag));
    wait_for("a completion", Duration::from_secs(300), || {
        assert!(lines() > 0 || first.ended().is_none(), "{}", first.stderr());
        (lines() > 0).then_some(())
    });
    let _ = first.kill();
    let stored = lines();
    assert!(!out.exists() && (1..256).contains(&stored), "{stored}");
    let error = run(eval(&out_flag).args(["--seed", "7"])).failure(2);
    assert_has(&error, &["holds", "--seed 1", "--out"]);
    let resumed = run(&mut eval(&out_flag)).success();
    let parts = ["that were sampled before", "prompts: template repeat.txt,"];
    assert_has(&resumed.stderr, &parts);
    assert!(std::fs::read(&out).unwrap() == std::fs::read(&by_hand).unwrap());
    assert!(!stored_file.exists() && !home.join("out.jsonl.drawn.json").exists());

    std::fs::write(model.join("rapid.toml"), "version = 1\n[data").unwrap();
    let error = run(&mut eval(&[])).failure(1);
    assert_has(&error, &["rapid.toml", "--template"]);
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
    let mut stale = lines.iter().filter(|line| line["update"] != 0).peekable();
    assert!(
        stale.peek().is_none() || stale.any(|line| line["ell_std"].as_f64() > Some(0.0)),
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
    let sizes = "algorithm.group_size=2 algorithm.n_step=4 algorithm.h=1 run.updates=3";
    let others = "run.checkpoint_every=0 eval.samples=0 sampling.max_tokens=48";
    arguments.extend([sizes, others].into_iter().flat_map(set));
    let root = folder.path().join("run");
    let job = Job::new(&root, "smollm2-mbppplus", Some(&verifier), &arguments);
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

/// Asserts that a checkpoint of unchanged weights generates the same as their model.
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
    assert_eq!(before.lines().count(), 2);
    assert_has(&before, &["Paris"]);
    assert_eq!(before, generate(checkpoint, "after.jsonl"));
}

#[test]
fn a_teacher_without_correct_completions_leaves_no_run_folder() {
    let Some(_) = artifacts::model() else { return };
    let verifier = Verifier::start(&MATH);
    let folder = tempfile::tempdir().unwrap();
    let teacher = folder.path().join("teacher.jsonl");
    let mut sets = repeating(folder.path());
    let teaching = format!("algorithm.preset=sft data.teacher={}", teacher.display());
    let sizes = "algorithm.group_size=1 algorithm.n_step=8 algorithm.h=1 run.updates=1";
    sets.extend([&*teaching, sizes].into_iter().flat_map(set));
    let out = folder.path().join("run");
    let job = Job::new(&out, "quickstart", Some(&verifier), &sets);
    let line = |answer: u32| {
        let completion = format!(" \\boxed{{{answer}}}");
        serde_json::json!({"task": "repeat/10", "completion": completion}).to_string()
    };
    std::fs::write(&teacher, line(11)).unwrap();
    let error = job.start().finish().failure(1);
    assert_has(&error, &["0 right, 1 wrong"]);
    assert!(!error.contains("--resume"), "{error}");
    assert!(!job.folder.exists());
    std::fs::write(&teacher, line(10)).unwrap();
    let _ = job.start().finish().success();
    assert_eq!(job.lines().len(), 1);
}
