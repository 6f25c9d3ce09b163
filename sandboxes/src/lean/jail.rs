//! What keeps a Lean process from the rest of the machine: bubblewrap, where there is one.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// What a process is started in.
///
/// In bubblewrap it can write no file but in memory, in an empty `/tmp` of its own, has no network, and sees no other process; all that it started dies with it. It sees
/// the machine's files, but of the folders in which people keep theirs and services their sockets (`/home`, `/root`, the user's home, `/run`, `/tmp`,
/// `/var/tmp`) only what it was started with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jail {
    /// Bubblewrap, `bwrap`.
    Bubblewrap,
    /// Nothing but the bounds on time, memory and output.
    None,
}

impl Jail {
    /// Bubblewrap where it works here: it must be installed, and the system must allow user namespaces.
    #[must_use]
    pub fn found() -> Jail {
        let words = ["true".to_owned()];
        if works(bubblewrap(&words, &Sight::default())) {
            Jail::Bubblewrap
        } else {
            Jail::None
        }
    }

    /// In a word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Jail::Bubblewrap => "bubblewrap",
            Jail::None => "none",
        }
    }
}

fn works(mut command: Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// By which a process makes no namespaces of its own, in which it could mount as much memory as it likes; none where bubblewrap is older than 0.8.
fn one_namespace() -> &'static [&'static str] {
    const WORDS: [&str; 2] = ["--unshare-user", "--disable-userns"];
    static KNOWN: OnceLock<bool> = OnceLock::new();
    let known = *KNOWN.get_or_init(|| {
        let mut command = Command::new("bwrap");
        command.args(["--ro-bind", "/", "/", "--proc", "/proc"]);
        command.args(WORDS).arg("true");
        works(command)
    });
    if known { &WORDS } else { &[] }
}

/// What a process in a jail sees besides what every process does.
#[derive(Default)]
pub(super) struct Sight<'a> {
    /// Files and folders that it may read although they lie in a folder that is [`emptied`]. Those that are not there are passed over.
    pub(super) shown: Vec<PathBuf>,
    /// The one folder in which it may write, besides `/tmp`, and whose files it may read. What it writes lies in memory, as much as [`SCRATCH_BYTES`], and is gone with
    /// the process: no byte of it comes to a disk.
    pub(super) writable: Option<&'a Path>,
    /// Files that it may not read, wherever they lie.
    pub(super) secrets: &'a [PathBuf],
}

/// What each folder may hold that is emptied or can be written in: it lies in memory that is counted as no process's.
const SCRATCH_BYTES: u64 = 64 << 20;

/// Files that may lie there. Each takes memory, be it empty, which is not counted as what it holds.
const SCRATCH_FILES: u64 = SCRATCH_BYTES / 4096;

/// What a folder is called in the jail of a process that may write in it.
fn writable(folder: &Path) -> PathBuf {
    if lies_in(folder, &emptied()) {
        folder.to_owned()
    } else {
        real(folder).unwrap_or_else(|| folder.to_owned())
    }
}

/// The folders in which a process in a jail may write, as it calls them.
pub(super) fn scratch(folder: &Path) -> Vec<PathBuf> {
    real(Path::new("/tmp"))
        .into_iter()
        .chain([writable(folder)])
        .collect()
}

/// Whether the process `id`, in a jail, has made too many files in one of these folders.
pub(super) fn littered(id: u32, folders: &[PathBuf]) -> bool {
    folders.iter().any(|folder| {
        let inside = format!("/proc/{id}/root{}", folder.display());
        // Who watches a jail, and a jail that is not shut yet, has the system's own folders, which are no scratch.
        rustix::fs::statvfs(&inside).is_ok_and(|there| {
            there.f_blocks * there.f_frsize == SCRATCH_BYTES
                && there.f_files.saturating_sub(there.f_ffree) > SCRATCH_FILES
        })
    })
}

