//! Small runs of `rapid train`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::programs::{Running, Verifier, rapid, start, wait_for};
use crate::repository::files_with;

/// Time limit for one update of the small runs here.
const UPDATE_TIMEOUT: Duration = Duration::from_secs(300);

/// A run folder and the command line of its run.
pub struct Job {
    /// Those of `rapid`.
    pub arguments: Vec<String>,
    /// The run folder.
    pub folder: PathBuf,
}

impl Job {
    /// A run of a recipe with additional options. Without a verifier it has one of its own.
    pub fn new(folder: &Path, recipe: &str, verifier: Option<&Verifier>, more: &[String]) -> Self {
        let out = folder.to_str().unwrap();
        let first = ["train", "--recipe", recipe, "--device", "cpu", "--out", out];
        let mut arguments = first.map(str::to_owned).to_vec();
        if let Some(verifier) = verifier {
            arguments.extend(["--verifier".to_owned(), verifier.url()]);
        }
        arguments.extend_from_slice(more);
        Self {
            arguments,
            folder: folder.to_owned(),
        }
    }

    /// Starts the run.
    pub fn start(&self) -> Running {
        start(&mut rapid(&self.arguments))
    }

    /// Resumes the run.
    pub fn resume(&self) -> Running {
        start(rapid(["train", "--resume"]).arg(&self.folder))
    }

    /// The complete lines of `metrics.jsonl`.
    pub fn metrics(&self) -> String {
        let text = std::fs::read_to_string(self.folder.join("metrics.jsonl")).unwrap_or_default();
        text[..text.rfind('\n').map_or(0, |end| end + 1)].to_owned()
    }

    /// The parsed lines of `metrics.jsonl`.
    pub fn lines(&self) -> Vec<Value> {
        let parsed = |line: &str| serde_json::from_str(line).unwrap();
        self.metrics().lines().map(parsed).collect()
    }

    /// Waits until `count` updates are in the metrics.
    #[track_caller]
    pub fn reach(&self, running: &mut Running, count: usize) {
        wait_for(&format!("update {count}"), UPDATE_TIMEOUT, || {
            let done = self.metrics().lines().count() >= count;
            let ended = !done && running.ended().is_some();
            assert!(!ended, "ended before update {count}: {}", running.stderr());
            done.then_some(())
        });
    }

    /// Every completion that training sampled, from the files in `samples/`.
    pub fn samples(&self) -> Vec<Value> {
        // Beside each file is a page for people, which is skipped.
        let files = files_with(&self.folder.join("samples"), "jsonl").into_iter();
        let texts = files.map(|file| std::fs::read_to_string(file).unwrap());
        let texts: Vec<String> = texts.collect();
        let parsed = |line: &str| serde_json::from_str(line).unwrap();
        let lines = texts.iter().flat_map(|text| text.lines());
        lines.map(parsed).collect()
    }
}

/// Settings with which a small model repeats a number correctly about every other time, so that each update has a gradient.
pub fn repeating(folder: &Path) -> Vec<String> {
    let task = |number: u32| {
        let task = json!({"id": number, "question": number.to_string(), "answer": number});
        format!("{task}\n")
    };
    let tasks: String = (10..90).step_by(5).map(task).collect();
    let (file, template) = (folder.join("repeat.jsonl"), folder.join("repeat.txt"));
    std::fs::write(&file, tasks).unwrap();
    let text = "31 = \\boxed{31}\n86 = \\boxed{86}\n57 = \\boxed{57}\n{question} =";
    std::fs::write(&template, text).unwrap();
    let (file, template) = (file.display(), template.display());
    set(&format!(
        "data.dataset={file} data.template={template} data.stop=[\"\\n\"] sampling.temperature=1.3 sampling.max_tokens=10 eval.samples=0"
    ))
}

/// The keys of a text, each after `--set`. None has a blank in it.
pub fn set(keys: &str) -> Vec<String> {
    let words = |key: &str| ["--set".to_owned(), key.to_owned()];
    keys.split_whitespace().flat_map(words).collect()
}
