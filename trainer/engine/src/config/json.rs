//! Conversion between `config.json` and [`ModelConfig`].

use serde_json::{Map, Value, json};

use super::{
    Family, Llama3Rope, MAX_END_TOKENS, MAX_LAYERS, ModelConfig, RopeScaling, Sliding, padding,
    within,
};

/// `model_type` of Gemma 3's text part, alone or inside a multimodal model.
const GEMMA3_TEXT: &str = "gemma3_text";

impl ModelConfig {
    /// Reads a Hugging Face `config.json`; for a multimodal model, its text part. Errors name the field and the accepted values.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let value: Value =
            serde_json::from_str(text).map_err(|e| format!("not valid JSON: {e}"))?;
        let Value::Object(mut object) = value else {
            return Err("a configuration is a JSON object".into());
        };
        let family = match object.get("model_type").and_then(Value::as_str) {
            Some(GEMMA3_TEXT) => Family::Gemma3,
            Some(name) => Family::parse(name)?,
            None => return Err("the field `model_type` is missing".into()),
        };
        reject_quantised(&object)?;
        if family == Family::Gemma3 {
            object = gemma3_text(object);
        }
        read(&object, family)
    }

    /// Adds the end-of-text tokens of `generation_config.json`; chat models list more of them there.
    pub(crate) fn add_generation_config(&mut self, text: &str) -> Result<(), String> {
        let value: Value =
            serde_json::from_str(text).map_err(|e| format!("not valid JSON: {e}"))?;
        if let Some(object) = value.as_object() {
            for id in end_ids(object, &self.eos_token_ids)? {
                if !self.eos_token_ids.contains(&id) {
                    self.eos_token_ids.push(id);
                }
            }
        }
        self.check()
    }

    /// The configuration as `config.json`, for weights in f32.
    pub fn to_json(&self) -> Value {
        let (architecture, model_type) = match self.family {
            Family::Llama => ("LlamaForCausalLM", "llama"),
            Family::Qwen2 => ("Qwen2ForCausalLM", "qwen2"),
            Family::Qwen3 => ("Qwen3ForCausalLM", "qwen3"),
            Family::Gemma3 => ("Gemma3ForCausalLM", GEMMA3_TEXT),
        };
        let eos = match self.eos_token_ids.as_slice() {
            [] => Value::Null,
            [one] => json!(one),
            several => json!(several),
        };
        let mut config = json!({
            "architectures": [architecture],
            "model_type": model_type,
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_hidden_layers": self.num_hidden_layers,
            "num_attention_heads": self.num_attention_heads,
            "num_key_value_heads": self.num_key_value_heads,
            "head_dim": self.head_dim,
            "max_position_embeddings": self.max_position_embeddings,
            "rms_norm_eps": shortest(self.rms_norm_eps),
            "rope_theta": shortest(self.rope_theta),
            "rope_scaling": self.rope_scaling.map(rope_scaling_json),
            "tie_word_embeddings": self.tie_word_embeddings,
            "bos_token_id": self.bos_token_id,
            "eos_token_id": eos,
            "pad_token_id": self.pad_token_id,
            "attention_bias": false,
            "attention_dropout": 0.0,
            "initializer_range": 0.02,
            "use_cache": true,
            "torch_dtype": "float32",
        });
        match self.family {
            Family::Llama => config["mlp_bias"] = json!(false),
            Family::Qwen2 | Family::Qwen3 => self.add_qwen(&mut config),
            Family::Gemma3 => self.add_gemma(&mut config),
        }
        let activation = match self.family {
            Family::Gemma3 => "hidden_activation",
            _ => "hidden_act",
        };
        config[activation] = json!(self.flags.activation.name());
        config
    }

    fn add_qwen(&self, config: &mut Value) {
        config["use_sliding_window"] = json!(self.sliding.is_some());
        config["sliding_window"] = json!(self.sliding.as_ref().map(|sliding| sliding.window));
        // The first sliding-window layer, for readers that do not know `layer_types`.
        let sliding = self.sliding.as_ref();
        let first = sliding.and_then(|s| s.layers.iter().position(|slides| *slides));
        config["max_window_layers"] = json!(first.unwrap_or(self.num_hidden_layers));
        config["layer_types"] = self.layer_types();
    }

    fn add_gemma(&self, config: &mut Value) {
        let sliding = self.sliding.as_ref();
        config["sliding_window"] = json!(sliding.map(|sliding| sliding.window));
        config["rope_local_base_freq"] = json!(shortest(
            sliding.and_then(|s| s.rope_theta).unwrap_or(10_000.0)
        ));
        config["layer_types"] = self.layer_types();
        config["query_pre_attn_scalar"] = integer_if_whole(self.query_pre_attn_scalar);
        config["attn_logit_softcapping"] = json!(self.attn_logit_softcapping.map(shortest));
        config["final_logit_softcapping"] = json!(self.final_logit_softcapping.map(shortest));
        config["use_bidirectional_attention"] = json!(false);
    }

    fn layer_types(&self) -> Value {
        let slides = |layer: usize| self.sliding.as_ref().is_some_and(|s| s.layers[layer]);
        (0..self.num_hidden_layers)
            .map(|layer| match slides(layer) {
                true => "sliding_attention",
                false => "full_attention",
            })
            .collect()
    }
}

