//! Completions with their verdicts: of the same tasks before and after training, else training samples of the first and last phase.

use std::collections::HashSet;
use std::fmt::Write as _;

use verifier_api::Verdict;

use crate::record::SampleRecord;

use super::escape::html;
use super::run_data::RunData;

const MAX_TASKS: usize = 8;
/// Maximum completions of each task and side.
const MAX_COMPLETIONS: usize = 3;
/// Maximum characters of a text; longer texts are cut, with a note.
const MAX_CHARACTERS: usize = 4000;

/// The section of one run as HTML; nothing if no samples were recorded. `name` is the end of its heading, which names the run.
pub(super) fn section(out: &mut String, run: &RunData, name: &str) {
    let (about, sides) = if !run.before.is_empty() && !run.after.is_empty() {
        (
            "Tasks of the evaluation, with completions before and after training.",
            [("before", &run.before), ("after", &run.after)],
        )
    } else if !run.first.is_empty() {
        (
            "Training samples of the first phase and of the last.",
            [("first phase", &run.first), ("last phase", &run.last)],
        )
    } else {
        return;
    };
    let _ = writeln!(out, "<h2>Samples{name}</h2><p>{about}</p>");
    for task in spread(&sides) {
        one_task(out, &task, &sides);
    }
}

/// A few tasks, spread evenly over those that both sides have, in the order of their first appearance; if they share none, over all.
fn spread(sides: &[(&str, &Vec<SampleRecord>); 2]) -> Vec<String> {
    let [first, second] = sides.map(|(_, records)| {
        let mut seen = HashSet::new();
        let tasks = records.iter().map(|record| record.task.as_str());
        tasks.filter(|task| seen.insert(*task)).collect::<Vec<_>>()
    });
    let shared = first.iter().filter(|task| second.contains(task));
    let mut tasks: Vec<&str> = shared.copied().collect();
    if tasks.is_empty() {
        tasks = [first, second].concat();
    }
    let count = MAX_TASKS.min(tasks.len());
    (0..count)
        .map(|i| tasks[i * tasks.len() / count].to_owned())
        .collect()
}

fn one_task(out: &mut String, task: &str, sides: &[(&str, &Vec<SampleRecord>); 2]) {
    let of_task = sides.map(|(label, records)| {
        let records = records.iter().filter(|record| record.task == task);
        (label, records.collect::<Vec<_>>())
    });
    let Some(any) = of_task.iter().find_map(|(_, records)| records.first()) else {
        return;
    };
    let (lead, question) = question(&any.prompt);
    let _ = write!(
        out,
        "<article class=\"task\"><header><span>{}</span></header><pre>{}</pre>",
        html(task),
        html(&cut(question))
    );
    if !lead.is_empty() {
        let _ = write!(
            out,
            "<details><summary>the rest of the prompt</summary><pre>{}</pre></details>",
            html(&cut(lead))
        );
    }
    out.push_str("<div class=\"sides\">");
    for (label, records) in of_task.iter().filter(|(_, records)| !records.is_empty()) {
        let rewards = records.iter().filter_map(|record| record.reward);
        let judged = rewards.clone().count();
        let correct = rewards.filter(|reward| *reward >= 1.0).count();
        let _ = write!(out, "<div><h4>{label}: {correct} of {judged} correct</h4>");
        // A correct completion is shown if there is one.
        let is_correct = |record: &&&SampleRecord| record.reward >= Some(1.0);
        let (shown, rest) = records.split_at(MAX_COMPLETIONS.min(records.len()));
        let missing = !shown.iter().any(|record| is_correct(&record));
        let later = rest.iter().find(is_correct).filter(|_| missing);
        for record in shown.iter().chain(later) {
            completion(out, record);
        }
        out.push_str("</div>");
    }
    out.push_str("</div></article>\n");
}

fn completion(out: &mut String, sample: &SampleRecord) {
    let (class, words) = match (sample.reward, sample.verdict) {
        (None, _) => ("unknown", "no verdict"),
        (Some(reward), _) if reward >= 1.0 => ("yes", "correct"),
        (_, Verdict::Timeout) => ("no", "too slow"),
        (_, Verdict::Memory) => ("no", "too large"),
        (_, Verdict::Malformed) => ("no", "no answer found"),
        _ => ("no", "incorrect"),
    };
    let reward = sample.reward.into_iter();
    let partial = reward.filter(|reward| *reward > 0.0 && *reward < 1.0);
    let terms = sample.terms.iter();
    let terms = terms.map(|(name, value)| (name.as_str(), *value));
    let numbers = partial.map(|reward| ("reward", reward)).chain(terms);
    let numbers = numbers.map(|(name, value)| format!(", {} {value:.2}", html(name)));
    let numbers: String = numbers.collect();
    let also = match sample.any_form {
        Some(1.0) if class == "no" => ", correct in another form",
        _ => "",
    };
    let text = html(&cut(sample.completion.trim_matches('\n')));
    let body = match text.trim() {
        "" => "<pre class=\"none\">(nothing)</pre>".to_owned(),
        _ => format!("<pre>{text}</pre>"),
    };
    let _ = write!(
        out,
        "<div class=\"answer\">{body}<span class=\"chip {class}\">{words}{also}{numbers}</span></div>"
    );
}

/// Splits a long prompt into the worked examples and the question, which is its last block. A short prompt is the question.
fn question(prompt: &str) -> (&str, &str) {
    let prompt = prompt.trim_matches('\n');
    for mark in ["\nQuestion:", "\n\n"] {
        if let Some(at) = prompt.rfind(mark)
            && prompt.len() > 200
        {
            return (&prompt[..at], prompt[at..].trim_start_matches('\n'));
        }
    }
    ("", prompt)
}

fn cut(text: &str) -> String {
    let Some((end, _)) = text.char_indices().nth(MAX_CHARACTERS) else {
        return text.to_owned();
    };
    let more = text[end..].chars().count();
    format!("{} … ({more} more characters)", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_split_from_its_examples_and_a_text_is_cut() {
        let examples = "Question: What is 7 + 5?\nAnswer: \\boxed{12}\n".repeat(5);
        let prompt = format!("{examples}Question: What is 9 + 1?\nAnswer:");
        let (lead, last) = question(&prompt);
        assert_eq!(last, "Question: What is 9 + 1?\nAnswer:");
        assert!(lead.starts_with("Question: What is 7 + 5?"));
        assert_eq!(question("What is 1 + 1?"), ("", "What is 1 + 1?"));
        let text = "é".repeat(MAX_CHARACTERS + 7);
        assert!(cut(&text).ends_with("… (7 more characters)"));
    }
}
