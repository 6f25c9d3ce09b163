//! What the samples of the first phase show before any update: most faults of a prompt, of a limit or of a data set. A finding has one sample as an example.

use engine::Finish;

use super::Finding;
use crate::eval::Verdicts;
use crate::record::{Alarm, SampleRecord};

/// Fewer rewards are equal by chance too often.
const MIN_REWARDS: usize = 32;

/// The findings on the samples, and on the rewards of those that have one. `uniform_groups_teach` is as in [`rules`](super::rules::all).
pub(super) fn all(
    samples: &[SampleRecord],
    rewards: &[f64],
    uniform_groups_teach: bool,
) -> Vec<Finding> {
    let found = |alarm, numbers, remedy: &str| Finding {
        alarm,
        raised: true,
        numbers,
        remedy: remedy.to_owned(),
        ..Finding::default()
    };
    let mut findings = Vec::new();
    let Some(example) = samples.first().map(SampleRecord::example) else {
        return findings;
    };
    let settings = ("`data.template`", "`sampling.max_tokens`");
    if let Some(hint) = Verdicts::hint(&samples.iter(), settings) {
        findings.push(found(Alarm::NoAnswer, hint, "Set `data.template` to one that asks for that form or shows it, and `data.chat = true` if the model follows instructions"));
    } else if rewards.len() >= MIN_REWARDS
        && rewards.windows(2).all(|pair| pair[0] == pair[1])
        && (rewards[0] == 0.0 || !uniform_groups_teach)
    {
        let numbers = format!(
            "all {} rewards of the first phase are {}, so no completion has a gradient. {example}",
            rewards.len(),
            rewards[0]
        );
        findings.push(if samples.iter().any(|it| it.reward >= Some(1.0)) {
            found(Alarm::AllRight, numbers, "Take harder tasks")
        } else {
            found(Alarm::AllWrong, numbers, "If a right answer is judged wrong, fix `data.template` or the data set's answers; else take easier tasks, raise `sampling.temperature` or `algorithm.group_size`, or begin with supervised training")
        });
    }
    if samples.iter().all(|it| it.finish == Finish::Length) {
        let numbers = format!(
            "all {} completions of the first phase reach the limit of tokens, without an end token or a stop string. {example}",
            samples.len()
        );
        findings.push(found(Alarm::Truncation, numbers, "If answers are on their way, raise `sampling.max_tokens`; else set `data.stop`. `rapid doctor --model MODEL` lists the model's end tokens: if one is missing, add its id to `eos_token_id` in generation_config.json"));
    }
    findings
}
