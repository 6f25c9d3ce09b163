//! Commands that work when a user types them into the shell that started this program.

use std::path::{Path, PathBuf};

use trainer::run;

/// This program: its name if the shell finds it by that, else its path.
pub(crate) fn program() -> String {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    match std::env::current_exe() {
        Ok(own) => called(&own, std::env::split_paths(&folders)),
        Err(_) => "rapid".to_owned(),
    }
}

/// As [`program`], for the program at `own` and the folders of the `PATH`. A script may have changed the folder, so relative ones do not count.
fn called(own: &Path, folders: impl Iterator<Item = PathBuf>) -> String {
    let mut programs = folders.map(|folder| folder.join("rapid"));
    let found = programs.find(|program| program.is_absolute() && program.is_file());
    let same = found.and_then(|found| found.canonicalize().ok()) == own.canonicalize().ok();
    if same {
        "rapid".to_owned()
    } else {
        quoted(own)
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
    fn a_program_is_called_by_its_name_only_if_the_shell_finds_it() {
        let home = tempfile::tempdir().unwrap();
        let [own, other] = ["it's here", "other"].map(|name| home.path().join(name));
        for folder in [&own, &other] {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("rapid"), "").unwrap();
        }
        let program = own.join("rapid");
        let typed = format!(r"'{}/it'\''s here/rapid'", home.path().display());
        let (empty, relative) = (home.path().to_owned(), PathBuf::from("."));
        for (folders, expected) in [
            (vec![&empty, &own, &other], "rapid"),
            (vec![&other, &own], &typed),
            (vec![&empty, &relative], &typed),
        ] {
            assert_eq!(called(&program, folders.into_iter().cloned()), expected);
        }
    }

    #[test]
    fn a_path_works_from_any_folder() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(path(Path::new("mine")), quoted(&here.join("mine")));
    }
}
