use super::*;

fn load(text: &str, sets: &[&str]) -> Result<Config, ConfigError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("verifier.toml");
    std::fs::write(&path, text).unwrap();
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    Config::load(Some(&path), &sets)
}

#[test]
fn the_file_overrides_the_defaults_and_the_flags_override_the_file() {
    let config = load(
        "workers = 3\n[math]\nextraction = \"any\"\n",
        &["workers=5", "code.sandbox=none", "require=[\"math\"]"],
    )
    .unwrap();
    assert_eq!(
        (config.workers, config.math.extraction, config.code.sandbox),
        (5, math::Extraction::Any, SandboxKind::None)
    );
    assert_eq!(config.require, ["math"]);
    assert_eq!(config.limits, LimitsConfig::default());
    let in_docker = load("", &["code.sandbox=docker", "docker.seconds=3"]).unwrap();
    assert_eq!(in_docker.sandbox_limits().fuel, 6_000_000_000);
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest_known_one() {
    for (text, near) in [
        ("lisen = 1", "did you mean `listen`?"),
        ("[limits]\nitem = 1", "did you mean `limits.items`?"),
        ("queue = 1", "`queue` is a key of the section [limits]"),
        (
            "[maths]\nextraction = \"any\"",
            "did you mean the section [math]?",
        ),
        (
            "nothing = 1",
            "outside the sections there are listen, data_dir, ",
        ),
    ] {
        let error = load(text, &[]).unwrap_err().to_string();
        assert!(
            error.contains("verifier.toml: there is no key")
                && error.contains(near)
                && error.ends_with("; `rapid-verifier serve --help` lists the keys"),
            "{text}: {error}"
        );
    }
    for (setting, near) in [
        ("code.fule=1", "did you mean `code.fuel`?"),
        ("queue=1", "such as --set limits.queue=1"),
    ] {
        let error = set(setting).unwrap_err().to_string();
        assert!(error.contains(near), "{setting}: {error}");
    }
}

#[test]
fn an_invalid_value_is_refused() {
    for text in [
        "workers = \"two\"",
        "require = [\"maths\"]",
        "[limits]\nqueue = 1",
        "[math]\nextraction = \"some\"",
        "[code]\nfuel = 0",
        "[docker]\ncontainers = 1",
        "[code]\nsandbox = \"docker\"\nfuel = 7000",
        "[lean]\nseconds = 0",
        "[lean]\nproject = \"p\"\ncommand = [\"lean\"]",
        "[lean]\nbackend = \"coq\"",
        "listen = \"everywhere\"",
        "= 1",
    ] {
        assert!(load(text, &[]).is_err(), "{text}");
    }
}

/// Settings that are refused, each with a part of the message.
const REFUSED: &str = r#"
workers=9223372036854775807 | `workers`: 9223372036854775807 is out of its range; give a whole number of at least 0 and at most 1024; 0 stands for the number of cores
cache.disk_bytes=1 | `cache.disk_bytes`: 1 is out of its range; give a whole number of at least
limits.items=0 | `limits.items`: 0 is out of its range; give a whole number of at least
limits.connections=0 | `limits.connections`: 0 is out of its range; give a whole number of at least
limits.queue=1 | `limits.queue`: 1 has no room for a whole request of limits.items = 4096
code.fuel=0 | `code.fuel`: 0 is out of its range; give a whole number of at least
code.memory_bytes=1 | `code.memory_bytes`: 1 is out of its range; give a whole number of at least
lean.seconds=18446744073709551 | `lean.seconds`: 18446744073709551 is out of its range; give a whole number of at least 1 and at most 86400
lean.start_seconds=9223372036854775807 | `lean.start_seconds`: 9223372036854775807 is out of its range; give a whole number of at least 1 and at most 86400
lean.memory_mib=17592186044416 | `lean.memory_mib`: 17592186044416 is out of its range; give a whole number of at least 1 and at most 16777216
require=["foo"] | `require`: `foo` is not a grader; the graders are math, code, lean
"#;

#[test]
fn an_error_in_a_value_names_the_key() {
    for line in REFUSED.trim().lines() {
        let (setting, says) = line.split_once(" | ").unwrap();
        let error = load("", &[setting]).unwrap_err().to_string();
        assert!(error.contains(says), "{says} in {error}");
    }
}

#[test]
fn deploy_verifier_toml_explains_every_key_with_its_default() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/verifier.toml");
    let defaults = Table::try_from(Config::default()).unwrap();
    let explained = KEYS.explain(&defaults, &defaults);
    let text = format!(
        "# The verifier's configuration: rapid-verifier serve --config deploy/verifier.toml
# Every key is explained here and has its default; keys without a default are commented out. A configuration file needs only the keys that it changes.
# Any key can be set on the command line, which overrides the file: rapid-verifier serve --set limits.items=100. Relative paths start at the current folder.
# Written by the tests from verifier/src/config.rs: RAPID_TEST_WRITE=1 cargo nextest run --release -p verifier deploy_verifier_toml

{explained}"
    );
    if std::env::var_os("RAPID_TEST_WRITE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    assert_eq!(Config::load(Some(&path), &[]).unwrap(), Config::default());
}

fn set(setting: &str) -> Result<Config, ConfigError> {
    Config::load(None, &[setting.to_owned()])
}

#[test]
fn every_listed_choice_is_accepted() {
    for (path, key) in KEYS.paths() {
        for name in key.names().unwrap_or_default() {
            assert!(set(&format!("{path}={name}")).is_ok(), "{path}={name}");
        }
    }
}

/// Settings of another type, each with a part of the message.
const WRONG_TYPES: &str = r#"
limits.items=abc | --set limits.items=abc: `limits.items` takes a whole number of at least 1, not "abc"
limits.items=-1 | a whole number of at least 1, not -1
code.fuel=99999999999999999999 | a whole number of at most 9223372036854775807, not 99999999999999999999
code.sandbox=dockr | `code.sandbox`: this version has no `dockr`; it has wasm, docker, none (did you mean `docker`?)
cache.disk=yes | takes true or false
datasets=math | takes a list of texts
lean.env=x | takes texts by name
code.backstop_seconds=long | takes a number
listen=localhost | takes a host and a port
workers.x=1 | `workers` takes a whole number
limits=3 | `limits` is a section: give one of its keys, such as `limits.body_bytes`
"#;

#[test]
fn a_value_of_another_type_is_refused_with_the_expected_one() {
    for line in WRONG_TYPES.trim().lines() {
        let (setting, says) = line.split_once(" | ").unwrap();
        let error = set(setting).unwrap_err().to_string();
        assert!(error.contains(says), "{says} in {error}");
    }
    let error = load("[docker]\nimage = 1", &[]).unwrap_err().to_string();
    assert!(
        error.contains("verifier.toml: `docker.image` takes a text"),
        "{error}"
    );
    assert_eq!(set("docker.image=1").unwrap().docker.image, "1");
    assert!(set("code.backstop_seconds=5").is_ok());
    assert!(set("lean.env={ A = \"b\" }").is_ok());
}
