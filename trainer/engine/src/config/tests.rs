use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Family, Llama3Rope, ModelConfig, RopeScaling, Sliding};

/// A configuration of the family in the form in which its models are published.
fn published(family: Family) -> Value {
    let mut config = json!({
        "vocab_size": 300,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 7,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 128,
        "rms_norm_eps": 1e-6,
        "eos_token_id": [1, 106],
    });
    let family_fields = match family {
        Family::Llama => json!({
            "model_type": "llama",
            "hidden_act": "silu",
            "rope_scaling": {
                "rope_type": "llama3",
                "factor": 32.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            },
        }),
        Family::Qwen2 => json!({
            "model_type": "qwen2",
            "hidden_act": "silu",
            "use_sliding_window": false,
            "sliding_window": 32,
            "max_window_layers": 5,
        }),
        Family::Qwen3 => json!({
            "model_type": "qwen3",
            "head_dim": 32,
            "use_sliding_window": true,
            "sliding_window": 32,
            "max_window_layers": 5,
        }),
        Family::Gemma3 => json!({
            "model_type": "gemma3_text",
            "head_dim": 32,
            "hidden_activation": "gelu_pytorch_tanh",
            "rope_theta": 1e6,
            "rope_local_base_freq": 2e4,
            "rope_scaling": {"rope_type": "linear", "factor": 8.0},
            "query_pre_attn_scalar": 24,
            "sliding_window": 32,
            "attn_logit_softcapping": 50.0,
            "final_logit_softcapping": 30.5,
        }),
    };
    for (name, value) in family_fields.as_object().into_iter().flatten() {
        config[name] = value.clone();
    }
    config
}

fn read(value: &Value) -> ModelConfig {
    ModelConfig::from_json(&value.to_string()).unwrap()
}

fn refusal(value: &Value) -> String {
    ModelConfig::from_json(&value.to_string()).unwrap_err()
}

#[test]
fn every_familys_configuration_survives_a_round_trip_through_json() {
    for family in Family::ALL {
        let config = read(&published(family));
        assert_eq!((config.family, config.flags), (family, family.flags()));
        let json = config.to_json();
        // Not 9.999999974752427e-7.
        assert_eq!(json["rms_norm_eps"], json!(1e-6));
        assert_eq!(read(&json), config, "{family:?}");
    }
}

#[test]
fn gemmas_sliding_layers_are_given_by_a_pattern_or_by_name() {
    let mut json = published(Family::Gemma3);
    let config = read(&json);
    let expected = Sliding {
        window: 32,
        layers: [true, true, true, true, true, false, true].to_vec(),
        rope_theta: Some(20_000.0),
    };
    assert_eq!(config.sliding.as_ref(), Some(&expected));
    assert_eq!(config.query_pre_attn_scalar, 24.0);
    assert_eq!(config.attn_logit_softcapping, Some(50.0));
    assert_eq!(config.final_logit_softcapping, Some(30.5));

    json["sliding_window_pattern"] = json!(2);
    let alternating = read(&json).sliding.unwrap().layers;
    assert_eq!(alternating, [true, false, true, false, true, false, true]);
    let mut names = vec!["sliding_attention"; 7];
    names[0] = "full_attention";
    json["layer_types"] = json!(names);
    assert_eq!(
        read(&json).sliding.unwrap().layers,
        [false, true, true, true, true, true, true]
    );
    for (kinds, named) in [
        (vec!["chunked_attention"; 7], "chunked_attention"),
        (vec!["full_attention"; 6], "6 layers of 7"),
    ] {
        json["layer_types"] = json!(kinds);
        let error = refusal(&json);
        assert!(error.contains(named), "{error}");
    }
}

#[test]
fn rotary_settings_are_read_from_the_fields_of_transformers_5() {
    let mut json = published(Family::Gemma3);
    let expected = read(&json);
    for name in ["rope_theta", "rope_local_base_freq", "rope_scaling"] {
        json.as_object_mut().unwrap().remove(name);
    }
    json["rope_parameters"] = json!({
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 2e4},
    });
    assert_eq!(read(&json), expected);
    json["rope_parameters"]["sliding_attention"]["rope_type"] = json!("linear");
    refusal(&json);
}

#[test]
fn rope_scaling_wins_over_rope_parameters_as_in_transformers_5() {
    for case in include_str!("rope_settings.tsv").lines().skip(1) {
        let columns: Vec<&str> = case.split('\t').collect();
        let mut json = published(Family::parse(columns[0]).unwrap());
        for (name, value) in ["rope_scaling", "rope_parameters", "rope_theta"]
            .iter()
            .zip(&columns[1..])
        {
            json[name] = serde_json::from_str(value).unwrap();
        }
        let config = ModelConfig::from_json(&json.to_string());
        let found = config.map(|it| format!("{:?} {}", it.rope_scaling, it.rope_theta));
        let found = found.unwrap_or_else(|error| error);
        assert!(found.contains(columns[4]), "{case}: {found}");
    }
}

