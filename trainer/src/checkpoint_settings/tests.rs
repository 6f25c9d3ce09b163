use super::*;
use crate::fakes::{FakePolicy, dataset};

const RECIPE: &str = "
[model]
name = \"toy\"
[data]
dataset = \"starter-math\"
template = \"few-shot-boxed\"
[sampling]
max_tokens = 24
[eval]
temperature = 0.5
top_k = 7
";

fn config(sets: &[&str]) -> Config {
    let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
    config::parse("test", RECIPE, &sets).unwrap()
}

fn settings_file(config: &Config) -> String {
    let sets = config.data_sets().into_iter();
    let renderers = sets.map(|set| PromptRenderer::new(&set.data).unwrap());
    super::settings_file(config, &renderers.collect::<Vec<_>>(), 10)
}

/// A checkpoint's folder with this settings file.
fn checkpoint(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(NAME), text).unwrap();
    folder
}

#[test]
fn a_moved_checkpoint_gets_the_prompts_and_the_sampling_of_its_run() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("mine.toml");
    let content =
        "stop = [\"Q:\"]\nkind = \"math\"\ntext = '''\nQ: {question} \\frac{a}{b}\n\"A\":'''\n";
    std::fs::write(&file, content).unwrap();
    let template = format!("data.template={}", file.display());
    let stop = "data.stop=[\"END\", \"\\n\\n\"]";
    for sets in [
        &[][..],
        &[stop, "eval.max_tokens=99", "eval.min_tokens=9"],
        &["data.chat=true", "data.chat_date=2026-03-09"],
        &[template.as_str()],
        &["data.template=Directly: {question}!", "eval.temperature=0"],
    ] {
        let config = config(sets);
        let renderer = PromptRenderer::new(&config.data).unwrap();
        let folder = checkpoint(&settings_file(&config));
        let moved = home.path().join("moved.toml");
        std::fs::rename(&file, &moved).unwrap();
        let settings = CheckpointSettings::of(folder.path()).unwrap().unwrap();
        std::fs::rename(&moved, &file).unwrap();
        let restored = settings.renderer();
        assert_eq!(restored.template.kind, renderer.template.kind);
        if config.data.chat_date.is_some() {
            assert_eq!(restored.day, renderer.day);
        }
        // A prompt has its stop strings too.
        let prompts = |renderer: &PromptRenderer| {
            let tasks = dataset(1, 1).eval;
            renderer.prompts(&FakePolicy::default(), tasks, 9999)
        };
        let [restored, expected] = [&restored, &renderer].map(|it| prompts(it).unwrap());
        assert_eq!(restored, expected, "{sets:?}");
        let eval = config::Eval {
            max_tokens: config.eval.max_tokens.or(Some(24)),
            ..config.eval.clone()
        };
        assert_eq!(settings.eval, eval);
        // It names no folder of the machine.
        assert!(!settings_file(&config).contains(home.path().to_str().unwrap()));
    }
}

#[test]
fn a_checkpoint_of_a_mixture_has_the_template_and_system_of_each_set() {
    let sets = "[data]\nchat = true\n[data.sets.a]\ndataset = \"math\"\nsystem = \"S\"\n[data.sets.b]\ndataset = \"/x/mine.jsonl\"\ntemplate = \"Do: {question}\"\n";
    let own = "[data]\ndataset = \"starter-math\"\ntemplate = \"few-shot-boxed\"\n";
    let config = config::parse("test", &RECIPE.replace(own, sets), &[]).unwrap();
    let folder = checkpoint(&settings_file(&config));
    let [math, code] = ["math", "starter-code"].map(Template::for_dataset);
    for (dataset, text, system) in [
        ("math", math.text(), Some("S")),
        ("/y/mine.jsonl", "Do: {question}", None),
        ("starter-code", code.text(), None),
    ] {
        let mut settings = CheckpointSettings::of(folder.path()).unwrap().unwrap();
        settings.choose(dataset);
        let renderer = settings.renderer();
        assert_eq!(renderer.template.text(), text);
        assert_eq!(renderer.system.as_deref(), system);
        assert_eq!(settings.eval.top_k, 7);
    }
}

