use super::*;
use crate::data::PromptUse;
use crate::fakes;

const GROUP_SIZE: usize = 4;

/// A phase of three updates on two prompts each. The text of a completion is its number in the phase.
fn phase() -> (Phase, Rollout) {
    let text = |place: usize| fakes::sample(&place.to_string(), 0.0);
    let groups = (0..6).map(|number| {
        let places = number * GROUP_SIZE..(number + 1) * GROUP_SIZE;
        fakes::group(number, places.map(text).collect())
    });
    let samples = Rollout {
        groups: groups.collect(),
        ..Rollout::default()
    };
    let (epoch, prompt) = (0, 0);
    let phase = Phase {
        index: 5,
        first_update: 0,
        updates: vec![vec![PromptUse { epoch, prompt }; 2]; 3],
    };
    (phase, samples)
}

/// The numbers of the completions that are compared with each other.
fn compared(batch: &MiniBatch<'_>) -> Vec<Vec<usize>> {
    let numbers = batch.samples().map(|sample| sample.text.parse().unwrap());
    let numbers: Vec<usize> = numbers.collect();
    let of_group = |group: &Vec<usize>| group.iter().map(|place| numbers[*place]).collect();
    batch.baseline_groups.iter().map(of_group).collect()
}

#[test]
fn groups_are_of_a_prompt_or_with_mixing_of_a_shuffled_order() {
    let (phase, samples) = phase();
    let unmixed = samples.mini_batch(&phase, 1);
    assert_eq!(compared(&unmixed), [[8, 9, 10, 11], [12, 13, 14, 15]]);
    let order = seed::completion_order(9, phase.index, 24);
    let mut scattered = 0;
    for (number, expected) in order.chunks(8).enumerate() {
        let batch = samples.shuffled_mini_batch(&phase, number, GROUP_SIZE, 9);
        let expected: Vec<&[usize]> = expected.chunks(GROUP_SIZE).collect();
        assert_eq!(compared(&batch), expected);
        // A prompt is computed once, and has its own completions.
        let mut prompts: Vec<&str> = Vec::new();
        for group in batch.groups.iter() {
            prompts.push(&group.prompt.task.id);
            for sample in &group.samples {
                let number: usize = sample.text.parse().unwrap();
                assert_eq!(group.prompt, samples.groups[number / GROUP_SIZE].prompt);
            }
        }
        scattered += prompts.len();
        prompts.sort_unstable();
        prompts.dedup();
        assert_eq!(prompts.len(), batch.groups.len());
    }
    // Completions of one prompt are in several updates.
    assert!(scattered > 6);
}
