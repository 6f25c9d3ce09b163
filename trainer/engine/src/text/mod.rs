//! The text side of a model: tokenizer and chat template, and the files that store them in checkpoints.

mod detokenizer;
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
use crate::file::read_text;
pub use detokenizer::Detokenizer;
pub use jiff::civil::Date;
pub use stop::StopStrings;
pub use template::ChatTemplate;
pub use tokenizer::Tokenizer;

/// Tokenizer and chat template.
pub struct Text {
    /// Text ↔ token ids.
    pub tokenizer: Tokenizer,
    /// The chat template, if the model has one.
    pub template: Option<ChatTemplate>,
    files: BTreeMap<String, String>,
}

impl Text {
    /// A tokenizer without a chat template and without files.
    pub(crate) fn without_template(tokenizer: Tokenizer) -> Self {
        Self {
            tokenizer,
            template: None,
            files: BTreeMap::new(),
        }
    }

    /// Reads a folder's `tokenizer.json` and, if they exist, `tokenizer_config.json` and `chat_template.jinja`.
    pub(crate) fn from_folder(folder: &Path, config: &ModelConfig) -> Result<Self, EngineError> {
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
        let wrong = |name: &str, reason: String| EngineError::Model {
            path: folder.join(name),
            reason,
        };
        let Some(json) = files.get("tokenizer.json") else {
            return Err(wrong(
                "tokenizer.json",
                "does not exist; other forms of tokenizers (tokenizer.model) are not read, so save the tokenizer as tokenizer.json with transformers".into(),
            ));
        };
        let tokenizer = Tokenizer::from_json(json).map_err(|e| wrong("tokenizer.json", e))?;
        let settings: Value = match files.get("tokenizer_config.json") {
            Some(text) => serde_json::from_str(text)
                .map_err(|e| wrong("tokenizer_config.json", format!("not valid JSON: {e}")))?,
            None => Value::Null,
        };
        let special = special_tokens(&settings, &tokenizer, config);
        let (name, source) = match files.get("chat_template.jinja") {
            Some(source) => ("chat_template.jinja", Some(source.as_str())),
            None => ("tokenizer_config.json", configured_template(&settings)),
        };
        let template = source
            .map(|source| ChatTemplate::new(source, special))
            .transpose()
            .map_err(|e| wrong(name, e))?;
        Ok(Self {
            tokenizer,
            template,
            files,
        })
    }

    /// Reads the tables in a GGUF file's metadata.
    pub(crate) fn from_gguf(gguf: &Gguf, config: &ModelConfig) -> Result<Self, String> {
        let json = gguf::tokenizer_json(gguf, config)?.to_string();
        let tokenizer = Tokenizer::from_json(&json)?;
        let special = special_tokens(&Value::Null, &tokenizer, config);
        let source = match gguf.value("tokenizer.chat_template") {
            Some(crate::file::gguf::Value::Text(source)) => Some(source.as_str()),
            _ => None,
        };
        let settings = gguf::tokenizer_config(&special, source, config);
        let template = source
            .map(|source| ChatTemplate::new(source, special))
            .transpose()?;
        let files = BTreeMap::from([
            ("tokenizer.json".to_owned(), json),
            (
                "tokenizer_config.json".to_owned(),
                format!("{settings:#}\n"),
            ),
        ]);
        Ok(Self {
            tokenizer,
            template,
            files,
        })
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

/// The names by which templates refer to special tokens (`bos_token`, …) → the tokens' text.
fn special_tokens(
    settings: &Value,
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
        let setting = settings.get(name);
        let text = match setting {
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Object(token)) => token
                .get("content")
                .and_then(Value::as_str)
                .map(str::to_owned),
            // An explicit null means that the token does not exist.
            Some(_) => None,
            None => id.and_then(|id| tokenizer.token(id)),
        };
        special.extend(text.map(|text| (name.to_owned(), text)));
    }
    special
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