/// The text part of a Gemma 3 configuration, with the defaults of `transformers`. The configurations of models with 4 B parameters and more rely on most of
/// these defaults.
fn gemma3_text(mut object: Map<String, Value>) -> Map<String, Value> {
    if let Some(Value::Object(mut text)) = object.remove("text_config") {
        for name in ["bos_token_id", "eos_token_id", "pad_token_id"] {
            if let Some(value) = object.remove(name) {
                text.insert(name.to_owned(), value);
            }
        }
        object = text;
    }
    for (name, value) in [
        ("vocab_size", json!(262_208)),
        ("hidden_size", json!(2304)),
        ("intermediate_size", json!(9216)),
        ("num_hidden_layers", json!(26)),
        ("num_attention_heads", json!(8)),
        ("num_key_value_heads", json!(4)),
        ("head_dim", json!(256)),
        ("hidden_activation", json!("gelu_pytorch_tanh")),
        ("max_position_embeddings", json!(131_072)),
        ("tie_word_embeddings", json!(true)),
        ("rope_theta", json!(1e6)),
        ("rope_local_base_freq", json!(1e4)),
        ("query_pre_attn_scalar", json!(256)),
        ("sliding_window", json!(4096)),
        ("sliding_window_pattern", json!(6)),
        ("bos_token_id", json!(2)),
        ("eos_token_id", json!(1)),
        ("pad_token_id", json!(0)),
    ] {
        object.entry(name).or_insert(value);
    }
    object
}

fn read(object: &Map<String, Value>, family: Family) -> Result<ModelConfig, String> {
    reject_variants(object, family)?;
    let vocab_size = size(object, "vocab_size")?;
    let hidden_size = size(object, "hidden_size")?;
    let num_attention_heads = size(object, "num_attention_heads")?;
    let num_hidden_layers = size(object, "num_hidden_layers")?;
    let head_dim = match optional_size(object, "head_dim")? {
        Some(width) => width,
        None if family == Family::Qwen3 => 128,
        None => hidden_size / num_attention_heads.max(1),
    };
    let rope = Rope::read(object)?;
    // Other families have none of these numbers.
    let gemmas = |name: &str| match family {
        Family::Gemma3 => number(object.get(name), name),
        _ => Ok(None),
    };
    let config = ModelConfig {
        family,
        flags: family.flags(),
        vocab_size,
        hidden_size,
        intermediate_size: size(object, "intermediate_size")?,
        num_hidden_layers,
        num_attention_heads,
        num_key_value_heads: optional_size(object, "num_key_value_heads")?
            .unwrap_or(num_attention_heads),
        head_dim,
        max_position_embeddings: size(object, "max_position_embeddings")?,
        rms_norm_eps: number(object.get("rms_norm_eps"), "rms_norm_eps")?.unwrap_or(1e-6),
        rope_theta: rope.theta,
        rope_scaling: rope.scaling,
        sliding: sliding(object, family, num_hidden_layers, rope.sliding_theta)?,
        query_pre_attn_scalar: gemmas("query_pre_attn_scalar")?.unwrap_or(head_dim as f32),
        attn_logit_softcapping: gemmas("attn_logit_softcapping")?,
        final_logit_softcapping: gemmas("final_logit_softcapping")?,
        tie_word_embeddings: object
            .get("tie_word_embeddings")
            .and_then(Value::as_bool)
            .unwrap_or(false),
        bos_token_id: token_ids(object, "bos_token_id")?.first().copied(),
        eos_token_ids: end_ids(object, &[])?,
        pad_token_id: named_ids(object, "pad_token_id")?
            .first()
            .and_then(|&id| padding(id, vocab_size)),
    };
    config.check()?;
    Ok(config)
}

fn reject_quantised(object: &Map<String, Value>) -> Result<(), String> {
    if object.contains_key("quantization_config") {
        return Err("the checkpoint is quantised (`quantization_config`); take the full-precision safetensors, or a GGUF file".into());
    }
    Ok(())
}

