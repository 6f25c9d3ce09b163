//! Commands that work when a user types them into the shell that started this program.

use std::path::{Path, PathBuf};

use trainer::run;

/// This program: as it was called, if that is a name that the shell finds, else its path. A script may have changed the folder.
pub(crate) fn program() -> String {
    let called = std::env::args_os().next().map(PathBuf::from);
    let is_name = |called: &PathBuf| called.components().count() == 1;
    match called.filter(is_name).or(std::env::current_exe().ok()) {
        Some(program) => quoted(&program),
        None => "rapid".to_owned(),
    }
}

/// A file or folder, from whatever folder the command is typed in.
pub(crate) fn path(path: &Path) -> String {
    quoted(&run::absolute(path))
}

/// A path as a word of a shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let needs_no_quotes = |letter: char| letter.is_alphanumeric() || "/._-+=:@%,".contains(letter);
    if text.chars().all(needs_no_quotes) {
        return text;
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_works_from_any_folder_whatever_is_in_its_name() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(path(Path::new("mine")), quoted(&here.join("mine")));
        let typed = quoted(Path::new("/it's here/rapid"));
        assert_eq!(typed, r"'/it'\''s here/rapid'");
    }
}
