//! The invariants of ARCHITECTURE.md.

use std::collections::{BTreeMap, BTreeSet};

use tests::imports::{Circle, Imports};
use tests::repository::{code_of, files, links, relative, root};
use toml::{Table, Value};

/// The dependencies between the crates of the workspace; no others are allowed.
const EDGES: &[(&str, &[&str])] = &[
    ("datasets", &[]),
    ("engine", &[]),
    ("kernel", &[]),
    ("math-answer", &[]),
    ("sandboxes", &[]),
    ("tests", &["datasets", "engine", "trainer"]),
    ("trainer", &["datasets", "engine", "verifier-api"]),
    (
        "verifier",
        &[
            "datasets",
            "kernel",
            "math-answer",
            "sandboxes",
            "verifier-api",
        ],
    ),
    ("verifier-api", &["datasets"]),
];

/// The folders and files that may contain `unsafe`.
const UNSAFE: &[&str] = &[
    "trainer/engine/src/backend/",
    "sandboxes/src/wasm/",
    // Maps the modules of Lean's libraries.
    "verifier/kernel/src/olean.rs",
    // Handles the instructions that a processor without AMX refuses.
    "trainer/engine/tests/support/tile_unit.rs",
];

const CRATES: &[&str] = &[
    "datasets",
    "sandboxes",
    "verifier",
    "verifier/api",
    "verifier/kernel",
    "verifier/math-answer",
    "trainer",
    "trainer/engine",
    "tests",
];

/// Maximum number of files of one folder that may import each other in a circle; folders may not, and no files of the verifier.
const MAX_CIRCLE: usize = 3;

/// The folder in which all files may import each other, and the file that states the reason.
const CIRCULAR_FOLDER: (&str, &str) = ("wasm", "sandboxes/src/wasm/mod.rs");

/// Maximum lines of a source file. A longer file has two subjects.
const MAX_LINES: usize = 600;

/// The sections of ARCHITECTURE.md that follow one prompt and one request through the code.
const WALKS: [&str; 2] = [
    "One prompt, from the data set to a checkpoint",
    "One request, from the route to a verdict",
];

/// Maximum functions of such a section.
const MAX_WALK_FUNCTIONS: usize = 10;

fn sources() -> Vec<(String, String)> {
    let folders = CRATES.iter().filter(|folder| !folder.contains('/'));
    let paths = folders.flat_map(|folder| files(folder, &[".rs"]));
    let sources: Vec<_> = paths
        .map(|path| (relative(&path), std::fs::read_to_string(path).unwrap()))
        .collect();
    assert!(sources.len() > 50, "is the search wrong? {}", sources.len());
    sources
}

/// The manifest of each crate, by its folder.
fn manifests() -> impl Iterator<Item = (&'static str, Table)> {
    CRATES.iter().map(|folder| {
        let text = std::fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
        (*folder, text.parse().unwrap())
    })
}

/// The dependencies of a manifest, also those of its tests.
fn dependencies(manifest: &Table) -> impl Iterator<Item = (&String, &Value)> {
    let sections = ["dependencies", "dev-dependencies", "build-dependencies"];
    let sections = sections.map(|section| manifest.get(section).and_then(Value::as_table));
    sections.into_iter().flatten().flatten()
}

#[test]
fn crates_depend_on_each_other_as_listed() {
    let workspace = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let workspace: Table = workspace.parse().unwrap();
    let members = workspace["workspace"]["members"].as_array().unwrap();
    let members: Vec<&str> = members.iter().filter_map(Value::as_str).collect();
    assert_eq!(members, CRATES);
    let name = |manifest: &Table| manifest["package"]["name"].as_str().unwrap().to_owned();
    let manifests = manifests().map(|(_, manifest)| (name(&manifest), manifest));
    let manifests: Vec<(String, Table)> = manifests.collect();
    let is_member = |name: &&str| manifests.iter().any(|(member, _)| member == name);
    let actual: BTreeMap<&str, BTreeSet<&str>> = manifests
        .iter()
        .map(|(name, manifest)| {
            let names = dependencies(manifest).map(|(name, _)| name.as_str());
            (name.as_str(), names.filter(is_member).collect())
        })
        .collect();
    let allowed = EDGES
        .iter()
        .map(|(from, to)| (*from, to.iter().copied().collect()));
    assert_eq!(actual, allowed.collect());
}