/// Rejects options of a supported model type that the decoder does not implement.
fn reject_variants(object: &Map<String, Value>, family: Family) -> Result<(), String> {
    for flag in ["attention_bias", "mlp_bias", "use_bidirectional_attention"] {
        if object.get(flag).and_then(Value::as_bool) == Some(true) {
            return Err(format!(
                "`{flag}` is set, which this version does not support for `{}` models",
                family.name()
            ));
        }
    }
    let supported = family.flags().activation.name();
    for name in ["hidden_act", "hidden_activation"] {
        match object.get(name).and_then(Value::as_str) {
            Some(other) if other != supported => {
                return Err(format!(
                    "`{name}` is `{other}`; in `{}` models `{supported}` is supported",
                    family.name()
                ));
            }
            _ => {}
        }
    }
    reject_quantised(object)
}

/// The layers with a sliding window, and its size.
fn sliding(
    object: &Map<String, Value>,
    family: Family,
    layers: usize,
    rope_theta: Option<f32>,
) -> Result<Option<Sliding>, String> {
    within("num_hidden_layers", layers, MAX_LAYERS)?;
    let uses = object.get("use_sliding_window").and_then(Value::as_bool);
    let slides = match family {
        Family::Llama => false,
        Family::Qwen2 | Family::Qwen3 => uses == Some(true),
        Family::Gemma3 => true,
    };
    let window = optional_size(object, "sliding_window")?;
    let Some(window) = window.filter(|_| slides) else {
        return Ok(None);
    };
    let kinds: Vec<bool> = match object.get("layer_types") {
        None | Some(Value::Null) if family == Family::Gemma3 => {
            let pattern = size(object, "sliding_window_pattern")?.max(1);
            (1..=layers).map(|n| !n.is_multiple_of(pattern)).collect()
        }
        None | Some(Value::Null) => {
            let full = size(object, "max_window_layers")?;
            (0..layers).map(|layer| layer >= full).collect()
        }
        Some(Value::Array(kinds)) => kinds
            .iter()
            .map(|kind| match kind.as_str() {
                Some("sliding_attention") => Ok(true),
                Some("full_attention") => Ok(false),
                _ => Err(format!(
                    "`layer_types` has {kind}; `sliding_attention` and `full_attention` are supported"
                )),
            })
            .collect::<Result<_, String>>()?,
        Some(_) => return Err("`layer_types` is not a list".into()),
    };
    let rope_theta = rope_theta.filter(|_| family == Family::Gemma3);
    Ok(Some(Sliding {
        window,
        layers: kinds,
        rope_theta,
    }))
}

/// Rotary settings, which are in one of three places in the file.
struct Rope {
    theta: f32,
    scaling: Option<RopeScaling>,
    /// Base of the sliding-window layers.
    sliding_theta: Option<f32>,
}

impl Rope {
    /// As in transformers 5, which stores these settings under `rope_parameters`, separately for each kind of layer if there are several. A `rope_scaling` beside it wins.
    fn read(object: &Map<String, Value>) -> Result<Self, String> {
        let settings = |name: &str| match object.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Object(settings)) => Ok(Some(settings).filter(|it| !it.is_empty())),
            Some(_) => Err(format!("`{name}` is not an object")),
        };
        let theta = |settings: Option<&Map<String, Value>>| {
            number(settings.and_then(|it| it.get("rope_theta")), "rope_theta")
        };
        let (scaling, parameters) = (settings("rope_scaling")?, settings("rope_parameters")?);
        let for_kind = |kind: &str| parameters?.get(kind)?.as_object();
        let full = for_kind("full_attention");
        let is_flat = full.is_none();
        let full = full.or(parameters);
        let sliding = for_kind("sliding_attention");
        if sliding.is_some_and(|it| !matches!(rope_scaling(it), Ok(None))) {
            return Err("`rope_parameters` scales the rotary embedding of layers with a sliding window, which is not supported".into());
        }
        let stored = theta(full)?;
        // A flat `rope_parameters` is replaced, and one for each kind of layer is changed.
        let replaced = scaling.is_some() && is_flat;
        let base = theta(scaling)?
            .or(stored.filter(|_| !replaced))
            .or(theta(Some(object))?)
            .unwrap_or(10_000.0);
        if let Some(lost) = stored.filter(|stored| replaced && *stored != base) {
            return Err(format!(
                "`rope_scaling` replaces `rope_parameters`: `rope_theta` would be {base} instead of {lost}; remove one of the two"
            ));
        }
        let local = object.get("rope_local_base_freq");
        Ok(Self {
            theta: base,
            scaling: match scaling.or(full) {
                Some(settings) => rope_scaling(settings)?,
                None => None,
            },
            sliding_theta: theta(sliding)?.or(number(local, "rope_local_base_freq")?),
        })
    }
}

