mod authors;

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const RECIPE: &str =
    "[model]\nname = \"smollm2-135m-instruct\"\n[data]\ndataset = \"starter-math\"\n";

fn with(text: &str) -> Result<Config, ConfigError> {
    parse("my.toml", &format!("{RECIPE}{text}"), &[])
}

fn set(sets: &[&str]) -> Result<Config, ConfigError> {
    let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
    parse("my.toml", RECIPE, &sets)
}

fn refusal(result: Result<Config, ConfigError>) -> String {
    result.expect_err("this must be refused").to_string()
}

#[test]
fn every_built_in_recipe_resolves() {
    for name in built_in() {
        load(&name, &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn every_built_in_recipe_on_mathematics_names_its_verifier_policies() {
    for name in built_in() {
        let config = load(&name, &[]).unwrap();
        let policies = (
            config.verifier.math_policy.as_deref(),
            config.verifier.math_extraction.as_deref(),
        );
        let dataset = config.data.dataset.as_str();
        let expected = if ["math", "gsm8k", "starter-math", "starter-math-400"].contains(&dataset) {
            (Some("standard"), Some("boxed"))
        } else {
            (None, None)
        };
        assert_eq!(policies, expected, "{name}");
    }
}

#[test]
fn every_file_in_the_recipes_folder_is_a_built_in_recipe() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("recipes");
    let files: BTreeSet<String> = std::fs::read_dir(root)
        .unwrap()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            name.strip_suffix(".toml").map(str::to_owned)
        })
        .collect();
    let for_cpu: BTreeSet<String> = built_in().filter(|name| !name.contains('/')).collect();
    assert_eq!(files, for_cpu);
}

#[test]
fn the_recipe_of_a_paper_row_matches_its_name() {
    let mut rows = 0;
    for name in built_in() {
        let Some(row) = name.strip_prefix("paper/") else {
            continue;
        };
        let config = load(&name, &[]).unwrap();
        let (model, algorithm) = row
            .split_once(&format!("-{}-", config.data.dataset))
            .unwrap();
        assert!(
            config.model.name.as_ref().unwrap().starts_with(model),
            "{name}"
        );
        let a = &config.algorithm;
        let (preset, h) = match algorithm.split_once("-h") {
            Some((_, h)) => (Preset::RapidPaper, h.parse().unwrap()),
            None if algorithm == "dapo" => (Preset::DapoPaper, 1),
            None => (Preset::named(algorithm).unwrap(), 1),
        };
        assert_eq!((a.preset, a.h), (preset, h), "{name}");
        rows += 1;
    }
    assert_eq!(rows, 39);
}

#[test]
fn presets_also_set_keys_outside_of_the_estimator() {
    let dapo = set(&["algorithm.preset=dapo"]).unwrap();
    assert_eq!(
        (dapo.algorithm.dynamic_sampling, dapo.reward.overlong),
        (9, 0.5)
    );
    let plain = set(&[
        "algorithm.preset=dapo",
        "algorithm.dynamic_sampling=0",
        "reward.overlong=0",
    ])
    .unwrap();
    assert_eq!(
        (plain.algorithm.dynamic_sampling, plain.reward.overlong),
        (0, 0.0)
    );
    assert_eq!(set(&["algorithm.preset=grpo"]).unwrap().algorithm.kl, 0.04);
    let sft = set(&["algorithm.preset=sft", "data.teacher=t.jsonl"]).unwrap();
    assert_eq!(
        (
            sft.algorithm.group_size,
            sft.algorithm.n_step,
            sft.algorithm.h
        ),
        (1, 96, 1)
    );
}

