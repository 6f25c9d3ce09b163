//! A sweep's folder with runs of known effects.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use datasets::passk::{self, Counts};
use datasets::random::SplitMix;
use serde_json::{Value, json};

use crate::record::EvalRecord;
use crate::sweep::{Event, ManifestLine, PlannedRun, SweepFile, SweepFolder};

const SAMPLES: usize = 4;
pub(super) const UPDATES: usize = 8;
/// Why a run diverged.
pub(super) const DIVERGED: &str = "after 3 updates, the loss is not finite. With --resume, the run would compute the same and end here again. Start another";

/// A sweep in a folder of its own.
pub(super) struct Synthetic {
    temporary: tempfile::TempDir,
    pub(super) folder: SweepFolder,
}

/// What a run is to find.
#[derive(Debug, Clone, Copy)]
pub(super) struct Truth {
    /// Evaluated tasks.
    pub(super) tasks: usize,
    /// What is added to every task's probability of a right sample.
    pub(super) effect: f64,
    /// Seconds of training.
    pub(super) seconds: f64,
}

pub(super) const EQUAL: Truth = Truth {
    tasks: 40,
    effect: 0.0,
    seconds: 60.0,
};

impl Synthetic {
    /// The folder of this sweep file, without runs.
    pub(super) fn new(file: &str) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let file = SweepFile::parse("sweep.toml", file).unwrap();
        let folder = SweepFolder::create(&temporary.path().join("study"), file).unwrap();
        Self { temporary, folder }
    }

    /// The folder of this sweep file, in which every run is made with its truth.
    pub(super) fn made(file: &str, truth: impl Fn(&PlannedRun) -> Truth) -> Self {
        let sweep = Self::new(file);
        for run in sweep.folder.plan.runs() {
            sweep.run(run, truth(run));
            sweep.end(run, Event::Finish, None);
        }
        sweep
    }

    pub(super) fn out(&self) -> PathBuf {
        self.temporary.path().join("out")
    }

    pub(super) fn file(&self, run: &str, file: &str) -> PathBuf {
        self.folder.run(run).join(file)
    }

    /// Makes a run. Its samples depend on its arm, its seed and the task.
    pub(super) fn run(&self, run: &PlannedRun, truth: Truth) {
        fs::create_dir_all(self.folder.run(&run.name)).unwrap();
        let mut config = run.config.clone();
        // What a run settles by itself.
        config.verifier.url = Some("http://127.0.0.1:8700".into());
        config.engine.kernel = "avx512-bf16".into();
        fs::write(self.file(&run.name, "config.toml"), config.to_toml()).unwrap();
        let steps: Vec<Value> = (1..=UPDATES).map(|step| self::step(run, step)).collect();
        self.lines(run, "metrics.jsonl", &steps);
        if run.config.algorithm.h > 1 {
            let weights = json!({
                "step": UPDATES, "phase": 0, "update": UPDATES - 1, "task": "task/3", "completion": "a <b>", "reward": 1.0,
                "behaviour": [-0.5, -1.0, -2.0], "policy": [-0.5, -1.25, -0.75],
            });
            self.lines(run, "weights.jsonl", &[weights]);
        }
        self.clock(run, truth.seconds);
        if truth.tasks > 0 {
            let base = evaluation(0, &format!("base {}", run.seed), truth.tasks, 0.0);
            let name = format!("{} {}", run.arm, run.seed);
            let last = evaluation(UPDATES, &name, truth.tasks, truth.effect);
            self.lines(run, "eval.jsonl", &[base, last]);
        }
        self.end(run, Event::Start, None);
    }

    fn clock(&self, run: &PlannedRun, training: f64) {
        let seconds = json!({
            "forward": 0.125 * training, "backward": 0.375 * training, "evaluation": 30.0,
        });
        let lines = [
            json!({"step": 0, "began": 0, "seconds": {"start": 2.0}}),
            json!({"step": 0, "seconds": {"inference": 0.5 * training}}),
            json!({"step": UPDATES, "seconds": seconds}),
        ];
        self.lines(run, "clock.jsonl", &lines);
    }

    pub(super) fn end(&self, run: &PlannedRun, event: Event, reason: Option<&str>) {
        let machine = serde_json::from_value(json!({
            "processor": "a processor", "version": "0.1.0", "binary": "0123456789abcdef",
        }));
        let line = ManifestLine {
            reason: reason.map(str::to_owned),
            ..ManifestLine::now(&run.name, event, &machine.unwrap())
        };
        self.folder.record(&line).unwrap();
    }

    /// Writes a log of a run.
    fn lines(&self, run: &PlannedRun, file: &str, records: &[impl serde::Serialize]) {
        let line = |record| serde_json::to_string(record).unwrap() + "\n";
        let text: String = records.iter().map(line).collect();
        fs::write(self.file(&run.name, file), text).unwrap();
    }

    /// Writes the report, with times or without, and returns the page.
    pub(super) fn page(&self, times: bool) -> String {
        let page = super::super::write(&self.folder.root, &self.out(), times).unwrap();
        fs::read_to_string(page).unwrap()
    }

    pub(super) fn table(&self, name: &str) -> String {
        fs::read_to_string(self.out().join(format!("{name}.csv"))).unwrap()
    }

    /// Writes the report, and returns the warnings of its page and the content of these tables, named with spaces between them.
    pub(super) fn report(&self, times: bool, tables: &str) -> String {
        let page = self.page(times);
        let warnings = page.split("<li class=\"warning\">").skip(1);
        let warnings = warnings.map(|text| text.split("</li>").next().unwrap().to_owned());
        let tables = tables.split(' ');
        let tables = tables.map(|table| format!("\n{table}.csv\n{}", self.table(table)));
        warnings.chain(tables).collect::<Vec<_>>().join("\n")
    }

    /// A table of the report, as rows of fields by their column.
    pub(super) fn csv(&self, name: &str) -> Vec<BTreeMap<String, String>> {
        let text = self.table(name);
        let mut lines = text.lines().map(fields);
        let columns = lines.next().unwrap();
        let rows = lines.map(|fields| columns.iter().cloned().zip(fields).collect());
        rows.collect()
    }

    pub(super) fn column(&self, table: &str, column: &str) -> Vec<String> {
        let rows = self.csv(table).into_iter();
        rows.map(|mut row| row.remove(column).unwrap()).collect()
    }
}

