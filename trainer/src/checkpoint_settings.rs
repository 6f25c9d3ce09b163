//! The settings in a checkpoint of the run that made it, as `rapid.toml` beside the weights: how the run made prompts, and how it sampled in evaluations.
//!
//! The file has the text of the prompt template, so that the checkpoint can be moved anywhere. It may come with weights from anywhere. So its values are checked
//! like those of a recipe, and it can set neither a verifier's address nor the variable that holds a token.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use datasets::Template;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::config::{self, Config, Data, Eval, Verifier};
use crate::data::PromptRenderer;

/// The file's name in a checkpoint's folder.
pub const NAME: &str = "rapid.toml";
const VERSION: i64 = 1;
/// Maximum size of the file. A template with a dozen solved problems has some KB.
const MAX_BYTES: u64 = 1 << 20;
/// Keys of `[data]` that determine prompts.
const DATA: [&str; 4] = ["dataset", "chat", "chat_date", "system"];
/// Keys of `[eval]` that determine how completions are sampled.
const EVAL: [&str; 5] = ["temperature", "top_p", "top_k", "min_p", "min_tokens"];
/// Keys of `[verifier]` that determine how answers are read and compared, if the recipe has them.
const VERIFIER: [&str; 3] = ["math_policy", "math_extraction", "code_extraction"];

/// The settings that `rapid eval` and `rapid generate` use unless the command line gives others.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckpointSettings {
    /// The file that it was read from.
    pub source: PathBuf,
    /// How prompts were made; `template` is a name for people.
    pub data: Data,
    /// The template that `data.template` names.
    pub template: Template,
    /// How completions were sampled, `max_tokens` included.
    pub eval: Eval,
    /// How answers are read and compared, without an address.
    verifier: Verifier,
    /// The settings of the run's other data sets.
    others: Vec<CheckpointSettings>,
}

/// The error for a file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(
    "{path} has the settings of the run that made this checkpoint, and cannot be used: {reason}. Restore the file; or delete it, and give its settings on the command line (--template, --max-tokens, --temperature, --stop)"
)]
pub struct CheckpointSettingsError {
    path: PathBuf,
    reason: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    version: i64,
    made: CheckpointOrigin,
    template: TemplateText,
    data: Table,
    eval: Table,
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    verifier: Table,
    /// In a run with several data sets: the content for each after the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    sets: Vec<Content>,
}

/// The origin of the checkpoint, for people.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckpointOrigin {
    by: String,
    model: String,
    algorithm: String,
    seed: u64,
    step: usize,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TemplateText {
    name: String,
    text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
}

/// The settings file of the checkpoint after `step` updates of a run with this configuration, and this renderer for each of its data sets.
pub fn settings_file(config: &Config, renderers: &[PromptRenderer], step: usize) -> String {
    let sets = config.data_sets().into_iter().zip(renderers);
    let mut contents = sets.map(|(set, renderer)| {
        let mut own = config.clone();
        own.data = set.data;
        content(&own, renderer, step)
    });
    let mut content = contents.next().expect("a run has a data set");
    content.sets = contents.collect();
    let text = toml::to_string(&content).expect("texts, numbers and lists have a TOML form");
    format!(
        "# How the run that made this checkpoint made prompts and sampled completions. `rapid eval` uses these settings unless the command line gives others.\n{text}"
    )
}

/// The content for the only data set of a configuration.
fn content(config: &Config, renderer: &PromptRenderer, step: usize) -> Content {
    let table = Table::try_from(config).unwrap_or_default();
    let part = |section: &str, keys: &[&str]| -> Table {
        let content = table.get(section).and_then(Value::as_table);
        let chosen = |key: &&str| Some(((*key).to_owned(), content?.get(*key)?.clone()));
        keys.iter().filter_map(chosen).collect()
    };
    let (mut data, mut eval) = (part("data", &DATA), part("eval", &EVAL));
    data.insert("dataset".into(), name_of(&config.data.dataset).into());
    let stop = renderer.stop_strings().iter().cloned().map(Value::from);
    data.insert("stop".into(), stop.collect::<Vec<_>>().into());
    let max_tokens = config.eval.max_tokens.unwrap_or(config.sampling.max_tokens);
    eval.insert("max_tokens".into(), Value::Integer(max_tokens as i64));
    let path = config.model.path.as_ref();
    let path = path.map(|path| name_of(&path.to_string_lossy()).to_owned());
    let template = &renderer.template;
    Content {
        version: VERSION,
        made: CheckpointOrigin {
            by: concat!("rapid ", env!("CARGO_PKG_VERSION")).into(),
            model: config.model.name.clone().or(path).unwrap_or_default(),
            algorithm: config.algorithm.preset.name().into(),
            seed: config.run.seed,
            step,
        },
        template: TemplateText {
            // Not its text, and not the folder of its file, which is private.
            name: match config.data.template.as_str() {
                "auto" => format!("{}'s own", name_of(&config.data.dataset)),
                text if text.contains('{') => "the recipe's own".to_owned(),
                path => name_of(path).to_owned(),
            },
            text: template.text().to_owned(),
            kind: template.kind.clone(),
        },
        data,
        eval,
        verifier: part("verifier", &VERIFIER),
        sets: Vec::new(),
    }
}

