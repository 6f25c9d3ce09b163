//! The repository as a tree of files and of crates.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::programs::run;

/// The repository's root.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Every file under `folder` (relative to the root) with one of the endings, without build outputs and git's own files.
pub fn files(folder: &str, endings: &[&str]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut pending = vec![root().join(folder)];
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap_or_default();
            if path.is_dir() {
                if !matches!(name, "target" | ".git" | "runs") {
                    pending.push(path);
                }
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// The files of any folder with this extension; none if there is no such folder.
pub fn files_with(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let files = paths.filter(|path| path.extension().is_some_and(|end| end == extension));
    files.collect()
}

/// A path relative to the repository's root, for messages and comparisons.
pub fn relative(path: &Path) -> String {
    let inside = path.strip_prefix(root()).unwrap();
    inside.display().to_string()
}

/// The names of all crates that a crate of the workspace links, including itself: its normal and build dependencies and theirs.
pub fn links(package: &str) -> BTreeSet<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let options = "--edges normal,build --prefix none --format {p} --offline --locked";
    let mut tree = Command::new(cargo);
    tree.args(["tree", "--package", package])
        .args(options.split(' '))
        .current_dir(root());
    let tree = run(&mut tree).success().stdout;
    let names = tree.lines().filter_map(|line| line.split(' ').next());
    names.map(str::to_owned).collect()
}

/// A Rust source without its comments, literals and line breaks.
pub fn code_of(source: &str) -> String {
    let tokens = source.parse().expect("a Rust source has Rust's tokens");
    let mut code = String::with_capacity(source.len());
    push_code(tokens, &mut code);
    code
}

fn push_code(tokens: TokenStream, code: &mut String) {
    for token in tokens {
        match token {
            TokenTree::Ident(word) => {
                if code.ends_with(|c: char| c.is_alphanumeric() || c == '_') {
                    code.push(' ');
                }
                code.push_str(&word.to_string());
            }
            TokenTree::Punct(sign) => code.push(sign.as_char()),
            TokenTree::Literal(_) => code.push(' '),
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                code.push_str(open);
                push_code(group.stream(), code);
                code.push_str(close);
            }
        }
    }
}
