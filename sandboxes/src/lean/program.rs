//! How a program is started: its jail, its variables and its visible files.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Jail;
use super::jail::{self, View};

/// A way to start Lean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Variables in addition to Lean's own variables in this process's environment. It gets no others.
    pub env: Vec<(String, String)>,
    /// Folder in which it is started; the current one if not given.
    pub dir: Option<PathBuf>,
    /// The jail that separates it from the rest of the machine.
    pub jail: Jail,
    /// Files that it may not read, such as one that contains a token. Only a jail enforces this.
    pub secrets: Vec<PathBuf>,
}

impl Program {
    /// A command that starts `words` in the way this program is started. A jail shows it the folder `shown`, and everything that its words and variables name. It may
    /// write in `writable`.
    pub(super) fn command(
        &self,
        words: &[String],
        shown: &Path,
        writable: Option<&Path>,
    ) -> Command {
        let mut shown = vec![shown.to_owned()];
        shown.extend(self.needs(words));
        let view = View {
            shown,
            writable,
            secrets: &self.secrets,
        };
        let mut command = self.jail.command(words, &view);
        // A proof must not see secrets of this process's environment, such as a token.
        command.env_clear();
        command.envs(std::env::vars_os().filter(|(name, _)| is_lean_variable(name)));
        command.envs(self.env.iter().map(|(key, value)| (key, value)));
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        command
    }

    /// The value of a variable in the program's environment.
    pub(super) fn variable(&self, name: &str) -> Option<OsString> {
        let given = self.env.iter().rev().find(|(key, _)| key == name);
        match given {
            Some((_, value)) => Some(value.into()),
            None if is_lean_variable(OsStr::new(name)) => std::env::var_os(name),
            None => None,
        }
    }

    /// The variables of Lean, Lake and elan that it inherits from this process, sorted by name. They decide which Lean is started, and which modules it finds.
    #[must_use]
    pub fn inherited(&self) -> Vec<(OsString, OsString)> {
        self.inherited_from(std::env::vars_os())
    }

    fn inherited_from(
        &self,
        variables: impl Iterator<Item = (OsString, OsString)>,
    ) -> Vec<(OsString, OsString)> {
        let is_given = |name: &OsStr| self.env.iter().any(|(given, _)| OsStr::new(given) == name);
        let mut inherited: Vec<(OsString, OsString)> = variables
            .filter(|(name, _)| name.to_str().is_some_and(is_toolchain_variable) && !is_given(name))
            .collect();
        inherited.sort();
        inherited
    }

    /// The folders in which it finds compiled modules: those of `LEAN_PATH`, then that of its own library.
    #[must_use]
    pub fn libraries(&self) -> Vec<PathBuf> {
        let here = self.dir.as_deref().unwrap_or(Path::new("."));
        let here = std::path::absolute(here).unwrap_or_default();
        let named = self.variable("LEAN_PATH").unwrap_or_default();
        let named = std::env::split_paths(&named).filter(|folder| *folder != Path::new(""));
        let mut folders: Vec<PathBuf> = named.map(|folder| here.join(folder)).collect();
        let mut homes: Vec<PathBuf> = Vec::new();
        homes.extend(self.variable("LEAN_SYSROOT").map(PathBuf::from));
        let program = self.command.first();
        if let Some(program) = program.and_then(|program| self.find(program, &here)) {
            let own = program.canonicalize().ok();
            homes.extend(own.as_deref().and_then(installation));
            // elan's `lean` starts the `lean` of a toolchain, and that prints where it is.
            if program.file_name().is_some_and(|name| name == "lean") {
                let mut command = Command::new(&program);
                command.arg("--print-prefix").current_dir(&here);
                let output = command.output();
                let prefix = output.map(|output| output.stdout).unwrap_or_default();
                homes.push(PathBuf::from(String::from_utf8_lossy(&prefix).trim()));
            }
        }
        let libraries = homes.into_iter().map(|home| home.join("lib/lean"));
        folders.extend(libraries.filter(|folder| folder.join("Init.olean").is_file()));
        folders
    }

    /// The files and folders that the program may read according to `words` and the variables. Not all of them need exist.
    fn needs(&self, words: &[String]) -> Vec<PathBuf> {
        let here = self.dir.as_deref().unwrap_or(Path::new("."));
        let here = std::path::absolute(here).unwrap_or_default();
        let mut needs: Vec<PathBuf> = self.dir.iter().map(|_| here.clone()).collect();
        let paths = words.iter().filter(|word| !word.is_empty());
        needs.extend(paths.map(|word| here.join(word)));
        for name in FOLDERS {
            let folders = self.variable(name).unwrap_or_default();
            let named = std::env::split_paths(&folders).filter(|folder| *folder != Path::new(""));
            needs.extend(named.map(|folder| here.join(folder)));
        }
        if let Some(program) = words.first().and_then(|program| self.find(program, &here)) {
            let own = program.canonicalize().ok();
            needs.extend(installation(&program));
            needs.extend(own.as_deref().and_then(installation));
            needs.push(program);
        }
        // elan stores its toolchains in this folder, and its `lean` starts one of them.
        let home = self.variable("HOME").map(PathBuf::from);
        let elan = self.variable("ELAN_HOME").map(PathBuf::from);
        needs.extend(elan.or_else(|| Some(home?.join(".elan"))));
        needs
    }

