//! The answer in a completion: the text without its thoughts and without the end tokens.

use std::borrow::Cow;

/// Tokens that end a turn or a text, written out as text. No Python program ends with one of them.
const END_TOKENS: [&str; 15] = [
    "<|im_end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|return|>",
    "<|endofturn|>",
    "<end_of_turn>",
    "<end_of_text>",
    "<eos>",
    "<EOT>",
    "<pad>",
    "</s>",
    "<｜end▁of▁sentence｜>",
];
/// Another end token, which is also Python: a list of a name, or a subscript.
const EOS: &str = "[EOS]";
/// Tokens after which a model may invent another turn.
const TURN_ENDS: [&str; 5] = [
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|end|>",
    "<end_of_turn>",
];

/// `completion` without the end tokens at its end.
pub(super) fn without_end_tokens(completion: &str) -> &str {
    // If the name is used elsewhere, `[EOS]` may be a list.
    let is_name = completion.replace(EOS, "").contains("EOS");
    let mut rest = completion;
    loop {
        let end = rest.trim_end();
        let shorter = END_TOKENS
            .iter()
            .find_map(|token| end.strip_suffix(token))
            .or_else(|| end.strip_suffix(EOS).filter(|_| !is_name));
        match shorter {
            Some(shorter) => rest = shorter,
            None => return rest,
        }
    }
}

/// `text` up to the first end-of-turn token that ends its line. Tokens inside a block of code that is closed later do not count.
pub(super) fn before_next_turn(text: &str) -> &str {
    let is_fence = |line: &str| line.trim_start().starts_with("```");
    let fences = text
        .split_inclusive('\n')
        .filter(|line| is_fence(line))
        .count();
    let (mut at, mut before) = (0, 0);
    for line in text.split_inclusive('\n') {
        let end = line.trim_end();
        before += usize::from(is_fence(line));
        if let Some(token) = TURN_ENDS.iter().find(|token| end.ends_with(**token))
            && (before % 2 == 0 || before == fences)
        {
            return &text[..at + end.len() - token.len()];
        }
        at += line.len();
    }
    text
}

/// `text` without its thoughts: the text inside `<think>…</think>`, and after a `<think>` that is not closed. A tag counts only at the beginning or the end of a line. A
/// `</think>` without a `<think>` closes the thought that the prompt opened.
pub(super) fn without_thought(text: &str) -> Cow<'_, str> {
    const OPEN: &str = "<think>";
    const CLOSE: &str = "</think>";
    let mut answer = String::new();
    let (mut rest, mut cut) = (text, false);
    while let Some((at, closes)) = first_tag(rest, OPEN, CLOSE) {
        cut = true;
        if closes {
            answer.clear();
            rest = &rest[at + CLOSE.len()..];
            continue;
        }
        answer.push_str(&rest[..at]);
        let thought = &rest[at + OPEN.len()..];
        rest = thought
            .find(CLOSE)
            .map_or("", |end| &thought[end + CLOSE.len()..]);
    }
    if !cut {
        return Cow::Borrowed(text);
    }
    answer.push_str(rest);
    Cow::Owned(answer)
}

/// The position of the first of two tags that begins or ends a line of `text`, ignoring blank space, and whether it is the closing tag.
fn first_tag(text: &str, open: &str, close: &str) -> Option<(usize, bool)> {
    let mut at = 0;
    text.split_inclusive('\n').find_map(|line| {
        let words = line.trim_start();
        let start = at + line.len() - words.len();
        let end = at + line.trim_end().len();
        at += line.len();
        let tags = || [(open, false), (close, true)].into_iter();
        let first = tags().find(|(tag, _)| words.starts_with(tag));
        let last = tags().find(|(tag, _)| words.trim_end().ends_with(tag));
        first
            .map(|(_, closes)| (start, closes))
            .or_else(|| last.map(|(tag, closes)| (end - tag.len(), closes)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_tokens_are_removed_only_at_the_end() {
        let list = "EOS = 0\ndef f():\n    return [EOS]";
        for (completion, rest) in [
            ("x = 1<|im_end|>", "x = 1"),
            ("x = 1\n<|im_end|>\n<|endoftext|>\n", "x = 1\n"),
            ("x = '</s>'\n", "x = '</s>'\n"),
            ("<|im_end|> x", "<|im_end|> x"),
            ("return [1][EOS][EOS]", "return [1]"),
            (list, list),
        ] {
            assert_eq!(without_end_tokens(completion), rest);
        }
    }

    #[test]
    fn text_after_the_end_of_a_turn_is_dropped() {
        let in_string = "```\nx = '''<|im_end|>\n'''\n```";
        for (text, answer) in [
            ("x = 1<|im_end|>\n<|im_start|>user\nx", "x = 1"),
            ("```\nx = 1\n```<|im_end|>\n```\ny\n```", "```\nx = 1\n```"),
            ("```\nx = 1<|im_end|>\nuser\n", "```\nx = 1"),
            (in_string, in_string),
            ("x = '<|im_end|>'\n", "x = '<|im_end|>'\n"),
        ] {
            assert_eq!(before_next_turn(text), answer, "{text}");
        }
    }

    #[test]
    fn thoughts_are_dropped() {
        for (text, answer) in [
            ("<think>a</think>b", "b"),
            ("a\n <think>b\nc</think>\nd", "a\n \nd"),
            ("a\n<think>\nb", "a\n"),
            ("a\n</think>\nb", "\nb"),
            ("<think>a</think>b\n<think>c</think>d", "b\nd"),
            ("x = '<think>'", "x = '<think>'"),
            ("so it is.</think>\nb", "\nb"),
            ("Well. <think>\na\n</think>b", "Well. b"),
            ("a </think> b", "a </think> b"),
        ] {
            assert_eq!(without_thought(text), answer, "{text}");
        }
    }
}
