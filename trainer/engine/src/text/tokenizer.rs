//! Text ↔ token ids, by Hugging Face's `tokenizers` library.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A model's tokenizer, with and without special tokens in the text.
pub struct Tokenizer {
    /// Recognises special tokens that are written in the text.
    with_special: tokenizers::Tokenizer,
    /// Treats special tokens in the text as ordinary text.
    literal: tokenizers::Tokenizer,
    /// Tokens of an ordinary text, and their decoded text.
    anchor: (Vec<u32>, String),
    /// Special tokens that are no part of a decoded text.
    left_out: BTreeSet<u32>,
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
            left_out: BTreeSet::new(),
        };
        let anchor = tokenizer.encode("a", false)?;
        let text = tokenizer.decode(&anchor)?;
        tokenizer.anchor = (anchor, text);
        Ok(tokenizer)
    }

    /// The whole tokenizer in one form, with the defaults that a `tokenizer.json` may leave out.
    pub(crate) fn to_json(&self) -> Result<serde_json::Value, String> {
        serde_json::to_value(&self.with_special).map_err(|e| e.to_string())
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

    /// Leaves these of the special tokens out of decoded texts: those that end a text or a turn, begin one, or pad. Other special tokens, such as `</think>`, are text.
    pub(crate) fn leave_out(&mut self, tokens: impl IntoIterator<Item = u32>) {
        let added = self.with_special.get_added_tokens_decoder();
        let special = |id: &u32| added.get(id).is_some_and(|token| token.special);
        self.left_out = tokens.into_iter().filter(special).collect();
    }

    /// The longest added token that a text begins with.
    pub(crate) fn added_at_start(&self, text: &str) -> Option<u32> {
        let added = self.with_special.get_added_tokens_decoder().into_iter();
        let found = added.filter(|(_, token)| text.starts_with(&token.content));
        let longest = found.max_by_key(|(id, token)| (token.content.len(), *id));
        longest
            .filter(|(_, token)| !token.content.is_empty())
            .map(|(id, _)| id)
    }

    /// Text of token ids, without those that are left out. Bytes that are not UTF-8 become U+FFFD.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, String> {
        let tokens = tokens.iter().copied();
        let tokens: Vec<u32> = tokens.filter(|id| !self.left_out.contains(id)).collect();
        caught(|| self.with_special.decode(&tokens, false))
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

/// Turns a panic of the library into an error; some damaged files cause one. A panic leaves nothing half changed: only the library's caches change, and they
/// tolerate it.
fn caught<T>(work: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result.map_err(|e| e.to_string()),
        Err(_) => Err(
            "the library `tokenizers` panicked, and its message is printed above; the tokenizer is probably damaged, so get the model's files again".into(),
        ),
    }
}