#[test]
fn the_file_reads_as_written() {
    let text = settings_file(&config(&["data.template=Directly: {question}!"]));
    let text = text.replace(env!("CARGO_PKG_VERSION"), "VERSION");
    insta::assert_snapshot!(text, @r#"
    # How the run that made this checkpoint made prompts and sampled completions. `rapid eval` uses these settings unless the command line gives others.
    version = 1

    [made]
    by = "rapid VERSION"
    model = "toy"
    algorithm = "rapid-paper"
    seed = 0
    step = 10

    [template]
    name = "the recipe's own"
    text = "Directly: {question}!"

    [data]
    chat = false
    dataset = "starter-math"
    stop = []

    [eval]
    max_tokens = 24
    min_p = 0.0
    min_tokens = 0
    temperature = 0.5
    top_k = 7
    top_p = 1.0
    "#);
}

/// Changes of the file, from a text to another, each with the error.
const FAULTS: &str = r#"
version = 1 => version = 2 => it is of version 2, and this `rapid` reads version 1
version = 1 => more = 2\nversion = 1 => unknown field `more`
temperature = 0.5 => temperature = -1.0 => `eval.temperature`
temperature = 0.5 => temperature = nan => `eval.temperature`
temperature = 0.5 => temperature = "hot" => `eval.temperature`
max_tokens = 24 => max_tokens = 99999999999 => `eval.max_tokens`
max_tokens = 24 => samples = 3\nmax_tokens = 24 => it cannot set `eval.samples`
stop = [ => stop = ["",  => `data.stop`
stop = [ => teacher = "/etc/passwd"\nstop = [ => it cannot set `data.teacher`
{question} => ? => neither {question} nor {statement}
kind = "math" => kind = "maths" => no task is of the kind `maths`
"#;

#[test]
fn a_file_that_cannot_be_used_is_refused_in_one_paragraph() {
    let whole = settings_file(&config(&[]));
    let changed = FAULTS.trim().lines().map(|line| {
        let parts: Vec<&str> = line.split(" => ").collect();
        let text = whole.replacen(parts[0], &parts[1].replace("\\n", "\n"), 1);
        assert_ne!(text, whole, "{line}");
        (text, parts[2])
    });
    // This would send the token of another service to a stranger.
    let stranger = "[verifier]\nurl = \"http://stranger\"\ntoken_env = \"HF_TOKEN\"\n";
    let others = [
        ("\u{0}\u{1}".to_owned(), "TOML parse error"),
        (String::new(), "it has no `version`"),
        (format!("{whole}\n{stranger}"), "it cannot set `verifier.t"),
        ("#".repeat(2 << 20), "it is larger than 1 MiB"),
    ];
    for (text, says) in changed.chain(others) {
        let folder = checkpoint(&text);
        let error = CheckpointSettings::of(folder.path()).unwrap_err();
        let error = error.to_string();
        let parts = [says, NAME, "delete it"];
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
    // A folder, and a device that never ends.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(NAME);
    for place in [folder.path(), Path::new("/dev/zero")] {
        std::os::unix::fs::symlink(place, &file).unwrap();
        let error = CheckpointSettings::of(folder.path()).unwrap_err();
        assert!(error.to_string().contains("it is not a regular file"));
        std::fs::remove_file(&file).unwrap();
    }
}

#[test]
fn a_folder_may_lack_settings_and_none_has_a_verifiers_address() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("run.json"), "{}").unwrap();
    for model in [folder.path(), &folder.path().join("nowhere.gguf")] {
        assert_eq!(CheckpointSettings::of(model).unwrap(), None);
    }
    let folder = checkpoint(&settings_file(&config(&[])));
    let settings = CheckpointSettings::of(folder.path()).unwrap().unwrap();
    let given = Verifier {
        url: Some("http://127.0.0.1:1".into()),
        ..Verifier::default()
    };
    assert_eq!(settings.verifier(given.clone()), given);
}
