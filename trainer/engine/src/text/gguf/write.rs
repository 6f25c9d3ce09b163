//! Conversion of a tokenizer to the metadata of a GGUF file.

use std::collections::{BTreeMap, HashMap};
use std::io::Write as _;

use serde_json::{Value as Json, json};

use super::sentencepiece::SPACE;
use super::{CONTROL, NORMAL, USER_DEFINED, byte_level, tokenizer_json};
use crate::config::ModelConfig;
use crate::file::gguf::{Gguf, Value};
use crate::file::gguf_writer;
use crate::text::tokenizer::Tokenizer;

/// llama.cpp's types of rows of the embedding without a token, and of bytes.
const UNUSED: i64 = 5;
const BYTE: i64 = 6;

/// The metadata of a tokenizer and of a chat template. An error unless the same tokenizer is read back from it.
pub(in crate::text) fn metadata(
    tokenizer: &Tokenizer,
    template: Option<&str>,
    config: &ModelConfig,
) -> Result<Vec<(String, Value)>, String> {
    let json = tokenizer.to_json()?;
    let mut metadata = tables(&json, config)?;
    let adds_bos = Value::Bool(adds_bos(tokenizer, config)?);
    metadata.push(("tokenizer.ggml.add_bos_token".into(), adds_bos));
    let template = template.map(|it| ("tokenizer.chat_template".into(), Value::Text(it.into())));
    metadata.extend(template);
    let names = match has_bytes(&json) {
        true => &["default"][..],
        false => &byte_level::NAMES,
    };
    let essence_of = essence(&json);
    for name in names {
        let pre = ("tokenizer.ggml.pre".into(), Value::Text((*name).into()));
        metadata.push(pre);
        if read_back(&metadata, config).is_ok_and(|read| essence(&read) == essence_of) {
            return Ok(metadata);
        }
        metadata.pop();
    }
    Err("has a tokenizer that a GGUF file of this version cannot describe exactly; export it as a Hugging Face folder, which keeps tokenizer.json".into())
}

/// The tokenizer of a file with this metadata.
fn read_back(metadata: &[(String, Value)], config: &ModelConfig) -> Result<Json, String> {
    let header = gguf_writer::header(metadata, &[])?;
    let file = tempfile::NamedTempFile::new();
    let file = file.and_then(|mut file| file.write_all(&header).map(|()| file));
    let gguf = Gguf::open(file.map_err(|error| error.to_string())?.path())?;
    Tokenizer::from_json(&tokenizer_json(&gguf, config)?.to_string())?.to_json()
}

/// Whether text without a token is written as tokens of bytes, as in SentencePiece's tokenizers.
fn has_bytes(json: &Json) -> bool {
    json["model"]["byte_fallback"] == true
}

/// What decides how texts are tokenized, in one form for the several ways of writing it.
fn essence(json: &Json) -> Json {
    let (model, normalizer) = (&json["model"], &json["normalizer"]);
    let mut tokens: BTreeMap<u64, &str> = all_tokens(json).collect();
    tokens.retain(|id, token| *token != unused(*id));
    let mut words = json["pre_tokenizer"].clone();
    // Gemma's splits texts at spaces, and its normalizer leaves none.
    if normalizer["content"] == SPACE && words.get("pattern") == Some(&json!({"String": " "})) {
        words = Json::Null;
    }
    let without_offsets = |part: &mut Json| drop(part["trim_offsets"].take());
    match words["pretokenizers"].as_array_mut() {
        Some(parts) => parts.iter_mut().for_each(without_offsets),
        None => without_offsets(&mut words),
    }
    let affixes = ["continuing_subword_prefix", "end_of_word_suffix"];
    let affixes = affixes.map(|name| model[name].as_str().unwrap_or_default());
    let kind = ["type", "dropout", "ignore_merges", "byte_fallback"].map(|name| &model[name]);
    // Every text has tokens in byte-level BPE.
    let unknown = has_bytes(json).then_some((&model["unk_token"], &model["fuse_unk"]));
    let added = &json["added_tokens"];
    json!([
        tokens,
        model["merges"],
        kind,
        affixes,
        unknown,
        added,
        normalizer,
        words
    ])
}

