mod authors;

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const RECIPE: &str =
    "[model]\nname = \"smollm2-135m-instruct\"\n[data]\ndataset = \"starter-math\"\n";

fn set(sets: &[&str]) -> Result<Config, ConfigError> {
    let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
    parse("my.toml", RECIPE, &sets)
}

fn refusal(result: Result<Config, ConfigError>) -> String {
    result.expect_err("this must be refused").to_string()
}

#[test]
fn built_in_recipes_read_back_and_name_their_policies() {
    let sets = ["verifier.url=http://127.0.0.1:1", "engine.threads=2"].map(str::to_owned);
    for name in built_in() {
        let config = load(&name, &sets).unwrap_or_else(|error| panic!("{name}: {error}"));
        let saved = parse("config.toml", &config.to_toml(), &[]).unwrap();
        assert_eq!(saved, config, "{name}");
        assert!(!config.to_toml().contains("[reward.terms]"));
        let verifier = &config.verifier;
        let policies = [&verifier.math_policy, &verifier.math_extraction];
        let math = ["math", "gsm8k", "starter-math", "starter-math-400"];
        let is_math = math.contains(&config.data.dataset.as_str());
        let expected = ["standard", "boxed"].map(|policy| is_math.then_some(policy));
        assert_eq!(policies.map(Option::as_deref), expected, "{name}");
    }
}

#[test]
fn every_file_in_the_recipes_folder_is_a_built_in_recipe() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("recipes");
    let files = std::fs::read_dir(root).unwrap().flatten();
    let names = files.filter_map(|file| {
        let name = file.file_name().into_string().unwrap();
        name.strip_suffix(".toml").map(str::to_owned)
    });
    let files: BTreeSet<String> = names.collect();
    let for_cpu: BTreeSet<String> = built_in().filter(|name| !name.contains('/')).collect();
    assert_eq!(files, for_cpu);
}

/// Settings on top of [`RECIPE`], each with values that the configuration then has.
const VALUES: &str = r#"
 | algorithm.factor="w" algorithm.baseline="weighted-group" algorithm.eta=2.0 algorithm.group_size=4 run.epochs=3
 | optimiser.lr=1e-6 optimiser.clip_norm=1.0 optimiser.schedule="linear" optimiser.final_lr=0.0
 | sampling.temperature=1.0 eval.temperature=0.9 eval.every=20
algorithm.preset=dapo | algorithm.dynamic_sampling=9 reward.overlong=0.5
algorithm.preset=dapo algorithm.dynamic_sampling=0 reward.overlong=0 | algorithm.dynamic_sampling=0 reward.overlong=0.0
algorithm.preset=grpo | algorithm.baseline="group" algorithm.length_norm="length" algorithm.divide_by_std=true algorithm.kl=0.04
algorithm.preset=sft data.teacher=t.jsonl | algorithm.group_size=1 algorithm.n_step=96 algorithm.h=1
algorithm.preset=pg | algorithm.factor="one" algorithm.h=1
algorithm.preset=pg-author | algorithm.baseline="group" algorithm.length_norm="length" algorithm.divide_by_std=true algorithm.kl=0.0
algorithm.preset=rapid-author | algorithm.length_norm="length" algorithm.divide_by_std=false
algorithm.eta=inf | algorithm.eta=inf
algorithm.preset=pg algorithm.factor=w | algorithm.factor="w" algorithm.baseline="group"
optimiser.lr=1e-5 run.updates=3 | optimiser.lr=1e-5 run.updates=3
data.stop=["\n"] data.dataset=12 data.chat=true algorithm.eta=3 | data.stop=["\n"] data.dataset="12" data.chat=true algorithm.eta=3.0
eval.every_epochs=1 eval.every=7 | eval.every=7
eval.every=7 eval.every_epochs=1 | eval.every_epochs=1
eval.every=0 | eval.every=0
data.sets.a.dataset=math data.sets.a.weight=2 eval.sets.b.dataset=gsm8k data.chat=true data.sets.a.system=S | eval.every=20
data.sets.a.dataset=math data.dataset=gsm8k | data.dataset="gsm8k"
"#;

