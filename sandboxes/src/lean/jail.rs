//! The jail that separates a Lean process from the rest of the machine: bubblewrap, if it is available.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The jail in which a process is started.
///
/// In bubblewrap, a process can write files only in memory, in an empty `/tmp` of its own. It has no network and sees no other process, and all processes that it
/// started die with it. It sees the machine's files. In some folders it sees only the files that it was started with: where people store their files and services their
/// sockets (`/home`, `/root`, the user's home, `/run`, `/tmp`, `/var/tmp`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jail {
    /// Bubblewrap, `bwrap`.
    Bubblewrap,
    /// No jail: only the limits on time, memory and output apply.
    None,
}

impl Jail {
    /// Bubblewrap if it works here: it must be installed, and the system must allow user namespaces.
    #[must_use]
    pub fn detect() -> Jail {
        let words = ["true".to_owned()];
        if works(bubblewrap(&words, &View::default())) {
            Jail::Bubblewrap
        } else {
            Jail::None
        }
    }

    /// A command that starts `words` in this jail and shows them the files of `view`.
    pub(super) fn command(self, words: &[String], view: &View<'_>) -> Command {
        match self {
            Jail::Bubblewrap => bubblewrap(words, view),
            Jail::None => {
                let mut words = words.iter();
                let mut command = Command::new(words.next().map_or("", String::as_str));
                command.args(words);
                command
            }
        }
    }

    /// Its name.
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

/// The arguments that prevent a process from creating namespaces of its own, since it could mount any amount of memory there. Empty if bubblewrap is older than 0.8.
fn one_namespace() -> &'static [&'static str] {
    const WORDS: [&str; 2] = ["--unshare-user", "--disable-userns"];
    static SUPPORTED: OnceLock<bool> = OnceLock::new();
    let supported = *SUPPORTED.get_or_init(|| {
        let mut command = Command::new("bwrap");
        command.args(["--ro-bind", "/", "/", "--proc", "/proc"]);
        command.args(WORDS).arg("true");
        works(command)
    });
    if supported { &WORDS } else { &[] }
}

/// The files for one process in a jail, in addition to the files that every such process may see, and the files that are hidden from it.
#[derive(Default)]
pub(super) struct View<'a> {
    /// Files and folders that it may read although they lie in one of the [`emptied`] folders. Missing ones are skipped.
    pub(super) shown: Vec<PathBuf>,
    /// The one folder besides `/tmp` where it may write. It may read the files there. Its writes stay in memory, up to [`SCRATCH_BYTES`], and are gone with the
    /// process: no byte of them reaches a disk.
    pub(super) writable: Option<&'a Path>,
    /// Files that it may not read, wherever they lie.
    pub(super) secrets: &'a [PathBuf],
}

/// Bytes that each emptied or writable folder may hold. They lie in memory that is not counted for any process.
const SCRATCH_BYTES: u64 = 64 << 20;

/// Maximum files in such a folder. Each takes memory even if it is empty, and that memory is not counted as its content.
const SCRATCH_FILES: u64 = SCRATCH_BYTES / 4096;

/// A writable folder's path in the jail.
fn writable(folder: &Path) -> PathBuf {
    if lies_in(folder, &emptied()) {
        folder.to_owned()
    } else {
        real(folder).unwrap_or_else(|| folder.to_owned())
    }
}

/// The writable folders of a process in a jail, by their paths there.
pub(super) fn scratch(folder: &Path) -> Vec<PathBuf> {
    let own = real(Path::new("/tmp")).into_iter();
    own.chain([writable(folder)]).collect()
}

/// Whether the process `id`, in a jail, has created too many files in one of these folders.
pub(super) fn has_too_many_files(id: u32, folders: &[PathBuf]) -> bool {
    folders.iter().any(|folder| {
        let inside = format!("/proc/{id}/root{}", folder.display());
        // The process that watches a jail has the system's own folders, and so has an unfinished jail. Those are not scratch folders.
        rustix::fs::statvfs(&inside).is_ok_and(|stat| {
            stat.f_blocks * stat.f_frsize == SCRATCH_BYTES
                && stat.f_files.saturating_sub(stat.f_ffree) > SCRATCH_FILES
        })
    })
}