#[test]
fn a_multimodal_model_is_read_as_its_text_part() {
    // Like Gemma 3 4B's configuration, which omits the fields that have defaults in transformers.
    let json = json!({
        "model_type": "gemma3",
        "eos_token_id": [1, 106],
        "vision_config": {"model_type": "siglip_vision_model"},
        "text_config": {
            "model_type": "gemma3_text",
            "hidden_size": 2560,
            "intermediate_size": 10240,
            "num_hidden_layers": 34,
            "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
            "sliding_window": 1024,
        },
    });
    let config = read(&json);
    assert_eq!(config.family, Family::Gemma3);
    assert_eq!(config.vocab_size, 262_208);
    assert_eq!((config.num_attention_heads, config.head_dim), (8, 256));
    assert_eq!(
        config.rope_scaling,
        Some(RopeScaling::Linear { factor: 8.0 })
    );
    assert!(config.tie_word_embeddings);
    assert_eq!(config.eos_token_ids, [1, 106]);
    assert_eq!(config.sliding.as_ref().unwrap().window, 1024);
    // The text part has 3.88 B of the published 4.3 B weights.
    assert_eq!(config.parameters(), 3_880_263_168);
}

#[test]
fn unsupported_settings_are_rejected_by_name() {
    for (family, name, value) in [
        (Family::Llama, "attention_bias", json!(true)),
        (Family::Gemma3, "use_bidirectional_attention", json!(true)),
        (Family::Gemma3, "hidden_activation", json!("silu")),
        (Family::Qwen2, "hidden_act", json!("gelu_pytorch_tanh")),
        (Family::Gemma3, "final_logit_softcapping", json!(0.0)),
        (Family::Gemma3, "query_pre_attn_scalar", json!(-1)),
        (Family::Gemma3, "sliding_window", json!(0)),
        (Family::Gemma3, "rope_local_base_freq", json!(1e300)),
        (Family::Qwen3, "quantization_config", json!({})),
        (Family::Llama, "pad_token_id", json!("x")),
        (Family::Llama, "model_type", json!("mamba")),
    ] {
        let mut config = published(family);
        config[name] = value;
        let error = refusal(&config);
        let named = if name == "model_type" {
            "`mamba`"
        } else {
            name
        };
        assert!(error.contains(named), "{name}: {error}");
    }
}

#[test]
fn a_negative_token_id_means_no_token() {
    let mut json = published(Family::Llama);
    for (pad, expected) in [
        (json!(-1), None),
        (json!([-1]), None),
        (json!(300), None),
        (json!(u64::MAX), None),
        (json!(299), Some(299)),
    ] {
        json["bos_token_id"] = json!(-1);
        json["pad_token_id"] = pad;
        let config = read(&json);
        assert_eq!((config.bos_token_id, config.pad_token_id), (None, expected));
        assert_eq!(read(&config.to_json()), config);
    }
}

#[test]
fn a_text_has_an_end_token_unless_the_field_is_null() {
    let mut json = published(Family::Llama);
    json["eos_token_id"] = json!([-1, 106]);
    let mut config = read(&json);
    assert_eq!(config.eos_token_ids, [106]);
    config
        .add_generation_config(r#"{"eos_token_id": -1}"#)
        .unwrap();
    assert_eq!(config.eos_token_ids, [106]);
    for none in [json!(null), json!([])] {
        json["eos_token_id"] = none;
        assert!(read(&json).eos_token_ids.is_empty());
    }
    for (wrong, named) in [
        (json!(-1), "`eos_token_id` is -1"),
        (json!([-1, -2]), "`eos_token_id` is -1"),
        (json!([1, u64::MAX]), "`eos_token_id`"),
        (json!([1, "x"]), "`eos_token_id`"),
        (json!(vec![1; 2000]), "2000 tokens"),
        (json!(300), "special token 300"),
    ] {
        json["eos_token_id"] = wrong;
        let error = refusal(&json);
        assert!(error.contains(named), "{error}");
    }
}

#[test]
fn frequencies_match_those_of_transformers() {
    // From transformers 5.23, ROPE_INIT_FUNCTIONS: the first, middle and last of 32 pairs.
    let mut config = read(&published(Family::Gemma3));
    config.head_dim = 64;
    let samples = |all: Vec<f32>| [all[0], all[16], all[31]];
    let linear = samples(config.rope_frequencies());
    let sliding = samples(config.sliding_rope_frequencies().unwrap());
    config.rope_theta = 500_000.0;
    config.rope_scaling = Some(RopeScaling::Llama3(Llama3Rope {
        factor: 32.0,
        low_freq_factor: 1.0,
        high_freq_factor: 4.0,
        original_max_position_embeddings: 8192,
    }));
    let llama3 = samples(config.rope_frequencies());
    for (actual, expected) in [
        (linear, [0.125, 1.25e-4, 1.924_908_2e-7]),
        (sliding, [1.0, 7.071_068e-3, 6.813_608e-5]),
        (llama3, [1.0, 4.295_567e-4, 9.418_306_5e-8]),
    ] {
        for (actual, expected) in actual.into_iter().zip(expected) {
            let error = (actual / expected - 1.0).abs();
            assert!(error < 1e-6, "{actual} {expected}");
        }
    }
}

proptest! {
    #[test]
    fn any_value_in_any_field_is_accepted_or_rejected(
        family in prop::sample::select(Family::ALL.to_vec()),
        field in any::<prop::sample::Index>(),
        value in prop::sample::select(vec![
            json!(0), json!(-1), json!(u64::MAX), json!(1e300), json!("x"), json!(null), json!([1, "x"]), json!({"rope_type": "llama3"}), json!(true),
        ]),
    ) {
        let mut config = read(&published(family)).to_json();
        let names: Vec<String> = config.as_object().unwrap().keys().cloned().collect();
        config[field.get(&names)] = value;
        if let Ok(config) = ModelConfig::from_json(&config.to_string()) {
            prop_assert!(config.parameters() > 0);
        }
    }
}
