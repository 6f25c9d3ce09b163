//! The configuration file: TOML, typed, unknown keys refused with the nearest known one named.

mod keys;
mod listen;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use sandboxes::Limits;
use serde::{Deserialize, Serialize};
use toml::Table;

use crate::cache::DISK_BYTES;
use crate::grade::code::Extraction;
use crate::grade::{lean, math};
use crate::pool::MAX_WORKERS;
use crate::registry::nearest;
use keys::{check_keys, insert, parse_value};

pub use listen::Listen;

/// The whole configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// Where to listen. Port 0 takes a free one.
    pub listen: Listen,
    /// Folder that holds `mbppplus/`, `math/`, …
    pub data_dir: Option<PathBuf>,
    /// Data sets to read; all that are there where this is empty.
    pub datasets: Vec<String>,
    /// Worker threads for programs; as many as cores where 0.
    pub workers: usize,
    /// Graders without which `/readyz` does not answer 200.
    pub require: Vec<String>,
    /// File whose first line is the token that `/v1` asks for.
    pub token_file: Option<PathBuf>,
    /// What one request may hold.
    pub limits: LimitsConfig,
    /// Where verdicts are kept.
    pub cache: CacheConfig,
    /// Mathematics.
    pub math: math::Settings,
    /// Programs.
    pub code: CodeConfig,
    /// Containers, where `code.sandbox` is `docker`.
    pub docker: DockerConfig,
    /// Proofs.
    pub lean: lean::Settings,
}

/// What one request may hold, and all of them together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitsConfig {
    /// Bytes of a body.
    pub body_bytes: usize,
    /// Items of a request.
    pub items: usize,
    /// Items that may wait, over all requests.
    pub queue: usize,
    /// Connections at a time; whoever comes then waits until one ends.
    pub connections: usize,
}

/// Where verdicts are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheConfig {
    /// Folder of the cache; `verifier/` in the cache folder where not given.
    pub dir: Option<PathBuf>,
    /// Whether anything is kept on disk.
    pub disk: bool,
    /// Bytes on disk, about: half for verdicts, half for expected values. What was not asked for the longest goes first.
    pub disk_bytes: u64,
    /// Bytes of verdicts kept in memory.
    pub memory_bytes: usize,
    /// Bytes of expected values kept in memory.
    pub expected_bytes: usize,
}

/// Programs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CodeConfig {
    /// How the program is found in a completion.
    pub extraction: Extraction,
    /// What they run in.
    pub sandbox: SandboxKind,
    /// Folder of the sandbox's artifact; the one that `rapid-verifier fetch` fills where not given.
    pub dir: Option<PathBuf>,
    /// Units of fuel, about one a wasm instruction, for tasks whose own solution needs less than half of them. In Docker, 2 G stand for a second of processor time.
    pub fuel: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Bytes of memory of all programs together, in WebAssembly; three quarters of the machine's, or of the container's, where 0.
    pub memory_total_bytes: u64,
    /// Bytes of one encoded value.
    pub value_bytes: usize,
    /// Seconds after which a run counts as a failure of the sandbox.
    pub backstop_seconds: f64,
}

/// Containers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DockerConfig {
    /// The engine's socket, `unix:///…`; where `DOCKER_HOST` says, or the usual one, where not given.
    pub host: Option<String>,
    /// The image that `sandboxes/docker` makes.
    pub image: String,
    /// Another runtime than the engine's own, such as `runsc`.
    pub runtime: Option<String>,
    /// Containers at a time, warm ones included; two for each worker and two more where 0.
    pub containers: usize,
}

/// What programs run in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SandboxKind {
    /// CPython in WebAssembly.
    #[default]
    Wasm,
    /// A container.
    Docker,
    /// Nothing: programs are not judged.
    None,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            listen: Listen::Address(SocketAddr::from(([127, 0, 0, 1], 8700))),
            data_dir: None,
            datasets: Vec::new(),
            workers: 0,
            require: Vec::new(),
            token_file: None,
            limits: LimitsConfig::default(),
            cache: CacheConfig::default(),
            math: math::Settings::default(),
            code: CodeConfig::default(),
            docker: DockerConfig::default(),
            lean: lean::Settings::default(),
        }
    }
}

impl Default for LimitsConfig {
    fn default() -> LimitsConfig {
        LimitsConfig {
            body_bytes: 64 << 20,
            items: 4_096,
            queue: 16_384,
            connections: 512,
        }
    }
}

impl Default for CacheConfig {
    fn default() -> CacheConfig {
        CacheConfig {
            dir: None,
            disk: true,
            disk_bytes: DISK_BYTES,
            memory_bytes: 256 << 20,
            expected_bytes: 512 << 20,
        }
    }
}

