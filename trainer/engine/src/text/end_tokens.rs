//! Which tokens end a completion, and which special tokens are no part of its text.

use std::collections::BTreeMap;

use jiff::civil::{Date, date};
use serde_json::Value;

use super::{ChatTemplate, Tokenizer, token_text};
use crate::config::ModelConfig;
use crate::file::llama_cpp::END_TOKENS;

/// Names of the tokens that begin a turn. A model's chat template may not show them.
const TURN_MARKERS: &str = "<|im_start|> <|start_header_id|> <|end_header_id|> <start_of_turn>";
/// Messages that no template contains.
const REPLY: &str = "qzreplyqz";
const NEXT: &str = "qznextqz";
/// The date in templates that write one.
const DAY: Date = date(2000, 1, 1);

/// What a chat template writes after the last reply, and between a reply and the next message; nothing if it cannot render such a conversation.
fn around_reply(template: &ChatTemplate) -> [String; 2] {
    let turns = [("user", "a"), ("assistant", REPLY), ("user", NEXT)];
    let turns = turns.map(|(role, text)| (role.to_owned(), text.to_owned()));
    [&turns[..2], &turns[..]].map(|messages| {
        let text = template.conversation(messages, DAY, false);
        let text = text.unwrap_or_default();
        let after = text.rsplit_once(REPLY).map_or("", |(_, after)| after);
        after.split(NEXT).next().unwrap_or_default().to_owned()
    })
}

/// Adds the end tokens that the tokenizer's settings (name of the file → content) and the chat template name to those of the configuration. A completion's text
/// has the special tokens except for these, those that begin a turn, and `special` (BOS, padding, unknown). Returns warnings.
pub(super) fn apply(
    config: &mut ModelConfig,
    tokenizer: &mut Tokenizer,
    settings: &[(&str, &Value)],
    template: Option<&ChatTemplate>,
    special: &BTreeMap<String, String>,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let [after, between] = template.map_or_else(Default::default, around_reply);
    let after = after.trim_start();
    let mut add = |id: Option<u32>, unknown: String| match id {
        Some(id) if config.eos_token_ids.contains(&id) => {}
        Some(id) if (id as usize) < config.vocab_size => config.eos_token_ids.push(id),
        _ => warnings.push(unknown),
    };
    for (file, settings) in settings {
        let value = settings.get("eos_token").unwrap_or(&Value::Null);
        let token = token_text(value);
        if !value.is_null() && token != Some("") {
            let unknown = format!(
                "the `eos_token` {value} of {file} is no token of the model, so it ends no completion; correct it, or name the end token as `eos_token_id` in generation_config.json"
            );
            add(token.and_then(|token| tokenizer.id(token)), unknown);
        }
    }
    if !after.is_empty() {
        let end: String = after.chars().take(40).collect();
        let unknown = format!(
            "the chat template ends a reply with {end:?}, which begins with no added token of the tokenizer, so no token ends a reply; give the text as a stop string"
        );
        add(tokenizer.added_at_start(after), unknown);
    }
    if config.eos_token_ids.is_empty() {
        warnings.push("the model's files name no token that ends a text, so completions end at a stop string or at the limit of tokens; name it as `eos_token_id` in config.json, or as `eos_token` in tokenizer_config.json".to_owned());
    }
    let named = END_TOKENS.into_iter().chain(TURN_MARKERS.split(' '));
    let named = named.chain(special.values().map(String::as_str));
    let mut left_out: Vec<u32> = named.filter_map(|token| tokenizer.id(token)).collect();
    left_out.extend(&config.eos_token_ids);
    left_out.extend(tokenizer.encode(&between, true).unwrap_or_default());
    tokenizer.leave_out(left_out);
    warnings
}