/// The fields of a line of CSV.
pub(super) fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    for letter in line.chars() {
        match letter {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            letter => fields.last_mut().unwrap().push(letter),
        }
    }
    fields
}

/// An update with staleness and clipped weights that grow with H, and with completions that get longer.
fn step(run: &PlannedRun, step: usize) -> Value {
    let h = run.config.algorithm.h as f64;
    json!({
        "step": step, "phase": 0, "update": step - 1, "phase_updates": UPDATES, "epoch": 0, "prompts": 4,
        "groups_right": 0, "groups_wrong": 1, "groups_mixed": 3,
        "judged": 32, "masked": 0, "groups_left_out": 0, "reward": 0.3, "loss": -0.1, "ell_mean": 0.0, "ell_std": 0.1,
        "stale_mean_log": 0.0, "stale_mean_abs_log": 0.01 * h, "stale_abs_log_mean": 0.01 * h + 0.001 * run.seed as f64, "stale_abs_log_mean_quarter": 0.02 * h, "eta": 2.0,
        "clip_share": 0.003 * h, "saturated": 0, "ess": 30.0, "kl_behaviour": 0.001,
        "pass_at": {"1": 0.3}, "grad_norm": 1.0, "entropy": 1.5, "length_mean": 10.0 + h, "length_max": 24, "truncated": 0.1,
        "repeated": 0.0, "commonest": 0.1, "lr": 1e-5,
    })
}

/// An evaluation with samples that are right with the task's own probability, from 0.1 to 0.7, plus the effect.
fn evaluation(step: usize, run: &str, tasks: usize, effect: f64) -> EvalRecord {
    let of_name = run.bytes().fold(7, |hash: u64, byte| {
        hash.wrapping_mul(31).wrapping_add(u64::from(byte))
    });
    let mut random = SplitMix(of_name);
    let counts = (0..tasks).map(|task| {
        let probability = 0.1 + 0.6 * (task % 7) as f64 / 6.0 + effect;
        let right = |_: &usize| (random.below(1_000_000) as f64) < 1e6 * probability;
        let correct = (0..SAMPLES).filter(right).count();
        let judged = SAMPLES;
        (format!("task/{task}"), Counts { judged, correct })
    });
    let counts: BTreeMap<String, Counts> = counts.collect();
    let all: Vec<Counts> = counts.values().copied().collect();
    let pass_at = [1, SAMPLES].map(|k| (k, passk::pass_at(&all, k).unwrap()));
    EvalRecord {
        step,
        samples: SAMPLES,
        pass_at: pass_at.into(),
        tasks: counts,
        length_mean: 12.0,
        truncated: 0.1,
        ..EvalRecord::default()
    }
}
