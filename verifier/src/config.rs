//! The configuration: a TOML file, `--set` on top of it, and every default. `deploy/verifier.toml` repeats the comment of each key.

mod listen;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use datasets::did_you_mean::{hint, nearest};
use datasets::settings::{Keys, SettingError, any_above, at_least, choice, put, settings, whole};
use sandboxes::Limits;
use toml::Table;

use crate::cache::DISK_BYTES;
use crate::grade::code::Extraction;
use crate::grade::{lean, math};
use crate::graders;
use crate::pool::MAX_WORKERS;

pub use listen::Listen;

/// Every key.
pub const KEYS: Keys = Keys::new(Config::KEYS, "limits.items=100");

settings! {
    /// The whole configuration.
    pub struct Config {
        /// Host and port to listen on, the host an IP address or a name, such as localhost; port 0 takes a free one. Where any of its addresses is beyond loopback, a
        /// token is needed. Also --listen.
        pub listen: Listen = Listen::Address(SocketAddr::from(([127, 0, 0, 1], 8700))),
        /// Folder of data sets, which holds mbppplus/train.jsonl, math/eval.jsonl and so on; it goes before the cache folder. Also --data-dir.
        pub data_dir: Option<PathBuf>,
        /// Data sets whose tasks a request can name: names, or paths of .jsonl files, all of which have to be there. Empty: every named one that is there.
        pub datasets: Vec<String>,
        /// Worker threads for programs and proofs; 0: as many as cores. Also --workers.
        pub workers: usize => whole(0, MAX_WORKERS as u64).hint("; 0 stands for as many as cores"),
        /// Graders without which /readyz does not answer 200: "math", "code", "lean". Also --require.
        pub require: Vec<String>,
        /// File whose first line is the token that clients have to send. Unless set, RAPID_VERIFIER_TOKEN may hold the token itself. Also --token-file.
        pub token_file: Option<PathBuf>,
        /// What the service takes in.
        pub limits: LimitsConfig,
        /// Where verdicts are kept.
        pub cache: CacheConfig,
        /// Answers of mathematics.
        pub math: math::MathSettings,
        /// Python programs.
        pub code: CodeConfig,
        /// Containers, where code.sandbox is docker. sandboxes/docker makes the image.
        pub docker: DockerConfig,
        /// Proofs. Without a project or a command they are answered with `unavailable`; sandboxes/lean/README.md explains how a proof is judged.
        pub lean: lean::LeanSettings,
    }
}

settings! {
    /// What one request may hold, and all of them together.
    pub struct LimitsConfig {
        /// Bytes of a request's body; beyond them it is answered 413. 64 MiB.
        pub body_bytes: usize = 64 << 20,
        /// Items of a request; beyond them, 422.
        pub items: usize = 4_096 => at_least(1.0).hint("; a request holds one item or more"),
        /// Items that may wait, over all requests; no fewer than limits.items. Beyond them, 429.
        pub queue: usize = 16_384,
        /// Connections at a time; whoever comes then waits until one ends.
        pub connections: usize = 512 => at_least(1.0).hint("; with none, nobody could connect"),
    }
}

settings! {
    /// Where verdicts are kept.
    pub struct CacheConfig {
        /// Folder of verdicts, of expected values and of the compiled interpreter; verifier/ in the cache folder ($RAPID_HOME) unless set. Also --cache-dir.
        pub dir: Option<PathBuf>,
        /// Whether verdicts and expected values are kept on disk. false keeps them in memory only. Also --no-disk-cache.
        pub disk: bool = true,
        /// Bytes on disk, about, half of them for expected values. What nobody has asked for the longest goes first. 4 GiB.
        pub disk_bytes: u64 = DISK_BYTES => at_least(1_048_576.0)
            .hint(", which is a MiB, or keep nothing on disk with cache.disk = false"),
        /// Bytes of verdicts in memory. 256 MiB.
        pub memory_bytes: usize = 256 << 20,
        /// Bytes of expected values in memory: what right programs returned. 512 MiB.
        pub expected_bytes: usize = 512 << 20,
    }
}

