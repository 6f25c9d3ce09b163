//! Evaluation on the held-out tasks in the course of a run, and the checkpoint that did best.

use std::collections::BTreeMap;

use super::course::Run;
use super::masked::Masked;
use super::record::EvalRecord;
use super::{Log, TrainError, checkpoint, store};
use crate::eval;
use crate::rollout::{self, RolloutError};

impl Run {
    /// Evaluates where that is due after this many updates and was not done yet. False where the end was asked for meanwhile.
    pub(super) async fn evaluate(&mut self) -> Result<bool, TrainError> {
        let settings = &self.job.config.eval;
        let due = self.step == 0
            || self.step == self.schedule.updates()
            || (settings.every > 0 && self.step.is_multiple_of(settings.every));
        if !due || settings.samples == 0 || self.job.prompts.eval.is_empty() {
            return Ok(true);
        }
        let done: Vec<EvalRecord> = self.job.folder.read(Log::Eval)?;
        let mut kept = store::keep(&self.job.folder.eval_drawn(self.step))?;
        if done.iter().any(|record| record.step == self.step) {
            kept.remove();
            return Ok(true);
        }
        let progress = &mut self.job.journal.progress;
        let mut watch = |tally: &rollout::Tally| progress.evaluating(tally);
        let result = eval::evaluate(
            &self.job.policy,
            &self.job.rewards,
            &self.job.prompts.eval,
            &self.evaluation,
            &mut kept,
            &self.job.stop,
            &mut watch,
        )
        .await;
        let evaluation = match result {
            Ok(evaluation) => evaluation,
            Err(RolloutError::Stopped) => return Ok(false),
            Err(error) => return Err(TrainError::of_rollout(error)),
        };
        let mut masked = Masked::default();
        let samples = evaluation.records.iter().map(|record| &record.sample);
        masked.count(samples.map(|sample| (sample.reward, &sample.detail)));
        let whose = format!("the evaluation after {} updates", self.step);
        // No line is written yet, so a run that is continued asks for these verdicts again.
        masked.check(self.job.config.verifier.max_masked, &whose)?;
        let record = eval_record(self.step, &evaluation, &self.evaluation);
        self.job
            .journal
            .evaluated(&self.job.folder, &record, &evaluation.records)?;
        kept.remove();
        self.rank(&record)?;
        Ok(true)
    }

    /// Keeps the checkpoint of the best evaluation so far.
    fn rank(&mut self, record: &EvalRecord) -> Result<(), TrainError> {
        let better = best(std::slice::from_ref(record))
            .filter(|(_, now)| self.best.is_none_or(|(_, before)| *now > before));
        if let Some(mark) = better {
            self.best = Some(mark);
            self.checkpoint()?;
            checkpoint::mark_best(&self.job.folder, mark.0)?;
        }
        Ok(())
    }
}

/// The evaluation with the highest Pass@1 after at least one update, the earliest among equals.
pub(super) fn best(evals: &[EvalRecord]) -> Option<(usize, f64)> {
    evals
        .iter()
        .filter(|record| record.step > 0)
        .filter_map(|record| Some((record.step, record.pass_at_1()?)))
        .reduce(|best, next| if next.1 > best.1 { next } else { best })
}

fn eval_record(
    step: usize,
    evaluation: &eval::Evaluation,
    settings: &eval::Settings,
) -> EvalRecord {
    // Checkpoints are ranked and alarms ring by Pass@1, whatever was asked for.
    let others = settings.k.iter().copied().filter(|k| *k != 1);
    let k: Vec<usize> = std::iter::once(1).chain(others).collect();
    let summary = evaluation.summary(&k);
    EvalRecord {
        step,
        samples: settings.samples,
        pass_at: summary
            .pass
            .iter()
            .map(|pass| (pass.k, pass.estimate))
            .collect::<BTreeMap<_, _>>(),
        tasks: eval::counts(&evaluation.records, eval::Reading::Strict)
            .into_iter()
            .collect(),
        masked: summary.masked,
        length_mean: summary.mean_tokens,
        truncated: summary.truncated,
    }
}
