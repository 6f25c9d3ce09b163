//! The tokenizer of models with random weights. Every byte is a token with the byte's value as its id; 256 is the special token `<|end|>`.

use serde_json::{Map, Value, json};

use super::Tokenizer;

/// The character that stands for a byte in byte-level BPE (GPT-2's table): the byte itself if it is printable, else a character from U+0100 on.
pub(crate) fn byte_char(byte: u8) -> char {
    let printable = |b: &u8| matches!(b, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    if printable(&byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|b| !printable(b)).count();
    char::from_u32(256 + before as u32).expect("a letter of Latin Extended-A")
}

pub(crate) const SIZE: usize = 257;

/// All tokens, by id.
pub(crate) fn vocabulary() -> Vec<String> {
    let bytes = (0..=255u8).map(|byte| byte_char(byte).to_string());
    bytes.chain(["<|end|>".to_owned()]).collect()
}

/// The tokenizer as `tokenizer.json`.
pub(crate) fn json() -> Value {
    let vocabulary: Map<String, Value> = vocabulary()
        .into_iter()
        .zip((0..).map(|id: u32| json!(id)))
        .collect();
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    json!({
        "version": "1.0",
        "added_tokens": [{"id": 256, "content": "<|end|>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}],
        "normalizer": null,
        "pre_tokenizer": byte_level,
        "post_processor": null,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    })
}

pub(crate) fn tokenizer() -> Tokenizer {
    let tokenizer = Tokenizer::from_json(&json().to_string());
    let mut tokenizer = tokenizer.expect("a tokenizer in Hugging Face's form");
    tokenizer.leave_out([256]);
    tokenizer
}