settings! {
    /// Programs.
    pub struct CodeConfig {
        /// How the program is found in a completion; docs/tasks.md has the rule. Also --code-extraction.
        ///   program     the text itself where it is Python, else the last block that defines the entry point, with what it needs of earlier ones
        ///   last-block  the last Python block, else the last block, else the whole text, as up to version 0.1
        pub extraction: Extraction,
        /// What they run in: wasm (CPython in WebAssembly), docker (a container each; see `[docker]`), or none (programs are not judged).
        pub sandbox: SandboxKind,
        /// Folder of the WebAssembly sandbox's interpreter; where `rapid-verifier fetch` puts it unless set. Also --sandbox-dir.
        pub dir: Option<PathBuf>,
        /// What a program may compute, in units of fuel: about one for each WebAssembly instruction. A task whose own solution needs more than half of it gets twice
        /// what that needs. In Docker, 2 G of fuel stand for a second of processor time.
        pub fuel: u64 = Limits::default().fuel => at_least(1.0).hint("; with none, no program could run"),
        /// Bytes of memory of a program and its interpreter. 2 GiB.
        pub memory_bytes: u64 = Limits::default().memory => at_least(67_108_864.0)
            .hint(": the interpreter itself needs 64 MiB"),
        /// Bytes of memory of all programs together, in WebAssembly: 1 GiB for each worker, and what is left for programs that need more than 256 MiB, which wait
        /// until there is room for them. 0: three quarters of the machine's memory, or of the container's.
        pub memory_total_bytes: u64,
        /// Bytes of one argument or result, as it is passed between program and judge. 16 MiB.
        pub value_bytes: usize = Limits::default().value,
        /// Seconds after which a run counts as a failure of the sandbox, not of the program. Fuel stops programs long before. In Docker, where programs can wait, one
        /// that takes as long is out of time.
        pub backstop_seconds: f64 = Limits::default().backstop => any_above(0.0),
    }
}

settings! {
    /// Containers.
    pub struct DockerConfig {
        /// The engine's socket, such as unix:///var/run/docker.sock; what DOCKER_HOST says, else the usual one, unless set.
        pub host: Option<String>,
        /// The image that programs run in.
        pub image: String = sandboxes::docker::Settings::default().image,
        /// Another runtime than the engine's own, such as runsc, which is gVisor's.
        pub runtime: Option<String>,
        /// Containers at a time, warm ones included; 2 or more. 0: two for each worker, and two more.
        pub containers: usize,
    }
}

choice! {
    /// What programs run in.
    pub enum SandboxKind {
        /// CPython in WebAssembly.
        #[default]
        Wasm = "wasm",
        /// A container.
        Docker = "docker",
        /// Nothing: programs are not judged.
        None = "none",
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("the configuration {path} cannot be read; check the path given to --config")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// An unknown key, or an invalid value.
    #[error("{0}{pointer}", pointer = where_keys_are_listed(.0))]
    Setting(SettingError),
}

// Not `#[from]`, which would make it the source too, so that it is printed twice.
impl From<SettingError> for ConfigError {
    fn from(error: SettingError) -> ConfigError {
        ConfigError::Setting(error)
    }
}

fn where_keys_are_listed(error: &SettingError) -> &'static str {
    match error {
        SettingError::UnknownKey { .. } => "; `rapid-verifier serve --help` lists the keys",
        _ => "",
    }
}

impl Config {
    /// Reads `path`, if given, and applies `sets` over it (`key=value`, the value as TOML or a bare text).
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn load(path: Option<&Path>, sets: &[String]) -> Result<Config, ConfigError> {
        let mut table = match path {
            None => Table::new(),
            Some(path) => {
                let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Io {
                    path: path.to_owned(),
                    source,
                })?;
                KEYS.read(&path.display().to_string(), &text)?
            }
        };
        for set in sets {
            let (path, value) = KEYS.parse_set(set)?;
            put(&mut table, &path, value);
        }
        KEYS.check_limits(&table)?;
        let config: Config = table
            .try_into()
            .map_err(|error| SettingError::syntax("the configuration", &error))?;
        config.check()?;
        Ok(config)
    }

    /// Checks names of graders, and keys that depend on each other.
    fn check(&self) -> Result<(), SettingError> {
        let refuse = |key, reason: String| Err(SettingError::value(key, reason));
        let unknown = |name: &&String| !graders::NAMES.contains(&name.as_str());
        if let Some(name) = self.require.iter().find(unknown) {
            let near = hint(nearest(name, graders::NAMES));
            let known = graders::NAMES.join(", ");
            return refuse(
                "require",
                format!("`{name}` is no grader{near}; the graders are {known}"),
            );
        }
        if self.limits.queue < self.limits.items {
            return refuse(
                "limits.queue",
                format!(
                    "{} has no room for a whole request of limits.items = {}; raise it, or lower limits.items",
                    self.limits.queue, self.limits.items
                ),
            );
        }
        if self.docker.containers == 1 {
            return refuse(
                "docker.containers",
                "give 2 at least, as a task with test code takes two at once; 0 chooses by the number of workers".to_owned(),
            );
        }
        if self.lean.project.is_some() && !self.lean.command.is_empty() {
            return refuse(
                "lean.command",
                "it is for a Lean that is no project's; give it or lean.project, not both"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// The limits of a program.
    #[must_use]
    pub fn sandbox_limits(&self) -> Limits {
        Limits {
            fuel: self.code.fuel,
            memory: self.code.memory_bytes,
            value: self.code.value_bytes,
            backstop: self.code.backstop_seconds,
            ..Limits::default()
        }
    }
}

#[cfg(test)]
mod tests;
