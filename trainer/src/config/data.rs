//! `[model]` and `[data]`.

use std::path::PathBuf;

use datasets::Source;
use datasets::settings::{settings, whole};
use engine::text::Date;

use super::limits::{MAX_COUNT, MAX_TOKENS};

settings! {
    /// `[model]`: exactly one of the two keys.
    pub struct Model {
        /// A name that `rapid fetch model:NAME` knows: smollm2-135m-instruct is a file with 4-bit weights, and smollm2-135m-instruct-bf16 the same model with its authors'
        /// weights. Or any model of the hub, as owner/name.
        pub name: Option<String>,
        /// A GGUF file, or a folder with config.json, tokenizer.json and *.safetensors.
        pub path: Option<PathBuf>,
    }
}

settings! {
    /// `[data]`.
    pub struct Data {
        /// mbppplus, math, gsm8k, minif2f, humaneval, starter-math, starter-math-400, starter-code, starter-lean, or a path to a .jsonl file of your own. Required.
        pub dataset: String,
        /// How a task becomes a prompt. One of:
        ///   auto            the data set's own template, which for starter-math is few-shot-boxed; for a file of your own, the question as it stands
        ///   a name          plain, boxed, few-shot-boxed, mbppplus, function-body, lean4 or lean4-block
        ///   the text itself with {question} in it, or {statement} for Lean; optionally also {example} (an assertion) and {header} (Lean)
        ///   a path          of a file that contains only such a text, which is used as it stands, including its last line break; or of a .toml file with the
        ///                   key `text`, and optionally `stop` and `kind`, as the built-in templates are (datasets/templates/)
        pub template: String = "auto".into(),
        /// true puts the prompt into the model's chat template, as the user's message.
        pub chat: bool,
        /// The date, as in 2026-03-09, that chat templates with a date print, such as Llama 3's; unless set, the day on which the run began.
        pub chat_date: Option<String>,
        /// Stop strings, which end a completion in addition to the end-of-text tokens; unless set, the template's: few-shot-boxed has a line break.
        pub stop: Option<Vec<String>>,
        /// Training prompts with more tokens are left out, and their number is reported.
        pub max_prompt_tokens: usize = 1024 => whole(1, MAX_TOKENS as u64),
        /// Train only on this many tasks, the first ones; unless set, on all.
        pub train_limit: Option<usize> => whole(1, MAX_COUNT).hint(", or leave the key out for all tasks"),
        /// A JSON Lines file of a teacher's completions, for supervised fine-tuning on those that the verifier judges correct. The preset sft requires it, and no other
        /// preset allows it; see the recipe smollm2-sft.
        pub teacher: Option<PathBuf>,
    }
}

impl Data {
    /// Where its tasks come from.
    #[must_use]
    pub fn source(&self) -> Source {
        Source::named(&self.dataset)
    }

    /// The parsed `chat_date`; `None` if it is not set or not a date.
    #[must_use]
    pub fn chat_day(&self) -> Option<Date> {
        self.chat_date.as_deref()?.parse().ok()
    }
}
