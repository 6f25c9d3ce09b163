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
    let sets = [
        "code.sandbox=docker",
        "docker.seconds=3",
        "docker.image=1",
        "code.backstop_seconds=5",
        "lean.env={ A = \"b\" }",
    ];
    let in_docker = load("", &sets).unwrap();
    assert_eq!(in_docker.sandbox_limits().fuel, 6_000_000_000);
    assert_eq!(in_docker.docker.image, "1", "a bare text is a text");
}

/// Texts of a file, or values of `--set` after `--set `, that are refused, each with a part of the message.
const REFUSED: &str = r#"
lisen = 1 | did you mean `listen`?
[limits]\nitem = 1 | did you mean `limits.items`?
queue = 1 | `queue` is a key of the section [limits]
nothing = 1 | ; `rapid-verifier serve --help` lists the keys
--set code.fule=1 | did you mean `code.fuel`?
workers = "two" | `workers`
require = ["maths"] | did you mean `math`?
[math]\nextraction = "some" | `math.extraction`
[docker]\ncontainers = 1 | `docker.containers`
[docker]\nimage = 1 | verifier.toml: `docker.image` takes a text
[code]\nsandbox = "docker"\nfuel = 7000 | `code.fuel`
[lean]\nseconds = 0 | `lean.seconds`
[lean]\nproject = "p"\ncommand = ["lean"] | `lean.command`
[lean]\nbackend = "coq" | `lean.backend`
listen = "everywhere" | `listen`
--set workers=9223372036854775807 | `workers`: 9223372036854775807 is out of its range; give a whole number of at least 0 and at most 1024; 0 stands for the number of cores
--set cache.disk_bytes=1 | `cache.disk_bytes`: 1 is out of its range; give a whole number of at least
--set limits.items=0 | `limits.items`: 0 is out of its range; give a whole number of at least
--set limits.connections=0 | `limits.connections`: 0 is out of its range; give a whole number of at least
--set limits.queue=1 | `limits.queue`: 1 has no room for a whole request of limits.items = 4096
--set code.fuel=0 | `code.fuel`: 0 is out of its range; give a whole number of at least
--set code.memory_bytes=1 | `code.memory_bytes`: 1 is out of its range; give a whole number of at least
--set lean.seconds=18446744073709551 | `lean.seconds`: 18446744073709551 is out of its range; give a whole number of at least 1 and at most 86400
--set lean.memory_mib=17592186044416 | `lean.memory_mib`: 17592186044416 is out of its range; give a whole number of at least 1 and at most 16777216
--set require=["foo"] | `require`: `foo` is not a grader; the graders are math, code, lean
--set limits.items=abc | --set limits.items=abc: `limits.items` takes a whole number of at least 1, not "abc"
--set code.sandbox=dockr | `code.sandbox`: this version has no `dockr`; it has wasm, docker, none (did you mean `docker`?)
--set listen=localhost | takes a host and a port
"#;

#[test]
fn what_cannot_be_used_is_refused_with_its_key_and_the_remedy() {
    for line in REFUSED.trim().lines() {
        let (given, says) = line.split_once(" | ").unwrap();
        let loaded = match given.strip_prefix("--set ") {
            Some(set) => load("", &[set]),
            None => load(&given.replace("\\n", "\n"), &[]),
        };
        let error = loaded.expect_err(line).to_string();
        assert!(error.contains(says), "{line}: {error}");
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
