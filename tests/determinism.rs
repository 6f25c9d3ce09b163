//! Verdicts are a function of task, completion and version. They are the same to the unit of fuel, however busy the machine is.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tests::artifacts;
use tests::data;
use tests::programs::{rapid_verifier, start};
use tests::samples::{Sample, labelled};

/// Time limit for judging all samples once.
const LIMIT: Duration = Duration::from_secs(3600);
/// Only every n-th light sample runs unless `RAPID_TEST_LONG=1`.
const EVERY: usize = 6;
/// Two heavy tasks that always run: a program of 19 G of fuel, and one that runs out of fuel.
const HEAVIER: [&str; 2] = ["mbppplus/453", "mbppplus/260"];

#[test]
fn verdicts_on_mbppplus_are_the_same_with_any_workers_and_load() {
    let (Some(_), Some(data)) = (artifacts::sandbox(), data::holding("mbppplus")) else {
        return;
    };
    let mut samples = labelled(&data);
    let left_out = format!(
        "all but one in {EVERY} of MBPP+'s light samples, and all but two of the heavy ones"
    );
    if data.whole && !artifacts::long(&left_out) {
        let (light, mut heavy): (Vec<_>, Vec<_>) = samples.into_iter().partition(Sample::light);
        heavy.retain(|sample| HEAVIER.contains(&sample.task.as_str()));
        samples = light.into_iter().step_by(EVERY).chain(heavy).collect();
    }
    let folder = tempfile::tempdir().unwrap();
    let mut lines = String::new();
    for sample in &samples {
        let line = json!({ "task_id": sample.task, "completion": sample.completion });
        writeln!(lines, "{line}").unwrap();
    }
    std::fs::write(folder.path().join("samples.jsonl"), lines).unwrap();

    let alone = judge(folder.path(), &data.folder, "1");
    assert_eq!(alone.len(), samples.len());
    let metered = |judgement: &&Value| judgement["detail"]["fuel"].as_u64() > Some(0);
    assert_eq!(alone.iter().filter(metered).count(), samples.len());
    let two = judge(folder.path(), &data.folder, "2");
    assert_equal(&alone, &two, "two workers");
    let mut busy = Command::new("sh");
    let _busy = start(busy.args(["-c", "while :; do :; done"]));
    let loaded = judge(folder.path(), &data.folder, "8");
    assert_equal(&alone, &loaded, "eight workers on a busy machine");
    let count = samples.len();
    eprintln!("{count} samples have the same judgements three times");
}

/// The judgements of the folder's samples, without the fields that are not part of a verdict.
fn judge(folder: &Path, data: &Path, workers: &str) -> Vec<Value> {
    let out = folder.join(format!("judged-by-{workers}.jsonl"));
    let mut command = rapid_verifier(["score", "--dataset", "mbppplus", "--no-disk-cache"]);
    // The wall clock decides no verdict, but on an overloaded machine it may leave a long program without a verdict.
    let backstop = "code.backstop_seconds=3600.0";
    command.args(["--workers", workers, "--set", backstop]);
    command.arg("--data-dir").arg(data);
    command.arg("--samples").arg(folder.join("samples.jsonl"));
    command.arg("--out").arg(&out);
    let _ = start(&mut command).finish_within(LIMIT).success();
    let verdict = |line: &str| {
        let mut judgement: Value = serde_json::from_str(line).unwrap();
        let fields = judgement.as_object_mut().unwrap();
        for field in ["elapsed_ms", "cached"] {
            assert!(fields.remove(field).is_some(), "{line}");
        }
        judgement
    };
    let text = std::fs::read_to_string(out).unwrap();
    text.lines().map(verdict).collect()
}

fn assert_equal(one: &[Value], other: &[Value], context: &str) {
    assert_eq!(one.len(), other.len(), "{context}");
    for (one, other) in one.iter().zip(other) {
        assert_eq!(one, other, "{context}");
    }
}
