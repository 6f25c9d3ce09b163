//! Finds the proof in a completion, and formats it to follow the statement.

use std::fmt::Write as _;

use super::scan::{is_name, without_comments};

/// The tags around a thought.
const THOUGHT_START: &str = "<think>";
const THOUGHT_END: &str = "</think>";

/// The text outside of thoughts: after the last closed thought, and before an open one.
fn outside_thought(completion: &str) -> &str {
    let answer = completion.rsplit(THOUGHT_END).next().unwrap_or(completion);
    &answer[..answer.find(THOUGHT_START).unwrap_or(answer.len())]
}

/// Whether a completion ends within a thought.
pub(super) fn ends_in_thought(completion: &str) -> bool {
    completion.rfind(THOUGHT_START) > completion.rfind(THOUGHT_END)
}

/// What the line of an opening fence says about its block.
#[derive(Clone, Copy, PartialEq)]
enum Label {
    Lean,
    None,
    Other,
}

impl Label {
    fn of(text: &str) -> Self {
        match text.to_ascii_lowercase().as_str() {
            "lean" | "lean4" | "lean 4" | "tactics" => Self::Lean,
            "" => Self::None,
            _ => Self::Other,
        }
    }
}

/// The text of the proof: everything up to the fence that closes the prompt's block, else the last block labelled as Lean, else the last without a label.
pub(super) fn proof_in(completion: &str) -> &str {
    let completion = outside_thought(completion);
    let mut blocks: Vec<(Label, &str)> = Vec::new();
    let mut open: Option<(Label, usize)> = None;
    let mut before_fences = None;
    let mut at = 0;
    for line in completion.split_inclusive('\n') {
        if let Some(label) = line.trim().strip_prefix("```").map(Label::of) {
            let is_first = before_fences.is_none();
            let before = *before_fences.get_or_insert(&completion[..at]);
            match open.take() {
                Some((label, start)) => blocks.push((label, &completion[start..at])),
                None if is_first && label == Label::None && is_proof(before) => return before,
                None => open = Some((label, at + line.len())),
            }
        }
        at += line.len();
    }
    // The end of the completion cut this block off. After other text, a fence without a label may instead have closed the prompt's block.
    let follows_text = before_fences.is_some_and(|before| !before.trim().is_empty());
    let cut_off = open.filter(|(label, _)| *label != Label::None || !follows_text);
    blocks.extend(cut_off.map(|(label, start)| (label, &completion[start..])));
    blocks.retain(|(_, block)| !block.trim().is_empty());
    let last = |wanted| {
        let blocks = || blocks.iter().filter(|(label, _)| *label == wanted);
        blocks()
            .rfind(|(_, block)| !is_only_queries(block))
            .or_else(|| blocks().next_back())
    };
    let last = last(Label::Lean).or_else(|| last(Label::None));
    match (last, before_fences) {
        (Some((_, block)), _) => block,
        (None, Some(before)) if blocks.is_empty() => before,
        (None, _) => completion,
    }
}

/// Whether the text before the first fence can be a proof, so that the fence closes the prompt's block. Otherwise it introduces a block. Its last line decides: after a
/// sentence, a heading, a line of hyphens or nothing comes a block. A comment of Lean, and `..` for the remaining arguments, are no sentence.
fn is_proof(text: &str) -> bool {
    let last = text.trim().lines().next_back().unwrap_or_default().trim();
    if last.trim_matches('-').is_empty() {
        return false;
    }
    let is_heading = ["**", "# ", "##"].iter().any(|mark| last.starts_with(mark));
    let is_sentence = last.ends_with([':', '.']);
    last.contains("--") || last.ends_with("..") || !(is_heading || is_sentence)
}

