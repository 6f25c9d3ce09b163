//! Writes samples as Markdown, for people to see what a model does.

use std::fmt::Write as _;

use engine::Finish;
use verifier_api::Verdict;

use crate::escape::{code, fenced};
use crate::record::SampleRecord;

/// Maximum length of a text, in characters. Longer texts are cut, with a note; the JSON Lines beside the page have them whole.
const MAX_LENGTH: usize = 4000;
/// Minimum length, in bytes, of a common start of all prompts that is shown once.
const MIN_SHARED: usize = 120;

/// A page with all samples, those of a prompt one after the other. Equal completions of a prompt are shown once.
pub(crate) fn page<'a>(title: &str, samples: impl IntoIterator<Item = &'a SampleRecord>) -> String {
    let samples: Vec<&SampleRecord> = samples.into_iter().collect();
    // A task can occur twice in a phase that spans two epochs; then its samples are numbered from 0 again.
    let of_one_prompt = |a: &&SampleRecord, b: &&SampleRecord| a.task == b.task && b.sample > 0;
    let groups: Vec<&[&SampleRecord]> = samples.chunk_by(of_one_prompt).collect();
    let mut out = format!("# {title}\n\n{}\n", summary(&samples, groups.len()));
    let shared = shared_start(&groups);
    if !shared.is_empty() {
        let _ = write!(out, "\nEvery prompt begins with:\n\n{}\n", cut(shared));
    }
    for group in &groups {
        let _ = write!(
            out,
            "\n## {}: {}\n\n{}\n",
            code(&group[0].task),
            right_of(group),
            cut(&group[0].prompt[shared.len()..])
        );
        for same in distinct(group) {
            answer(&mut out, &same);
        }
    }
    out
}

/// The completions of a group, those with the same text and verdict together.
fn distinct<'a>(group: &[&'a SampleRecord]) -> Vec<Vec<&'a SampleRecord>> {
    let mut distinct: Vec<Vec<&SampleRecord>> = Vec::new();
    for sample in group {
        let same = distinct.iter_mut().find(|others| {
            others[0].completion == sample.completion
                && others[0].verdict == sample.verdict
                && others[0].reward == sample.reward
        });
        match same {
            Some(others) => others.push(sample),
            None => distinct.push(vec![sample]),
        }
    }
    distinct
}

/// The whole lines with which all prompts begin; empty if there is only one prompt or the lines are shorter than [`MIN_SHARED`].
fn shared_start<'a>(groups: &[&[&'a SampleRecord]]) -> &'a str {
    let [first, rest @ ..] = groups else {
        return "";
    };
    let first = first[0].prompt.as_str();
    let common = rest.iter().map(|group| {
        let pairs = first.bytes().zip(group[0].prompt.bytes());
        pairs.take_while(|(a, b)| a == b).count()
    });
    let common = common.min().unwrap_or(0);
    // The end of a line is the end of a character too.
    match first.as_bytes()[..common].iter().rposition(|b| *b == b'\n') {
        Some(end) if end >= MIN_SHARED => &first[..=end],
        _ => "",
    }
}

fn summary(samples: &[&SampleRecord], prompts: usize) -> String {
    let rewards: Vec<f64> = samples.iter().filter_map(|sample| sample.reward).collect();
    let share = |count: usize| 100.0 * count as f64 / samples.len().max(1) as f64;
    let is_cut_off = |sample: &&&SampleRecord| sample.finish == Finish::Length;
    let cut_off = samples.iter().filter(is_cut_off).count();
    let mut out = format!(
        "{} completions of {} prompts: mean reward {:.3}, {:.1} tokens on average, {:.0}% cut off at the limit",
        samples.len(),
        prompts,
        rewards.iter().sum::<f64>() / rewards.len().max(1) as f64,
        samples.iter().map(|sample| sample.tokens).sum::<usize>() as f64
            / samples.len().max(1) as f64,
        share(cut_off),
    );
    if rewards.len() < samples.len() {
        let _ = write!(out, ", {} without a verdict", samples.len() - rewards.len());
    }
    out.push('.');
    out
}

fn right_of(group: &[&SampleRecord]) -> String {
    let judged = || group.iter().filter_map(|sample| sample.reward);
    let right = judged().filter(|reward| *reward >= 1.0).count();
    format!("{right} of {} right", judged().count())
}

fn answer(out: &mut String, same: &[&SampleRecord]) {
    let sample = same[0];
    let words = match (sample.reward, sample.verdict) {
        (None, _) => "no verdict",
        (Some(reward), _) if reward >= 1.0 => "right",
        (_, Verdict::Timeout) => "too slow",
        (_, Verdict::Memory) => "too large",
        (_, Verdict::Malformed) => "no answer found",
        _ => "wrong",
    };
    let _ = write!(out, "\n**{words}**");
    if same.len() > 1 {
        let _ = write!(out, ", {} times", same.len());
    }
    if let Some(reward) = sample.reward {
        let _ = write!(out, " · reward {}", (reward * 1000.0).round() / 1000.0);
    }
    let end = match sample.finish {
        Finish::Length => " · cut off at the limit",
        Finish::Stop => "",
    };
    let (tokens, logp) = (sample.tokens, sample.logp);
    let _ = write!(out, " · {tokens} tokens · log-probability {logp:.1}{end}");
    let detail: String = sample.detail.to_string().chars().take(400).collect();
    if !["null", "{}"].contains(&detail.as_str()) {
        let _ = write!(out, " · {}", code(&detail));
    }
    let text = match sample.completion.trim() {
        "" => "(nothing)".to_owned(),
        _ => cut(&sample.completion),
    };
    let _ = write!(out, "\n\n{text}\n");
}

fn cut(text: &str) -> String {
    let Some((end, _)) = text.char_indices().nth(MAX_LENGTH) else {
        return fenced(text);
    };
    let more = text[end..].chars().count();
    format!("{}\n\n({more} more characters)", fenced(&text[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(task: &str, sample: usize, completion: &str, reward: Option<f64>) -> SampleRecord {
        let examples = "Question: What is 7 + 5?\nAnswer: \\boxed{12}\n".repeat(4);
        let verdict = match reward {
            Some(1.0) => "correct",
            Some(_) => "malformed",
            None => "unavailable",
        };
        serde_json::from_value(serde_json::json!({
            "task": task, "sample": sample, "prompt": format!("{examples}Question: {task}?\nAnswer:"), "completion": completion,
            "reward": reward, "verdict": verdict, "detail": {"extracted": reward}, "tokens": 8, "logp": -3.51,
            "finish": if sample == 2 { "length" } else { "stop" },
        }))
        .unwrap()
    }

    fn samples() -> Vec<SampleRecord> {
        vec![
            sample("1 + 2", 0, " \\boxed{3}", Some(1.0)),
            sample("1 + 2", 1, " \\boxed{3}", Some(1.0)),
            sample("1 + 2", 2, "```\n# not a heading\u{1b}[2J", Some(0.0)),
            sample("4 + 5", 0, " \\boxed{3}", Some(0.0)),
            sample("4 + 5", 1, "", None),
        ]
    }

    #[test]
    fn a_page_shows_every_prompt_and_each_different_completion_once() {
        insta::assert_snapshot!(page("Phase 3", &samples()));
    }

    #[test]
    fn a_long_text_is_cut_and_a_page_may_have_no_samples() {
        let long = "é".repeat(MAX_LENGTH + 7);
        let text = page("Phase 0", &[sample("x", 0, &long, Some(0.0))]);
        assert!(text.contains("(7 more characters)"));
        assert!(page("Phase 0", &[]).contains("0 completions of 0 prompts"));
    }
}