#[test]
fn the_authors_presets_differ_from_the_papers_by_what_their_code_adds() {
    let estimator = |preset: Preset| Algorithm::of(preset).estimator();
    let pg = estimator(Preset::PgAuthor);
    assert_eq!(
        (pg.length_norm, pg.divide_by_std),
        (LengthNorm::Length, true)
    );
    // It is GRPO without the KL term, so their PG and GRPO differ in that alone.
    let grpo = estimator(Preset::Grpo);
    assert_eq!(pg, crate::algo::Estimator { kl: 0.0, ..grpo });
    let rapid = estimator(Preset::RapidAuthor);
    assert_eq!(
        (rapid.length_norm, rapid.divide_by_std),
        (LengthNorm::Length, false)
    );
}

#[test]
fn the_default_settings_are_the_papers() {
    let config = with("").unwrap();
    assert_eq!(
        (config.algorithm.factor, config.algorithm.baseline),
        (Factor::W, Baseline::WeightedGroup)
    );
    assert_eq!(
        (
            config.algorithm.eta,
            config.algorithm.group_size,
            config.run.epochs
        ),
        (2.0, 4, Some(3))
    );
    assert_eq!(
        (
            config.optimiser.lr,
            config.optimiser.clip_norm,
            config.sampling.temperature
        ),
        (1e-6, 1.0, 1.0)
    );
    assert_eq!(
        (
            config.optimiser.schedule,
            config.optimiser.final_lr,
            config.eval.temperature
        ),
        (LrSchedule::Linear, 0.0, 0.9)
    );
    assert_eq!(
        (config.prompts_per_update(), config.prompts_per_phase()),
        (8, 32)
    );
}

#[test]
fn a_resolved_configuration_reads_back_unchanged() {
    for name in built_in() {
        let config = load(
            &name,
            &[
                "verifier.url=http://127.0.0.1:1".into(),
                "engine.threads=2".into(),
            ],
        )
        .unwrap();
        assert_eq!(
            parse("config.toml", &config.to_toml(), &[]).unwrap(),
            config,
            "{name}"
        );
    }
}

#[test]
fn only_eta_may_be_infinite_and_it_reads_back_from_the_saved_configuration() {
    let config = set(&["algorithm.eta=inf"]).unwrap();
    assert_eq!(config.algorithm.eta, f64::INFINITY);
    assert_eq!(parse("saved", &config.to_toml(), &[]).unwrap(), config);
    let json = serde_json::to_string(&config).unwrap();
    assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok());
    for (setting, expected) in [
        (
            "algorithm.eta=nan",
            "a number of at least 1, or inf for none",
        ),
        ("algorithm.eta=-inf", "a cap below 1"),
        (
            "optimiser.lr=inf",
            "takes a number of at least 0 and at most 1, not inf",
        ),
        (
            "optimiser.schedule=cosin",
            "this version has no `cosin`; it has constant, linear, cosine",
        ),
        ("optimiser.final_lr=1.5", "1.5 is out of its range"),
        ("lora.alpha=0", "0 is out of its range"),
    ] {
        let error = refusal(set(&[setting]));
        assert!(error.contains(expected), "{setting}: {error}");
    }
}

#[test]
fn set_overrides_the_recipe_with_a_value_of_the_keys_type() {
    let config = set(&[
        "optimiser.lr=1e-5",
        "run.updates=3",
        "algorithm.preset=pg",
        "data.stop=[\"\\n\"]",
        "data.dataset=12",
        "data.chat=true",
        "algorithm.eta=3",
    ])
    .unwrap();
    assert_eq!(
        (config.optimiser.lr, config.run.updates, config.run.epochs),
        (1e-5, Some(3), None)
    );
    assert_eq!(
        (
            config.algorithm.preset,
            config.algorithm.factor,
            config.algorithm.h
        ),
        (Preset::Pg, Factor::One, 1)
    );
    assert_eq!(
        (
            config.data.stop.unwrap(),
            config.data.dataset,
            config.data.chat,
            config.algorithm.eta
        ),
        (vec!["\n".to_string()], "12".to_string(), true, 3.0)
    );
}