/// All tokens with their ids, the added ones last.
fn all_tokens(json: &Json) -> impl Iterator<Item = (u64, &str)> {
    let vocabulary = json["model"]["vocab"].as_object().into_iter().flatten();
    let vocabulary = vocabulary.map(|(token, id)| (id, token.as_str()));
    let added = json["added_tokens"].as_array().into_iter().flatten();
    let added = added.filter_map(|token| Some((&token["id"], token["content"].as_str()?)));
    let all = vocabulary.chain(added);
    all.filter_map(|(id, token)| Some((id.as_u64()?, token)))
}

/// How llama.cpp's converter names a row of the embedding without a token.
fn unused(id: u64) -> String {
    format!("[PAD{id}]")
}

/// The tables of tokens, of their types, and of merges or scores.
fn tables(json: &Json, config: &ModelConfig) -> Result<Vec<(String, Value)>, String> {
    let mut tokens: Vec<String> = (0..config.vocab_size as u64).map(unused).collect();
    let mut types = vec![UNUSED; tokens.len()];
    for (id, token) in all_tokens(json) {
        let place = tokens.get_mut(id as usize).ok_or_else(|| {
            format!("has the token {token:?} with the id {id}, beyond its embedding; fetch or save it again")
        })?;
        token.clone_into(place);
        let is_byte = has_bytes(json) && token.len() == 6 && token.starts_with("<0x");
        types[id as usize] = if is_byte { BYTE } else { NORMAL };
    }
    for token in json["added_tokens"].as_array().into_iter().flatten() {
        // It is one of the tokens above.
        let id = token["id"].as_u64().unwrap_or_default() as usize;
        let is_special = token["special"] == true;
        types[id] = if is_special { CONTROL } else { USER_DEFINED };
        if has_bytes(json) && !is_special {
            tokens[id] = tokens[id].replace(SPACE, " ");
        }
    }
    let pairs = json["model"]["merges"].as_array().into_iter().flatten();
    let pairs = pairs.filter_map(|pair| Some([pair[0].as_str()?, pair[1].as_str()?]));
    let mut all = match has_bytes(json) {
        false => vec![
            ("model", Value::Text("gpt2".into())),
            (
                "merges",
                Value::Texts(pairs.map(|it| it.join(" ")).collect()),
            ),
        ],
        true => vec![
            ("model", Value::Text("llama".into())),
            ("add_space_prefix", Value::Bool(false)),
            ("scores", Value::Floats(scores(pairs, &tokens, &types))),
        ],
    };
    let unknown = json["model"]["unk_token"].as_str();
    let unknown = unknown.and_then(|unknown| tokens.iter().position(|it| it == unknown));
    all.extend(unknown.map(|id| ("unknown_token_id", Value::Int(id as i64))));
    all.push(("tokens", Value::Texts(tokens)));
    all.push(("token_type", Value::Ints(types)));
    let named = |(key, value)| (format!("tokenizer.ggml.{key}"), value);
    Ok(all.into_iter().map(named).collect())
}

/// Scores by which tokens are merged in the order of the pairs. SentencePiece's own, which are in no `tokenizer.json`, begin at 0 too.
fn scores<'a>(
    pairs: impl Iterator<Item = [&'a str; 2]>,
    tokens: &[String],
    types: &[i64],
) -> Vec<f32> {
    let ids: HashMap<&str, usize> = tokens.iter().map(String::as_str).zip(0..).collect();
    let mut scores = vec![0.0; tokens.len()];
    let (mut last, mut score) = (None, 0.0);
    for piece in pairs.map(|pair| pair.concat()) {
        let id = ids.get(piece.as_str()).filter(|id| types[**id] == NORMAL);
        if let Some(id) = id.filter(|id| last != Some(**id)) {
            scores[*id] = score;
            score -= 1.0;
            last = Some(*id);
        }
    }
    scores
}

/// Whether a text begins with the BOS token; an error if the tokenizer adds anything else.
fn adds_bos(tokenizer: &Tokenizer, config: &ModelConfig) -> Result<bool, String> {
    let [plain, whole] = [false, true].map(|special| tokenizer.encode("a", special));
    match whole?.strip_suffix(&plain?[..]) {
        Some([]) => Ok(false),
        Some([bos]) if Some(*bos) == config.bos_token_id => Ok(true),
        _ => Err("has a tokenizer that adds more to a text than a BOS token, which a GGUF file cannot describe; export it as a Hugging Face folder".into()),
    }
}
