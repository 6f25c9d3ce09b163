//! `rapid-verifier score` as people use it: its input, its output and when it writes that, and how it continues an interrupted run.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value as Json, json};

use crate::running::CommandOutput;

/// A folder for a test's files, and for the cache of the programs that it starts.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        std::fs::write(self.path(name), bytes).unwrap();
        self.path(name).to_str().unwrap().to_owned()
    }

    fn lines(&self, name: &str) -> Vec<Json> {
        let text = std::fs::read_to_string(self.path(name)).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// The command that scores samples without a sandbox: of starter-math, unless `args` begin with another data set.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rapid-verifier"));
        let default = ["--dataset", "starter-math"];
        let is_default = args.first() != Some(&default[0]);
        command
            .env("RAPID_HOME", self.path("home"))
            .args(["score", "--set", "code.sandbox=none"])
            .args(default.iter().filter(|_| is_default))
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn score_from(&self, stdin: &[u8], args: &[&str]) -> CommandOutput {
        let mut child = self.command(args).spawn().unwrap();
        // The command may refuse its arguments without reading stdin.
        let _ = child.stdin.take().unwrap().write_all(stdin);
        child.wait_with_output().unwrap().into()
    }

    fn score(&self, args: &[&str]) -> CommandOutput {
        self.score_from(b"", args)
    }
}

