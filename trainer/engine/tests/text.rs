//! Tokenizers and chat templates of the three families, compared with the published ones.

use crate::{fetched, long, support};

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use engine::config::{Family, ModelConfig};
use engine::text::{Date, Detokenizer, StopStrings, Text, Tokenizer};
use engine::{WeightType, export, load};
use serde_json::{Value as Json, json};
use support::Random;

/// Number of strings that are compared, half from files, half random: these, and more with `RAPID_TEST_LONG=1`.
const STRINGS: [usize; 2] = [2_000, 10_000];

/// A published tokenizer in a model's folder, loaded like a checkpoint.
fn from_folder(published: &Path, folder: &Path, bos: Option<u32>) -> (ModelConfig, Text) {
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(published.join(name), folder.join(name)).unwrap();
    }
    let config = json!({
        "model_type": "llama",
        "vocab_size": 262_145,
        "hidden_size": 8,
        "intermediate_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "max_position_embeddings": 1024,
        "bos_token_id": bos,
    });
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    load::text(folder).unwrap()
}

/// The text side of the same model, exported as a GGUF file and read again.
fn exported(published: &Path, folder: &Path, bos: Option<u32>) -> Text {
    let (config, _) = from_folder(published, folder, bos);
    let zeros = |(name, shape)| {
        (
            name,
            Tensor::zeros(shape, DType::F32, &Device::Cpu).unwrap(),
        )
    };
    let weights = config.tensor_shapes().into_iter().map(zeros);
    let weights: HashMap<String, Tensor> = weights.collect();
    candle_core::safetensors::save(&weights, folder.join("model.safetensors")).unwrap();
    let file = folder.join("model.gguf");
    export::to_gguf(folder, &file, WeightType::ALL[3], "small").unwrap();
    load::text(&file).unwrap().1
}

/// Texts of this repository, and sentences in scripts other than Latin.
fn corpus() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let files = [
        "README.md",
        "ARCHITECTURE.md",
        "docs/study/estimator/README.md",
        "trainer/engine/src/backend/cpu/simd/mod.rs",
        "sandboxes/guest/values.py",
        "datasets/starter/starter-math.jsonl",
        "scripts/test.sh",
        "Cargo.lock",
    ];
    let mut text: String = files
        .iter()
        .map(|file| std::fs::read_to_string(root.join(file)).unwrap())
        .collect();
    text += &"Все люди рождаются свободными и равными. 人人生而自由，在尊严和权利上一律平等。すべての人間は、生まれながらにして自由である。\
              모든 인간은 태어날 때부터 자유롭다. يولد جميع الناس أحرارًا متساوين. כל בני האדם נולדו בני חורין. सभी मनुष्यों को जन्मजात स्वतन्त्रता प्राप्त हैं। \
              Όλοι οι άνθρωποι γεννιούνται ελεύθεροι. Tất cả mọi người sinh ra đều được tự do. 👩‍👩‍👧‍👦 🇫🇷 e\u{301} \u{200b}\u{feff}"
            .repeat(200);
    text
}

/// Excerpts of the corpus, and random strings: of all kinds of characters, of runs of one character, and of special tokens' texts.
fn strings(random: &mut Random, special: &[&str]) -> Vec<String> {
    let corpus: Vec<char> = corpus().chars().collect();
    let letters: Vec<char> = "aB zé'sTll  \n\t\r_-.,;:!?(){}[]<>|\"\\/@#$%&*+=^~`0123456789½²ßÀñøλЖ你好ก🦀\u{301}\u{a0}\u{3000}\u{2028}▁Ġ\u{0}\u{7f}\u{e000}"
        .chars()
        .collect();
    let mut all = Vec::new();
    let long = long::long(
        "8,000 of 10,000 strings that are tokenized here and by the published tokenizer",
    );
    for i in 0..STRINGS[usize::from(long)] {
        if i % 2 == 0 {
            let n = 1 + random.below(200);
            let start = random.below(corpus.len() - n);
            all.push(corpus[start..start + n].iter().collect());
            continue;
        }
        let mut text = String::new();
        for _ in 0..1 + random.below(30) {
            let letter = random.pick(&letters);
            match random.below(12) {
                0 => text.extend(std::iter::repeat_n(letter, 1 + random.below(40))),
                1 => text += random.pick(special),
                2 => text.extend(char::from_u32(random.below(0x11_0000) as u32)),
                _ => text.push(letter),
            }
        }
        all.push(text);
    }
    all
}

fn assert_same(ours: &Tokenizer, published: &Path, random: &mut Random, special: &[&str]) {
    let theirs = tokenizers::Tokenizer::from_file(published.join("tokenizer.json")).unwrap();
    let mut literal = theirs.clone();
    literal.set_encode_special_tokens(true);
    for text in strings(random, special) {
        for (theirs, reads) in [(&theirs, true), (&literal, false)] {
            let expected = theirs.encode_fast(text.as_str(), reads).unwrap();
            let actual = ours.encode(&text, reads).unwrap();
            let expected = expected.get_ids();
            assert_eq!(actual, expected, "{text:?}, special tokens {reads}");
        }
        let tokens = ours.encode(&text, false).unwrap();
        let expected = theirs.decode(&tokens, true).unwrap();
        assert_eq!(ours.decode(&tokens).unwrap(), expected, "{text:?}");
        assert_incremental(ours, &text, &tokens, random);
    }
}