    /// The file that the name `program` starts.
    fn find(&self, program: &str, here: &Path) -> Option<PathBuf> {
        if program.contains('/') {
            return Some(here.join(program));
        }
        let folders = self.variable("PATH")?;
        std::env::split_paths(&folders)
            .map(|folder| here.join(folder).join(program))
            .find(|file| file.is_file())
    }
}

/// The folder of a program's installation: the one with its `bin`. If that is one of the emptied folders, such as a home, it is `bin` itself.
fn installation(program: &Path) -> Option<PathBuf> {
    let bin = program.parent().filter(|folder| folder.ends_with("bin"))?;
    let whole = bin.parent()?;
    let home = whole
        .canonicalize()
        .is_ok_and(|whole| jail::emptied().contains(&whole));
    Some(if home { bin } else { whole }.to_owned())
}

/// Variables that name folders of files that Lean reads.
const FOLDERS: [&str; 4] = [
    "LEAN_PATH",
    "LEAN_SRC_PATH",
    "LEAN_SYSROOT",
    "LD_LIBRARY_PATH",
];
/// Variables that Lean and its tools read, in addition to their own.
const VARIABLES: [&str; 8] = [
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "TMPDIR",
    "TZ",
    "LD_LIBRARY_PATH",
    "XDG_CACHE_HOME",
];
/// Prefixes of the variables of Lean, Lake and elan.
const PREFIXES: [&str; 3] = ["LEAN_", "LAKE_", "ELAN_"];

fn is_lean_variable(variable: &OsStr) -> bool {
    let Some(name) = variable.to_str() else {
        return false;
    };
    VARIABLES.contains(&name) || name.starts_with("LC_") || is_toolchain_variable(name)
}

/// Whether a variable is one of Lean, Lake or elan.
fn is_toolchain_variable(name: &str) -> bool {
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(env: &[(&str, &str)]) -> Program {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Program {
            command: Vec::new(),
            env: env.iter().map(owned).collect(),
            dir: Some("/proof".into()),
            jail: Jail::None,
            secrets: Vec::new(),
        }
    }

    #[test]
    fn leans_variables_are_distinguished_from_the_services() {
        for (name, wanted) in [
            ("PATH", true),
            ("LEAN_PATH", true),
            ("LC_ALL", true),
            ("RAPID_VERIFIER_TOKEN", false),
            ("AWS_SECRET_ACCESS_KEY", false),
            ("LEAN", false),
        ] {
            assert_eq!(is_lean_variable(OsStr::new(name)), wanted, "{name}");
        }
    }

    #[test]
    fn a_program_inherits_variables_of_lean_except_those_that_it_is_given() {
        let program = program(&[("LEAN_PATH", "/lake/mathlib")]);
        let variable = |name: &str, value: &str| (OsString::from(name), OsString::from(value));
        let variables = [
            variable("LEAN_SYSROOT", "/opt/lean"),
            variable("PATH", "/usr/bin"),
            variable("LEAN_PATH", "/other"),
            variable("ELAN_TOOLCHAIN", "v4.28.0"),
            variable("LC_ALL", "C"),
        ];
        let inherited = [variables[3].clone(), variables[0].clone()];
        assert_eq!(program.inherited_from(variables.into_iter()), inherited);
    }

    #[test]
    fn a_program_needs_the_files_that_its_words_and_variables_name() {
        let variables = [
            ("LEAN_PATH", "lib::/lake/mathlib"),
            ("ELAN_HOME", "/opt/elan"),
        ];
        let program = program(&variables);
        let needs = program.needs(&["/opt/lean/bin/lean".to_owned(), "run.js".to_owned()]);
        let wanted = "/proof /proof/run.js /proof/lib /lake/mathlib /opt/lean /opt/elan";
        for wanted in wanted.split(' ').map(PathBuf::from) {
            assert!(needs.contains(&wanted), "{wanted:?}: {needs:?}");
        }
    }

    #[test]
    fn an_installation_is_the_folder_above_bin_outside_shared_folders() {
        let installed = |program: &str| installation(Path::new(program));
        assert_eq!(installed("/opt/lean/bin/lean"), Some("/opt/lean".into()));
        assert_eq!(installed("/tmp/bin/lean"), Some("/tmp/bin".into()));
        assert_eq!(installed("/opt/lean/lean"), None);
    }
}
