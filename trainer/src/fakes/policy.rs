//! A toy policy: a table of logits by prompt, position and letter, trained by AdamW. It is small enough to be exact, and has state that a wrong resumption would
//! lose.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use engine::text::Date;
use engine::{
    AdamW, Completion, CountSketch, EngineError, Finish, GenerateRequest, Group, MemoryMeter,
    Objective, Objectives, StepReport, TokenStats,
};
use tokio::sync::mpsc;

use crate::policy::{Policy, PromptEncoder};

const ROWS: usize = 8;
const POSITIONS: usize = 4;
const LETTERS: usize = 5;
const SIZE: usize = ROWS * POSITIONS * LETTERS;
/// Letter `a` ends a completion.
const END: u32 = 0;

#[derive(Clone)]
struct State {
    weights: Vec<f32>,
    first: Vec<f32>,
    second: Vec<f32>,
    updates: i32,
}

/// The toy policy. A completion is up to four letters `a` to `e`, and ends after an `a`.
#[derive(Default)]
pub(crate) struct FakePolicy {
    state: Mutex<State>,
    steps: AtomicUsize,
    sampled: Arc<AtomicUsize>,
    /// The step, counted over this object's life, that fails.
    pub(crate) fail_at: Option<usize>,
    /// The step, counted the same way, that succeeds and makes the weights NaN.
    pub(crate) diverge_at: Option<usize>,
    /// By how much log-probabilities are higher in sampling than in training.
    pub(crate) logp_offset: f32,
    /// Whether the model reports no stop tokens; completions end all the same.
    pub(crate) lacks_stop_tokens: bool,
    /// How long scoring takes, and each of the forward pass, the backward pass and the optimiser in an update.
    pub(crate) pass: Duration,
}

impl Default for State {
    fn default() -> Self {
        let weight = |i: usize| ((i * 37 % 17) as f32 - 8.0) / 16.0;
        Self {
            weights: (0..SIZE).map(weight).collect(),
            first: vec![0.0; SIZE],
            second: vec![0.0; SIZE],
            updates: 0,
        }
    }
}

impl FakePolicy {
    /// A policy with logits that differ from the default's by about `distance`.
    pub(crate) fn moved(distance: f32) -> Self {
        let toy = Self::default();
        for (i, weight) in toy.state.lock().unwrap().weights.iter_mut().enumerate() {
            *weight += distance * ((i * 53 % 13) as f32 - 6.0) / 4.0;
        }
        toy
    }

    /// Updates made by this object.
    pub(crate) fn steps(&self) -> usize {
        self.steps.load(Ordering::SeqCst)
    }

    /// Completions sampled by this object.
    pub(crate) fn sampled(&self) -> usize {
        self.sampled.load(Ordering::SeqCst)
    }
}

/// The index of the first logit for a prompt and a position.
fn at(prompt: &[u32], position: usize) -> usize {
    let row = prompt
        .iter()
        .fold(0usize, |sum, token| (sum * 31 + *token as usize) % 1009)
        % ROWS;
    (row * POSITIONS + position) * LETTERS
}

fn uniform(seed: u64, index: usize) -> f64 {
    let hash = blake3::hash(&[seed.to_le_bytes(), (index as u64).to_le_bytes()].concat());
    let bytes = hash.as_bytes()[..8].try_into().unwrap();
    u64::from_le_bytes(bytes) as f64 / 2f64.powi(64)
}

fn sample_tokens(state: &State, request: &GenerateRequest, seed: u64) -> (Vec<u32>, Vec<f32>) {
    let (mut tokens, mut logps) = (Vec::new(), Vec::new());
    for position in 0..request.max_tokens.min(POSITIONS) {
        let logp = state.row(&request.prompt, position, request.sampling.temperature);
        let mut left = uniform(seed, position);
        if position < request.min_tokens {
            let end = logp[END as usize].exp();
            left = end + left * (1.0 - end);
        }
        let token = logp.iter().position(|logp| {
            left -= logp.exp();
            left < 0.0
        });
        let token = token.unwrap_or(LETTERS - 1);
        tokens.push(token as u32);
        logps.push(logp[token] as f32);
        if token as u32 == END {
            break;
        }
    }
    (tokens, logps)
}

