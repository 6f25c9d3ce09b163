//! Records steps for a device without CUDA graphs, which replays them one by one.

use super::driver::{Fault, Recording, Step};

/// All recordings, and the one that is open.
#[derive(Debug, Default)]
pub(super) struct StepRecorder {
    recordings: Vec<Vec<Step<'static>>>,
    open: Option<Vec<Step<'static>>>,
}

impl StepRecorder {
    pub(super) fn begin(&mut self) {
        self.open = Some(Vec::new());
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Records a step if a recording is open; otherwise returns it, to be run.
    pub(super) fn record<'a>(&mut self, step: Step<'a>) -> Option<Step<'a>> {
        let Some(steps) = &mut self.open else {
            return Some(step);
        };
        steps.push(match step {
            Step::Launch(kernel, launch, args) => {
                Step::Launch(kernel.into_owned().into(), launch, args.into_owned().into())
            }
            Step::Multiply(product) => Step::Multiply(product),
            Step::Copy(to, from, bytes) => Step::Copy(to, from, bytes),
            Step::Zero(at, bytes) => Step::Zero(at, bytes),
        });
        None
    }

    pub(super) fn end(&mut self) -> Result<Recording, Fault> {
        let steps = self.open.take();
        let steps = steps.ok_or_else(|| Fault::Other("nothing was being recorded".into()))?;
        self.recordings.push(steps);
        Ok(self.recordings.len() as Recording - 1)
    }

    pub(super) fn steps(&self, recording: Recording) -> Result<Vec<Step<'static>>, Fault> {
        let steps = self.recordings.get(recording as usize);
        steps
            .cloned()
            .ok_or_else(|| Fault::Other("the recording has been dropped".into()))
    }

    pub(super) fn drop_all(&mut self) {
        self.recordings.clear();
    }
}