/// The text without the queries after its last declaration. They are whole lines of `#print axioms NAME`, `#print NAME` or `#check NAME`, and change nothing. Only such
/// lines and lines that close a section may follow, so that a query surely ends with its line. `text` has no comments.
pub(super) fn without_queries(text: &str) -> String {
    let mut after: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(line) = rest.split_inclusive('\n').next_back() {
        if !(line.trim().is_empty() || is_query(line) || is_end(line)) {
            break;
        }
        rest = &rest[..rest.len() - line.len()];
        after.push(line);
    }
    // `open … in` before a query is a part of it.
    if rest.split_whitespace().next_back() == Some("in") {
        return text.to_owned();
    }
    let kept = after.iter().rev().filter(|line| !is_query(line));
    rest.to_owned() + &kept.copied().collect::<String>()
}

/// Whether a line at the first column asks Lean about one name.
fn is_query(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let name = match words[..] {
        ["#print", "axioms", name] | ["#print", name] => name,
        ["#check", name] => name.strip_prefix('@').unwrap_or(name),
        _ => return false,
    };
    line.starts_with('#') && is_name(name)
}

/// Whether a line at the first column closes a section or a namespace.
fn is_end(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    line.starts_with("end") && matches!(words[..], ["end"] | ["end", _])
}

/// Whether a block asks Lean about names, and holds nothing else.
fn is_only_queries(block: &str) -> bool {
    without_comments(block).is_ok_and(|bare| {
        let mut lines = bare.lines().filter(|line| !line.trim().is_empty());
        lines.all(is_query)
    })
}

/// The text without its leading lines that repeat lines of the task's header: imports, `open` and `set_option`.
pub(super) fn without_header<'a>(text: &'a str, header: &str) -> &'a str {
    let known: Vec<&str> = header
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let imported: Vec<&str> = known.iter().copied().filter_map(import).collect();
    let is_imported = |module: &str| {
        let mathlib = imported.contains(&"Mathlib")
            && WITHIN_MATHLIB.contains(&module.split('.').next().unwrap_or(module));
        mathlib || imported.contains(&module)
    };
    let mut rest = text;
    loop {
        let trimmed = rest.trim_start_matches(['\n', '\r']);
        let line = trimmed.lines().next().unwrap_or_default();
        let bare = line.trim();
        let blank = bare.is_empty() && !trimmed.is_empty();
        if blank
            || (!bare.is_empty() && known.contains(&bare))
            || import(bare).is_some_and(is_imported)
        {
            rest = &trimmed[line.len()..];
        } else {
            return trimmed;
        }
    }
}

/// Libraries that `import Mathlib` imports whole.
const WITHIN_MATHLIB: [&str; 3] = ["Mathlib", "Aesop", "Batteries"];

/// The module that a line imports, if it does nothing else.
fn import(line: &str) -> Option<&str> {
    let module = line.strip_prefix("import")?;
    let name = module.trim_start();
    (name.len() < module.len() && is_name(name)).then_some(name)
}