impl Policy for FakePolicy {
    fn generate(
        &self,
        requests: Vec<GenerateRequest>,
    ) -> mpsc::UnboundedReceiver<Result<Completion, EngineError>> {
        let (state, logp_offset) = (self.state.lock().unwrap().clone(), self.logp_offset);
        let sampled = self.sampled.clone();
        let (sender, receiver) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            if state.weights.iter().any(|weight| weight.is_nan()) {
                let _ = sender.send(Err(EngineError::Numeric("scripted".into())));
                return;
            }
            // Backwards, since completions come in no particular order.
            for (number, request) in requests.iter().enumerate().rev() {
                for (sample, seed) in request.seeds.iter().enumerate() {
                    let (tokens, mut logp) = sample_tokens(&state, request, *seed);
                    logp.iter_mut().for_each(|logp| *logp += logp_offset);
                    let letters = tokens.iter().filter(|token| **token != END);
                    let completion = Completion {
                        request: number,
                        sample,
                        text: letters.map(|t| char::from(b'a' + *t as u8)).collect(),
                        finish: match tokens.last() {
                            Some(&END) => Finish::Stop,
                            _ => Finish::Length,
                        },
                        tokens,
                        logp,
                    };
                    std::thread::sleep(Duration::from_micros(200));
                    sampled.fetch_add(1, Ordering::SeqCst);
                    if sender.send(Ok(completion)).is_err() {
                        return;
                    }
                }
            }
        });
        receiver
    }

    fn score(&self, groups: Vec<Group>, temperature: f32) -> Result<Vec<TokenStats>, EngineError> {
        std::thread::sleep(self.pass);
        Ok(self.state.lock().unwrap().stats(&groups, temperature))
    }

    fn step(
        &self,
        groups: Vec<Group>,
        temperature: f32,
        objective: Objective,
        adamw: AdamW,
    ) -> Result<StepReport, EngineError> {
        let number = self.steps.fetch_add(1, Ordering::SeqCst);
        if self.fail_at == Some(number) {
            return Err(EngineError::Device("scripted".into()));
        }
        let mut state = self.state.lock().unwrap();
        let stats = state.stats(&groups, temperature);
        std::thread::sleep(self.pass);
        let mut logp = stats.iter().flat_map(|stats| &stats.logp);
        if logp.any(|logp| !logp.is_finite()) {
            return Err(EngineError::Numeric("scripted".into()));
        }
        let dlogp = objective(&stats).map_err(EngineError::Objective)?;
        std::thread::sleep(self.pass);
        let began = Instant::now();
        std::thread::sleep(self.pass);
        let gradient = state.gradient(&groups, temperature, &dlogp);
        state.adamw(&gradient, adamw);
        if self.diverge_at == Some(number) {
            state.weights.fill(f32::NAN);
        }
        let grad_norm = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
        Ok(StepReport {
            stats,
            grad_norm,
            forward: self.pass,
            backward: self.pass,
            optimiser: began.elapsed(),
            exchange: Duration::ZERO,
        })
    }

    fn sketch(
        &self,
        groups: Vec<Group>,
        temperature: f32,
        objectives: Objectives,
        sketch: CountSketch,
    ) -> Result<Vec<Vec<f32>>, EngineError> {
        let state = self.state.lock().unwrap();
        let sets =
            objectives(&state.stats(&groups, temperature)).map_err(EngineError::Objective)?;
        let sketch_of = |dlogp: &Vec<Vec<f32>>| {
            let gradient = state.gradient(&groups, temperature, dlogp);
            let gradient: Vec<f32> = gradient.iter().map(|g| *g as f32).collect();
            let mut buckets = vec![0.0; sketch.size];
            sketch.add(&mut buckets, 0, &gradient);
            buckets
        };
        Ok(sets.iter().map(sketch_of).collect())
    }

    fn save_model(&self, folder: PathBuf) -> Result<(), EngineError> {
        std::fs::create_dir(folder).unwrap();
        Ok(())
    }

    fn save_state(&self, file: PathBuf) -> Result<(), EngineError> {
        let state = self.state.lock().unwrap();
        let numbers = [&state.weights[..], &state.first, &state.second].concat();
        let mut bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        bytes.extend(state.updates.to_le_bytes());
        std::fs::write(file, bytes).unwrap();
        Ok(())
    }

    fn load_state(&self, file: PathBuf) -> Result<(), EngineError> {
        let bytes = std::fs::read(file).unwrap();
        let (numbers, updates) = bytes.split_at(SIZE * 12);
        let number = |b: &[u8]| f32::from_le_bytes(b.try_into().unwrap());
        let numbers: Vec<f32> = numbers.chunks(4).map(number).collect();
        *self.state.lock().unwrap() = State {
            weights: numbers[..SIZE].to_vec(),
            first: numbers[SIZE..2 * SIZE].to_vec(),
            second: numbers[2 * SIZE..].to_vec(),
            updates: i32::from_le_bytes(updates.try_into().unwrap()),
        };
        Ok(())
    }

    fn stop_tokens(&self) -> Vec<u32> {
        match self.lacks_stop_tokens {
            true => Vec::new(),
            false => vec![END],
        }
    }

    fn device_memory(&self) -> Option<MemoryMeter> {
        None
    }
}