#[test]
fn the_trainer_links_no_sandbox_and_the_engine_no_http() {
    let links_any = |package: &str, names: &[&str]| -> Vec<String> {
        let is_of = |name: &str, start: &&str| {
            name.strip_prefix(*start)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        let all = links(package).into_iter();
        all.filter(|name| names.iter().any(|start| is_of(name, start)))
            .collect()
    };
    let wasm = ["wasmtime", "cranelift"];
    let http = ["reqwest", "hyper", "http", "axum", "rustls"];
    assert_eq!(links_any("trainer", &wasm), Vec::<String>::new());
    assert_eq!(links_any("engine", &http), Vec::<String>::new());
    // The sandboxes connect only to Docker's socket: no TLS, no server.
    let remote = ["reqwest", "axum", "rustls"];
    assert_eq!(links_any("sandboxes", &remote), Vec::<String>::new());
    assert_eq!(
        links_any("verifier-api", &["axum", "tower-http", "wasmtime"]),
        ["tower-http"].map(str::to_owned).to_vec(),
        "tower-http is a dependency of reqwest, not of a server"
    );
    // The search itself works: it finds known links.
    assert!(!links_any("verifier", &wasm).is_empty() && !links_any("trainer", &http).is_empty());
}

#[test]
fn the_algorithms_see_only_slices_of_numbers() {
    let mut algorithms = sources();
    algorithms.retain(|(path, _)| path.starts_with("trainer/src/algo"));
    assert!(algorithms.len() >= 3, "{algorithms:?}");
    for (path, source) in algorithms {
        let code = code_of(&source);
        let foreign = "engine:: datasets:: verifier_api:: tokio:: std::fs std::net std::time std::sync std::thread";
        for foreign in foreign.split(' ') {
            assert!(!code.contains(foreign), "{path} names {foreign}");
        }
        for (at, _) in code.match_indices("crate::") {
            let inside = ["crate::algo", "crate::config::algorithm::"];
            assert!(
                inside.iter().any(|path| code[at..].starts_with(path)),
                "{path} imports from outside of trainer::algo: {}",
                code[at..].split(';').next().unwrap()
            );
        }
    }
}

#[test]
fn unsafe_is_only_in_the_backends_and_where_modules_are_loaded() {
    let mut inside = 0;
    for (path, source) in sources() {
        let code = code_of(&source);
        let words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
        let words = words.filter(|word| *word == "unsafe").count();
        let allowed = UNSAFE.iter().any(|folder| path.starts_with(folder));
        assert!(words == 0 || allowed, "{path} has `unsafe`");
        inside += words;
        if path.starts_with("sandboxes/") || path.starts_with("verifier/kernel/") {
            // One module is loaded.
            assert!(words <= 1, "{path} has `unsafe` {words} times");
        }
    }
    assert!(inside > 0, "no `unsafe` at all: is the search wrong?");
}

/// The files that choose a backend or compare it with another; all other code of the engine uses `dyn Backend`.
const BACKENDS: &[&str] = &[
    "trainer/engine/src/backend/",
    "trainer/engine/src/worker/device.rs",
    "trainer/engine/src/parity",
];

#[test]
fn no_code_above_the_backends_asks_which_one_it_has() {
    let mut above = sources();
    above.retain(|(path, _)| path.starts_with("trainer/engine/src/"));
    above.retain(|(path, _)| !BACKENDS.iter().any(|allowed| path.starts_with(allowed)));
    assert!(above.len() > 40, "only {} files", above.len());
    for (path, source) in above {
        let code = code_of(&source);
        let (code, _) = code.split_once("#[cfg(test)]").unwrap_or((&code, ""));
        for name in ["cpu::", "cuda::", "backend::cpu", "backend::cuda"] {
            assert!(!code.contains(name), "{path} names a backend: {name}");
        }
    }
}

#[test]
fn imports_have_one_direction() {
    let mut arrows = 0;
    for folder in CRATES {
        let imports = Imports::of_crate(&format!("{folder}/src"));
        arrows += imports.pairs.len();
        let is_strict = *folder == "verifier";
        let upward = &imports.upward;
        assert!(!is_strict || upward.is_empty(), "{folder}: {upward:#?}");
        let is_known =
            |circle: &Circle| *folder == "sandboxes" && circle.parent == [CIRCULAR_FOLDER.0];
        let mut circles = imports.circles();
        circles.retain(|circle| {
            let is_small = !circle.has_folder && circle.modules.len() <= MAX_CIRCLE;
            !is_known(circle) && (is_strict || !is_small)
        });
        assert!(circles.is_empty(), "{folder}: {circles:#?}");
    }
    assert!(arrows > 500, "only {arrows} imports: is the search wrong?");
}

#[test]
fn every_crate_uses_the_lints_and_versions_of_the_workspace() {
    for (folder, manifest) in manifests() {
        let lints = &manifest["lints"]["workspace"];
        assert_eq!(lints.as_bool(), Some(true), "{folder}");
        let is_inner = |path: &str| {
            let mut others = CRATES.iter().filter(|other| other.len() > folder.len());
            others.any(|other| path.starts_with(&format!("{other}/")))
        };
        let sources: Vec<String> = files(folder, &[".rs"])
            .iter()
            .filter(|path| !is_inner(&relative(path)))
            .map(|path| code_of(&std::fs::read_to_string(path).unwrap()))
            .collect();
        for (name, dependency) in dependencies(&manifest) {
            let inherited = dependency.get("workspace").and_then(Value::as_bool);
            let is_inherited = inherited == Some(true);
            assert!(is_inherited, "{folder}: {name} has its own version");
            let path = format!("{}::", name.replace('-', "_"));
            let is_named = |source: &String| {
                source.match_indices(&path).any(|(at, _)| {
                    let before = source[..at].trim_end_matches("::");
                    !before.ends_with(|c: char| c.is_alphanumeric() || c == '_')
                })
            };
            assert!(
                sources.iter().any(is_named),
                "{folder} does not use {name}: remove it from {folder}/Cargo.toml"
            );
        }
    }
}

#[test]
fn no_source_file_is_too_long_or_for_odds_and_ends() {
    const FORBIDDEN: [&str; 6] = ["util", "utils", "common", "helper", "helpers", "misc"];
    for (path, source) in sources() {
        let lines = source.lines().count();
        assert!(lines <= MAX_LINES, "{path} has {lines} lines");
        let mut parts = path.split('/').map(|part| part.trim_end_matches(".rs"));
        assert!(!parts.any(|part| FORBIDDEN.contains(&part)), "{path}");
    }
}

#[test]
fn the_walks_through_the_code_name_functions_that_exist() {
    let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for walk in WALKS {
        let (_, section) = page.split_once(&format!("## {walk}\n")).unwrap();
        let section = section.split("\n## ").next().unwrap();
        let items = section.lines().filter_map(|line| line.split_once(". "));
        let items = items.filter(|(number, _)| number.parse::<usize>().is_ok());
        let items: Vec<&str> = items.map(|(_, item)| item).collect();
        assert!((3..=MAX_WALK_FUNCTIONS).contains(&items.len()), "{walk}");
        for item in items {
            let span = item.split('`').nth(1);
            let span = span.and_then(|span| span.split_once(": "));
            let (path, function) =
                span.unwrap_or_else(|| panic!("{walk}: no `FILE: FUNCTION` begins {item}"));
            let source = std::fs::read_to_string(root().join(path))
                .unwrap_or_else(|error| panic!("{walk}: {path}: {error}"));
            let code = code_of(&source);
            let (owner, name) = function.split_once("::").unwrap_or(("", function));
            let defines = |end: &str| code.contains(&format!("fn {name}{end}"));
            let is_there = (defines("(") || defines("<")) && code.contains(owner);
            assert!(is_there, "{walk}: {path} has no {function}");
        }
    }
}
