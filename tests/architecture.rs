//! The invariants of ARCHITECTURE.md.

use std::collections::{BTreeMap, BTreeSet};

use syn::{ImplItem, Item, Type};
use tests::imports::{Circle, Imports};
use tests::repository::{code_of, files, links, metadata, relative, root};

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
    ("verifier-api", &[]),
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

/// The folder of each crate.
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

/// Maximum number of files of one folder that may import each other in a circle; folders may not.
const MAX_CIRCLE: usize = 3;

/// The folder whose files may all import each other, and the file that states the reason.
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
    let paths: Vec<_> = CRATES
        .iter()
        .filter(|folder| !folder.contains('/'))
        .flat_map(|folder| files(folder, &[".rs"]))
        .collect();
    assert!(
        paths.len() > 50,
        "only {} sources found: is the search wrong?",
        paths.len()
    );
    paths
        .iter()
        .map(|path| (relative(path), std::fs::read_to_string(path).unwrap()))
        .collect()
}

#[test]
fn crates_depend_on_each_other_as_listed() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap();
    let members: BTreeSet<_> = packages
        .iter()
        .map(|package| package["name"].as_str().unwrap())
        .collect();
    let actual: BTreeMap<_, BTreeSet<_>> = packages
        .iter()
        .map(|package| {
            let dependencies = package["dependencies"]
                .as_array()
                .unwrap()
                .iter()
                .map(|d| d["name"].as_str().unwrap());
            (
                package["name"].as_str().unwrap(),
                dependencies.filter(|name| members.contains(name)).collect(),
            )
        })
        .collect();
    let allowed: BTreeMap<_, BTreeSet<_>> = EDGES
        .iter()
        .map(|(from, to)| (*from, to.iter().copied().collect()))
        .collect();
    assert_eq!(actual, allowed);
}

