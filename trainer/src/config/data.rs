//! `[model]` and `[data]`.

use std::path::PathBuf;

use datasets::settings::{settings, whole};
use engine::text::Date;

use super::limits::{MAX_COUNTED, MAX_TOKENS};

settings! {
    /// `[model]`: exactly one of the two.
    pub struct Model {
        /// A name that `rapid fetch model:NAME` knows: smollm2-135m-instruct is a file with 4-bit weights, and smollm2-135m-instruct-bf16 the same model in its authors'
        /// own. Or any model of the hub, as owner/name.
        pub name: Option<String>,
        /// A GGUF file, or a folder with config.json, tokenizer.json and *.safetensors.
        pub path: Option<PathBuf>,
    }
}

settings! {
    /// `[data]`.
    pub struct Data {
        /// mbppplus, math, gsm8k, minif2f, humaneval, starter-math, starter-code, starter-lean, or a path to a .jsonl file of your own. It has to be there.
        pub dataset: String,
        /// How a task becomes a prompt. One of:
        ///   auto            the data set's own template, which for starter-math is few-shot-boxed; for a file of your own, the question as it stands
        ///   a name          plain, boxed, few-shot-boxed, mbppplus, function-body or lean4
        ///   the text itself with {question} in it, or {statement} for Lean; {example} (an assertion) and {header} (Lean) may be there too
        ///   a path          of a file that holds such a text and nothing else, taken as it stands, its last line break included; or of a .toml file with the
        ///                   key `text`, and `stop` and `kind` where wanted, as the built-in templates are (datasets/templates/)
        pub template: String = "auto".into(),
        /// true puts the prompt into the model's chat template, as the user's message.
        pub chat: bool,
        /// The day, as in 2026-03-09, that chat templates print which print one, such as Llama 3's; that on which the run began unless set.
        pub chat_date: Option<String>,
        /// Texts that end a completion, besides the end-of-text tokens; the template's unless set: few-shot-boxed has a line break.
        pub stop: Option<Vec<String>>,
        /// Longer training prompts are left out, with a count.
        pub max_prompt_tokens: usize = 1024 => whole(1, MAX_TOKENS as u64),
        /// Train on the first so many tasks only; all unless set.
        pub train_limit: Option<usize> => whole(1, MAX_COUNTED).or(", or leave the key out for all of them"),
        /// A JSON Lines file of a teacher's completions, for supervised fine-tuning on those that the verifier finds right: the preset sft needs it, and no other takes it;
        /// see the recipe smollm2-sft.
        pub teacher: Option<PathBuf>,
    }
}

impl Data {
    /// `chat_date`, where it is set.
    #[must_use]
    pub fn chat_day(&self) -> Option<Date> {
        self.chat_date.as_deref()?.parse().ok()
    }
}
