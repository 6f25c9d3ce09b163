//! The engine on SmolLM2-135M-Instruct's real weights.

use crate::fetched;
use crate::support::{ADAMW, answered, assert_says, generate, on_cpu};

use std::sync::{Arc, LazyLock};

use engine::{
    Dtype, Engine, EngineError, EngineOptions, Finish, GenerateRequest, Group, Sampling,
    WeightType, export,
};

fn open(dtype: Dtype) -> Engine {
    let options = EngineOptions { dtype, ..on_cpu() };
    Engine::open(&fetched::needed_smollm2(), options).unwrap()
}

/// One engine, shared by all tests that do not change its weights.
static ENGINE: LazyLock<Engine> = LazyLock::new(|| open(Dtype::F32));

fn request(engine: &Engine, prompt: &str, seeds: &[u64], max_tokens: usize) -> GenerateRequest {
    GenerateRequest {
        prompt: engine.encode(prompt, true).unwrap().into(),
        seeds: seeds.to_vec(),
        max_tokens,
        stop_tokens: engine.stop_tokens(),
        ..GenerateRequest::default()
    }
}

#[test]
fn the_model_knows_the_capital_of_france_and_so_do_its_exported_files() {
    let folder = tempfile::tempdir().unwrap();
    let turn = [(
        "user".to_owned(),
        "What is the capital of France?".to_owned(),
    )];
    let prompt = ENGINE.chat_prompt(&turn, engine::text::today()).unwrap();
    let reply = |engine: &Engine| {
        let greedy = GenerateRequest {
            sampling: Sampling::greedy(),
            ..request(engine, &prompt, &[0], 32)
        };
        generate(engine, &[greedy]).remove(&(0, 0)).unwrap()
    };
    let [whole, small] = ["f32", "q8_0"].map(|name| {
        let dtype = WeightType::ALL.into_iter().find(|it| it.name == name);
        let file = folder.path().join(format!("{name}.gguf"));
        export::to_gguf(&fetched::needed_smollm2(), &file, dtype.unwrap(), "SmolLM2").unwrap();
        reply(&Engine::open(&file, on_cpu()).unwrap())
    });
    let original = reply(&ENGINE);
    assert!(original.text.contains("Paris"), "{}", original.text);
    assert!(!original.text.contains("<|im_end|>"));
    assert_eq!(original.finish, Finish::Stop);
    assert_eq!(original.tokens.last(), Some(&2));
    assert_eq!((whole.tokens, whole.logp), (original.tokens, original.logp));
    assert!(small.text.contains("Paris"), "{}", small.text);
}

/// Requests with samples that end at different times.
fn mixed(engine: &Engine) -> Vec<GenerateRequest> {
    let prompts = [
        "Once upon a time",
        "The three primary colours are",
        "def fibonacci(n):\n",
        "A list of numbers: 1, 2, 3,",
    ];
    let lengths = [20, 3, 13, 34];
    let requests = prompts.iter().zip(lengths).enumerate();
    requests
        .map(|(i, (prompt, length))| {
            let seeds: Vec<u64> = (0..5).map(|s| 1000 * i as u64 + s).collect();
            request(engine, prompt, &seeds, length)
        })
        .collect()
}

#[test]
fn sampling_and_scoring_in_bf16_agree_to_the_bit_and_are_close_to_f32() {
    let engine = open(Dtype::Bf16);
    let requests = mixed(&engine);
    let completions = generate(&engine, &requests);
    let groups = answered(&requests, &completions);
    let scored = engine.score(groups.clone(), 1.0).unwrap();
    let plain = ENGINE.score(groups, 1.0).unwrap();
    let (mut difference, mut tokens) = (0.0, 0.0);
    for ((completion, stats), plain) in completions.values().zip(&scored).zip(&plain) {
        assert_eq!(completion.logp, stats.logp);
        for (a, b) in stats.logp.iter().zip(&plain.logp) {
            difference += (a - b).abs();
            tokens += 1.0;
        }
    }
    let mean = difference / tokens;
    assert!(mean > 0.0 && mean < 0.1, "{mean}");
}

#[test]
fn a_stop_string_ends_a_completion_even_across_tokens() {
    let prompt = "Count: one, two, three, four,";
    let greedy = |stop_strings: &[&str]| {
        let request = GenerateRequest {
            sampling: Sampling::greedy(),
            stop_strings: stop_strings.iter().map(|s| (*s).to_owned()).collect(),
            ..request(&ENGINE, prompt, &[0], 40)
        };
        generate(&ENGINE, &[request]).remove(&(0, 0)).unwrap()
    };
    let free = greedy(&[]);
    // A stop string across two words: the last letters of one and the first of the next.
    let words: Vec<&str> = free.text.split_inclusive(' ').collect();
    let (first, second) = (words[1], words[2]);
    let stop = format!("{}{}", &first[first.len() - 2..], &second[..2]);
    let stopped = greedy(&[&stop]);
    assert_eq!(stopped.finish, Finish::Stop);
    assert_eq!(stopped.text, free.text[..free.text.find(&stop).unwrap()]);
    assert!(free.tokens.starts_with(&stopped.tokens));
    assert!(stopped.tokens.len() < free.tokens.len());
}

#[test]
fn requests_that_cannot_be_served_are_rejected_with_a_reason() {
    let good = request(&ENGINE, "Hello", &[0], 4);
    type Fault = fn(&mut GenerateRequest);
    let faults: [(&str, Fault); 6] = [
        ("no tokens", |it| it.prompt = Arc::from([])),
        ("vocabulary of 49152", |it| it.prompt = Arc::from([49152])),
        ("context of 8192", |it| it.prompt = vec![5; 8192].into()),
        ("max_tokens is 0", |it| it.max_tokens = 0),
        ("min_tokens is 5, above", |it| it.min_tokens = 5),
        ("temperature", |it| it.sampling.temperature = f32::NAN),
    ];
    for (words, change) in faults {
        let mut request = good.clone();
        change(&mut request);
        let replies = ENGINE.generate(vec![good.clone(), request]).into_iter();
        let [Err(error)] = &replies.collect::<Vec<_>>()[..] else {
            panic!("{words}: it is served");
        };
        assert_says(error, &[words, "request 1"]);
    }
}

#[test]
fn a_panic_in_the_worker_is_reported_to_every_caller() {
    let engine = open(Dtype::F32);
    let groups = vec![Group {
        prompt: Arc::from([1, 2]),
        completions: vec![vec![3, 4]],
    }];
    let stepper = {
        let (engine, groups) = (engine.clone(), groups.clone());
        let objective = Box::new(|_: &[_]| panic!("an objective with a bug"));
        std::thread::spawn(move || engine.step(groups, 1.0, objective, ADAMW))
    };
    let stepped = stepper.join().unwrap();
    assert!(matches!(stepped, Err(EngineError::Stopped)));
    assert!(engine.score(groups, 1.0).is_err());
    let replies = engine.generate(vec![request(&engine, "Hello", &[0], 2)]);
    let replies: Vec<_> = replies.into_iter().collect();
    assert!(matches!(replies.as_slice(), [Err(EngineError::Stopped)]));
}