#[test]
fn a_setting_overrides_the_recipe_the_preset_and_the_key_that_it_excludes() {
    for line in VALUES.trim_matches('\n').lines() {
        let (sets, values) = line.split_once(" | ").unwrap();
        let sets: Vec<&str> = sets.split_whitespace().collect();
        let config = set(&sets).unwrap();
        assert_eq!(parse("saved", &config.to_toml(), &[]).unwrap(), config);
        let table = config.to_table();
        for value in values.split_whitespace() {
            let (path, value) = KEYS.parse_set(value).unwrap();
            let (section, key) = path.split_once('.').unwrap();
            assert_eq!(table[section].get(key), Some(&value), "{line}: {path}");
        }
    }
    let config = set(&["run.updates=3", "eval.every_epochs=1"]).unwrap();
    assert_eq!((config.run.epochs, config.eval.every), (None, None));
    let per_phase = config.prompts_per_phase();
    assert_eq!((config.prompts_per_update(), per_phase), (8, 32));
}

/// Settings that are refused, each with the start of the message.
const REFUSED: &str = r#"
algorithm.eta=nan | --set algorithm.eta=nan: `algorithm.eta` takes a number of at least 1, or inf for none
algorithm.eta=-inf | `algorithm.eta`: -inf is out of its range; give a number of at least 1, or inf for none (the paper has 2): a cap below 1
optimiser.lr=inf | --set optimiser.lr=inf: `optimiser.lr` takes a number of at least 0 and at most 1, not inf
optimiser.schedule=cosin | `optimiser.schedule`: this version has no `cosin`; it has constant, linear, cosine
sampling.top_p=0.9 | --set sampling.top_p=0.9: there is no key `sampling.top_p`; the section [sampling] has temperature, max_tokens, behaviour_logprob. There is `eval.top_p`
algorithm.group_size=1 | `algorithm.group_size`: a group of one
algorithm.n_step=30 | `algorithm.n_step`: 30 completions per update are not a whole number of groups of 4
algorithm.n_step=1000000 algorithm.h=11 | `algorithm.h`: a phase of 11 updates on 1000000 completions each is more than 10000000 completions
algorithm.h=0 | `algorithm.h`: 0 is out of its range
algorithm.auto_h=0.5 algorithm.drop_last_phase=true | `algorithm.drop_last_phase`: with `algorithm.auto_h`
algorithm.group_size=1 algorithm.baseline=batch algorithm.dynamic_sampling=1 | `algorithm.dynamic_sampling`: a group of one
algorithm.divide_by_std=true algorithm.baseline=none | `algorithm.divide_by_std`: with the baseline none
algorithm.divide_by_std=true algorithm.baseline=batch | `algorithm.divide_by_std`: with the baseline batch
algorithm.divide_by_std=true algorithm.baseline=weighted-loo | `algorithm.divide_by_std`: with the baseline weighted-loo
algorithm.divide_by_std=true | `algorithm.divide_by_std`: with the baseline weighted-group
run.updates=0 | `run.updates`: 0 is out of its range
run.slices=3 | `run.slices`: slices are added up in pairs
eval.every_epochs=0 | `eval.every_epochs`: 0 is out of its range
eval.min_tokens=2049 | `eval.min_tokens`: 2049 is above the maximum of 2048 tokens
eval.samples=4 | `eval.k`: Pass@8 cannot be estimated from 4 samples
reward.correct=0 | `reward`: all of its weights are 0
engine.device=gpu | `engine.device`: `gpu` is not a device
engine.dtype=fp16 | `engine.dtype`: this version has no `fp16`; it has auto, f32, bf16
data.stop=[""] | `data.stop`: an empty string
data.chat_date=today | `data.chat_date`: `today` is not a date
algorithm.preset=sft | `data.teacher`: the preset sft learns from a teacher's completions
data.teacher=t.jsonl | `data.teacher`: only the preset sft learns
data.system=S | `data.system`: a system prompt is a message
data.sets.a.weight=1 | `data.sets.a.dataset`: it is not set
data.sets.a.dataset=math data.sets.a.weight=0 | `data.sets.a.weight`: 0 is out of its range
data.sets.a.dataset=math data.sets.a.weight=1 data.sets.b.dataset=gsm8k | `data.sets`: some sets have a weight
data.sets.a.dataset=math data.template=boxed | `data.template`: each section `data.sets.NAME` has this key
data.sets.a/b.dataset=math | `data.sets.a/b`: the name of a set
eval.sets.a.dataset=math eval.sets.a.weight=1 | `eval.sets.a.weight`: evaluation uses every task
"#;