/// The command that starts `words` in bubblewrap.
fn bubblewrap(words: &[String], view: &View<'_>) -> Command {
    let emptied = emptied();
    let size = SCRATCH_BYTES.to_string();
    let mut command = Command::new("bwrap");
    command.args(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]);
    for folder in &emptied {
        command.args(["--size", &size, "--tmpfs"]).arg(folder);
    }
    let binds = binds(&view.shown, &emptied);
    for (place, name) in &binds {
        command.arg("--ro-bind").arg(place).arg(name);
    }
    if let Some(folder) = view.writable {
        let name = writable(folder);
        command.args(["--size", &size, "--tmpfs"]).arg(&name);
        for file in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let (file, name) = (file.path(), name.join(file.file_name()));
            command.arg("--ro-bind").arg(file).arg(name);
        }
    }
    for secret in view.secrets.iter().filter_map(|secret| real(secret)) {
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
    let is_read_only = |folder: &&PathBuf| scratch.as_ref() != Some(*folder);
    for folder in emptied.iter().filter(is_read_only) {
        command.arg("--remount-ro").arg(folder);
    }
    // For root, bubblewrap keeps all capabilities by default, and a process could undo these mounts with them.
    command.args(["--remount-ro", "/dev", "--cap-drop", "ALL"]);
    command.args(one_namespace());
    command.args(["--unshare-all", "--die-with-parent", "--new-session", "--"]);
    command.args(words);
    command
}

/// The folders in which a process in a jail sees only the files shown to it, by their real paths. A folder comes after the folders that contain it.
pub(super) fn emptied() -> Vec<PathBuf> {
    let usual = ["/home", "/root", "/run", "/tmp", "/var/run", "/var/tmp"];
    // The home of some services' users is a folder of programs, or does not exist.
    let system = ["/usr", "/bin", "/sbin"];
    let home = std::env::var_os("HOME")
        .map(PathBuf::from)
        .filter(|home| home.is_absolute() && !system.iter().any(|folder| home.starts_with(folder)));
    let mut folders: Vec<PathBuf> = usual
        .iter()
        .map(PathBuf::from)
        .chain(home)
        // Other proofs that are judged now are there.
        .chain([std::env::temp_dir()])
        .filter_map(|folder| real(&folder))
        .filter(|folder| folder.is_dir() && folder.parent().is_some())
        .collect();
    folders.sort();
    folders.dedup();
    folders
}

/// The bind mounts (source, target) that make each of `shown` visible under its given path and under its real path.
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
        // A file in a shown folder is shown with the folder. It comes after the folder in the order of paths.
        let last = binds.last();
        if !last.is_some_and(|(_, outer)| name.starts_with(outer)) {
            binds.push((place, name));
        }
    }
    binds
}

fn lies_in(name: &Path, folders: &[PathBuf]) -> bool {
    folders.iter().any(|folder| name.starts_with(folder))
}

/// The path without symbolic links, if the file exists.
fn real(name: &Path) -> Option<PathBuf> {
    name.canonicalize().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jail_shows_a_linked_folder_under_both_names() {
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

    /// Root keeps its capabilities in bubblewrap unless they are dropped, and could mount anything with them.
    #[test]
    fn a_process_in_a_jail_has_no_capabilities() {
        if Jail::detect() == Jail::None {
            println!("SKIPPED: bubblewrap does not work here");
            return;
        }
        let words = ["grep", "CapEff", "/proc/self/status"].map(str::to_owned);
        let output = bubblewrap(&words, &View::default()).output().unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert_eq!(stdout.trim(), "CapEff:\t0000000000000000");
    }

    #[test]
    fn no_folder_of_programs_is_emptied() {
        let emptied = emptied();
        assert!(emptied.contains(&Path::new("/tmp").canonicalize().unwrap()));
        assert!(!lies_in(Path::new("/usr/bin/true"), &emptied));
    }
}