fn rope_scaling(scaling: &Map<String, Value>) -> Result<Option<RopeScaling>, String> {
    let factor = |name: &str, default: f32| {
        number(scaling.get(name), &format!("rope_scaling.{name}")).map(|n| n.unwrap_or(default))
    };
    let kind = scaling.get("rope_type").or_else(|| scaling.get("type"));
    match kind.and_then(Value::as_str) {
        None | Some("default") => Ok(None),
        Some("linear") => Ok(Some(RopeScaling::Linear {
            factor: factor("factor", 1.0)?,
        })),
        Some("llama3") => Ok(Some(RopeScaling::Llama3(Llama3Rope {
            factor: factor("factor", 1.0)?,
            low_freq_factor: factor("low_freq_factor", 1.0)?,
            high_freq_factor: factor("high_freq_factor", 4.0)?,
            original_max_position_embeddings: size(scaling, "original_max_position_embeddings")?,
        }))),
        Some(other) => Err(format!(
            "`rope_scaling` of type `{other}` is not supported; `default`, `linear` and `llama3` are"
        )),
    }
}

fn rope_scaling_json(scaling: RopeScaling) -> Value {
    match scaling {
        RopeScaling::Linear { factor } => {
            json!({"rope_type": "linear", "factor": shortest(factor)})
        }
        RopeScaling::Llama3(scaling) => json!({
            "rope_type": "llama3",
            "factor": shortest(scaling.factor),
            "low_freq_factor": shortest(scaling.low_freq_factor),
            "high_freq_factor": shortest(scaling.high_freq_factor),
            "original_max_position_embeddings": scaling.original_max_position_embeddings,
        }),
    }
}

fn size(object: &Map<String, Value>, name: &str) -> Result<usize, String> {
    optional_size(object, name)?.ok_or_else(|| format!("the field `{name}` is missing"))
}

fn optional_size(object: &Map<String, Value>, name: &str) -> Result<Option<usize>, String> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value
            .as_u64()
            .and_then(|n| usize::try_from(n).ok())
            .map(Some)
            .ok_or_else(|| format!("`{name}` is {value}, not a whole number")),
    }
}

fn number(value: Option<&Value>, name: &str) -> Result<Option<f32>, String> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value
            .as_f64()
            .map(|x| Some(x as f32))
            .ok_or_else(|| format!("`{name}` is {value}, not a number")),
    }
}

/// End-of-text tokens, in addition to those in `known`. Without any, no text would ever end, so a list of only negative ids is an error; null states explicitly
/// that there are none.
fn end_ids(object: &Map<String, Value>, known: &[u32]) -> Result<Vec<u32>, String> {
    let name = "eos_token_id";
    let named = named_ids(object, name)?;
    if named.len() > MAX_END_TOKENS {
        return Err(format!(
            "`{name}` lists {} tokens; at most {MAX_END_TOKENS} are supported",
            named.len()
        ));
    }
    let ids = token_ids(object, name)?;
    match named.first() {
        Some(negative) if ids.is_empty() && known.is_empty() => Err(format!(
            "`{name}` is {negative}, not a token id; write the token that ends a text, or null if none does"
        )),
        _ => Ok(ids),
    }
}

/// The token ids in a field. Early conversions write a negative id if there is none.
fn token_ids(object: &Map<String, Value>, name: &str) -> Result<Vec<u32>, String> {
    let named = named_ids(object, name)?.into_iter();
    named
        .filter(|id| *id >= 0)
        .map(|id| u32::try_from(id).map_err(|_| format!("`{name}` is {id}, not a token id")))
        .collect()
}

/// The integers in a field of token ids: a list, one, or none.
fn named_ids(object: &Map<String, Value>, name: &str) -> Result<Vec<i64>, String> {
    let id = |value: &Value| {
        // Numbers beyond i64 are beyond every vocabulary.
        let beyond = value.as_u64().map(|_| i64::MAX);
        value
            .as_i64()
            .or(beyond)
            .ok_or_else(|| format!("`{name}` is {value}, not a token id"))
    };
    match object.get(name) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(values)) => values.iter().map(id).collect(),
        Some(value) => Ok(vec![id(value)?]),
    }
}

/// The f64 that prints like the f32 (1e-5, not 9.999999747378752e-6) and converts back to the same f32.
fn shortest(x: f32) -> f64 {
    x.to_string().parse().unwrap_or(f64::from(x))
}

/// As an integer if it is one, since readers with strict types require that.
fn integer_if_whole(x: f32) -> Value {
    if x.fract() == 0.0 && x.abs() < 1e9 {
        json!(x as i64)
    } else {
        json!(shortest(x))
    }
}
