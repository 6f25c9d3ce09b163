//! Several ranks compute what one does, to the bit.

use crate::support;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use engine::backend::Dtype;
use engine::backend::ranks::{ProcessGroup, local};
use engine::config::{Family, ModelConfig};
use engine::{
    Device, Engine, EngineError, EngineOptions, GenerateRequest, Group, Leader, LocalDevice, Lora,
    TokenStats, follow,
};
use support::{ADAMW, Completions, Random, TEMPERATURE, assert_says, config};
use tempfile::TempDir;

const SLICES: usize = 4;
const VOCABULARY: usize = 512;
const DEADLINE: Duration = Duration::from_secs(60);
const LORA: Lora = Lora {
    rank: 4,
    alpha: 8.0,
    seed: 5,
};

/// A folder with a model that has weights for several shards.
fn model() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    let config = ModelConfig {
        vocab_size: VOCABULARY,
        hidden_size: 128,
        intermediate_size: 320,
        num_hidden_layers: 3,
        num_attention_heads: 4,
        num_key_value_heads: 2,
        head_dim: 32,
        ..config(&mut Random(3), Family::Llama)
    };
    let engine = Engine::random(config, 7, options(Dtype::F32, None)).unwrap();
    engine.save_model(path.clone()).unwrap();
    let words = (0..VOCABULARY).map(|token| (format!("w{token}"), token.into()));
    let tokenizer = serde_json::json!({
        "version": "1.0",
        "added_tokens": [],
        "model": {
            "type": "WordLevel",
            "vocab": words.collect::<serde_json::Map<_, _>>(),
            "unk_token": "w0",
        },
    });
    std::fs::write(path.join("tokenizer.json"), tokenizer.to_string()).unwrap();
    (folder, path)
}

fn options(dtype: Dtype, lora: Option<Lora>) -> EngineOptions {
    EngineOptions {
        device: Device::Cpu,
        threads: Some(1),
        dtype,
        lora,
        // Several packs in a slice.
        pack_tokens: Some(40),
        slices: Some(SLICES),
        ..EngineOptions::default()
    }
}

/// Runs `work` on rank 0 of these ranks, which are threads.
fn with_ranks<T>(
    ranks: Vec<Arc<dyn ProcessGroup>>,
    work: impl FnOnce(&dyn Fn(&Path, EngineOptions) -> Result<Engine, EngineError>) -> T,
) -> T {
    let mut ranks = ranks.into_iter();
    let leader = Leader::new(ranks.next().unwrap()).unwrap();
    let local = LocalDevice {
        gpu: 0,
        threads: Some(1),
    };
    let followers: Vec<_> = ranks
        .map(|ranks| std::thread::spawn(move || follow(&ranks, local)))
        .collect();
    let open = |path: &Path, options: EngineOptions| {
        let ranks = Some(leader.clone());
        Engine::open(path, EngineOptions { ranks, ..options })
    };
    let result = work(&open);
    leader.end().unwrap();
    for follower in followers {
        follower.join().unwrap().unwrap();
    }
    result
}

/// Prompts with completions of uneven lengths.
fn groups() -> Vec<Group> {
    let mut random = Random(11);
    let group = |count: usize| Group {
        prompt: random.tokens(3 + count, VOCABULARY).into(),
        completions: (0..count)
            .map(|_| {
                let length = 1 + random.below(14);
                random.tokens(length, VOCABULARY)
            })
            .collect(),
    };
    [4, 1, 3, 5, 2, 4].map(group).into()
}

/// `dL/dlogp` with a few completions that have no gradient, as in training.
fn objective(zeros: usize) -> engine::Objective {
    Box::new(move |stats: &[TokenStats]| {
        let dlogp = stats.iter().enumerate().map(|(n, s)| {
            let share = if n % 4 < zeros {
                0.0
            } else {
                -0.1 - n as f32 * 0.01
            };
            s.logp.iter().map(|logp| share * logp.exp()).collect()
        });
        Ok(dlogp.collect())
    })
}

