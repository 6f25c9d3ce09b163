//! What the model wrote, with verdicts: the same tasks before and after, else training samples of the first and last phase.

use std::fmt::Write as _;

use verifier_api::Verdict;

use crate::eval::Record;

use super::escape::html;
use super::run_data::RunData;

/// Tasks shown.
const TASKS: usize = 8;
/// Completions shown of each task and side.
const COMPLETIONS: usize = 3;
/// Longer texts are cut, with a note.
const LONGEST: usize = 4000;

/// The section of one run, `name` being what its heading says of whose it is, as HTML; nothing where no samples were recorded.
pub(super) fn section(out: &mut String, run: &RunData, name: &str) {
    let (about, sides) = if !run.before.is_empty() && !run.after.is_empty() {
        (
            "Tasks of the evaluation, and what the model answered before and after training.",
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

/// Ids in the order in which they first appear.
fn tasks(records: &[Record]) -> Vec<&str> {
    let mut seen = std::collections::HashSet::new();
    records
        .iter()
        .map(|record| record.sample.task.as_str())
        .filter(|task| seen.insert(*task))
        .collect()
}

/// A few tasks spread evenly over those of both sides; where the sides share none, over each.
fn spread(sides: &[Vec<&str>; 2]) -> Vec<String> {
    let shared: Vec<&str> = sides[0]
        .iter()
        .copied()
        .filter(|task| sides[1].contains(task))
        .collect();
    let pick = |from: &[&str], wanted: usize| -> Vec<String> {
        let wanted = wanted.min(from.len());
        (0..wanted)
            .map(|i| from[i * from.len() / wanted].to_owned())
            .collect()
    };
    if !shared.is_empty() {
        return pick(&shared, TASKS);
    }
    let mut tasks = pick(&sides[0], TASKS / 2);
    tasks.extend(pick(&sides[1], TASKS / 2));
    tasks
}

fn one_task(out: &mut String, task: &str, sides: &[(&str, &Vec<Record>); 2]) {
    let of = |records: &Vec<Record>| -> Vec<Record> {
        records
            .iter()
            .filter(|record| record.sample.task == task)
            .cloned()
            .collect()
    };
    let (first, second) = (of(sides[0].1), of(sides[1].1));
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
            "<details><summary>the prompt before it</summary><pre>{}</pre></details>",
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
        let right = judged.iter().filter(|reward| **reward >= 1.0).count();
        let _ = write!(
            out,
            "<div><h4>{label}: {right} of {} right</h4>",
            judged.len()
        );
        for record in some(records) {
            answer(out, record);
        }
        out.push_str("</div>");
    }
    out.push_str("</div></article>\n");
}

/// The first completions; where only later ones are right, one of these instead of the last.
fn some(records: &[Record]) -> Vec<&Record> {
    let right = |record: &&Record| record.sample.reward.is_some_and(|reward| reward >= 1.0);
    let mut shown: Vec<&Record> = records.iter().take(COMPLETIONS).collect();
    if !shown.iter().any(right)
        && let Some(record) = records.iter().find(right)
    {
        shown.pop();
        shown.push(record);
    }
    shown
}

fn answer(out: &mut String, record: &Record) {
    let sample = &record.sample;
    let (class, words) = match (sample.reward, sample.verdict) {
        (None, _) => ("unknown", "no verdict"),
        (Some(reward), _) if reward >= 1.0 => ("yes", "right"),
        (_, Verdict::Timeout) => ("no", "too slow"),
        (_, Verdict::Memory) => ("no", "too large"),
        (_, Verdict::Malformed) => ("no", "no answer found"),
        _ => ("no", "wrong"),
    };
    let also = if class == "no" && record.any_form == Some(1.0) {
        ", right in another form"
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

/// The worked examples in front of a question, and the question itself: the prompt's last block, where it is long.
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
    match text.char_indices().nth(LONGEST) {
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
    fn the_question_is_told_apart_from_the_worked_examples() {
        let examples = "Question: What is 7 + 5?\nAnswer: \\boxed{12}\n".repeat(5);
        let prompt = format!("{examples}Question: What is 9 + 1?\nAnswer:");
        let (lead, last) = question(&prompt);
        assert_eq!(last, "Question: What is 9 + 1?\nAnswer:");
        assert!(lead.starts_with("Question: What is 7 + 5?"));
        assert_eq!(question("What is 1 + 1?"), ("", "What is 1 + 1?"));
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let text = "é".repeat(LONGEST + 7);
        assert!(cut(&text).ends_with("… (7 more characters)"));
    }

    #[test]
    fn tasks_are_spread_over_the_list() {
        let all: Vec<String> = (0..80).map(|i| format!("t/{i}")).collect();
        let side: Vec<&str> = all.iter().map(String::as_str).collect();
        let picked = spread(&[side.clone(), side]);
        assert_eq!(picked.len(), TASKS);
        assert_eq!((picked[0].as_str(), picked[7].as_str()), ("t/0", "t/70"));
    }
}
