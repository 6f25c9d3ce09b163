//! The texts of chat messages, in the forms of OpenAI's two interfaces.

use serde_json::Value as Json;

/// The types of a content's parts that are text.
const TEXT_TYPES: [&str; 3] = ["text", "input_text", "output_text"];

/// The text of the last message with this role; `None` if there is none. Skips what is no message, such as a tool call.
pub(super) fn last<'a>(messages: &'a [Json], role: &str) -> Option<&'a Json> {
    messages
        .iter()
        .rev()
        .find(|message| message["role"] == role)
        .map(|message| &message["content"])
}

/// The text of a message's content: the content itself, or its parts of text one after the other; `None` if it has another form.
pub(super) fn text(content: &Json) -> Option<String> {
    match content {
        Json::Null => Some(String::new()),
        Json::String(text) => Some(text.clone()),
        Json::Array(parts) => {
            let is_text = |part: &&Json| TEXT_TYPES.iter().any(|kind| part["type"] == *kind);
            let texts = parts.iter().filter(is_text);
            Some(texts.filter_map(|part| part["text"].as_str()).collect())
        }
        _ => None,
    }
}

/// The text of a prompt: the prompt itself, or the last user message of a list of messages. `None` if it has another form.
pub(super) fn prompt(prompt: &Json) -> Option<String> {
    match prompt {
        Json::Array(messages) => last(messages, "user").map_or(Some(String::new()), text),
        other => text(other),
    }
}