/// What starts `words` in bubblewrap.
pub(super) fn bubblewrap(words: &[String], sight: &Sight<'_>) -> Command {
    let emptied = emptied();
    let size = SCRATCH_BYTES.to_string();
    let mut command = Command::new("bwrap");
    command.args(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]);
    for folder in &emptied {
        command.args(["--size", &size, "--tmpfs"]).arg(folder);
    }
    let binds = binds(&sight.shown, &emptied);
    for (place, name) in &binds {
        command.arg("--ro-bind").arg(place).arg(name);
    }
    if let Some(folder) = sight.writable {
        let name = writable(folder);
        command.args(["--size", &size, "--tmpfs"]).arg(&name);
        for file in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let (file, name) = (file.path(), name.join(file.file_name()));
            command.arg("--ro-bind").arg(file).arg(name);
        }
    }
    for secret in sight.secrets.iter().filter_map(|secret| real(secret)) {
        let inside =
            |(place, name): &(PathBuf, PathBuf)| Some(name.join(secret.strip_prefix(place).ok()?));
        let mut names: Vec<PathBuf> = binds.iter().filter_map(inside).collect();
        names.push(secret.clone());
        names.sort();
        names.dedup();
        for name in names {
            command.args(["--ro-bind", "/dev/null"]).arg(name);
        }
    }
    let scratch = real(Path::new("/tmp"));
    for folder in emptied
        .iter()
        .filter(|folder| scratch.as_ref() != Some(*folder))
    {
        command.arg("--remount-ro").arg(folder);
    }
    // For root, bubblewrap keeps all capabilities by default: those by which a process could undo what is mounted here.
    command.args(["--remount-ro", "/dev", "--cap-drop", "ALL"]);
    command.args(one_namespace());
    command.args(["--unshare-all", "--die-with-parent", "--new-session", "--"]);
    command.args(words);
    command
}

/// The folders of which a process in a jail sees only what it is shown, by their real names; what lies in another comes after it.
pub(super) fn emptied() -> Vec<PathBuf> {
    let usual = ["/home", "/root", "/run", "/tmp", "/var/run", "/var/tmp"];
    // Some services' users have a folder of programs for a home, or none.
    let system = ["/usr", "/bin", "/sbin"];
    let home = std::env::var_os("HOME")
        .map(PathBuf::from)
        .filter(|home| home.is_absolute() && !system.iter().any(|folder| home.starts_with(folder)));
    let mut folders: Vec<PathBuf> = usual
        .iter()
        .map(PathBuf::from)
        .chain(home)
        .filter_map(|folder| real(&folder))
        .filter(|folder| folder.is_dir() && folder.parent().is_some())
        .collect();
    folders.sort();
    folders.dedup();
    folders
}

/// What is bound to which name, so that each of `shown` is there by the name that it was given and by its real one.
fn binds(shown: &[PathBuf], emptied: &[PathBuf]) -> Vec<(PathBuf, PathBuf)> {
    let mut all: Vec<(PathBuf, PathBuf)> = shown
        .iter()
        .filter_map(|name| Some((name, real(name)?)))
        .flat_map(|(name, place)| [(place.clone(), name.clone()), (place.clone(), place)])
        .filter(|(_, name)| lies_in(name, emptied))
        .collect();
    all.sort_by(|(_, one), (_, other)| one.cmp(other));
    let mut binds: Vec<(PathBuf, PathBuf)> = Vec::new();
    for (place, name) in all {
        // What lies in a folder that is shown is shown with it; by their names, it comes after it.
        if !binds
            .last()
            .is_some_and(|(_, outer)| name.starts_with(outer))
        {
            binds.push((place, name));
        }
    }
    binds
}

fn lies_in(name: &Path, folders: &[PathBuf]) -> bool {
    folders.iter().any(|folder| name.starts_with(folder))
}

/// The name without symbolic links, of what is there.
fn real(name: &Path) -> Option<PathBuf> {
    name.canonicalize().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jail_shows_a_linked_folder_under_both_names_and_nothing_already_visible() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        let (home, elsewhere) = (real.join("home"), real.join("elsewhere"));
        std::fs::create_dir_all(home.join("project/lib")).unwrap();
        std::fs::create_dir_all(&elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, home.join("link")).unwrap();
        let shown = [
            home.join("project/lib"),
            home.join("link"),
            home.join("project"),
            elsewhere.clone(),
            home.join("nowhere"),
        ];
        assert_eq!(
            binds(&shown, std::slice::from_ref(&home)),
            [
                (elsewhere, home.join("link")),
                (home.join("project"), home.join("project")),
            ]
        );
    }

    /// Root keeps them in bubblewrap unless they are dropped, and with them could mount what it likes.
    #[test]
    fn a_process_in_a_jail_has_no_capabilities() {
        if Jail::found() == Jail::None {
            println!("SKIPPED: bubblewrap does not work here");
            return;
        }
        let words = ["grep", "CapEff", "/proc/self/status"].map(str::to_owned);
        let said = bubblewrap(&words, &Sight::default()).output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        assert_eq!(said.trim(), "CapEff:\t0000000000000000");
    }

    #[test]
    fn no_folder_of_programs_is_emptied() {
        let emptied = emptied();
        assert!(emptied.contains(&Path::new("/tmp").canonicalize().unwrap()));
        assert!(!lies_in(Path::new("/usr/bin/true"), &emptied));
    }
}