#[test]
fn a_set_key_overrides_the_preset() {
    let config = set(&["algorithm.preset=pg", "algorithm.factor=w"]).unwrap();
    assert_eq!(
        (config.algorithm.factor, config.algorithm.baseline),
        (Factor::W, Baseline::Group)
    );
}

#[test]
fn training_refuses_cut_offs_and_the_names_of_other_trainers() {
    assert!(refusal(with("[sampling]\ntop_p = 0.95\n")).contains("under [eval]"));
    assert!(with("[eval]\ntop_p = 0.95\n").is_ok());
    assert!(
        refusal(with("[algorithm]\nkl_beta = 0.04\n"))
            .ends_with("from the starting model is `algorithm.kl`")
    );
}

#[test]
fn a_retired_key_is_ignored_if_it_was_off_and_else_refused_with_its_successor() {
    let off = with("[algorithm]\nadaptive_h = 0.0\n").unwrap();
    assert_eq!(off, with("").unwrap());
    for refused in [
        with("[algorithm]\nadaptive_h = 0.5\n"),
        set(&["algorithm.adaptive_h=0.5"]),
    ] {
        let error = refusal(refused);
        assert!(
            error.starts_with("`algorithm.adaptive_h`: ") && error.contains("`algorithm.auto_h`"),
            "{error}"
        );
    }
}

/// Settings that supervised fine-tuning refuses, each with the start of the message.
const REFUSED_IN_SFT: &str = r"
algorithm.h=2 | `algorithm.h`: supervised fine-tuning samples nothing
algorithm.group_size=4 | `algorithm.group_size`: supervised
algorithm.baseline=group | `algorithm.group_size`: a group of one
algorithm.factor=w | `algorithm`: supervised fine-tuning has no behaviour
algorithm.kl=0.04 | `algorithm.kl`: supervised fine-tuning follows its teacher
algorithm.eta=3 | `algorithm`: supervised fine-tuning has no behaviour
algorithm.clip_high=0.3 | `algorithm`: supervised fine-tuning has no behaviour
algorithm.auto_h=0.5 | `algorithm.auto_h`: supervised fine-tuning has no inference phases
algorithm.drop_last_phase=true | `algorithm.drop_last_phase`: supervised fine-tuning has no inference phases
algorithm.mix_groups=true | `algorithm.mix_groups`: supervised fine-tuning has no inference phases
sampling.behaviour_logprob=recompute | `sampling.behaviour_logprob`: supervised fine-tuning has no behaviour
reward.correct=0 | `reward.correct`: supervised fine-tuning learns only from correct completions
reward.length=-0.5 | `reward.length`: supervised fine-tuning learns
reward.overlong_margin=0.5 | `reward.overlong_margin`: supervised fine-tuning learns
";

/// Settings that are refused, each with the start of the message.
const REFUSED: &str = r#"
algorithm.group_size=1 | `algorithm.group_size`: a group of one
algorithm.n_step=30 | `algorithm.n_step`: 30 completions per update are not a whole number of groups of 4
algorithm.h=0 | `algorithm.h`: 0 is out of its range
algorithm.eta=0.5 | `algorithm.eta`: 0.5 is out of its range
run.updates=0 | `run.updates`: 0 is out of its range
eval.every_epochs=0 | `eval.every_epochs`: 0 is out of its range
eval.min_tokens=2049 | `eval.min_tokens`: 2049 is above the maximum of 2048 tokens
eval.samples=4 | `eval.k`: Pass@8 cannot be estimated from 4 samples
reward.correct=0 | `reward`: all of its weights are 0
algorithm.preset=sft | `data.teacher`: the preset sft learns from a teacher's completions
data.teacher=t.jsonl | `data.teacher`: only the preset sft learns
engine.device=gpu | `engine.device`: `gpu` is not a device
engine.dtype=fp16 | `engine.dtype`: `fp16` is not a number type of the engine
data.stop=[""] | `data.stop`: an empty string
"#;