/// Recipes that are refused (`\n` is a line break), each with the start of the message.
const REFUSED_RECIPES: &str = r#"
data.dataset = "math" | `model.name`: neither it nor `model.path`
model = { name = "m", path = "p" } | `model.name`: `model.path` is set too
model.name = "m" | `data.dataset`: it is not set
[data]\ndataset = "math"\n[data.sets.a]\ndataset = "math" | `data.dataset`: `data.sets` is set too; keep one of the two
optimizer.lr = 1e-5 | my.toml: there is no key `optimizer`; did you mean the section [optimiser]?
run.updates = "ten" | my.toml: `run.updates` takes a whole number
[run | my.toml is not valid TOML: TOML parse error at line 1
eval = { every = 7, every_epochs = 1 } | `eval.every`: `eval.every_epochs` is set too; keep one of the two
"#;

/// Keys that supervised fine-tuning refuses, with a value.
const REFUSED_IN_SFT: &str = "algorithm.h=2 algorithm.group_size=4 algorithm.baseline=group algorithm.factor=w \
    algorithm.kl=0.04 algorithm.eta=3 algorithm.clip_high=0.3 algorithm.auto_h=0.5 algorithm.drop_last_phase=true \
    algorithm.mix_groups=true algorithm.dynamic_sampling=1 algorithm.sum_padding=true sampling.behaviour_logprob=recompute \
    reward.correct=0 reward.length=-0.5 reward.overlong_margin=0.5";

#[test]
fn a_configuration_that_cannot_run_is_refused_with_key_and_remedy() {
    for line in REFUSED.trim().lines() {
        let (sets, start) = line.split_once(" | ").unwrap();
        let error = refusal(set(&sets.split_whitespace().collect::<Vec<_>>()));
        assert!(error.starts_with(start), "{sets}: {error}");
    }
    let sft = ["algorithm.preset=sft", "data.teacher=t.jsonl"];
    for setting in REFUSED_IN_SFT.split_whitespace() {
        let error = refusal(set(&[&sft[..], &[setting]].concat()));
        let (key, _) = setting.split_once('=').unwrap();
        let start = format!("`{key}`: supervised fine-tuning learns from a teacher");
        assert!(error.starts_with(&start), "{setting}: {error}");
    }
    for (key, baseline) in [
        ("divide_by_std=true", "group"),
        ("divide_by_std=true", "loo"),
        ("divide_by_std=true", "optimal-loo"),
        ("group_size=1", "batch"),
    ] {
        let sets = [key, &format!("baseline={baseline}")].map(|set| format!("algorithm.{set}"));
        set(&sets.each_ref().map(String::as_str)).unwrap();
    }
    set(&sft).unwrap();
    for line in REFUSED_RECIPES.trim().lines() {
        let (recipe, start) = line.split_once(" | ").unwrap();
        let error = refusal(parse("my.toml", &recipe.replace("\\n", "\n"), &[]));
        assert!(error.starts_with(start), "{recipe}: {error}");
    }
}

#[test]
fn a_key_of_0_1_is_ignored_if_it_was_off_and_else_refused() {
    let with = |value| {
        let recipe = format!("{RECIPE}[algorithm]\nadaptive_h = {value}\n");
        parse("my.toml", &recipe, &[])
    };
    assert_eq!(with("0.0").unwrap(), set(&[]).unwrap());
    for refused in [with("0.5"), set(&["algorithm.adaptive_h=0.5"])] {
        let error = refusal(refused);
        assert!(error.contains("`algorithm.adaptive_h`"), "{error}");
    }
}

#[test]
fn the_environments_verifier_is_used_only_if_nothing_else_names_one() {
    let address = || Some("http://127.0.0.1:1".to_owned());
    let mut config = set(&[]).unwrap();
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
