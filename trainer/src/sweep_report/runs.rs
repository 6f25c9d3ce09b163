//! The runs of a sweep that are made so far.

use std::collections::BTreeSet;

use crate::record::{EvalRecord, RunTimes, StepRecord, training_until};
use crate::report::RunData;
use crate::run::pin;
use crate::statistics::Spread;
use crate::sweep::{ManifestLine, PlannedRun, RunState, SweepError, SweepFolder};

/// A planned run, and what it has logged so far.
#[derive(Debug)]
pub(super) struct SweepRun {
    pub(super) planned: PlannedRun,
    pub(super) state: RunState,
    /// Why it failed or diverged.
    pub(super) reason: Option<String>,
    /// `None` if it has no folder yet.
    pub(super) data: Option<RunData>,
    /// Whether its times are reported.
    timed: bool,
    /// Processors that its processes ran on, with the kernel of its products of bf16 numbers: several kinds of processors often share a name.
    pub(super) processors: BTreeSet<String>,
    /// SHA-256 of the programs that made it.
    pub(super) binaries: BTreeSet<String>,
}

/// The runs in the order of the plan. Without `times` they report no time.
pub(super) fn read(folder: &SweepFolder, times: bool) -> Result<Vec<SweepRun>, SweepError> {
    let manifest = folder.manifest()?;
    let read = |planned: &PlannedRun| {
        let lines = manifest.iter().filter(|line| line.run == planned.name);
        let lines: Vec<&ManifestLine> = lines.collect();
        let mut state = folder.state(planned, &manifest);
        let mut reason = match state {
            RunState::Diverged | RunState::Failed => {
                let reason = |line: &&ManifestLine| line.reason.clone();
                lines.iter().rev().find_map(reason)
            }
            _ => None,
        };
        let mut data = None;
        if folder.is_made(&planned.name) {
            match RunData::read_without_samples(&folder.run(&planned.name)) {
                Ok(read) => data = Some(read),
                // A run with a damaged file does not count, and is named.
                Err(error) => (state, reason) = (RunState::Failed, Some(error.to_string())),
            }
        }
        let config = data.as_ref().and_then(|data| data.config.as_ref());
        let kernel = config.map(|config| config.engine.kernel.as_str());
        let kernel = kernel.filter(|kernel| *kernel != "auto");
        let kernel = kernel.map_or_else(String::new, |kernel| format!(" ({kernel})"));
        let machines = || lines.iter().map(|line| &line.machine);
        SweepRun {
            planned: planned.clone(),
            state,
            reason,
            timed: times,
            processors: machines()
                .map(|machine| machine.processor.clone() + &kernel)
                .collect(),
            binaries: machines().map(|machine| machine.binary.clone()).collect(),
            data,
        }
    };
    Ok(folder.plan.runs().map(read).collect())
}

impl SweepRun {
    pub(super) fn steps(&self) -> &[StepRecord] {
        self.data.as_ref().map_or(&[], |data| &data.steps)
    }

    pub(super) fn finished(&self) -> bool {
        self.state == RunState::Finished
    }

    /// How a finished run differs from its plan, in words: somebody changed its settings, made it longer, or cut its logs.
    pub(super) fn unlike_plan(&self) -> Vec<String> {
        let Some(data) = self.data.as_ref().filter(|_| self.finished()) else {
            return Vec::new();
        };
        let mut sentences = Vec::new();
        let plan = &self.planned.config;
        if let Some(config) = &data.config {
            // A run settles paths, its device and its verifier by itself. One that was made longer shows it in its steps.
            let mut planned = plan.clone();
            if planned.data.chat && planned.data.chat_date.is_none() {
                // Older versions left the date to each run.
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
        let (logged, last) = (data.steps.len(), data.steps.last().map_or(0, |it| it.step));
        // Fewer updates are planned ones too: the last phase may be dropped.
        let planned = plan.run.updates.unwrap_or(last);
        if logged != last || last > planned {
            sentences.push(format!(
                "its log has {logged} of {last} updates, and its plan has {planned}"
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

    /// The evaluation that counts: the one after the last update, or, of a run that diverged, the last one after any update.
    pub(super) fn evaluation(&self) -> Option<&EvalRecord> {
        let last = self.data.as_ref()?.evals.last()?;
        let after = match self.state {
            RunState::Finished => self.steps().last()?.step,
            RunState::Diverged => 1,
            _ => return None,
        };
        (last.step >= after && last.step > 0).then_some(last)
    }

    /// Pass@1 of a task by the evaluation that counts, or 0 if the run diverged before one; `None` if the run does not count, or has no verdict on the task.
    pub(super) fn task_pass(&self, task: &str) -> Option<f64> {
        match (self.evaluation(), self.state) {
            (Some(eval), _) => eval.tasks.get(task)?.pass_at(1),
            (None, RunState::Diverged) => Some(0.0),
            _ => None,
        }
    }

    /// Mean Pass@k over the tasks; `None` if the run does not count, or no task has k judged samples.
    pub(super) fn pass_at(&self, k: usize) -> Option<f64> {
        match (self.evaluation(), self.state) {
            (Some(eval), _) => mean(eval.tasks.values().filter_map(|counts| counts.pass_at(k))),
            (None, RunState::Diverged) => Some(0.0),
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
        Some(training_until(&data.clock, updates) / 60.0)
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
    pub(super) fn mean_of(&self, quantity: impl Fn(&StepRecord) -> Option<f64>) -> Option<f64> {
        let steps = self.steps().iter().filter(|_| self.finished());
        mean(steps.filter_map(quantity))
    }

    /// The staleness of a finished run: |log of the mean of w̄| over a mini-batch, averaged over the updates.
    pub(super) fn staleness(&self) -> Option<f64> {
        self.mean_of(|step| step.algo.of_measured(|it| it.stale_abs_log_mean))
    }

    /// The same as the authors compute it for the paper's Table 3: on the first quarter of each mini-batch.
    pub(super) fn staleness_of_a_quarter(&self) -> Option<f64> {
        self.mean_of(|step| step.algo.stale_abs_log_mean_quarter)
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    Spread::of(&values.collect::<Vec<_>>()).map(|spread| spread.mean)
}
