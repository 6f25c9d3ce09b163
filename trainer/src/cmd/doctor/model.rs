//! Checks of a model: it loads and generates, its logits agree with a second implementation, and sampling and training compute the same probabilities.

use std::sync::Arc;

use engine::{Dtype, Engine, GenerateRequest, Group, Sampling, parity};

use super::Check;
use crate::cmd::args::{DeviceArgs, model_path, open_model};
use crate::cmd::paragraph;

const PROMPT: &str = "The capital of France is";
/// A text long enough that RoPE and attention matter.
const TEXT: &str = "Each box holds 6 pencils. How many pencils are in 4 boxes? There are 4 boxes with 6 pencils in each of them, so there are 4 times 6";
const TOKENS: usize = 24;
/// The largest difference of log-probabilities between sampling and training on a GPU: in f32, and in bf16. The two sum the same numbers in different orders, and in
/// bf16 each layer rounds sums to 8 bits (0.03 apart with SmolLM2-135M on the emulated device). With a difference beyond rounding, importance weights that should be
/// 1 are not. On the CPU the log-probabilities are bit-identical.
const GPU_TOLERANCES: [f32; 2] = [1e-3, 0.1];
/// The largest difference of logits, as a fraction of the largest logit: the rounding of f32 sums in different orders over a deep model.
const LOGIT_TOLERANCE: f32 = 1e-3;

pub(super) fn checks(name: &str, device: &DeviceArgs) -> Vec<Check> {
    let engine = match open_model(name, device, None) {
        Ok(engine) => engine,
        Err(error) => {
            return vec![Check::fail(
                "model",
                paragraph(&error),
                "give a GGUF file, a Hugging Face folder, or a name that rapid fetch lists",
            )];
        }
    };
    let info = engine.info();
    let description = format!(
        "{name}: {}, {:.1} M weights, context {}, vocabulary {}, on {}",
        info.architecture,
        info.parameters as f64 / 1e6,
        info.context,
        info.vocabulary,
        info.device
    );
    let mut checks = vec![Check::ok("model", description), end_tokens(&engine)];
    match generate(&engine, device) {
        Ok(generated) => checks.extend(generated),
        Err(error) => checks.push(Check::fail(
            "generation",
            paragraph(&error),
            "the file may be damaged: fetch it again",
        )),
    }
    // The comparison needs the engine's memory.
    drop(engine);
    checks.push(logits(name, device.threads));
    checks
}

/// The tokens that end a completion, with their ids.
fn end_tokens(engine: &Engine) -> Check {
    let ends = engine.stop_tokens().into_iter();
    let shown = ends.map(|id| format!("{} ({id})", engine.token(id).unwrap_or_default()));
    let shown: Vec<String> = shown.collect();
    if shown.is_empty() {
        return Check::warn(
            "end tokens",
            "none, so completions end at a stop string or at the limit of tokens",
            "name one as `eos_token_id` in config.json, or as `eos_token` in tokenizer_config.json",
        );
    }
    Check::ok("end tokens", shown.join(", "))
}

fn logits(name: &str, threads: Option<usize>) -> Check {
    let compared = model_path(name).and_then(|path| Ok(parity::with_candle(&path, TEXT, threads)?));
    let found = match compared {
        Ok(found) => found,
        Err(error) => {
            let remedy = "the model may be right all the same";
            return Check::warn("logits", paragraph(&error), remedy);
        }
    };
    if !found.difference.is_finite() || !found.magnitude.is_finite() {
        return Check::fail(
            "logits",
            "not all of them are numbers",
            "the checkpoint's weights contain NaN or infinity, or overflow: go back to an earlier checkpoint, or fetch the model again",
        );
    }
    let equal = found.difference <= LOGIT_TOLERANCE * found.magnitude;
    let verdict = match (found.same_choice, equal) {
        (true, true) => "equal to those of candle-transformers",
        (true, false) => {
            "different from those of candle-transformers, with the same likeliest token"
        }
        (false, _) => "different from those of candle-transformers, with another likeliest token",
    };
    let figure = format!(
        "{verdict}: logits at most {:.1e} apart after {} tokens, the largest being {:.1}",
        found.difference, found.tokens, found.magnitude
    );
    if equal && found.same_choice {
        return Check::ok("logits", figure);
    }
    Check::fail(
        "logits",
        figure,
        "the engine computes this checkpoint wrongly: please report this with the model's name",
    )
}

fn generate(engine: &Engine, device: &DeviceArgs) -> anyhow::Result<[Check; 2]> {
    let prompt: Arc<[u32]> = engine.encode(PROMPT, true)?.into();
    let request = GenerateRequest {
        prompt: prompt.clone(),
        seeds: vec![0],
        sampling: Sampling::greedy(),
        max_tokens: TOKENS,
        stop_tokens: engine.stop_tokens(),
        ..GenerateRequest::default()
    };
    let completion = engine.generate(vec![request]).recv()??;
    let group = Group {
        prompt,
        completions: vec![completion.tokens.clone()],
    };
    let scored = engine.score(vec![group], 1.0)?;
    let trained = scored.iter().flat_map(|stats| &stats.logp);
    let pairs = trained.zip(&completion.logp);
    let differences = pairs.map(|(train, sample)| (train - sample).abs());
    let difference = differences.fold(0.0, f32::max);
    let options = device.options();
    let tolerance = match (options.device.memory(), options.dtype) {
        (None, _) => 0.0,
        (Some(_), Dtype::F32) => GPU_TOLERANCES[0],
        (Some(_), Dtype::Bf16) => GPU_TOLERANCES[1],
    };
    let figure =
        format!("log-probabilities of sampling and training at most {difference:.1e} apart");
    let text = format!("{PROMPT}{}", completion.text);
    let probabilities = match difference <= tolerance {
        true => Check::ok("probabilities", figure),
        false => Check::fail(
            "probabilities",
            figure,
            "importance weights would be wrong: please report this with the model's name",
        ),
    };
    Ok([Check::ok("generation", format!("{text:?}")), probabilities])
}