fn generated(engine: &Engine) -> Completions {
    let mut random = Random(5);
    let requests = (0..5).map(|n| GenerateRequest {
        prompt: random.tokens(4 + n, VOCABULARY).into(),
        seeds: (0..3).map(|sample| 100 * n as u64 + sample).collect(),
        max_tokens: 9,
        stop_tokens: vec![1, 2, 3],
        ..GenerateRequest::default()
    });
    support::generate(engine, &requests.collect::<Vec<_>>())
}

/// Everything that a run computes, and the bytes of its state.
fn run(engine: &Engine, folder: &Path, resume: Option<&Path>) -> (Vec<String>, Vec<u8>) {
    let mut results = Vec::new();
    if let Some(file) = resume {
        engine.load_state(file.to_owned()).unwrap();
    }
    for step in 0..3 {
        results.push(format!("{:?}", generated(engine)));
        let report = engine
            .step(groups(), TEMPERATURE, objective(step), ADAMW)
            .unwrap();
        results.push(format!("{:?} {:?}", report.stats, report.grad_norm));
        results.push(format!(
            "{:?}",
            engine.score(groups(), TEMPERATURE).unwrap()
        ));
        if let Some(base) = engine.base() {
            results.push(format!("{:?}", base.score(groups(), TEMPERATURE).unwrap()));
            results.push(format!("{:?}", generated(&base)));
        }
    }
    let report = engine.step(Vec::new(), TEMPERATURE, objective(0), ADAMW);
    results.push(format!("{:?}", report.unwrap().grad_norm));
    (results, saved(engine, folder))
}

fn saved(engine: &Engine, folder: &Path) -> Vec<u8> {
    let file = folder.join("state");
    engine.save_state(file.clone()).unwrap();
    std::fs::read(file).unwrap()
}

#[test]
fn one_two_and_four_ranks_compute_the_same_bits() {
    let (folder, path) = model();
    for (dtype, lora) in [
        (Dtype::F32, None),
        (Dtype::Bf16, None),
        (Dtype::F32, Some(LORA)),
    ] {
        let options = options(dtype, lora);
        let engine = Engine::open(&path, options.clone()).unwrap();
        let alone = run(&engine, folder.path(), None);
        let first = folder.path().join("first");
        std::fs::rename(folder.path().join("state"), &first).unwrap();
        let resumed = run(&engine, folder.path(), Some(&first));
        drop(engine);
        for size in [1, 2, 4] {
            with_ranks(local(size, DEADLINE), |open| {
                let engine = open(&path, options.clone()).unwrap();
                let together = run(&engine, folder.path(), None);
                assert!(together == alone, "{size} ranks, {dtype:?}, {lora:?}");
                // A state does not depend on the number of ranks that wrote it.
                let together = run(&engine, folder.path(), Some(&first));
                assert!(
                    together == resumed,
                    "{size} ranks resume, {dtype:?}, {lora:?}"
                );
            });
        }
    }
}

#[test]
fn one_slice_is_not_the_sum_of_four() {
    let (_folder, path) = model();
    let norm = |slices| {
        let options = EngineOptions {
            slices,
            ..options(Dtype::F32, None)
        };
        let engine = Engine::open(&path, options).unwrap();
        let report = engine.step(groups(), TEMPERATURE, objective(0), ADAMW);
        report.unwrap().grad_norm
    };
    let (one, none, four) = (norm(Some(1)), norm(None), norm(Some(4)));
    assert_eq!(one.to_bits(), none.to_bits());
    assert_ne!(one.to_bits(), four.to_bits());
    assert!((one / four - 1.0).abs() < 1e-5, "{one} and {four}");
}

#[test]
fn a_model_and_its_reference_are_trained_and_scored_side_by_side() {
    let (_folder, path) = model();
    let scores = |open: &dyn Fn(&Path, EngineOptions) -> Result<Engine, EngineError>| {
        let open = || open(&path, options(Dtype::F32, None)).unwrap();
        let (policy, reference) = (open(), open());
        let before = reference.score(groups(), TEMPERATURE).unwrap();
        policy
            .step(groups(), TEMPERATURE, objective(1), ADAMW)
            .unwrap();
        assert_eq!(reference.score(groups(), TEMPERATURE).unwrap(), before);
        drop(reference);
        (before, policy.score(groups(), TEMPERATURE).unwrap())
    };
    let together = with_ranks(local(2, DEADLINE), scores);
    assert_eq!(together, scores(&Engine::open));
}