#[test]
fn the_trainer_links_no_sandbox_and_the_engine_no_http() {
    let links_any = |package: &str, names: &[&str]| -> Vec<String> {
        links(package)
            .into_iter()
            .filter(|name| {
                names
                    .iter()
                    .any(|start| name == start || name.starts_with(&format!("{start}-")))
            })
            .collect()
    };
    let (wasm, http) = (
        ["wasmtime", "cranelift"],
        ["reqwest", "hyper", "http", "axum", "rustls"],
    );
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
    let algorithms: Vec<_> = sources()
        .into_iter()
        .filter(|(path, _)| path.starts_with("trainer/src/algo"))
        .collect();
    assert!(algorithms.len() >= 3, "{algorithms:?}");
    for (path, source) in algorithms {
        let code = code_of(&source);
        for foreign in [
            "engine::",
            "datasets::",
            "verifier_api::",
            "tokio::",
            "std::fs",
            "std::net",
            "std::time",
            "std::sync",
            "std::thread",
        ] {
            assert!(!code.contains(foreign), "{path} names {foreign}");
        }
        for (at, _) in code.match_indices("crate::") {
            assert!(
                code[at..].starts_with("crate::algo"),
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
        let words = code
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .filter(|word| *word == "unsafe")
            .count();
        let allowed = UNSAFE.iter().any(|folder| path.starts_with(folder));
        assert!(words == 0 || allowed, "{path} has `unsafe`");
        inside += words;
        if path.starts_with("sandboxes/") || path.starts_with("verifier/kernel/") {
            assert!(
                words <= 1,
                "{path} has `unsafe` {words} times; one module is loaded"
            );
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
    let above: Vec<_> = sources()
        .into_iter()
        .filter(|(path, _)| path.starts_with("trainer/engine/src/"))
        .filter(|(path, _)| !BACKENDS.iter().any(|allowed| path.starts_with(allowed)))
        .collect();
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
    let mut refused = Vec::new();
    let mut arrows = 0;
    for folder in CRATES {
        for root in ["lib.rs", "main.rs"].map(|file| root().join(folder).join("src").join(file)) {
            if !root.is_file() {
                continue;
            }
            let imports = Imports::of_crate(&root);
            arrows += imports.edges.values().map(BTreeSet::len).sum::<usize>();
            let known =
                |circle: &Circle| *folder == "sandboxes" && circle.parent == [CIRCULAR_FOLDER.0];
            let circles = imports.circles().into_iter().filter(|circle| {
                !known(circle) && (circle.folders > 0 || circle.modules.len() > MAX_CIRCLE)
            });
            refused.extend(circles.map(|circle| (relative(&root), circle)));
        }
    }
    assert!(arrows > 500, "only {arrows} imports: is the search wrong?");
    assert!(refused.is_empty(), "{refused:#?}");
}

#[test]
fn every_crate_uses_the_lints_and_the_versions_of_the_workspace() {
    for folder in CRATES {
        let manifest = std::fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
        let manifest: toml::Table = manifest.parse().unwrap();
        assert_eq!(
            manifest["lints"]["workspace"].as_bool(),
            Some(true),
            "{folder}"
        );
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            for (name, dependency) in manifest
                .get(section)
                .and_then(toml::Value::as_table)
                .into_iter()
                .flatten()
            {
                let inherited = dependency.get("workspace").and_then(toml::Value::as_bool);
                assert_eq!(
                    inherited,
                    Some(true),
                    "{folder}: {name} does not use the workspace's version"
                );
            }
        }
    }
}

#[test]
fn every_dependency_is_used() {
    for folder in CRATES {
        let manifest = std::fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
        let manifest: toml::Table = manifest.parse().unwrap();
        let inner = |path: &str| {
            CRATES
                .iter()
                .any(|other| other.len() > folder.len() && path.starts_with(&format!("{other}/")))
        };
        let sources: Vec<String> = files(folder, &[".rs"])
            .iter()
            .filter(|path| !inner(&relative(path)))
            .map(|path| code_of(&std::fs::read_to_string(path).unwrap()))
            .collect();
        for section in ["dependencies", "dev-dependencies"] {
            for name in manifest
                .get(section)
                .and_then(toml::Value::as_table)
                .into_iter()
                .flat_map(toml::Table::keys)
            {
                let path = format!("{}::", name.replace('-', "_"));
                let named = |source: &String| {
                    source.match_indices(&path).any(|(at, _)| {
                        let before = source[..at].trim_end_matches("::");
                        !before.ends_with(|c: char| c.is_alphanumeric() || c == '_')
                    })
                };
                assert!(
                    sources.iter().any(named),
                    "{folder} does not use {name}: remove it from {folder}/Cargo.toml"
                );
            }
        }
    }
}

#[test]
fn crates_without_unsafe_forbid_it() {
    for folder in CRATES
        .iter()
        .filter(|folder| !matches!(**folder, "sandboxes" | "trainer/engine" | "verifier/kernel"))
    {
        for file in ["lib.rs", "main.rs"].map(|name| root().join(folder).join("src").join(name)) {
            if let Ok(source) = std::fs::read_to_string(&file) {
                assert!(
                    code_of(&source).contains("#![forbid(unsafe_code)]"),
                    "{}",
                    relative(&file)
                );
            }
        }
    }
}

#[test]
fn no_source_file_exceeds_the_maximum_length() {
    let long: Vec<_> = sources()
        .into_iter()
        .map(|(path, source)| (source.lines().count(), path))
        .filter(|(lines, _)| *lines > MAX_LINES)
        .collect();
    assert_eq!(long, Vec::new(), "over {MAX_LINES} lines");
}

#[test]
fn no_module_is_for_odds_and_ends() {
    for (path, _) in sources() {
        let forbidden = path
            .split('/')
            .map(|part| part.trim_end_matches(".rs"))
            .find(|part| {
                matches!(
                    *part,
                    "util" | "utils" | "common" | "helper" | "helpers" | "misc"
                )
            });
        assert_eq!(forbidden, None, "{path}");
    }
}

#[test]
fn the_walks_through_the_code_name_functions_that_exist() {
    let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for walk in WALKS {
        let (_, section) = page.split_once(&format!("## {walk}\n")).unwrap();
        let section = section.split("\n## ").next().unwrap();
        let items: Vec<&str> = section
            .lines()
            .filter_map(|line| line.split_once(". "))
            .filter(|(number, _)| number.parse::<usize>().is_ok())
            .map(|(_, item)| item)
            .collect();
        assert!(
            (3..=MAX_WALK_FUNCTIONS).contains(&items.len()),
            "{walk}: {} functions",
            items.len()
        );
        for item in items {
            let span = item.strip_prefix('`').and_then(|item| item.split_once('`'));
            let (path, function) = span
                .and_then(|(span, _)| span.split_once(": "))
                .unwrap_or_else(|| panic!("{walk}: no `FILE: FUNCTION` begins {item}"));
            let source = std::fs::read_to_string(root().join(path))
                .unwrap_or_else(|error| panic!("{walk}: {path}: {error}"));
            assert!(
                defines(&syn::parse_file(&source).unwrap(), function),
                "{walk}: {path} has no function {function}"
            );
        }
    }
}

/// Whether a file has the function `name`, or the method `Type::name`.
fn defines(file: &syn::File, function: &str) -> bool {
    let method = function.split_once("::");
    file.items.iter().any(|item| match (item, method) {
        (Item::Fn(item), None) => item.sig.ident == function,
        (Item::Impl(block), Some((owner, name))) => {
            let is_of_owner = matches!(&*block.self_ty, Type::Path(path)
                if path.path.segments.last().is_some_and(|last| last.ident == owner));
            is_of_owner
                && block
                    .items
                    .iter()
                    .any(|item| matches!(item, ImplItem::Fn(item) if item.sig.ident == name))
        }
        _ => false,
    })
}
