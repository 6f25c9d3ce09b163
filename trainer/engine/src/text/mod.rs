//! The text side of a model: tokenizer and chat template, and the files that store them in checkpoints.

mod end_tokens;
mod gguf;
pub(crate) mod random_model_tokenizer;
mod stop;
mod template;
mod tokenizer;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::config::ModelConfig;
use crate::error::EngineError;
use crate::file::gguf::Gguf;
use crate::file::{read_text, wrong};
pub use jiff::civil::Date;
pub use stop::{Detokenizer, StopStrings};
pub use template::ChatTemplate;
pub use tokenizer::Tokenizer;

/// Tokenizer and chat template.
pub struct Text {
    /// Text ↔ token ids.
    pub tokenizer: Tokenizer,
    /// The chat template, if the model has one.
    pub template: Option<ChatTemplate>,
    /// Warnings about the model's files, for the user.
    pub(crate) warnings: Vec<String>,
    files: BTreeMap<String, String>,
}

impl Text {
    /// A tokenizer without a chat template and without files.
    pub(crate) fn without_template(tokenizer: Tokenizer) -> Self {
        Self {
            tokenizer,
            template: None,
            warnings: Vec::new(),
            files: BTreeMap::new(),
        }
    }

    /// Reads a folder's `tokenizer.json` and, if they exist, `tokenizer_config.json`, `special_tokens_map.json` and `chat_template.jinja`. The end tokens that they name
    /// are added to the configuration's.
    pub(crate) fn from_folder(
        folder: &Path,
        config: &mut ModelConfig,
    ) -> Result<Self, EngineError> {
        let mut files = BTreeMap::new();
        for name in [
            "tokenizer.json",
            "tokenizer_config.json",
            "special_tokens_map.json",
            "chat_template.jinja",
            "generation_config.json",
        ] {
            let path = folder.join(name);
            if path.exists() {
                files.insert(name.to_owned(), read_text(&path)?);
            }
        }
        let wrong = |name: &str, reason| wrong(&folder.join(name), reason);
        let Some(json) = files.get("tokenizer.json") else {
            return Err(wrong(
                "tokenizer.json",
                "does not exist; other forms of tokenizers (tokenizer.model) are not read, so save the tokenizer as tokenizer.json with transformers".into(),
            ));
        };
        let tokenizer = Tokenizer::from_json(json).map_err(|e| wrong("tokenizer.json", e))?;
        let parsed = |name: &str| match files.get(name) {
            Some(text) => {
                serde_json::from_str(text).map_err(|e| wrong(name, format!("not valid JSON: {e}")))
            }
            None => Ok(Value::Null),
        };
        let [settings, map] = SETTINGS.map(parsed);
        let (settings, map) = (settings?, map?);
        let (name, source) = match files.get("chat_template.jinja") {
            Some(source) => ("chat_template.jinja", Some(source.as_str())),
            None => ("tokenizer_config.json", configured_template(&settings)),
        };
        let text = Self::new(tokenizer, [&settings, &map], source, config);
        let (text, _) = text.map_err(|e| wrong(name, e))?;
        Ok(Self { files, ..text })
    }

    /// Reads the tables in a GGUF file's metadata. The end token of its chat template is added to the configuration's.
    pub(crate) fn from_gguf(gguf: &Gguf, config: &mut ModelConfig) -> Result<Self, String> {
        let json = gguf::tokenizer_json(gguf, config)?.to_string();
        let tokenizer = Tokenizer::from_json(&json)?;
        let source = match gguf.value("tokenizer.chat_template") {
            Some(crate::file::gguf::Value::Text(source)) => Some(source.as_str()),
            _ => None,
        };
        let (text, special) = Self::new(tokenizer, [&Value::Null; 2], source, config)?;
        let settings = gguf::tokenizer_config(&special, source, config);
        let files = BTreeMap::from([
            ("tokenizer.json".to_owned(), json),
            (
                "tokenizer_config.json".to_owned(),
                format!("{settings:#}\n"),
            ),
        ]);
        Ok(Self { files, ..text })
    }

