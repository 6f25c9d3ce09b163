//! The tokens that end a completion, and the special tokens in its text.

use super::*;
use crate::text::StopStrings;

/// Tokens after `<|end|>` (256), all special but `<|eot|>`.
const ADDED: [&str; 6] = ["<pad>", "</s>", "<|eot|>", "</think>", "<|turn|>", "<far>"];
/// A chat template that writes END after each message.
const TURNS: &str = "{% for m in messages %}<|turn|>{{ m.role }}\n{{ m.content }}END{% endfor %}{% if add_generation_prompt %}<|turn|>assistant\n</think>{% endif %}";

/// A folder with the text side of a model: `eos_token_id` of config.json, the content of three files, and what the chat template writes after a message. The
/// last token is not in the model's vocabulary.
fn folder_of(columns: &[&str]) -> Files {
    let files = Files::new();
    let mut config: serde_json::Value = serde_json::from_str(CONFIG).unwrap();
    config["vocab_size"] = json!(262);
    config["eos_token_id"] = serde_json::from_str(columns[0]).unwrap();
    files.write("config.json", config.to_string());
    let mut tokenizer = random_model_tokenizer::json();
    let added = tokenizer["added_tokens"].as_array_mut().unwrap();
    for (id, token) in (257..).zip(ADDED) {
        let mut entry = added[0].clone();
        (entry["id"], entry["content"]) = (json!(id), json!(token));
        entry["special"] = json!(id != 259);
        added.push(entry);
    }
    files.write("tokenizer.json", tokenizer.to_string());
    let template = TURNS.replace("END", &columns[4].replace("\\n", "\n"));
    files.write("generation_config.json", columns[1]);
    files.write("tokenizer_config.json", columns[2]);
    files.write("special_tokens_map.json", columns[3]);
    files.write("chat_template.jinja", template);
    files
}

#[test]
fn every_end_token_that_a_models_files_name_ends_a_completion() {
    for case in include_str!("end_tokens.tsv").lines().skip(1) {
        let columns: Vec<&str> = case.split('\t').collect();
        let files = folder_of(&columns);
        let (config, text) = super::super::text(files.folder.path()).unwrap();
        assert_eq!(
            json!(config.eos_token_ids).to_string(),
            columns[5],
            "{case}"
        );
        let warned = text.warnings.concat();
        assert!(warned.contains(columns[6]), "{case}: {warned}");
        assert_eq!(warned.is_empty(), columns[6].is_empty(), "{case}: {warned}");
        // A checkpoint of the model has the same tokens and prompts.
        files.write("config.json", config.to_json().to_string());
        let (again, saved) = super::super::text(files.folder.path()).unwrap();
        assert_eq!(again, config, "{case}");
        let turn = [("user".to_owned(), "a".to_owned())];
        let prompt = |text: &Text| text.chat_prompt(&turn, crate::text::today()).ok();
        assert_eq!(prompt(&saved), prompt(&text), "{case}");
    }
}

#[test]
fn special_tokens_are_text_unless_they_end_or_begin_a_turn_or_pad() {
    let settings = r#"{"eos_token": "</s>", "pad_token": "<pad>"}"#;
    let files = folder_of(&["null", "{}", settings, "{}", "<|eot|>"]);
    let (_, text) = super::super::text(files.folder.path()).unwrap();
    let tokenizer = &text.tokenizer;
    for (tokens, text) in [
        (&[97, 260, 98, 258][..], "a</think>b"),
        (&[261, 97, 260, 98, 257, 257], "a</think>b"),
        // A token that is not special is text, except at the end of a completion.
        (&[97, 259, 98], "a<|eot|>b"),
        (&[97, 256, 262], "a<|end|><far>"),
    ] {
        assert_eq!(tokenizer.decode(tokens).unwrap(), text);
        assert_eq!(tokenizer.decode_after(tokens).unwrap(), text);
    }
    let mut stop = StopStrings::new(&["</think>".to_owned()]);
    let reached = [1, 2].map(|n| stop.reached(tokenizer, &[97, 260][..n]).unwrap());
    assert_eq!((reached, stop.cut("a</think>")), ([false, true], "a"));
}

#[test]
fn the_chat_template_of_a_gguf_file_names_an_end_token() {
    let mut metadata = metadata();
    let template = TURNS.replace("END", "ab");
    metadata.insert("tokenizer.chat_template", Value::String(template));
    // llama.cpp's types of control and of user-defined tokens.
    for (kind, text) in [(3, ""), (4, "ab")] {
        let types = (0..258).map(|id| Value::I32(if id < 256 { 1 } else { kind }));
        metadata.insert("tokenizer.ggml.token_type", Value::Array(types.collect()));
        let files = Files::new();
        let path = files.write("model.gguf", gguf(&metadata, GgmlDType::F32));
        let loaded = open(&path).unwrap();
        assert_eq!(loaded.config.eos_token_ids, [256, 257]);
        assert_eq!(loaded.text.tokenizer.decode(&[257]).unwrap(), text);
    }
}
