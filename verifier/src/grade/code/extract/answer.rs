//! What of a completion is its answer: not what was thought before, and not the tokens that end it.

use std::borrow::Cow;

/// Tokens that end a turn or a text, as models spell them out.
const END_TOKENS: [&str; 16] = [
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
    "[EOS]",
];

/// `completion` without the end tokens that stand at its end.
pub(super) fn without_end_tokens(completion: &str) -> &str {
    let mut rest = completion;
    while let Some(shorter) = END_TOKENS
        .iter()
        .find_map(|token| rest.trim_end().strip_suffix(token))
    {
        rest = shorter;
    }
    rest
}

/// `text` without what stands inside `<think>…</think>`, or after a `<think>` that stays open. Either counts at the beginning of a line; a `</think>` that nothing has opened ends what the
/// prompt had opened.
pub(super) fn without_thought(text: &str) -> Cow<'_, str> {
    const OPEN: &str = "<think>";
    const CLOSE: &str = "</think>";
    let mut kept = String::new();
    let (mut rest, mut cut) = (text, false);
    while let Some((at, closes)) = first_tag(rest, OPEN, CLOSE) {
        cut = true;
        if closes {
            kept.clear();
            rest = &rest[at + CLOSE.len()..];
            continue;
        }
        kept.push_str(&rest[..at]);
        let thought = &rest[at + OPEN.len()..];
        rest = thought
            .find(CLOSE)
            .map_or("", |end| &thought[end + CLOSE.len()..]);
    }
    if !cut {
        return Cow::Borrowed(text);
    }
    kept.push_str(rest);
    Cow::Owned(kept)
}

/// Where one of two tags first begins a line of `text`, blank space apart, and whether it is the second.
fn first_tag(text: &str, open: &str, close: &str) -> Option<(usize, bool)> {
    let mut at = 0;
    text.split_inclusive('\n').find_map(|line| {
        let words = line.trim_start();
        let start = at + line.len() - words.len();
        at += line.len();
        let closes = words.starts_with(close);
        (closes || words.starts_with(open)).then_some((start, closes))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_tokens_are_cut_at_the_end_alone() {
        for (completion, rest) in [
            ("x = 1<|im_end|>", "x = 1"),
            ("x = 1\n<|im_end|>\n<|endoftext|>\n", "x = 1\n"),
            ("x = '</s>'\n", "x = '</s>'\n"),
            ("<|im_end|> x", "<|im_end|> x"),
        ] {
            assert_eq!(without_end_tokens(completion), rest);
        }
    }

    #[test]
    fn what_is_thought_is_no_answer() {
        for (text, answer) in [
            ("<think>a</think>b", "b"),
            ("a\n <think>b\nc</think>\nd", "a\n \nd"),
            ("a\n<think>\nb", "a\n"),
            ("a\n</think>\nb", "\nb"),
            ("<think>a</think>b\n<think>c</think>d", "b\nd"),
            ("x = '<think>'", "x = '<think>'"),
        ] {
            assert_eq!(without_thought(text), answer, "{text}");
        }
    }
}