#[test]
fn errors_are_those_of_all_ranks_and_leave_them_together() {
    let (folder, path) = model();
    with_ranks(local(2, DEADLINE), |open| {
        let missing = open(&folder.path().join("nothing"), options(Dtype::F32, None));
        assert_says(&missing.err().unwrap(), &["nothing"]);
        let slices = EngineOptions {
            slices: None,
            ..options(Dtype::F32, None)
        };
        assert_says(&open(&path, slices).err().unwrap(), &["run.slices"]);

        let engine = open(&path, options(Dtype::F32, None)).unwrap();
        let before = engine.score(groups(), TEMPERATURE).unwrap();
        let step = |objective| engine.step(groups(), TEMPERATURE, objective, ADAMW);
        let error = step(Box::new(|_: &[TokenStats]| Err("too odd".to_owned())));
        assert_eq!(error.unwrap_err().to_string(), "too odd");
        let nan =
            |stats: &[TokenStats]| Ok(stats.iter().map(|s| vec![f32::NAN; s.logp.len()]).collect());
        assert_says(&step(Box::new(nan)).unwrap_err(), &["not finite"]);
        assert!(engine.score(groups(), f32::NAN).is_err());
        assert!(engine.load_state(folder.path().join("nothing")).is_err());
        // Nothing has changed, and the ranks still work together.
        assert_eq!(engine.score(groups(), TEMPERATURE).unwrap(), before);
        step(objective(0)).unwrap();
        // A file before the moments are exchanged, and a folder after that.
        let after = engine.score(groups(), TEMPERATURE).unwrap();
        for taken in [path.join("config.json/state"), path.clone()] {
            assert!(engine.save_state(taken.clone()).is_err(), "{taken:?}");
            assert_eq!(engine.score(groups(), TEMPERATURE).unwrap(), after);
        }
        engine.save_state(folder.path().join("state")).unwrap();
        engine.load_state(folder.path().join("state")).unwrap();
    });
}

/// Drops a generation after its first completion.
fn dropped(engine: &Engine) {
    let request = |n: u64| GenerateRequest {
        prompt: vec![7, 8, 9].into(),
        seeds: (0..64).map(|sample| n * 64 + sample).collect(),
        max_tokens: 100,
        ..GenerateRequest::default()
    };
    let completions = engine.generate((0..64).map(request).collect());
    completions.recv().unwrap().unwrap();
    drop(completions);
    let began = Instant::now();
    assert_eq!(generated(engine).len(), 15);
    assert!(began.elapsed() < DEADLINE);
}

#[test]
fn a_generation_that_nobody_waits_for_ends_on_one_rank_and_on_all() {
    let (_folder, path) = model();
    let options = || options(Dtype::F32, None);
    dropped(&Engine::open(&path, options()).unwrap());
    with_ranks(local(2, DEADLINE), |open| {
        dropped(&open(&path, options()).unwrap());
    });
}

#[test]
fn a_rank_that_is_gone_is_an_error_after_the_deadline() {
    let (_folder, path) = model();
    let mut ranks = local(2, Duration::from_millis(300)).into_iter();
    let leader = Leader::new(ranks.next().unwrap()).unwrap();
    let options = EngineOptions {
        ranks: Some(leader.clone()),
        ..options(Dtype::F32, None)
    };
    let error = Engine::open(&path, options).err().unwrap();
    assert_says(&error, &["one of them is gone"]);
    assert!(leader.end().is_err());
}

/// A rank that inspects the weights gathered by the host. It may get a wrong bit of them, once.
struct Watched {
    ranks: Arc<dyn ProcessGroup>,
    /// Whether the host has gathered weights.
    gathered: AtomicBool,
    faulty: bool,
}

