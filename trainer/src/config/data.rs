//! `[model]` and `[data]`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use datasets::Source;
use datasets::settings::{above, settings, whole};
use engine::text::Date;
use toml::Table;

use super::Config;
use super::limits::{MAX_COUNT, MAX_NUMBER, MAX_TOKENS};

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
    /// `[data]`: exactly one of `dataset` and `sets`.
    pub struct Data {
        /// mbppplus, math, gsm8k, minif2f, humaneval, starter-math, starter-math-400, starter-code, starter-lean; a path to a file of your own (.jsonl,
        /// .json, .csv or .parquet); or a data set of the Hugging Face hub, as owner/name. docs/data.md describes all. Required, unless there are sections `data.sets.NAME`.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub dataset: String,
        /// The part of a data set of the hub that has several. The hub calls it a configuration.
        pub subset: Option<String>,
        /// The commit, branch or tag of a data set of the hub.
        pub revision: Option<String>,
        /// The split of a data set of the hub to train on; unless set, train.
        pub train_split: Option<String>,
        /// The split of a data set of the hub to evaluate on; unless set, test, or else validation.
        pub eval_split: Option<String>,
        /// The columns that have the fields of a task, as in { question = "problem", answer = "gold" }; common names need none.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        pub columns: BTreeMap<String, String>,
        /// The kind of all tasks, where records do not tell it: math, code, program, lean, or the name of a grader of your own.
        pub grader: Option<String>,
        /// A system prompt: the system message, before the user's. It needs `chat = true`.
        pub system: Option<String>,
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
        /// Train only on this many tasks of each data set, the first ones; unless set, on all.
        pub train_limit: Option<usize> => whole(1, MAX_COUNT).hint(", or leave the key out for all tasks"),
        /// A JSON Lines file of a teacher's completions, for supervised fine-tuning on those that the verifier judges correct. The preset sft requires it, and no other
        /// preset allows it; see the recipe smollm2-sft.
        pub teacher: Option<PathBuf>,
        /// A mixture: train on several data sets, each in a section of its own, in place of `dataset`. An epoch has as many prompts as all of them have tasks.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        pub sets: BTreeMap<String, DataSet>,
    }
}

settings! {
    /// `[data.sets.NAME]` or `[eval.sets.NAME]`: one of several data sets. It has the keys of `[data]` that are about a data set, and a weight.
    pub struct DataSet {
        /// As `data.dataset`. Required.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub dataset: String,
        /// In `data.sets`: its share of the training prompts, relative to the other weights. Give each set one, or none: then each task is used once an epoch.
        pub weight: Option<f64> => above(0.0, MAX_NUMBER),
        /// As `data.template`.
        pub template: String = "auto".into(),
        /// As `data.system`, which it replaces.
        pub system: Option<String>,
        /// As `data.subset`.
        pub subset: Option<String>,
        /// As `data.revision`.
        pub revision: Option<String>,
        /// As `data.train_split`.
        pub train_split: Option<String>,
        /// As `data.eval_split`.
        pub eval_split: Option<String>,
        /// As `data.columns`.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        pub columns: BTreeMap<String, String>,
        /// As `data.grader`.
        pub grader: Option<String>,
    }
}

/// A data set of a run.
#[derive(Debug, Clone)]
pub struct RunSet {
    /// Its section of the recipe: `data`, `data.sets.NAME` or `eval.sets.NAME`.
    pub section: String,
    /// Whether it is trained on; of `eval.sets` it is not.
    pub is_trained_on: bool,
    /// Its weight in a mixture.
    pub weight: Option<f64>,
    /// Its `[data]`, as if it were the only data set.
    pub data: Data,
}

impl RunSet {
    /// Its name among several.
    pub fn name(&self) -> &str {
        self.section.splitn(3, '.').last().unwrap_or_default()
    }
}

impl Config {
    /// The data sets of a run: those to train on, then those of `eval.sets`.
    pub fn data_sets(&self) -> Vec<RunSet> {
        let mut all = Vec::new();
        if self.data.sets.is_empty() {
            all.push(RunSet {
                section: "data".to_owned(),
                is_trained_on: true,
                weight: None,
                data: self.data.clone(),
            });
        }
        for (section, sets) in [("data", &self.data.sets), ("eval", &self.eval.sets)] {
            all.extend(sets.iter().map(|(name, set)| RunSet {
                section: format!("{section}.sets.{name}"),
                is_trained_on: section == "data",
                weight: set.weight,
                data: self.data.of_set(set),
            }));
        }
        all
    }
}

impl Data {
    /// This section with a set as its only data set.
    fn of_set(&self, set: &DataSet) -> Self {
        let form = "every key has a TOML form";
        let mut table = Table::try_from(self).expect(form);
        table.remove("sets");
        for key in DataSet::KEYS.iter().filter(|key| key.name != "system") {
            table.remove(key.name);
        }
        table.extend(Table::try_from(set).expect(form));
        table.remove("weight");
        table
            .try_into()
            .expect("the keys of a set, except its weight, are keys of `[data]`")
    }

    /// Where the tasks of its one data set come from.
    pub fn source(&self) -> Source {
        let data = self.clone();
        Source {
            dataset: data.dataset,
            subset: data.subset,
            revision: data.revision,
            train_split: data.train_split,
            eval_split: data.eval_split,
            columns: data.columns,
            grader: data.grader,
        }
    }

    /// The data set that is trained on, or those of a mixture, for people to read.
    pub fn name(&self) -> String {
        match self.sets.is_empty() {
            true => self.dataset.clone(),
            false => Vec::from_iter(self.sets.values().map(|set| &*set.dataset)).join(" + "),
        }
    }

    /// The parsed `chat_date`; `None` if it is not set or not a date.
    pub fn chat_day(&self) -> Option<Date> {
        self.chat_date.as_deref()?.parse().ok()
    }
}
