//! The runs of a sweep, as far as they are made.

use std::collections::BTreeSet;

use super::SweepReportError;
use crate::record::{EvalRecord, Ledger, RunTimes, StepRecord};
use crate::report::RunData;
use crate::run::pin;
use crate::statistics::Spread;
use crate::sweep::{Event, ManifestLine, PlannedRun, RunState, SweepFolder};

/// How a run ended, or how far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// It made its last update.
    Finished,
    /// Its weights no longer computed finite numbers. It counts, with its last evaluation.
    Diverged(String),
    /// It ended with another error. It does not count until it is made again.
    Failed(String),
    /// It was not started, or is going on, or was stopped.
    Unfinished(&'static str),
}

impl End {
    /// In a word.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Diverged(_) => "diverged",
            Self::Failed(_) => "failed",
            Self::Unfinished(state) => state,
        }
    }

    /// Why it did not finish.
    pub(super) fn reason(&self) -> Option<&str> {
        match self {
            Self::Diverged(reason) | Self::Failed(reason) => Some(reason),
            _ => None,
        }
    }
}

/// A planned run and what there is of it.
#[derive(Debug)]
pub(super) struct SweepRun {
    pub(super) planned: PlannedRun,
    pub(super) end: End,
    /// `None` if it has no folder yet.
    pub(super) data: Option<RunData>,
    /// Whether its times are reported.
    timed: bool,
    /// Processors that its processes ran on, with the kernel of its products of bf16 numbers: names of processors are often those of several kinds.
    pub(super) processors: BTreeSet<String>,
    /// SHA-256 of the programs that made it.
    pub(super) binaries: BTreeSet<String>,
}

/// The runs in the order of the plan, without `times` as if they had no clock.
pub(super) fn read(folder: &SweepFolder, times: bool) -> Result<Vec<SweepRun>, SweepReportError> {
    let manifest = folder.manifest()?;
    let read = |planned: &PlannedRun| {
        let path = folder.run(&planned.name);
        let lines = manifest.iter().filter(|line| line.run == planned.name);
        let lines: Vec<&ManifestLine> = lines.collect();
        let mut end = end(folder.state(planned, &manifest), &lines);
        let data = if path.join("config.toml").is_file() {
            // A run with a damaged file does not count, and is named.
            let data = RunData::read_without_samples(&path);
            data.map_err(|error| end = End::Failed(error.to_string()))
                .ok()
        } else {
            None
        };
        let config = data.as_ref().and_then(|data| data.config.as_ref());
        let kernel = config.map(|config| config.engine.kernel.as_str());
        let kernel = kernel.filter(|kernel| *kernel != "auto");
        let kernel = kernel.map_or_else(String::new, |kernel| format!(" ({kernel})"));
        let machines = || lines.iter().map(|line| &line.machine);
        SweepRun {
            planned: planned.clone(),
            end,
            timed: times,
            processors: machines()
                .map(|machine| machine.processor.clone() + &kernel)
                .collect(),
            binaries: machines().map(|machine| machine.binary.clone()).collect(),
            data,
        }
    };
    Ok(folder.plan().runs().map(read).collect())
}

fn end(state: RunState, lines: &[&ManifestLine]) -> End {
    let reason = |line: &ManifestLine| line.reason.clone().unwrap_or_default();
    let divergence = lines.iter().find(|line| line.is_divergence());
    match (state, lines.last()) {
        (RunState::Finished, _) => End::Finished,
        (RunState::Diverged, _) => {
            End::Diverged(divergence.map_or_else(String::new, |line| reason(line)))
        }
        (_, Some(line)) if line.event == Event::Fail => End::Failed(reason(line)),
        (state, _) => End::Unfinished(state.name()),
    }
}

impl SweepRun {
    pub(super) fn steps(&self) -> &[StepRecord] {
        self.data.as_ref().map_or(&[], |data| &data.steps)
    }

    pub(super) fn finished(&self) -> bool {
        self.end == End::Finished
    }

