//! The number of completions that are sampled from a model for the study, and their prompts.

use std::sync::Arc;

use serde::Serialize;

use crate::data::Prompt;
use crate::rollout::{RolloutRequest, SamplingParams};
use crate::seed;

/// Groups per prompt, if there are enough groups: the number of blocks between which products are computed.
const BLOCKS: usize = 16;

/// The number of sampled completions, and how they are sampled.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StudyPlan {
    /// Maximum off-policy groups of each behaviour model; every prompt gets the same number.
    #[serde(skip)]
    pub groups: usize,
    /// Completions of an off-policy group.
    pub group_size: usize,
    /// Minimum on-policy completions of the reference.
    #[serde(skip)]
    pub reference: usize,
    /// Temperature, maximum length and stop strings.
    #[serde(rename = "drawing", serialize_with = "serialize_params")]
    pub sampling: SamplingParams,
    /// Seed of the prompts, samples and sketches.
    pub seed: u64,
    /// Size of a gradient's sketch, in numbers.
    pub sketch: usize,
}

fn serialize_params<S: serde::Serializer>(
    params: &SamplingParams,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serde_json::json!({
        "temperature": params.sampling.temperature,
        "max_tokens": params.max_tokens,
        "stop": params.stop_strings,
    })
    .serialize(serializer)
}

impl StudyPlan {
    /// The prompts of the study, in an order that depends on the seed. Their number is such that each has [`BLOCKS`] groups.
    #[must_use]
    pub fn prompts(&self, all: &[Arc<Prompt>]) -> Vec<Arc<Prompt>> {
        let order = seed::permutation(self.seed, 0, all.len());
        let selected = order.into_iter().take((self.groups / BLOCKS).max(1));
        selected.map(|index| all[index].clone()).collect()
    }

    /// The requests for the policy itself: the same number of completions for each prompt and block, at least two, since each needs another for its baseline.
    #[must_use]
    pub fn on_policy(&self, prompts: &[Arc<Prompt>]) -> Vec<RolloutRequest> {
        let blocks = self.blocks(prompts.len());
        let samples = self
            .reference
            .div_ceil(prompts.len().max(1) * blocks)
            .max(2);
        self.requests(prompts, 0, blocks * samples)
    }

    /// The requests for a behaviour model, where `model` is its index in the list: all groups of a prompt in one request. Each model and the reference have their own
    /// stream of random numbers, so the same model sampled twice gives independent samples.
    #[must_use]
    pub fn off_policy(&self, prompts: &[Arc<Prompt>], model: usize) -> Vec<RolloutRequest> {
        let samples = self.rounds(prompts.len()) * self.group_size;
        self.requests(prompts, model + 1, samples)
    }

    fn requests(
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

    /// Off-policy groups of each prompt.
    pub(super) fn rounds(&self, prompts: usize) -> usize {
        (self.groups / prompts.max(1)).max(1)
    }

    /// Blocks between which products are computed.
    pub(super) fn blocks(&self, prompts: usize) -> usize {
        self.rounds(prompts).min(BLOCKS)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use engine::Sampling;

    use super::*;
    use crate::fakes::{FakePolicy, dataset, prompt};

    fn plan(groups: usize, reference: usize) -> StudyPlan {
        StudyPlan {
            groups,
            group_size: 4,
            reference,
            sampling: SamplingParams {
                sampling: Sampling::default(),
                min_tokens: 0,
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
            .map(|task| prompt(&FakePolicy::default(), task))
            .collect()
    }

    #[test]
    fn every_prompt_is_sampled_equally_often_and_no_seed_repeats() {
        let plan = plan(165, 1000);
        let selected = plan.prompts(&prompts(40));
        let mut seeds = HashSet::new();
        let mut wanted = 0;
        for requests in [
            plan.on_policy(&selected),
            plan.off_policy(&selected, 0),
            plan.off_policy(&selected, 1),
        ] {
            wanted += requests
                .iter()
                .map(|request| request.seeds.len())
                .sum::<usize>();
            seeds.extend(requests.iter().flat_map(|request| request.seeds.clone()));
        }
        // 16 groups for each of 10 prompts; seven completions per prompt and block.
        assert_eq!((selected.len(), plan.blocks(10)), (10, 16));
        assert_eq!(wanted, 10 * 16 * 7 + 2 * 10 * 16 * 4);
        assert_eq!(seeds.len(), wanted);
    }

    #[test]
    fn the_seed_selects_the_prompts_and_fewer_prompts_have_more_groups() {
        let ids = |plan: &StudyPlan, all| -> Vec<String> {
            let selected = plan.prompts(&prompts(all));
            selected
                .iter()
                .map(|prompt| prompt.task.id.clone())
                .collect()
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