/// Samples of one task, each with another answer.
fn samples(count: usize) -> String {
    let sample = |number: usize| {
        let completion = format!("\\boxed{{{number}}}");
        let sample = json!({ "task_id": "starter-math/train-1", "completion": completion });
        format!("{sample}\n")
    };
    (0..count).map(sample).collect()
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn samples_are_read_from_files_and_pipes_plain_or_gzip() {
    let folder = Folder::new();
    let text = samples(3);
    let packed = folder.write("packed.jsonl", gzip(&text));
    let expected = folder.score(&["--json", "--samples", &packed]);
    assert_eq!(expected.code, Some(0), "{}", expected.stderr);
    for stdin in [text.into_bytes(), gzip(&samples(3))] {
        let output = folder.score_from(&stdin, &["--json", "--samples", "-"]);
        assert_eq!(output.stdout, expected.stdout, "{}", output.stderr);
    }
}

#[test]
fn errors_name_the_file_and_the_remedy_before_any_sample_is_judged() {
    let folder = Folder::new();
    let good = folder.write("good.jsonl", samples(1));
    let empty = folder.write("empty.jsonl", "");
    let other = folder.write(
        "other.jsonl",
        "{\"task_id\": \"HumanEval/0\", \"solution\": \"\"}\n",
    );
    let cut = folder.write("cut.jsonl.gz", &gzip(&samples(9))[..30]);
    let dir = folder.0.path().to_str().unwrap();
    let table = format!(
        "--samples {empty} | 1 | it holds no samples
--samples {other} | 1 | give --dataset humaneval
--samples {cut} | 1 | gzip stream is cut off
--samples none.jsonl | 2 | cannot be read
--samples {dir} | 2 | holds no programs
--dataset mbppplus --data-dir {dir} --samples {good} | 1 | fetch dataset:mbppplus
--samples {good} --out {dir}/missing/x.jsonl | 2 | cannot be written
--samples {good} --out {dir} | 2 | Is a directory
--samples {good} --out {dir}/./good.jsonl | 2 | is the file of --samples"
    );
    for line in table.lines() {
        let [args, code, says] = line.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let output = folder.score(&Vec::from_iter(args.split(' ')));
        assert_eq!(output.code, code.parse().ok(), "{args}: {}", output.stderr);
        assert!(output.stderr.contains(says), "{args}: {}", output.stderr);
        assert!(output.stdout.is_empty(), "{}", output.stdout);
    }
    assert_eq!(std::fs::read_to_string(good).unwrap(), samples(1));
}

#[test]
fn a_file_of_math_samples_is_scored() {
    let folder = Folder::new();
    let tasks = datasets::open("starter-math", None).unwrap().eval;
    // The first two of the four tasks have one correct sample of two.
    let lines = tasks.iter().take(4).enumerate().flat_map(|(index, task)| {
        let datasets::TaskSpec::Math(math) = &task.spec else {
            panic!("{}", task.id)
        };
        let wrong = "\\text{none}";
        let first = if index < 2 { &math.answer } else { wrong };
        [first, wrong].map(|answer| {
            let completion = format!("\\boxed{{{answer}}}");
            json!({ "task_id": task.id, "completion": completion }).to_string()
        })
    });
    let path = folder.write("samples.jsonl", Vec::from_iter(lines).join("\n"));
    let output = folder.score(&["--samples", &path, "--k", "1,2,4", "--json"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let note = "note: 2 of the 8 samples repeat an earlier one";
    assert!(output.stderr.contains(note), "{}", output.stderr);
    let found: Json = serde_json::from_str(&output.stdout).unwrap();
    let pass_at = |k: &str| &found["pass_at"][k];
    let means = json!([pass_at("1")["mean"], pass_at("2")["mean"], pass_at("4")]);
    assert_eq!(means, json!([0.25, 0.5, null]));
    assert_eq!(found["verdicts"], json!({ "correct": 2, "incorrect": 6 }));
    let table = folder.score(&["--samples", &path]).stdout;
    assert!(
        table.contains("Pass@1     25.0%   no interval: 4 tasks, and it takes 20\n"),
        "{table}"
    );
}

#[test]
fn a_file_of_other_settings_is_refused_and_not_changed() {
    let folder = Folder::new();
    let path = folder.write("samples.jsonl", samples(3));
    let out = folder.path("judged.jsonl");
    let out = out.to_str().unwrap();
    let args = ["--samples", &path, "--out", out];
    let output = folder.score(&args);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let judged = std::fs::read(out).unwrap();
    let output = folder.score(&[&args[..], &["--math-extraction", "any"]].concat());
    assert_eq!(output.code, Some(2), "{}", output.stderr);
    for says in [
        "its judgements were made differently (line 1, `starter-math/train-1`, has another key)",
        "name another file with --out",
    ] {
        assert!(output.stderr.contains(says), "{}", output.stderr);
    }
    assert_eq!(std::fs::read(out).unwrap(), judged);
}

#[test]
fn a_sample_without_a_verdict_is_not_counted_as_wrong_and_is_judged_again() {
    let folder = Folder::new();
    let tasks = folder.write(
        "tasks.jsonl",
        concat!(
            "{\"id\": 1, \"question\": \"?\", \"answer\": 1}\n",
            "{\"id\": 2, \"question\": \"?\", \"entry_point\": \"f\", \"asserts\": [\"assert f()\"]}\n",
        ),
    );
    let samples = folder.write(
        "samples.jsonl",
        concat!(
            "{\"task_id\": 2, \"solution\": \"def f(): return 1\"}\n",
            "{\"task_id\": 1, \"completion\": \"\\\\boxed{1}\"}\n",
        ),
    );
    let out = folder.path("judged.jsonl");
    let args = format!(
        "--dataset {tasks} --json --samples {samples} --out {}",
        out.display()
    );
    let args: Vec<&str> = args.split(' ').collect();
    let score = || {
        let output = folder.score(&args);
        let score: Json = serde_json::from_str(&output.stdout).unwrap();
        (output.code, score)
    };
    let (code, first) = score();
    assert_eq!((code, &first["masked"]), (Some(0), &json!(1)));
    let pass = &first["pass_at"]["1"];
    assert_eq!(json!([pass["mean"], pass["tasks"]]), json!([1.0, 1]));
    assert_eq!(first["verdicts"], json!({ "correct": 1, "unavailable": 1 }));
    // The sample is judged again, still without a sandbox.
    assert_eq!(score(), (Some(0), first));
    let lines = folder.lines("judged.jsonl");
    let rewards: Json = lines.iter().map(|line| line["reward"].clone()).collect();
    assert_eq!(rewards, json!([null, 1.0]));
    assert_eq!(lines[0]["solution"], "def f(): return 1");
}

#[test]
fn a_killed_run_continues_at_the_end_of_its_file() {
    const COUNT: usize = 60_000;
    let folder = Folder::new();
    let path = folder.write("samples.jsonl", samples(COUNT));
    let out = folder.path("judged.jsonl");
    let args = format!(
        "--json --no-disk-cache --samples {path} --out {}",
        out.display()
    );
    let args: Vec<&str> = args.split(' ').collect();
    let mut child = folder.command(&args).spawn().unwrap();
    // It does not exist at first.
    let bytes = || std::fs::read(&out).unwrap_or_default();
    while bytes().is_empty() {
        assert!(
            child.try_wait().unwrap().is_none(),
            "nothing is written before the end"
        );
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let killed = bytes();
    let end = killed.iter().rposition(|byte| *byte == b'\n');
    let complete = &killed[..end.map_or(0, |end| end + 1)];
    let output = folder.score(&args);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let score: Json = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(score["samples"], COUNT);
    let continued = bytes().starts_with(complete);
    assert!(continued, "lines of the first run are lost");
    let lines = folder.lines("judged.jsonl");
    assert_eq!(lines.len(), COUNT);
    for (number, line) in lines.iter().enumerate() {
        assert_eq!(line["completion"], format!("\\boxed{{{number}}}"));
    }
}
