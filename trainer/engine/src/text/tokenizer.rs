//! Text ↔ token ids, by Hugging Face's `tokenizers` library.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// A tokenizer.
pub struct Tokenizer {
    /// Recognises special tokens that are written in the text.
    with_special: tokenizers::Tokenizer,
    /// Treats special tokens in the text as ordinary text.
    literal: tokenizers::Tokenizer,
    /// Tokens of an ordinary text, and their decoded text.
    anchor: (Vec<u32>, String),
}

impl Tokenizer {
    /// Parses the content of a `tokenizer.json`.
    pub fn from_json(json: &str) -> Result<Self, String> {
        let mut with_special = caught(|| tokenizers::Tokenizer::from_bytes(json))
            .map_err(|e| format!("the tokenizer cannot be read: {e}"))?;
        // Some files contain padding and truncation for batches, which do not apply here.
        with_special.with_padding(None);
        with_special
            .with_truncation(None)
            .map_err(|e| format!("the tokenizer cannot be read: {e}"))?;
        let mut literal = with_special.clone();
        literal.set_encode_special_tokens(true);
        let mut tokenizer = Self {
            with_special,
            literal,
            anchor: (Vec::new(), String::new()),
        };
        let anchor = tokenizer.encode("a", false)?;
        let text = tokenizer.decode(&anchor)?;
        tokenizer.anchor = (anchor, text);
        Ok(tokenizer)
    }

    /// Token ids of a text. With `special`, the post-processor adds its tokens, and special tokens written in the text are recognised; without it they are
    /// ordinary text.
    pub fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>, String> {
        let tokenizer = if special {
            &self.with_special
        } else {
            &self.literal
        };
        caught(|| tokenizer.encode_fast(text, special))
            .map(|encoding| encoding.get_ids().to_vec())
            .map_err(|e| format!("the text cannot be tokenized: {e}"))
    }

    /// Text of token ids, without special tokens. Bytes that are not UTF-8 become U+FFFD.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, String> {
        caught(|| self.with_special.decode(tokens, true))
            .map_err(|e| format!("the tokens cannot be decoded: {e}"))
    }

    /// Text of token ids that continue a text. Some decoders remove the space at the beginning of a text, which must remain here.
    pub fn decode_after(&self, tokens: &[u32]) -> Result<String, String> {
        let (anchor, before) = &self.anchor;
        let text = self.decode(&[anchor, tokens].concat())?;
        Ok(match text.strip_prefix(before) {
            Some(after) => after.to_owned(),
            None => text,
        })
    }

    /// A token as written in the vocabulary.
    pub fn token(&self, id: u32) -> Option<String> {
        self.with_special.id_to_token(id)
    }

    /// The id of a token as written in the vocabulary.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.with_special.token_to_id(token)
    }
}

/// Makes an error of the library's panics, which some damaged files cause. A panic leaves nothing half changed: only the library's caches change, and they tolerate it.
fn caught<T>(work: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result.map_err(|e| e.to_string()),
        Err(_) => Err(
            "the library `tokenizers` panicked, and its message is printed above; the tokenizer is probably damaged, so get the model's files again".into(),
        ),
    }
}