/// Decoding the tokens one by one gives the whole text in pieces, and a stop string is reached with the token that completes it.
fn assert_incremental(tokenizer: &Tokenizer, text: &str, tokens: &[u32], random: &mut Random) {
    let whole = tokenizer.decode(tokens).unwrap();
    if whole.contains(char::REPLACEMENT_CHARACTER) || tokens.len() > 60 {
        return;
    }
    let characters: Vec<char> = whole.chars().collect();
    let start = random.below(characters.len().max(1));
    let expected_stop: String = characters.iter().skip(start).take(3).collect();
    let mut stop = StopStrings::new(std::slice::from_ref(&expected_stop));
    let (mut pieces, mut decoded, mut reached) = (Detokenizer::default(), String::new(), false);
    for n in 1..=tokens.len() {
        decoded += &pieces.next(tokenizer, &tokens[..n]).unwrap();
        assert!(whole.starts_with(&decoded), "{text:?}: {decoded:?}");
        reached |= stop.reached(tokenizer, &tokens[..n]).unwrap();
        let expected = !expected_stop.is_empty() && decoded.contains(&expected_stop);
        assert_eq!(reached, expected, "{text:?}: {expected_stop:?}");
    }
    assert_eq!(decoded, whole);
}

#[test]
fn gemmas_tokenizer_from_gguf_matches_the_published_one() {
    let (Some(model), Some(published)) = (fetched::gemma(), fetched::tokenizer("gemma3")) else {
        return;
    };
    let (config, text) = load::text(&model).unwrap();
    assert_eq!(config.family, Family::Gemma3);
    let special = "<bos> <eos> <start_of_turn> <end_of_turn> <table> ▁▁";
    let special: Vec<&str> = special.split(' ').collect();
    assert_same(&text.tokenizer, &published, &mut Random(1), &special);
}

#[test]
fn exported_tokenizers_match_the_published_ones() {
    for (family, bos, special) in [
        (
            "qwen2_5",
            None,
            ["<|im_start|>", "<|im_end|>", "<tool_call>"],
        ),
        (
            "llama3_2",
            Some(128_000),
            ["<|eot_id|>", "<|begin_of_text|>", "<|start_header_id|>"],
        ),
        ("gemma3", Some(2), ["<bos>", "<start_of_turn>", "▁▁"]),
    ] {
        let Some(published) = fetched::tokenizer(family) else {
            continue;
        };
        let folder = tempfile::tempdir().unwrap();
        let text = exported(&published, folder.path(), bos);
        assert_same(&text.tokenizer, &published, &mut Random(2), &special);
    }
}

fn golden() -> Json {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/chat.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn messages(json: &Json) -> Vec<(String, String)> {
    let messages = json.as_array().unwrap().iter();
    let part = |message: &Json, name: &str| message[name].as_str().unwrap().to_owned();
    messages
        .map(|message| (part(message, "role"), part(message, "content")))
        .collect()
}

#[test]
fn conversations_become_the_same_text_and_tokens_as_in_transformers() {
    let golden = golden();
    let day = Date::constant(2000, 1, 1);
    for (family, golden_family) in golden["families"].as_object().unwrap() {
        let Some(published) = fetched::tokenizer(family) else {
            continue;
        };
        let folder = tempfile::tempdir().unwrap();
        let (config, text) = from_folder(&published, folder.path(), None);
        let ends = config.eos_token_ids.iter();
        let ends: Vec<_> = ends.map(|id| text.tokenizer.token(*id)).collect();
        let end = ["<|im_end|>", "<|eot_id|>", "<end_of_turn>"].map(|end| vec![Some(end.into())]);
        assert!(end.contains(&ends), "{family}: {ends:?}");
        let template = text.template.unwrap();
        for case in golden_family["conversations"].as_array().unwrap() {
            // Llama's template writes the date, which is not in the golden text.
            let actual = template.render(&messages(&case["messages"]), day).unwrap();
            let actual = actual.replace("01 Jan 2000", "DATE");
            assert_eq!(json!(actual), case["text"], "{family}");
            let mut tokens = text.tokenizer.encode(&actual, true).unwrap();
            // Llama's and Gemma's templates write the BOS token that the tokenizer also adds.
            if tokens[0] == tokens[1] {
                tokens.remove(0);
            }
            assert_eq!(json!(tokens), case["tokens"], "{family}: {actual:?}");
        }
        if let Some(rejected) = golden_family.get("refused") {
            let error = template.render(&messages(rejected), day).unwrap_err();
            assert!(error.contains("alternate"), "{error}");
        }
    }
}
