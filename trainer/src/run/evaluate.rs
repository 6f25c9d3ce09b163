//! Evaluation on the held-out tasks during a run, and the best checkpoint.

use super::TrainError;
use super::folder::{Log, checkpoint, rollouts};
use super::masked::MaskedCount;
use super::train_loop::Run;
use crate::eval;
use crate::record::{Activity, EvalRecord, best};
use crate::rollout::RolloutProgress;

impl Run {
    /// Evaluates if an evaluation is due after this many updates and is not logged yet.
    pub(super) async fn evaluate_if_due(&mut self) -> Result<(), TrainError> {
        if !self.job.evaluates() || !self.schedule.evaluates_after(self.step) {
            return Ok(());
        }
        self.job.clock.enter(Activity::Evaluation);
        let mut partial = rollouts::partial(&self.job.folder, &format!("eval-{}", self.step))?;
        let done: Vec<EvalRecord> = self.job.folder.read(Log::Eval)?;
        if !done.iter().any(|record| record.step == self.step) {
            let (folder, clock) = (&self.job.folder, &self.job.clock);
            let terminal = &mut self.job.journal.progress;
            let mut watch = |progress: &RolloutProgress| {
                terminal.rollout("evaluation", progress);
                clock.save_if_due(folder, self.step);
            };
            let evaluation = eval::evaluate(
                self.job.policy.as_ref(),
                &self.job.rewards,
                &self.job.prompts.eval,
                &self.evaluation,
                &mut partial,
                &self.job.stop,
                &mut watch,
            )
            .await?;
            self.log_evaluation(&evaluation)?;
        }
        partial.remove();
        self.job.clock.enter(Activity::Other);
        self.job.clock.save(&self.job.folder, self.step)?;
        Ok(())
    }

    /// Logs an evaluation, and marks the checkpoint if it is the best so far.
    fn log_evaluation(&mut self, evaluation: &eval::Evaluation) -> Result<(), TrainError> {
        let mut masked = MaskedCount::default();
        let records = evaluation.records.iter();
        masked.add(records.map(|record| (record.reward, &record.detail)));
        let part = format!("the evaluation after {} updates", self.step);
        // Nothing is logged yet, so a resumed run requests these verdicts again.
        masked.check(self.job.config.verifier.max_masked, &part)?;
        let (step, records) = (self.step, &evaluation.records);
        let (samples, k) = (self.evaluation.samples, &self.job.config.eval.k);
        let record = eval::record(step, samples, records, k, &self.job.prompts.eval_sets);
        self.job
            .journal
            .evaluated(&self.job.folder, &record, records)?;
        let is_better = |now: f64| self.best.is_none_or(|(_, before)| now > before);
        if let Some((step, pass_at_1)) = best([&record]).filter(|(_, now)| is_better(*now)) {
            self.best = Some((step, pass_at_1));
            self.checkpoint()?;
            checkpoint::point(&self.job.folder, "best", step)?;
        }
        Ok(())
    }
}