impl Default for DockerConfig {
    fn default() -> DockerConfig {
        DockerConfig {
            host: None,
            image: sandboxes::docker::Settings::default().image,
            runtime: None,
            containers: 0,
        }
    }
}

impl Default for CodeConfig {
    fn default() -> CodeConfig {
        let limits = Limits::default();
        CodeConfig {
            extraction: Extraction::default(),
            sandbox: SandboxKind::Wasm,
            dir: None,
            fuel: limits.fuel,
            memory_bytes: limits.memory,
            memory_total_bytes: 0,
            value_bytes: limits.value,
            backstop_seconds: limits.backstop,
        }
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
        /// What the system said.
        source: std::io::Error,
    },
    /// The text is not TOML, or makes no configuration.
    #[error("{place}: {reason}")]
    Toml {
        /// The file, or `--set`.
        place: String,
        /// What the parser said.
        reason: String,
    },
    /// A key that means nothing.
    #[error("{place}: there is no key `{key}`{}. `rapid-verifier serve --help` lists the keys", near.map(|near| format!(" (did you mean `{near}`?)")).unwrap_or_default())]
    UnknownKey {
        /// The file, or `--set`.
        place: String,
        /// The key.
        key: String,
        /// The known key most like it.
        near: Option<&'static str>,
    },
    /// A value of another kind than its key takes.
    #[error("{place}: `{key}` {reason}")]
    Kind {
        /// The file, or `--set`.
        place: String,
        /// The key.
        key: String,
        /// What it takes, and what was given.
        reason: String,
    },
    /// A value that makes no sense.
    #[error("the configuration's `{key}` {reason}")]
    Value {
        /// The key.
        key: &'static str,
        /// What is wrong with its value.
        reason: String,
    },
}

impl Config {
    /// Reads `path`, where one is given, and lays `sets` (`key=value`, the value as TOML or a bare string) over it.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn load(path: Option<&Path>, sets: &[String]) -> Result<Config, ConfigError> {
        let mut table = Table::new();
        if let Some(path) = path {
            let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Io {
                path: path.to_owned(),
                source,
            })?;
            let place = path.display().to_string();
            table = text
                .parse()
                .map_err(|error: toml::de::Error| ConfigError::Toml {
                    place: place.clone(),
                    reason: error.to_string(),
                })?;
            check_keys(&table, "", &place)?;
        }
        for set in sets {
            let (key, value) = set.split_once('=').ok_or_else(|| ConfigError::Toml {
                place: format!("--set {set}"),
                reason: "it is not of the form key=value, such as limits.items=100".to_owned(),
            })?;
            insert(&mut table, key.trim(), parse_value(value.trim()));
            check_keys(&table, "", "--set")?;
        }
        let place = || path.map_or_else(|| "--set".to_owned(), |path| path.display().to_string());
        let config: Config =
            table
                .try_into()
                .map_err(|error: toml::de::Error| ConfigError::Toml {
                    place: place(),
                    reason: error.to_string(),
                })?;
        config.checked()
    }

    /// The configuration itself, where its values make sense.
    ///
    /// # Errors
    /// [`ConfigError::Value`].
    pub fn checked(self) -> Result<Config, ConfigError> {
        let fault = |key, reason: String| Err(ConfigError::Value { key, reason });
        if let Some(name) = self
            .require
            .iter()
            .find(|name| !crate::graders::NAMES.contains(&name.as_str()))
        {
            let near = nearest(name, crate::graders::NAMES.into_iter())
                .map(|near| format!(" (did you mean `{near}`?)"))
                .unwrap_or_default();
            let graders = crate::graders::NAMES.join(", ");
            return fault(
                "require",
                format!("names `{name}`, which is no grader{near}; the graders are {graders}"),
            );
        }
        if self.workers > MAX_WORKERS {
            return fault(
                "workers",
                format!(
                    "is {}, more than the {MAX_WORKERS} that there may be; lower it, or give 0 for as many as cores",
                    self.workers
                ),
            );
        }
        if self.limits.items == 0 {
            return fault(
                "limits.items",
                "is 0, so that no request could hold an item; give 1 or more".to_owned(),
            );
        }
        if self.limits.queue < self.limits.items {
            return fault(
                "limits.queue",
                format!(
                    "is {}, and so has no room for a whole request of limits.items = {}; raise it, or lower limits.items",
                    self.limits.queue, self.limits.items
                ),
            );
        }
        if self.limits.connections == 0 {
            return fault(
                "limits.connections",
                "is 0, so that nobody could connect; give 1 or more".to_owned(),
            );
        }
        if self.cache.disk_bytes < 1 << 20 {
            return fault(
                "cache.disk_bytes",
                format!(
                    "is {}, less than a MiB (1048576); raise it, or keep nothing on disk with cache.disk = false",
                    self.cache.disk_bytes
                ),
            );
        }
        if self.code.fuel == 0 {
            return fault(
                "code.fuel",
                "is 0, so that no program could run; give 1 or more".to_owned(),
            );
        }
        if self.code.memory_bytes < 64 << 20 {
            return fault(
                "code.memory_bytes",
                format!(
                    "is {}, less than the 64 MiB (67108864) that the interpreter itself needs; raise it",
                    self.code.memory_bytes
                ),
            );
        }
        if self.code.backstop_seconds.is_nan() || self.code.backstop_seconds <= 0.0 {
            return fault("code.backstop_seconds", "must be above 0".to_owned());
        }
        if self.docker.containers == 1 {
            return fault("docker.containers", "must be 2 at least, as a task with test code takes two at once; 0 chooses by the number of workers".to_owned());
        }
        if self.lean.project.is_some() && !self.lean.command.is_empty() {
            return fault(
                "lean.command",
                "is for a Lean that is no project's; give it or lean.project, not both".to_owned(),
            );
        }
        for (key, value) in [
            ("lean.seconds", self.lean.seconds),
            ("lean.start_seconds", self.lean.start_seconds),
            ("lean.memory_mib", self.lean.memory_mib),
        ] {
            if value == 0 {
                return fault(key, "must be 1 at least".to_owned());
            }
        }
        Ok(self)
    }

    /// What a program may use.
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
mod tests {
    use super::*;

