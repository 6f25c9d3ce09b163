//! The repository as a tree of files and of crates.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The repository's root.
///
/// # Panics
/// Never in a checkout, since this crate is in a folder of it.
#[must_use]
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the crate `tests` is in the repository")
}

/// Every file under `folder` (relative to the root) with one of the endings, without build outputs and git's own files.
///
/// # Panics
/// If a folder cannot be read.
#[must_use]
pub fn files(folder: &str, endings: &[&str]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut pending = vec![root().join(folder)];
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        {
            let path = entry.expect("a folder entry").path();
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
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

/// A path relative to the repository's root, for messages and comparisons.
#[must_use]
pub fn relative(path: &Path) -> String {
    path.strip_prefix(root())
        .unwrap_or(path)
        .display()
        .to_string()
}

/// `cargo metadata` of the workspace, without its dependencies.
///
/// # Panics
/// If cargo cannot read the manifests.
#[must_use]
pub fn metadata() -> Value {
    serde_json::from_slice(&cargo(&[
        "metadata",
        "--format-version",
        "1",
        "--no-deps",
        "--offline",
    ]))
    .expect("cargo metadata writes JSON")
}

/// The names of all crates that a crate of the workspace links, including itself: its normal and build dependencies and theirs.
///
/// # Panics
/// If cargo cannot read the manifests.
#[must_use]
pub fn links(package: &str) -> Vec<String> {
    let tree = cargo(&[
        "tree",
        "--package",
        package,
        "--edges",
        "normal,build",
        "--prefix",
        "none",
        "--format",
        "{p}",
        "--offline",
        "--locked",
    ]);
    let tree = String::from_utf8(tree).expect("cargo tree writes UTF-8");
    let mut names: Vec<_> = tree
        .lines()
        .filter_map(|line| line.split(' ').next())
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    names
}

fn cargo(arguments: &[&str]) -> Vec<u8> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let out = Command::new(cargo)
        .args(arguments)
        .current_dir(root())
        .output()
        .expect("cargo is on the PATH");
    assert!(
        out.status.success(),
        "cargo {arguments:?}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    out.stdout
}

/// A Rust source without comments and without the contents of string and character literals, with the same lines.
#[must_use]
pub fn code_of(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment(rest)
        } else if let Some(end) = raw_string(rest, out.chars().last()) {
            end
        } else if c == '"' {
            string(rest)
        } else if c == '\'' {
            character(rest)
        } else {
            0
        };
        if skipped == 0 {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        } else {
            out.extend(rest[..skipped].chars().filter(|c| *c == '\n'));
            out.push(' ');
            rest = &rest[skipped..];
        }
    }
    out
}

fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

fn raw_string(text: &str, before: Option<char>) -> Option<usize> {
    if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
        return None;
    }
    let after = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    if !after[hashes..].starts_with('"') {
        return None;
    }
    let open = text.len() - after.len() + hashes + 1;
    let close = format!("\"{}", "#".repeat(hashes));
    Some(
        text[open..]
            .find(&close)
            .map_or(text.len(), |end| open + end + close.len()),
    )
}

fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// A character literal's length; 0 for a lifetime.
fn character(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), _) => text[3..].find('\'').map_or(0, |end| 3 + end + 1),
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::code_of;

    #[test]
    fn comments_and_literals_are_not_code() {
        let source = "let a = \"unsafe \\\" x\"; // unsafe\n/* unsafe /* nested */ */ let b = 'u'; let c = '\\''; fn f<'a>() { r#\"unsafe\"#; b\"unsafe\" } unsafe {}";
        let code = code_of(source);
        assert_eq!(code.matches("unsafe").count(), 1, "{code}");
        assert!(code.contains("fn f<'a>()"), "{code}");
        assert_eq!(code.lines().count(), source.lines().count());
    }
}