#[test]
fn a_configuration_that_cannot_run_is_refused_with_key_and_remedy() {
    for line in REFUSED.trim().lines() {
        let (setting, start) = line.split_once(" | ").unwrap();
        let error = refusal(set(&[setting]));
        assert!(error.starts_with(start), "{setting}: {error}");
    }
    let error = refusal(set(&[
        "algorithm.auto_h=0.5",
        "algorithm.drop_last_phase=true",
    ]));
    assert!(
        error.starts_with("`algorithm.drop_last_phase`: with `algorithm.auto_h`"),
        "{error}"
    );
    assert_eq!(
        refusal(set(&["algorithm.n_step=1000000", "algorithm.h=11"])),
        "`algorithm.h`: a phase of 11 updates on 1000000 completions each is more than 10000000 completions; lower it, or `algorithm.n_step`"
    );
    for line in REFUSED_IN_SFT.trim().lines() {
        let (setting, start) = line.split_once(" | ").unwrap();
        let sets = ["algorithm.preset=sft", "data.teacher=t.jsonl", setting];
        let error = refusal(set(&sets));
        assert!(error.starts_with(start), "{setting}: {error}");
    }
    for (baseline, allowed) in [
        ("none", false),
        ("batch", false),
        ("group", true),
        ("loo", true),
        ("weighted-group", false),
        ("weighted-loo", false),
        ("optimal-loo", true),
    ] {
        let baseline = format!("algorithm.baseline={baseline}");
        let result = set(&["algorithm.divide_by_std=true", &baseline]);
        assert_eq!(result.is_ok(), allowed, "{baseline}");
        if !allowed {
            assert!(refusal(result).starts_with("`algorithm.divide_by_std`: with the baseline"));
        }
    }
    let alone = [
        "algorithm.group_size=1",
        "algorithm.baseline=batch",
        "algorithm.dynamic_sampling=1",
    ];
    let error = refusal(set(&alone));
    assert!(
        error.starts_with("`algorithm.dynamic_sampling`: a group of one"),
        "{error}"
    );
    assert!(set(&alone[..2]).is_ok());
    assert!(
        refusal(parse("my.toml", "[data]\ndataset = \"math\"", &[]))
            .starts_with("`model.name`: neither it nor `model.path`")
    );
    assert!(
        refusal(parse("my.toml", "[model]\nname = \"m\"", &[]))
            .starts_with("`data.dataset`: it is not set")
    );
}

#[test]
fn the_environments_verifier_is_used_only_if_nothing_else_names_one() {
    let address = || Some("http://127.0.0.1:1".to_owned());
    let mut config = with("").unwrap();
    merge::set_default_address(&mut config.verifier, Some(String::new()));
    assert_eq!(config.verifier.url, None);
    merge::set_default_address(&mut config.verifier, address());
    assert_eq!(config.verifier.url, address());
    let mut config = set(&["verifier.url=http://127.0.0.1:2"]).unwrap();
    merge::set_default_address(&mut config.verifier, address());
    assert_eq!(config.verifier.url.as_deref(), Some("http://127.0.0.1:2"));
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "(?s).{0,60}", key in "[a-z_.]{0,20}", value in "(?s).{0,20}") {
        let _ = parse("x", &text, &[]);
        let _ = parse("x", RECIPE, &[format!("{key}={value}")]);
    }
}

#[test]
fn the_quickstart_recipe_explains_every_key() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("recipes/quickstart.toml");
    let recipe = std::fs::read_to_string(&path).unwrap();
    // The text above the first section is written by hand, the rest by this test: RAPID_TEST_WRITE=1.
    let (head, _) = recipe.split_once("\n\n").unwrap();
    let explained = KEYS.explain(&recipe.parse().unwrap(), &Config::default().to_table());
    let text = format!("{head}\n{explained}");
    if std::env::var_os("RAPID_TEST_WRITE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert_eq!(recipe, text);
}
