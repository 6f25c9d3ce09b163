//! Text ↔ token ids, as Hugging Face's `tokenizers` does it.

/// A tokenizer.
pub struct Tokenizer {
    /// Reads special tokens that are written in the text.
    reading: tokenizers::Tokenizer,
    /// Takes them for ordinary text.
    literal: tokenizers::Tokenizer,
    /// Tokens of an ordinary text, and that text as they are decoded.
    anchor: (Vec<u32>, String),
}

impl Tokenizer {
    /// From the content of a `tokenizer.json`.
    pub fn from_json(json: &str) -> Result<Self, String> {
        let mut reading = tokenizers::Tokenizer::from_bytes(json)
            .map_err(|e| format!("the tokenizer cannot be read: {e}"))?;
        // Settings of a batch that some files carry along.
        reading.with_padding(None);
        reading
            .with_truncation(None)
            .map_err(|e| format!("the tokenizer cannot be read: {e}"))?;
        let mut literal = reading.clone();
        literal.set_encode_special_tokens(true);
        let mut tokenizer = Self {
            reading,
            literal,
            anchor: (Vec::new(), String::new()),
        };
        let anchor = tokenizer.encode("a", false)?;
        let text = tokenizer.decode(&anchor)?;
        tokenizer.anchor = (anchor, text);
        Ok(tokenizer)
    }

    /// Token ids of a text. `special` adds what the post-processor adds and reads special tokens written in the text; without it they are text like any other.
    pub fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>, String> {
        let tokenizer = if special {
            &self.reading
        } else {
            &self.literal
        };
        tokenizer
            .encode_fast(text, special)
            .map(|encoding| encoding.get_ids().to_vec())
            .map_err(|e| format!("the text cannot be tokenized: {e}"))
    }

    /// Text of token ids, special tokens left out. Bytes that are not UTF-8 become U+FFFD.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, String> {
        self.reading
            .decode(tokens, true)
            .map_err(|e| format!("the tokens cannot be decoded: {e}"))
    }

    /// Text of token ids that go on with a text: some decoders take the space away with which a text begins.
    pub fn decode_after(&self, tokens: &[u32]) -> Result<String, String> {
        let (anchor, before) = &self.anchor;
        let text = self.decode(&[anchor, tokens].concat())?;
        Ok(match text.strip_prefix(before) {
            Some(after) => after.to_owned(),
            None => text,
        })
    }

    /// A token as the vocabulary writes it.
    pub fn token(&self, id: u32) -> Option<String> {
        self.reading.id_to_token(id)
    }

    /// The id of a token as the vocabulary writes it.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.reading.token_to_id(token)
    }
}