/// Indents a tactic block: all its lines alike, and further than the theorem. The first line often lacks its indentation, since the prompt would have supplied it.
pub(super) fn indented(body: &str) -> String {
    let body = body.trim_matches(['\n', '\r']).trim_end();
    // The statement ended in `by`, and the proof may begin with it again.
    let body = match body.trim_start().split_once('\n') {
        Some((first, rest)) if first.trim_end() == "by" => rest,
        _ => body,
    };
    let (first, rest) = body.split_once('\n').unwrap_or((body, ""));
    if first.starts_with(' ') {
        return body.to_owned();
    }
    let lines = rest.lines().filter(|line| !line.trim().is_empty());
    let min_indent = lines.map(|line| line.len() - line.trim_start().len()).min();
    if let Some(indent @ 1..) = min_indent {
        return format!("{}{body}", " ".repeat(indent));
    }
    let mut out = String::with_capacity(body.len() + 64);
    for line in body.lines() {
        let _ = writeln!(out, "  {line}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lines_of_a_tactic_block_are_indented_alike() {
        for (proof, expected) in [
            ("intro x\n  simp", "  intro x\n  simp"),
            ("intro x\nsimp", "  intro x\n  simp\n"),
            (
                "have h : a := by\n  simp\nexact h",
                "  have h : a := by\n    simp\n  exact h\n",
            ),
            (
                "have h : a := by\n      simp\n    exact h",
                "    have h : a := by\n      simp\n    exact h",
            ),
            ("  intro x\n  simp", "  intro x\n  simp"),
            ("by\n  intro x\n  simp", "  intro x\n  simp"),
            ("by   \n  intro x\n  simp", "  intro x\n  simp"),
            ("simp", "  simp\n"),
        ] {
            assert_eq!(indented(proof), expected, "{proof}");
        }
    }

    /// The answers that the template `lean4-block` asks for, and what models make of it.
    #[test]
    fn a_proof_is_found_in_a_code_block_with_or_without_a_label() {
        let theorem = "theorem t : 1 = 1 := by\n  rfl\n";
        for completion in [
            "```lean4\n{}```",
            "\n```lean4\n{}```\n",
            "```lean\n{}```\n",
            "```\n{}```\n",
            "```lean4\n{}",
            "Here is the finished theorem:\n\n```lean4\n{}```\n\nIt holds by definition.",
            "```lean4\n{}```\n\n```text\nDone.\n```\n",
            // Without a label, after a heading or a sentence.
            "\n```\n{}```\n",
            "<think>x</think>\n\n```\n{}```",
            "Here is the proof:\n\n```\n{}```\n",
            "Here is the proof:\n\n```\n{}```\n\nIt holds by definition.",
            "Proof.\n\n---\n```\n{}```",
            "**Proof**\n```\n{}```",
            "### Proof\n\n```\n{}```\n",
            "```lean4\n{}```\nLean prints:\n```\nno goals\n```\n",
            "```lean4\n{}```\nLean prints\n```\nno goals\n```\n",
            "```lean4\n{}```\n```",
            "```lean4\n{}```\nIts axioms:\n```lean4\n#print axioms t -- none\n```\n",
            "```\n{}```\n```\n#check t\n#check @Nat.le\n```\n",
            "The rule is:\n```text\na = a\n```\nThe proof is:\n```\n{}```\n",
        ] {
            let completion = completion.replace("{}", theorem);
            assert_eq!(proof_in(&completion), theorem, "{completion}");
        }
    }

    /// The continuation of a prompt that ends in an open block.
    #[test]
    fn a_proof_ends_at_the_fence_that_closes_the_prompts_block() {
        let proof = "  intro x\n  exact h\n";
        for completion in [
            "{}",
            "{}```",
            "{}```\n\nThis proves it.",
            "{}```\n\n```lean4\nexample : True := trivial\n```\n",
            "{}```\nLean prints:\n```\nno goals\n```\n",
        ] {
            let completion = completion.replace("{}", proof);
            assert_eq!(proof_in(&completion), proof, "{completion}");
        }
        for proof in [
            "  nlinarith [h] -- by AM-GM.\n",
            "  exact le_trans ..\n",
            "  simp -- see **foo**\n",
            "  exact h\n\n  This completes it.\n",
        ] {
            for end in ["", "```\n", "```\n\nThis proves it."] {
                assert_eq!(proof_in(&format!("{proof}{end}")), proof);
            }
        }
    }

    #[test]
    fn a_thought_holds_no_proof() {
        let twice = "<think>a</think>exact h1\n<think>exact h2";
        for (completion, proof, open) in [
            ("<think>\nexact h1\n</think>\nexact h2", "\nexact h2", false),
            ("exact h1\n</think>\nexact h2", "\nexact h2", false),
            ("exact h1\n<think>\nexact h2", "exact h1\n", true),
            ("<think>\n```lean4\nexact h1\n```\n", "", true),
            (twice, "exact h1\n", true),
            ("exact h1", "exact h1", false),
        ] {
            assert_eq!(proof_in(completion), proof, "{completion}");
            assert_eq!(ends_in_thought(completion), open, "{completion}");
        }
    }
}