impl PromptEncoder for FakePolicy {
    fn encode(&self, text: &str, _special: bool) -> Result<Vec<u32>, EngineError> {
        Ok(text.bytes().map(u32::from).collect())
    }

    fn chat_prompt(
        &self,
        messages: &[(String, String)],
        _day: Date,
    ) -> Result<String, EngineError> {
        let texts = messages
            .iter()
            .map(|(role, text)| format!("<{role}>{text}"));
        Ok(texts.collect())
    }

    fn context(&self) -> usize {
        256
    }
}

/// Each completion with its prompt.
fn sequences(groups: &[Group]) -> impl Iterator<Item = (&[u32], &Vec<u32>)> {
    groups.iter().flat_map(|group| {
        let completions = group.completions.iter();
        completions.map(|completion| (&*group.prompt, completion))
    })
}

impl State {
    /// The log-probabilities of the letters.
    fn row(&self, prompt: &[u32], position: usize, temperature: f32) -> [f64; LETTERS] {
        let weights = &self.weights[at(prompt, position)..];
        let scaled = |i: usize| f64::from(weights[i]) / f64::from(temperature);
        let total: f64 = (0..LETTERS).map(|i| scaled(i).exp()).sum();
        std::array::from_fn(|i| scaled(i) - total.ln())
    }

    fn stats(&self, groups: &[Group], temperature: f32) -> Vec<TokenStats> {
        let of_completion = |(prompt, tokens): (&[u32], &Vec<u32>)| {
            let (mut logp, mut entropy) = (Vec::new(), Vec::new());
            for (position, token) in tokens.iter().enumerate() {
                let row = self.row(prompt, position, temperature);
                logp.push(row[*token as usize] as f32);
                entropy.push(-row.iter().map(|l| l * l.exp()).sum::<f64>() as f32);
            }
            TokenStats { logp, entropy }
        };
        sequences(groups).map(of_completion).collect()
    }

    fn gradient(&self, groups: &[Group], temperature: f32, dlogp: &[Vec<f32>]) -> Vec<f64> {
        let mut gradient = vec![0.0f64; SIZE];
        for ((prompt, tokens), dlogp) in sequences(groups).zip(dlogp) {
            for (position, (token, d)) in tokens.iter().zip(dlogp).enumerate() {
                let row = self.row(prompt, position, temperature);
                for (letter, logp) in row.iter().enumerate() {
                    let delta = f64::from(u8::from(letter == *token as usize));
                    gradient[at(prompt, position) + letter] +=
                        f64::from(*d) * (delta - logp.exp()) / f64::from(temperature);
                }
            }
        }
        gradient
    }

    fn adamw(&mut self, gradient: &[f64], adamw: AdamW) {
        self.updates += 1;
        let norm = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
        let scale = (f64::from(adamw.clip_norm) / norm).min(1.0);
        for (i, g) in gradient.iter().enumerate() {
            let g = (g * scale) as f32;
            self.first[i] = adamw.beta1 * self.first[i] + (1.0 - adamw.beta1) * g;
            self.second[i] = adamw.beta2 * self.second[i] + (1.0 - adamw.beta2) * g * g;
            let first = self.first[i] / (1.0 - adamw.beta1.powi(self.updates));
            let second = self.second[i] / (1.0 - adamw.beta2.powi(self.updates));
            self.weights[i] -= adamw.lr * first / (second.sqrt() + adamw.eps);
        }
    }
}
