//! SentencePiece's BPE as in Gemma: a text is one word, its spaces are written ▁, and the tokens' scores determine the merges.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{NORMAL, Parts, USER_DEFINED, types};
use crate::file::gguf::{Gguf, Value as Metadata};
use crate::file::llama_cpp::token;

/// How SentencePiece writes a space.
pub(super) const SPACE: &str = "▁";
/// Maximum length of a piece in bytes, since all its splits are tried.
const LONGEST: usize = 512;
/// Maximum bytes of all pieces, each counted once for every split. Those of Gemma's 262,144 pieces are 4.6 MB.
const MAX_MERGED: usize = 64 << 20;

/// Reads the file's tables.
pub(super) fn parts(gguf: &Gguf, tokens: &[String]) -> Result<Parts, String> {
    // llama.cpp assumes the prefix if the file does not mention it.
    if gguf.value("tokenizer.ggml.add_space_prefix") != Some(&Metadata::Bool(false)) {
        return Err("has a tokenizer of type `llama` that puts a space before a text, which is not supported; take the model as safetensors with its tokenizer.json".into());
    }
    let scores = match gguf.value("tokenizer.ggml.scores") {
        Some(Metadata::Floats(scores)) if scores.len() == tokens.len() => scores,
        _ => return Err("`tokenizer.ggml.scores` does not have one number for each token".into()),
    };
    let types = types(gguf, tokens)?.ok_or("lacks the table `tokenizer.ggml.token_type`")?;
    // The conversion to GGUF has replaced ▁ by spaces in user-defined tokens.
    let written = tokens.iter().zip(types).map(|(token, kind)| {
        if *kind == USER_DEFINED {
            token.replace(' ', SPACE)
        } else {
            token.clone()
        }
    });
    let tokens: Vec<String> = written.collect();
    let unknown = token(gguf, "unknown_token_id")?.and_then(|id| tokens.get(id as usize).cloned());
    let merges = merges(&tokens, scores, types)?;
    Ok(Parts {
        tokens,
        merges,
        normalizer: json!({"type": "Replace", "pattern": {"String": " "}, "content": SPACE}),
        pre_tokenizer: Value::Null,
        decoder: json!({
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
            ],
        }),
        unknown,
        bytes_for_unknown: true,
        ignore_merges: false,
        begins_text: true,
    })
}

/// The split of a piece into two other pieces.
struct Merge {
    score: f32,
    /// Lengths of the two in characters.
    lengths: (usize, usize),
    /// Ids of the piece and of the two.
    ids: (usize, usize, usize),
}

/// All splits of pieces into two others, in the order of `transformers`' conversion of SentencePiece models: by the score of the merged piece, then longer
/// parts first, then by id.
fn merges(tokens: &[String], scores: &[f32], types: &[i64]) -> Result<Vec<Value>, String> {
    let pieces = || {
        let all = tokens.iter().zip(types).enumerate();
        all.filter(|(_, (_, kind))| matches!(**kind, NORMAL | USER_DEFINED))
            .map(|(id, (token, kind))| (id, token.as_str(), *kind))
    };
    let ids: HashMap<&str, usize> = pieces().map(|(id, piece, _)| (piece, id)).collect();
    let mut merges: Vec<Merge> = Vec::new();
    let mut bytes = 0;
    for (id, piece, kind) in pieces() {
        if piece.len() > LONGEST {
            return Err(format!(
                "has a token of {} bytes; the longest known are far below {LONGEST}",
                piece.len()
            ));
        }
        // SentencePiece has no score for user-defined pieces, and merges them before all others.
        let score = if kind == USER_DEFINED {
            0.0
        } else {
            scores[id]
        };
        let characters = piece.chars().count();
        for (before, (at, _)) in piece.char_indices().enumerate().skip(1) {
            let (left, right) = piece.split_at(at);
            if let (Some(left), Some(right)) = (ids.get(left), ids.get(right)) {
                bytes += piece.len();
                merges.push(Merge {
                    score,
                    lengths: (before, characters - before),
                    ids: (id, *left, *right),
                });
            }
        }
        if bytes > MAX_MERGED {
            return Err(format!(
                "has tokens that can be merged from others in so many ways that the list of merges exceeds {MAX_MERGED} bytes; the largest known vocabularies are far below that"
            ));
        }
    }
    merges.sort_unstable_by(|a, b| {
        let by_score = b.score.total_cmp(&a.score);
        by_score
            .then(b.lengths.cmp(&a.lengths))
            .then(a.ids.cmp(&b.ids))
    });
    let pair = |Merge { ids, .. }: &Merge| json!([tokens[ids.1], tokens[ids.2]]);
    Ok(merges.iter().map(pair).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_of_pieces_are_listed_up_to_a_limit() {
        let merges_of = |letters: &str| {
            let runs = |letter: char| (1..=LONGEST).map(move |n| letter.to_string().repeat(n));
            let tokens: Vec<String> = letters.chars().flat_map(runs).collect();
            let count = tokens.len();
            merges(&tokens, &vec![0.0; count], &vec![NORMAL; count])
        };
        assert_eq!(merges_of("a").unwrap().len(), LONGEST * (LONGEST - 1) / 2);
        assert!(merges_of("ab").unwrap_err().contains("in so many ways"));
    }
}