fn watched(ranks: Arc<dyn ProcessGroup>, faulty: bool) -> Arc<Watched> {
    let gathered = AtomicBool::new(false);
    Arc::new(Watched {
        ranks,
        gathered,
        faulty,
    })
}

impl ProcessGroup for Watched {
    fn rank(&self) -> usize {
        self.ranks.rank()
    }

    fn size(&self) -> usize {
        self.ranks.size()
    }

    fn deadline(&self) -> Duration {
        self.ranks.deadline()
    }

    fn all_to_all(&self, parts: &[&[u8]]) -> Result<Vec<Vec<u8>>, EngineError> {
        self.ranks.all_to_all(parts)
    }

    fn exchange(
        &self,
        send: Vec<f32>,
        pieces: &[Range<usize>],
        received: Vec<f32>,
        places: &[Range<usize>],
    ) -> Result<[Vec<f32>; 2], EngineError> {
        let mut lists = self.ranks.exchange(send, pieces, received, places)?;
        // Weights go to all others.
        let of_weights = pieces[self.rank()].is_empty();
        if of_weights && !self.gathered.swap(true, Ordering::Relaxed) && self.faulty {
            let first = &mut lists[1][0];
            *first = f32::from_bits(first.to_bits() ^ 1);
        }
        Ok(lists)
    }
}

#[test]
fn a_wrong_bit_in_the_weights_of_a_rank_ends_all() {
    let (_folder, path) = model();
    let mut ranks = local(2, Duration::from_secs(10)).into_iter();
    let leader = Leader::new(ranks.next().unwrap()).unwrap();
    let faulty: Arc<dyn ProcessGroup> = watched(ranks.next().unwrap(), true);
    let follower = std::thread::spawn(move || follow(&faulty, LocalDevice::default()));
    let options = EngineOptions {
        ranks: Some(leader),
        ..options(Dtype::F32, None)
    };
    let engine = Engine::open(&path, options).unwrap();
    let step = engine.step(groups(), TEMPERATURE, objective(0), ADAMW);
    for error in [step.err(), follower.join().unwrap().err()] {
        let error = error.unwrap();
        assert!(matches!(error, EngineError::Ranks(_)), "{error}");
        assert_says(&error, &["the weights of rank 1 are not those of rank 0"]);
    }
}

/// The norms of the gradients of two updates.
fn updated(engine: &Engine) -> Vec<f64> {
    let step = |_| engine.step(groups(), TEMPERATURE, objective(1), ADAMW);
    (0..2).map(|n| step(n).unwrap().grad_norm).collect()
}

#[test]
fn gpus_exchange_gradients_and_weights_with_each_other() {
    let (folder, path) = model();
    for (dtype, size) in [(Dtype::F32, 4), (Dtype::Bf16, 2)] {
        let options = || EngineOptions {
            device: Device::Emulated,
            ..options(dtype, None)
        };
        let engine = Engine::open(&path, options()).unwrap();
        let norms_alone = updated(&engine);
        let alone = saved(&engine, folder.path());
        let mut ranks = local(size, DEADLINE);
        let watched: Vec<_> = ranks.drain(1..).map(|r| watched(r, false)).collect();
        ranks.extend(
            watched
                .iter()
                .map(|r| Arc::clone(r) as Arc<dyn ProcessGroup>),
        );
        let (norms, together) = with_ranks(ranks, |open| {
            let engine = open(&path, options()).unwrap();
            let norms = updated(&engine);
            // The host gathers what is saved.
            for rank in &watched {
                assert!(!rank.gathered.load(Ordering::Relaxed), "{size} ranks");
            }
            (norms, saved(&engine, folder.path()))
        });
        assert!(together == alone, "{size} ranks, {dtype:?}");
        // The GPU adds up the squares of a shard in parts of its own.
        for (norm, alone) in norms.iter().zip(&norms_alone) {
            assert!((norm / alone - 1.0).abs() < 1e-12, "{norm} {alone}");
        }
    }
}
