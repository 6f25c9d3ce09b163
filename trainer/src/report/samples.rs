//! Completions with their verdicts: of the same tasks before and after training, else training samples of the first and last phase.

use std::fmt::Write as _;

use verifier_api::Verdict;

use crate::eval::Record;

use super::escape::html;
use super::run_data::RunData;

/// Maximum number of tasks.
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
    for task in spread(&sides.map(|(_, records)| tasks(records))) {
        one_task(out, &task, &sides);
    }
}

/// The ids of the tasks in the order of their first appearance.
fn tasks(records: &[Record]) -> Vec<&str> {
    let mut seen = std::collections::HashSet::new();
    records
        .iter()
        .map(|record| record.sample.task.as_str())
        .filter(|task| seen.insert(*task))
        .collect()
}

/// A few tasks, spread evenly over those that both sides have; if they share none, over each side.
fn spread(sides: &[Vec<&str>; 2]) -> Vec<String> {
    let shared: Vec<&str> = sides[0]
        .iter()
        .copied()
        .filter(|task| sides[1].contains(task))
        .collect();
    let pick = |from: &[&str], count: usize| -> Vec<String> {
        let count = count.min(from.len());
        (0..count)
            .map(|i| from[i * from.len() / count].to_owned())
            .collect()
    };
    if !shared.is_empty() {
        return pick(&shared, MAX_TASKS);
    }
    let mut tasks = pick(&sides[0], MAX_TASKS / 2);
    tasks.extend(pick(&sides[1], MAX_TASKS / 2));
    tasks
}

fn one_task(out: &mut String, task: &str, sides: &[(&str, &Vec<Record>); 2]) {
    let of_task = |records: &Vec<Record>| -> Vec<Record> {
        records
            .iter()
            .filter(|record| record.sample.task == task)
            .cloned()
            .collect()
    };
    let (first, second) = (of_task(sides[0].1), of_task(sides[1].1));
    let Some(prompt) = first
        .first()
        .or(second.first())
        .map(|record| record.sample.prompt.as_str())
    else {
        return;
    };
    let _ = write!(
        out,
        "<article class=\"task\"><header><span>{}</span></header>",
        html(task)
    );
    let (lead, question) = question(prompt);
    let _ = write!(out, "<pre>{}</pre>", html(&cut(question)));
    if !lead.is_empty() {
        let _ = write!(
            out,
            "<details><summary>the rest of the prompt</summary><pre>{}</pre></details>",
            html(&cut(lead))
        );
    }
    out.push_str("<div class=\"sides\">");
    for ((label, _), records) in sides.iter().zip([&first, &second]) {
        if records.is_empty() {
            continue;
        }
        let judged: Vec<f64> = records
            .iter()
            .filter_map(|record| record.sample.reward)
            .collect();
        let correct = judged.iter().filter(|reward| **reward >= 1.0).count();
        let _ = write!(
            out,
            "<div><h4>{label}: {correct} of {} correct</h4>",
            judged.len()
        );
        for record in shown(records) {
            completion(out, record);
        }
        out.push_str("</div>");
    }
    out.push_str("</div></article>\n");
}

/// The first completions; if only later ones are correct, one of these replaces the last.
fn shown(records: &[Record]) -> Vec<&Record> {
    let correct = |record: &&Record| record.sample.reward.is_some_and(|reward| reward >= 1.0);
    let mut shown: Vec<&Record> = records.iter().take(MAX_COMPLETIONS).collect();
    if !shown.iter().any(correct)
        && let Some(record) = records.iter().find(correct)
    {
        shown.pop();
        shown.push(record);
    }
    shown
}

fn completion(out: &mut String, record: &Record) {
    let sample = &record.sample;
    let (class, words) = match (sample.reward, sample.verdict) {
        (None, _) => ("unknown", "no verdict"),
        (Some(reward), _) if reward >= 1.0 => ("yes", "correct"),
        (_, Verdict::Timeout) => ("no", "too slow"),
        (_, Verdict::Memory) => ("no", "too large"),
        (_, Verdict::Malformed) => ("no", "no answer found"),
        _ => ("no", "incorrect"),
    };
    let also = if class == "no" && record.any_form == Some(1.0) {
        ", correct in another form"
    } else {
        ""
    };
    let text = sample.completion.trim_matches('\n');
    let body = if text.trim().is_empty() {
        "<pre class=\"none\">(nothing)</pre>".to_owned()
    } else {
        format!("<pre>{}</pre>", html(&cut(text)))
    };
    let _ = write!(
        out,
        "<div class=\"answer\">{body}<span class=\"chip {class}\">{words}{also}</span></div>"
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
    match text.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => format!(
            "{} … ({} more characters)",
            &text[..end],
            text[end..].chars().count()
        ),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_is_split_from_the_worked_examples() {
        let examples = "Question: What is 7 + 5?\nAnswer: \\boxed{12}\n".repeat(5);
        let prompt = format!("{examples}Question: What is 9 + 1?\nAnswer:");
        let (lead, last) = question(&prompt);
        assert_eq!(last, "Question: What is 9 + 1?\nAnswer:");
        assert!(lead.starts_with("Question: What is 7 + 5?"));
        assert_eq!(question("What is 1 + 1?"), ("", "What is 1 + 1?"));
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let text = "é".repeat(MAX_CHARACTERS + 7);
        assert!(cut(&text).ends_with("… (7 more characters)"));
    }

    #[test]
    fn tasks_are_spread_over_the_list() {
        let all: Vec<String> = (0..80).map(|i| format!("t/{i}")).collect();
        let side: Vec<&str> = all.iter().map(String::as_str).collect();
        let picked = spread(&[side.clone(), side]);
        assert_eq!(picked.len(), MAX_TASKS);
        assert_eq!((picked[0].as_str(), picked[7].as_str()), ("t/0", "t/70"));
    }
}
