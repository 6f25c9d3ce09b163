//! Finds the completion in a text that a client sends with special tokens, and perhaps with the prompt before it.

/// Tokens that begin a text, in common tokenizers.
const BEGIN_TOKENS: [&str; 5] = [
    "<s>",
    "<bos>",
    "<|begin_of_text|>",
    "<|startoftext|>",
    "<｜begin▁of▁sentence｜>",
];

/// Tokens that end a turn or a text, or fill it up, in common chat templates.
const END_TOKENS: [&str; 13] = [
    "<|im_end|>",
    "</s>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|end_of_text|>",
    "<|eom_id|>",
    "<end_of_turn>",
    "<eos>",
    "<|end|>",
    "<|return|>",
    "<｜end▁of▁sentence｜>",
    "<pad>",
    "<|finetune_right_pad_id|>",
];

/// A prompt that was too long may have lost its beginning. Its end must have at least this many bytes to count as the prompt.
const MIN_CUT_PROMPT: usize = 32;
/// Maximum bytes of a prompt for which such an end is looked for.
const MAX_CUT_PROMPT: usize = 1 << 20;

/// `text` without the end tokens that it ends with.
pub(super) fn without_end_tokens(mut text: &str) -> &str {
    loop {
        let trimmed = text.trim_end();
        match END_TOKENS
            .iter()
            .find_map(|token| trimmed.strip_suffix(token))
        {
            Some(rest) => text = rest,
            None => return text,
        }
    }
}

fn without_begin_tokens(mut text: &str) -> &str {
    while let Some(rest) = BEGIN_TOKENS
        .iter()
        .find_map(|token| text.strip_prefix(token))
    {
        text = rest;
    }
    text
}

/// The completion in `text`. It may come after `prompt`, or after the end of a prompt that was too long.
pub(super) fn after_prompt<'a>(text: &'a str, prompt: &str) -> &'a str {
    let (text, prompt) = (without_begin_tokens(text), without_begin_tokens(prompt));
    let rest = text.strip_prefix(prompt).or_else(|| {
        let cut = overlap(prompt, text);
        (cut >= MIN_CUT_PROMPT).then(|| &text[cut..])
    });
    without_end_tokens(rest.unwrap_or(text))
}

/// Bytes of the longest end of `prompt` that `text` begins with, by the algorithm of Knuth, Morris and Pratt.
fn overlap(prompt: &str, text: &str) -> usize {
    let (prompt, text) = (prompt.as_bytes(), text.as_bytes());
    let pattern = &text[..text.len().min(prompt.len())];
    if pattern.is_empty() || prompt.len() > MAX_CUT_PROMPT {
        return 0;
    }
    // For each beginning of the pattern, the length of its longest proper beginning that it also ends with.
    let mut borders = vec![0; pattern.len()];
    let longer = |borders: &[usize], mut matched: usize, byte: u8| {
        while matched > 0 && pattern.get(matched) != Some(&byte) {
            matched = borders[matched - 1];
        }
        matched + usize::from(pattern.get(matched) == Some(&byte))
    };
    for end in 1..pattern.len() {
        borders[end] = longer(&borders, borders[end - 1], pattern[end]);
    }
    prompt
        .iter()
        .fold(0, |matched, byte| longer(&borders, matched, *byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PROMPT: &str = "<|im_start|>user\nHow much is 1 + 1?<|im_end|>\n<|im_start|>assistant\n";

    #[test]
    fn the_prompt_is_removed_whole_or_cut_with_or_without_begin_tokens() {
        let completion = "It is \\boxed{2}.";
        for before in [
            PROMPT.to_owned(),
            format!("<|begin_of_text|>{PROMPT}"),
            PROMPT[20..].to_owned(),
            String::new(),
        ] {
            for prompt in [PROMPT.to_owned(), format!("<s>{PROMPT}")] {
                let query = format!("{before}{completion}<|im_end|>\n<|endoftext|>");
                assert_eq!(after_prompt(&query, &prompt), completion, "{query}");
            }
        }
        assert_eq!(after_prompt("It is 2.</s>", ""), "It is 2.");
        assert_eq!(after_prompt(PROMPT, PROMPT), "");
    }

    #[test]
    fn a_short_beginning_like_the_end_of_the_prompt_and_tokens_elsewhere_stay() {
        let prompt = "End with the answer, after the word Answer:";
        assert_eq!(after_prompt("Answer: 2", prompt), "Answer: 2");
        for kept in ["<|im_end|> is a token", "<s>a</s>b", " two \n"] {
            assert_eq!(without_end_tokens(kept), kept);
        }
        assert_eq!(without_end_tokens("two <|eot_id|> \n"), "two ");
    }

    proptest! {
        #[test]
        fn the_overlap_is_the_longest(prompt in "[aéb]{0,12}", text in "[aéb]{0,12}") {
            let ends = (0..=prompt.len()).filter(|at| prompt.is_char_boundary(*at));
            let longest = ends.map(|at| &prompt[at..]).find(|end| text.starts_with(end)).unwrap_or("");
            prop_assert_eq!(overlap(&prompt, &text), longest.len());
        }
    }
}
