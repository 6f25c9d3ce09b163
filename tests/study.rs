//! The whole of `rapid study estimator` on a real model with real rewards, with small settings.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use tests::artifacts;
use tests::programs::{Verifier, rapid, run};

fn row<'a>(study: &'a Value, factor: &str, baseline: &str) -> &'a Value {
    let rows = study["model"]["rows"].as_array().unwrap();
    let matches = |row: &&Value| row["factor"] == factor && row["baseline"] == baseline;
    rows.iter().find(matches).unwrap()
}

/// Tasks of repeating a number, which a small model solves about every other time.
fn tasks(folder: &Path) -> [String; 2] {
    let mut tasks = String::new();
    for number in (10..90).step_by(10) {
        let task = json!({"question": number.to_string(), "answer": number, "split": "train"});
        writeln!(tasks, "{task}").unwrap();
    }
    let (file, template) = (folder.join("repeat.jsonl"), folder.join("repeat.txt"));
    std::fs::write(&file, tasks).unwrap();
    let text = "31 = \\boxed{31}\n86 = \\boxed{86}\n57 = \\boxed{57}\n{question} =";
    std::fs::write(&template, text).unwrap();
    [file, template].map(|path| path.display().to_string())
}

#[test]
fn a_model_that_is_its_own_behaviour_policy_has_no_bias_beyond_its_noise() {
    let Some(model) = artifacts::model() else {
        return;
    };
    let model = model.to_str().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let [dataset, template] = tasks(folder.path());
    let verifier = Verifier::start(&["--set", "code.sandbox=none", "--require", "math"]);
    let out = folder.path().join("study");
    let url = verifier.url();
    let sizes = "--groups 4 --group-size 2 --max-tokens 8 --temperature 1.3";
    let mut command = rapid(["study", "estimator", "--stop", "\n"]);
    command.args(["--model", model, "--behaviour", model, "--verifier", &url]);
    command.args(["--dataset", &dataset, "--template", &template]);
    command.args(sizes.split(' ')).arg("--out").arg(&out);
    let outcome = run(&mut command).success();
    let page = out.join("index.html");
    assert_eq!(outcome.stdout.trim(), page.to_str().unwrap());
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("On a model") && !page.contains("NaN"));
    let study = std::fs::read_to_string(out.join("estimator.json")).unwrap();
    let study: Value = serde_json::from_str(&study).unwrap();
    let number = |row: &Value, name: &str| row[name].as_f64().unwrap();
    assert!(number(&study["model"], "norm") > 0.0);
    let whole = row(&study, "w", "loo");
    assert_eq!(whole["staleness"], 0, "{whole}");
    assert!(number(whole, "ess") > 0.999, "{whole}");
    let (bias, noise) = (number(whole, "bias"), number(whole, "noise"));
    assert!(bias < 2.0 * noise, "{whole}");
    // All weights are 1 up to rounding between sampling and training, so factors make no difference.
    for factor in ["one", "w-capped", "token-capped", "geometric"] {
        let other = row(&study, factor, "loo");
        let difference = number(other, "scale") - number(whole, "scale");
        assert!(difference.abs() < 1e-2, "{other} {whole}");
    }
}