impl CheckpointSettings {
    /// The settings in a checkpoint's file; `None` for a model without that file.
    ///
    /// # Errors
    /// [`CheckpointSettingsError`] if the file exists and cannot be used.
    pub fn of(model: &Path) -> Result<Option<Self>, CheckpointSettingsError> {
        let file = model.join(NAME);
        if file.symlink_metadata().is_err() {
            return Ok(None);
        }
        let text = read(&file).map_err(|error| error.to_string());
        let settings = text.and_then(|text| parse(&file, &text));
        settings
            .map(Some)
            .map_err(|reason| CheckpointSettingsError {
                path: file,
                reason: reason.split_whitespace().collect::<Vec<_>>().join(" "),
            })
    }

    /// In a run with several data sets, takes the settings for this one. A set that the run did not have gets its own template, and a system prompt only if all sets
    /// had the same.
    pub fn choose(&mut self, dataset: &str) {
        let others = std::mem::take(&mut self.others);
        let is_same = others
            .iter()
            .all(|other| other.data.system == self.data.system);
        if others.is_empty() || self.data.dataset == name_of(dataset) {
            return;
        }
        let mut others = others.into_iter();
        if let Some(found) = others.find(|other| other.data.dataset == name_of(dataset)) {
            *self = found;
            return;
        }
        self.template = Template::for_dataset(dataset);
        self.data.template = "auto".to_owned();
        self.data.stop = None;
        self.data.system.take_if(|_| !is_same);
    }

    /// The renderer of the run's prompts.
    pub fn renderer(&self) -> PromptRenderer {
        PromptRenderer::with_template(self.template.clone(), &self.data)
    }

    /// A verifier's settings with the run's settings of how answers are read and compared.
    pub fn verifier(&self, settings: Verifier) -> Verifier {
        let run = self.verifier.clone();
        Verifier {
            math_policy: run.math_policy.or(settings.math_policy),
            math_extraction: run.math_extraction.or(settings.math_extraction),
            code_extraction: run.code_extraction.or(settings.code_extraction),
            ..settings
        }
    }
}

/// The file's text. Only a regular file is read, of at most [`MAX_BYTES`].
fn read(path: &Path) -> io::Result<String> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    let read = File::open(path)?
        .take(MAX_BYTES + 1)
        .read_to_string(&mut text)?;
    if read as u64 > MAX_BYTES {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    Ok(text)
}

/// The settings of a file's text, or the reason why it cannot be used.
fn parse(path: &Path, text: &str) -> Result<CheckpointSettings, String> {
    let described = |error: toml::de::Error| error.to_string();
    let table: Table = text.parse().map_err(described)?;
    match table.get("version").and_then(Value::as_integer) {
        Some(VERSION) => {}
        Some(other) => {
            return Err(format!(
                "it is of version {other}, and this `rapid` reads version {VERSION}: use the `rapid` that made it, or a newer one"
            ));
        }
        None => return Err("it has no `version`".into()),
    }
    settings(path, table.try_into().map_err(described)?)
}

/// The settings of a file's content, or the reason why it cannot be used.
fn settings(path: &Path, content: Content) -> Result<CheckpointSettings, String> {
    for (section, table, keys) in [
        ("data", &content.data, &[&DATA[..], &["stop"]].concat()[..]),
        (
            "eval",
            &content.eval,
            &[&EVAL[..], &["max_tokens"]].concat(),
        ),
        ("verifier", &content.verifier, &VERIFIER),
    ] {
        if let Some(key) = table.keys().find(|key| !keys.contains(&key.as_str())) {
            return Err(format!("it cannot set `{section}.{key}`"));
        }
    }
    let config = as_a_recipe(&content).map_err(|error| error.to_string())?;
    let template = template(&content.template)?;
    let others = content.sets.into_iter();
    let others = others.map(|content| settings(path, content));
    Ok(CheckpointSettings {
        source: path.to_owned(),
        data: Data {
            template: content.template.name,
            ..config.data
        },
        template,
        eval: config.eval,
        verifier: config.verifier,
        others: others.collect::<Result<_, _>>()?,
    })
}

/// The same values as a recipe, which checks them.
fn as_a_recipe(content: &Content) -> Result<Config, config::ConfigError> {
    let model = Table::from_iter([("name".to_owned(), Value::from("-"))]);
    let sections = [
        ("model", &model),
        ("data", &content.data),
        ("eval", &content.eval),
        ("verifier", &content.verifier),
    ];
    let recipe = sections.map(|(name, table)| (name.to_owned(), table.clone().into()));
    config::parse("it", &Table::from_iter(recipe).to_string(), &[])
}

fn template(template: &TemplateText) -> Result<Template, String> {
    let TemplateText { text, kind, .. } = template;
    let kind = kind
        .iter()
        .map(|kind| ("kind".to_owned(), Value::from(kind.as_str())));
    let text = ("text".to_owned(), Value::from(text.as_str()));
    let table: Table = kind.chain([text]).collect();
    Template::from_toml(&table.to_string()).map_err(|error| error.to_string())
}

/// The name of a file, without its folder.
fn name_of(path: &str) -> &str {
    Path::new(path)
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or(path)
}

#[cfg(test)]
mod tests;
