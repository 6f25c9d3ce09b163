//! How much of a model is drawn for the study, and of which prompts.

use std::sync::Arc;

use serde::Serialize;

use crate::data::Prompt;
use crate::rollout::{RolloutRequest, SamplingParams};
use crate::seed;

/// Times that every prompt is asked, where there are so many groups: the blocks that products are taken between.
const BLOCKS: usize = 16;

/// How much is drawn, and how.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StudyPlan {
    /// Off-policy groups of each behaviour model, at most: as many of each prompt.
    #[serde(skip)]
    pub groups: usize,
    /// Completions of such a group.
    pub group_size: usize,
    /// On-policy completions of the reference, at least.
    #[serde(skip)]
    pub reference: usize,
    /// Temperature, length, stop strings.
    #[serde(serialize_with = "drawing")]
    pub drawing: SamplingParams,
    /// Decides prompts, samples and sketches.
    pub seed: u64,
    /// Numbers that a gradient is sketched to.
    pub sketch: usize,
}

fn drawing<S: serde::Serializer>(
    drawing: &SamplingParams,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serde_json::json!({
        "temperature": drawing.sampling.temperature,
        "max_tokens": drawing.max_tokens,
        "stop": drawing.stop_strings,
    })
    .serialize(serializer)
}

impl StudyPlan {
    /// The prompts that are asked, in an order of the seed's: so many that each has [`BLOCKS`] groups.
    #[must_use]
    pub fn prompts(&self, all: &[Arc<Prompt>]) -> Vec<Arc<Prompt>> {
        let order = seed::permutation(self.seed, 0, all.len());
        let taken = order.into_iter().take((self.groups / BLOCKS).max(1));
        taken.map(|place| all[place].clone()).collect()
    }

    /// What the policy itself is asked: as many completions of each prompt and each block, at least two, since each needs another for its baseline.
    #[must_use]
    pub fn on_policy(&self, prompts: &[Arc<Prompt>]) -> Vec<RolloutRequest> {
        let blocks = self.blocks(prompts.len());
        let samples = self
            .reference
            .div_ceil(prompts.len().max(1) * blocks)
            .max(2);
        self.queries(prompts, 0, blocks * samples)
    }

    /// What a behaviour model is asked, by its place in the list: all groups of a prompt at once. No two models draw from one stream of random numbers, nor from the
    /// reference's, so that the same model drawn twice is drawn independently.
    #[must_use]
    pub fn off_policy(&self, prompts: &[Arc<Prompt>], model: usize) -> Vec<RolloutRequest> {
        let samples = self.rounds(prompts.len()) * self.group_size;
        self.queries(prompts, model + 1, samples)
    }

    fn queries(
        &self,
        prompts: &[Arc<Prompt>],
        stream: usize,
        samples: usize,
    ) -> Vec<RolloutRequest> {
        prompts
            .iter()
            .map(|prompt| RolloutRequest {
                prompt: prompt.clone(),
                seeds: (0..samples)
                    .map(|sample| seed::of_sample(self.seed, stream, &prompt.task.id, sample))
                    .collect(),
            })
            .collect()
    }

    /// Groups of each prompt.
    pub(super) fn rounds(&self, prompts: usize) -> usize {
        (self.groups / prompts.max(1)).max(1)
    }

    pub(super) fn blocks(&self, prompts: usize) -> usize {
        self.rounds(prompts).min(BLOCKS)
    }

    pub(super) fn temperature(&self) -> f32 {
        self.drawing.sampling.temperature
    }

    pub(super) fn max_tokens(&self) -> usize {
        self.drawing.max_tokens
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use engine::Sampling;

    use super::*;
    use crate::scripted::{Toy, dataset, prompt};

    fn plan(groups: usize, reference: usize) -> StudyPlan {
        StudyPlan {
            groups,
            group_size: 4,
            reference,
            drawing: SamplingParams {
                sampling: Sampling::default(),
                max_tokens: 4,
                stop_strings: Vec::new(),
            },
            seed: 0,
            sketch: 64,
        }
    }

    fn prompts(count: usize) -> Vec<Arc<Prompt>> {
        let tasks = dataset(count, 0).train;
        tasks
            .iter()
            .map(|task| prompt(&Toy::default(), task))
            .collect()
    }

    #[test]
    fn every_prompt_is_drawn_as_often_and_no_sample_twice() {
        let plan = plan(165, 1000);
        let asked = plan.prompts(&prompts(40));
        let mut seeds = HashSet::new();
        let mut wanted = 0;
        for queries in [
            plan.on_policy(&asked),
            plan.off_policy(&asked, 0),
            plan.off_policy(&asked, 1),
        ] {
            wanted += queries.iter().map(|query| query.seeds.len()).sum::<usize>();
            seeds.extend(queries.iter().flat_map(|query| query.seeds.clone()));
        }
        // 16 groups each of 10 prompts; seven completions a prompt and block.
        assert_eq!((asked.len(), plan.blocks(10)), (10, 16));
        assert_eq!(wanted, 10 * 16 * 7 + 2 * 10 * 16 * 4);
        assert_eq!(seeds.len(), wanted);
    }

    #[test]
    fn tasks_are_a_choice_of_the_seed_and_few_of_them_are_asked_more_often() {
        let ids = |plan: &StudyPlan, all| -> Vec<String> {
            let asked = plan.prompts(&prompts(all));
            asked.iter().map(|prompt| prompt.task.id.clone()).collect()
        };
        let (plan, few) = (plan(64, 4), plan(6, 4));
        assert_eq!(ids(&plan, 100), ids(&plan, 100));
        assert_eq!(
            (
                ids(&plan, 100).len(),
                ids(&plan, 3).len(),
                ids(&few, 9).len()
            ),
            (4, 3, 1)
        );
        assert_eq!(
            (plan.rounds(3), plan.blocks(3), few.rounds(1), few.blocks(1)),
            (21, 16, 6, 6)
        );
        let one = plan.on_policy(&prompts(1));
        assert_eq!(one[0].seeds.len(), 2 * plan.blocks(1));
    }
}