    /// The text side with the contents of [`SETTINGS`] and a template's source, without files; and the texts of special tokens by their names in templates.
    fn new(
        mut tokenizer: Tokenizer,
        settings: [&Value; 2],
        source: Option<&str>,
        config: &mut ModelConfig,
    ) -> Result<(Self, BTreeMap<String, String>), String> {
        let template = |special: &BTreeMap<_, _>| {
            let template = source.map(|source| ChatTemplate::new(source, special.clone()));
            template.transpose()
        };
        let special = special_tokens(settings, &tokenizer, config);
        let files = [0, 1].map(|file| (SETTINGS[file], settings[file]));
        let own = template(&special)?;
        let warnings = end_tokens::apply(config, &mut tokenizer, &files, own.as_ref(), &special);
        // If config.json has no end token, the first one is known only now. A checkpoint of the model lists it there.
        let special = special_tokens(settings, &tokenizer, config);
        let text = Self {
            template: template(&special)?,
            tokenizer,
            warnings,
            files: BTreeMap::new(),
        };
        Ok((text, special))
    }

    /// Token ids of a text; see [`Engine::encode`](crate::Engine::encode).
    pub fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>, EngineError> {
        let encoded = self.tokenizer.encode(text, special);
        encoded.map_err(EngineError::Request)
    }

    /// Renders the chat template over messages; see [`Engine::chat_prompt`](crate::Engine::chat_prompt).
    pub fn chat_prompt(
        &self,
        messages: &[(String, String)],
        day: Date,
    ) -> Result<String, EngineError> {
        let template = self.template.as_ref().ok_or_else(|| {
            EngineError::Request(
                "the model has no chat template, so it is not a chat model; give it plain prompts, or use its instruction-tuned variant".into(),
            )
        })?;
        template.render(messages, day).map_err(EngineError::Request)
    }

    /// The tokenizer and the chat template as metadata of a GGUF file; an error if such a file cannot describe them exactly.
    pub(crate) fn gguf_metadata(
        &self,
        config: &ModelConfig,
    ) -> Result<Vec<(String, crate::file::gguf::Value)>, String> {
        let settings = self.files.get("tokenizer_config.json");
        let settings: Value = settings
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default();
        let template = match self.files.get("chat_template.jinja") {
            Some(source) => Some(source.as_str()),
            None => configured_template(&settings),
        };
        gguf::metadata(&self.tokenizer, template, config)
    }

    /// Files that recreate this text side elsewhere: name → content.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.files.iter();
        all.map(|(name, content)| (name.as_str(), content.as_str()))
    }
}

/// Today's date in the machine's time zone.
pub fn today() -> Date {
    jiff::Zoned::now().date()
}

/// Files with the texts of special tokens. The first takes precedence.
const SETTINGS: [&str; 2] = ["tokenizer_config.json", "special_tokens_map.json"];

/// The names by which templates refer to special tokens (`bos_token`, …) → the tokens' text. `settings` are the contents of [`SETTINGS`].
fn special_tokens(
    settings: [&Value; 2],
    tokenizer: &Tokenizer,
    config: &ModelConfig,
) -> BTreeMap<String, String> {
    let mut special = BTreeMap::new();
    let ids = [
        ("bos_token", config.bos_token_id),
        ("eos_token", config.eos_token_ids.first().copied()),
        ("pad_token", config.pad_token_id),
        ("unk_token", None),
    ];
    for (name, id) in ids {
        let text = match settings.iter().find_map(|settings| settings.get(name)) {
            // An explicit null means that the token does not exist.
            Some(setting) => token_text(setting).map(str::to_owned),
            None => id.and_then(|id| tokenizer.token(id)),
        };
        special.extend(text.map(|text| (name.to_owned(), text)));
    }
    special
}

/// The text of a special token in a setting, which is a string or an object.
fn token_text(setting: &Value) -> Option<&str> {
    setting.get("content").unwrap_or(setting).as_str()
}

/// The template in `chat_template`, which is a string or a list of named templates.
fn configured_template(settings: &Value) -> Option<&str> {
    match settings.get("chat_template")? {
        Value::String(source) => Some(source),
        Value::Array(named) => named
            .iter()
            .find(|t| t.get("name").and_then(Value::as_str) == Some("default"))?
            .get("template")?
            .as_str(),
        _ => None,
    }
}