    fn load(text: &str, sets: &[&str]) -> Result<Config, ConfigError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("verifier.toml");
        std::fs::write(&path, text).unwrap();
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        Config::load(Some(&path), &sets)
    }

    #[test]
    fn the_file_is_laid_over_the_defaults_and_the_flags_over_the_file() {
        let config = load(
            "workers = 3\n[math]\nextraction = \"any\"\n",
            &["workers=5", "code.sandbox=none", "require=[\"math\"]"],
        )
        .unwrap();
        assert_eq!(
            (config.workers, config.math.extraction, config.code.sandbox),
            (5, math::Extraction::Any, SandboxKind::None)
        );
        assert_eq!(config.require, ["math"]);
        assert_eq!(config.limits, LimitsConfig::default());
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_nearest_named() {
        for (text, near) in [
            ("lisen = 1", "`listen`"),
            ("[limits]\nitem = 1", "`limits.items`"),
            ("queue = 1", "`limits.queue`"),
            ("[maths]\nextraction = \"any\"", "`math`"),
        ] {
            let error = load(text, &[]).unwrap_err().to_string();
            assert!(
                error.contains("did you mean") && error.contains(near),
                "{text}: {error}"
            );
        }
        let error = load("", &["code.fule=1"]).unwrap_err().to_string();
        assert!(error.contains("`code.fuel`"), "{error}");
    }

    #[test]
    fn a_value_that_makes_no_sense_is_refused() {
        for text in [
            "workers = \"two\"",
            "require = [\"maths\"]",
            "[limits]\nqueue = 1",
            "[math]\nextraction = \"some\"",
            "[code]\nfuel = 0",
            "[docker]\ncontainers = 1",
            "[lean]\nseconds = 0",
            "[lean]\nproject = \"p\"\ncommand = [\"lean\"]",
            "[lean]\nbackend = \"coq\"",
            "listen = \"everywhere\"",
            "= 1",
        ] {
            assert!(load(text, &[]).is_err(), "{text}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_told_of_the_key_at_fault() {
        for (setting, says) in [
            (
                "workers=9223372036854775807",
                "`workers` is 9223372036854775807, more than the 1024",
            ),
            ("cache.disk_bytes=1", "`cache.disk_bytes` is 1"),
            ("limits.items=0", "`limits.items` is 0"),
            ("limits.connections=0", "`limits.connections` is 0"),
            (
                "limits.queue=1",
                "`limits.queue` is 1, and so has no room for a whole request of limits.items = 4096",
            ),
            ("code.fuel=0", "`code.fuel` is 0"),
            ("code.memory_bytes=1", "`code.memory_bytes` is 1"),
            (
                "require=[\"foo\"]",
                "names `foo`, which is no grader; the graders are math, code, lean",
            ),
        ] {
            let error = load("", &[setting]).unwrap_err().to_string();
            assert!(error.contains(says), "{says} in {error}");
        }
    }
}