    /// How a finished run differs from its plan, in words: somebody changed its settings, made it longer, or cut its logs.
    pub(super) fn unlike_plan(&self) -> Vec<String> {
        let Some(data) = self.data.as_ref().filter(|_| self.finished()) else {
            return Vec::new();
        };
        let mut sentences = Vec::new();
        let plan = &self.planned.config;
        if let Some(config) = &data.config {
            // A run settles paths, where it computes and who judges, and one that was made longer says so in its steps.
            let mut planned = plan.clone();
            if planned.data.chat && planned.data.chat_date.is_none() {
                // As in a folder of a version that left the date to each run.
                planned.data.chat_date = config.data.chat_date.clone();
            }
            let mut planned = pin(planned);
            planned.engine = config.engine.clone();
            planned.verifier = config.verifier.clone();
            (planned.run.epochs, planned.run.updates) = (config.run.epochs, config.run.updates);
            if planned != *config {
                sentences.push("its settings are not those of its plan".to_owned());
            }
        }
        let logged = data.steps.len();
        let last = data.steps.last().map_or(0, |step| step.step);
        if logged != last {
            sentences.push(format!("its log has {logged} of {last} updates"));
        }
        // Fewer are planned ones too: the last phase may be dropped.
        if let Some(updates) = plan.run.updates.filter(|updates| last > *updates) {
            sentences.push(format!(
                "it made {last} updates, and its plan has {updates}"
            ));
        }
        if plan.eval.samples > 0 && self.evaluation().is_none() {
            sentences.push("it has no evaluation after its last update".to_owned());
        }
        sentences
    }

    /// The evaluation before the first update.
    pub(super) fn base(&self) -> Option<&EvalRecord> {
        let evals = &self.data.as_ref()?.evals;
        evals.first().filter(|eval| eval.step == 0)
    }

    /// The evaluation that counts: that after the last update, or of a run that diverged the last one after any.
    pub(super) fn evaluation(&self) -> Option<&EvalRecord> {
        let last = self.data.as_ref()?.evals.last()?;
        let after = match self.end {
            End::Finished => self.steps().last()?.step,
            End::Diverged(_) => 1,
            _ => return None,
        };
        (last.step >= after && last.step > 0).then_some(last)
    }

    /// Pass@1 of a task by the evaluation that counts, or 0 if the run diverged before one; `None` if the run does not count, or has no verdict on the task.
    pub(super) fn task_pass(&self, task: &String) -> Option<f64> {
        match (self.evaluation(), &self.end) {
            (Some(eval), _) => eval.tasks.get(task)?.pass_at(1),
            (None, End::Diverged(_)) => Some(0.0),
            _ => None,
        }
    }

    /// Mean Pass@k over the tasks; `None` if the run does not count, or no task has k judged samples.
    pub(super) fn pass_at(&self, k: usize) -> Option<f64> {
        match (self.evaluation(), &self.end) {
            (Some(eval), _) => mean(eval.tasks.values().filter_map(|counts| counts.pass_at(k))),
            (None, End::Diverged(_)) => Some(0.0),
            _ => None,
        }
    }

    /// The time of a finished run by activity.
    pub(super) fn times(&self) -> Option<RunTimes> {
        let data = self.data.as_ref();
        let data = data.filter(|_| self.timed && self.finished())?;
        Some(data.times()).filter(|times| !times.seconds.is_empty())
    }

    /// Minutes of training until the evaluation after this many updates.
    pub(super) fn minutes_until(&self, updates: usize) -> Option<f64> {
        let data = self.data.as_ref().filter(|_| self.timed)?;
        Some(Ledger::of(&data.clock).training_until(updates) / 60.0)
    }

    /// Minutes of training of a finished run.
    pub(super) fn minutes(&self) -> Option<f64> {
        Some(self.times()?.training() / 60.0)
    }

    /// Seconds of training per update of a finished run.
    pub(super) fn seconds_per_update(&self) -> Option<f64> {
        let updates = Some(self.steps().len()).filter(|updates| *updates > 0)?;
        Some(self.times()?.training() / updates as f64)
    }

    /// The mean of a quantity over the updates of a finished run that have it.
    fn mean_of_some(&self, quantity: impl Fn(&StepRecord) -> Option<f64>) -> Option<f64> {
        let steps = self.steps().iter().filter(|_| self.finished());
        mean(steps.filter_map(quantity))
    }

    /// The mean of a quantity over the updates of a finished run.
    pub(super) fn mean_of(&self, quantity: impl Fn(&StepRecord) -> f64) -> Option<f64> {
        self.mean_of_some(|step| Some(quantity(step)))
    }

    /// The staleness of a finished run: |log of the mean of w̄| over a mini-batch, averaged over the updates.
    pub(super) fn staleness(&self) -> Option<f64> {
        self.mean_of(|step| step.algo.stale_abs_log_mean)
    }

    /// The same as the authors compute it for the paper's Table 3: on the first quarter of each mini-batch.
    pub(super) fn staleness_of_a_quarter(&self) -> Option<f64> {
        self.mean_of_some(|step| step.algo.stale_abs_log_mean_quarter)
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    Spread::of(&values.collect::<Vec<_>>()).map(|spread| spread.mean)
}
