//! The configuration: a TOML file, `--set` on top of it, and every default. `deploy/verifier.toml` repeats the comment of each key.

mod listen;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use datasets::did_you_mean::{hint, nearest};
use datasets::settings::{Keys, SettingError, any_above, at_least, choice, put, settings, whole};
use sandboxes::Limits;
use sandboxes::docker::FUEL_PER_SECOND;
use toml::Table;

use crate::cache::DISK_BYTES;
use crate::grade::code::Extraction;
use crate::grade::custom::CustomSettings;
use crate::grade::{lean, math};
use crate::graders;
use crate::pool::MAX_WORKERS;

pub use listen::Listen;

/// Every key.
pub const KEYS: Keys = Keys::new(Config::KEYS, "limits.items=100");

settings! {
    /// The whole configuration.
    pub struct Config {
        /// Host and port to listen on. The host is an IP address or a name, such as localhost; port 0 chooses a free port. A token is required if the host has an address
        /// other than loopback. Also --listen.
        pub listen: Listen,
        /// Folder of data sets, with mbppplus/train.jsonl, math/eval.jsonl and so on. It is searched before the cache folder. Also --data-dir.
        pub data_dir: Option<PathBuf>,
        /// Data sets with tasks for requests: names, or paths of .jsonl files. All of them have to exist. If empty, every data set with a name that exists.
        pub datasets: Vec<String>,
        /// Number of worker threads for programs and proofs. 0: the number of cores. Also --workers.
        pub workers: usize => whole(0, MAX_WORKERS as u64).hint("; 0 stands for the number of cores"),
        /// Graders without which /readyz does not answer 200: "math", "code", "lean", or one of [graders]. Also --require.
        pub require: Vec<String>,
        /// File with a token in its first line, which clients have to send. If it is not set, the variable RAPID_VERIFIER_TOKEN may hold the token. Also --token-file.
        pub token_file: Option<PathBuf>,
        /// Names by which clients may address a service without a token, besides localhost and the name in listen: that of a proxy on this machine, for example. Any web page in
        /// a browser on this machine can send requests here. If the owner of a name lets it mean 127.0.0.1, they look like the page's own. A service with a token needs no such
        /// list.
        pub allowed_hosts: Vec<String>,
        /// Limits of requests and connections.
        pub limits: LimitsConfig,
        /// The cache of verdicts and expected values.
        pub cache: CacheConfig,
        /// Mathematical answers.
        pub math: math::MathSettings,
        /// Python programs.
        pub code: CodeConfig,
        /// Containers, if code.sandbox is docker. scripts/docker.sh builds their image from sandboxes/docker.
        pub docker: DockerConfig,
        /// Proofs. Without a project or a command, their verdict is `unavailable`. sandboxes/lean/README.md explains how a proof is judged.
        pub lean: lean::LeanSettings,
        /// A grader of the operator's own, under the name that tasks have as their `kind`.
        pub graders: BTreeMap<String, CustomSettings>,
        /// The routes of other projects' clients; docs/clients.md describes them.
        pub compat: CompatConfig,
    }
}

settings! {
    /// Limits of a request, and of all requests together.
    pub struct LimitsConfig {
        /// Maximum size of a request's body, in bytes. A larger one is answered 413. 64 MiB.
        pub body_bytes: usize = 64 << 20,
        /// Maximum number of items in a request. A larger one is answered 422.
        pub items: usize = 4_096 => at_least(1.0).hint("; a request has at least one item"),
        /// Maximum number of waiting items, over all requests; not below limits.items. A request that would exceed it is answered 429.
        pub queue: usize = 16_384,
        /// Number of connections that may wait for their clients; 64 more are for probes and new clients. Eight times as many requests of one address may be received and judged at a time, and nine times of all.
        pub connections: usize = 512 => at_least(1.0).hint("; with 0, no request could be received"),
    }
}

settings! {
    /// The cache of verdicts and expected values.
    pub struct CacheConfig {
        /// Folder of verdicts, expected values and the compiled interpreter. If it is not set, verifier/ in the cache folder ($RAPID_HOME). Also --cache-dir.
        pub dir: Option<PathBuf>,
        /// Whether verdicts and expected values are stored on disk. false stores them in memory only. Also --no-disk-cache.
        pub disk: bool = true,
        /// Approximate bytes on disk, half of them for expected values. The least recently used entries are evicted. 4 GiB.
        pub disk_bytes: u64 = DISK_BYTES => at_least(1_048_576.0)
            .hint(", which is a MiB, or store nothing on disk with cache.disk = false"),
        /// Maximum bytes of verdicts in memory. 256 MiB.
        pub memory_bytes: usize = 256 << 20,
        /// Maximum bytes of expected values in memory. 512 MiB.
        pub expected_bytes: usize = 512 << 20,
    }
}

settings! {
    /// Programs.
    pub struct CodeConfig {
        /// How the program is extracted from a completion; docs/tasks.md has the rule. Also --code-extraction.
        ///   program     the text itself if it is Python, else the last block that defines the entry point, with the definitions that it needs from earlier blocks
        ///   last-block  the last Python block, else the last block, else the whole text, as in version 0.1.0
        pub extraction: Extraction,
        /// The sandbox of programs: wasm (CPython in WebAssembly), docker (a container for each program; see `[docker]`), or none (programs are not judged).
        pub sandbox: SandboxKind,
        /// Folder of the WebAssembly sandbox's interpreter. If it is not set, the folder that `rapid-verifier fetch` writes. Also --sandbox-dir.
        pub dir: Option<PathBuf>,
        /// Maximum computation of a program in WebAssembly, in units of fuel: about one for each instruction, and 25 G for what a native interpreter does in a second. A
        /// program may use ten times the fuel of its task's canonical solution, if that is more. It may use two and a half times this if the task has none. A task with a
        /// `time_limit` sets the limit itself. In Docker, docker.seconds counts instead.
        pub fuel: u64 = Limits::default().fuel => at_least(1.0).hint("; with 0, no program could run"),
        /// Maximum bytes of memory of a program and its interpreter. 2 GiB.
        pub memory_bytes: u64 = Limits::default().memory => at_least(67_108_864.0)
            .hint(": the interpreter itself needs 64 MiB"),
        /// Maximum bytes of memory of all programs together, in WebAssembly. 1.5 GiB of it are for each worker, and 0.5 GiB more. The rest, but at least twice memory_bytes, is for
        /// programs that need more than 256 MiB; they wait until enough of it is free. 0: three quarters of the machine's memory, or of the container's.
        pub memory_total_bytes: u64,
        /// Maximum bytes of one argument or result, as it is passed between program and judge. 16 MiB.
        pub value_bytes: usize = Limits::default().value,
        /// Seconds after which a run counts as a failure of the sandbox, not of the program. Fuel stops programs long before. In Docker, where programs can wait, a
        /// program that takes as long gets the verdict `timeout`.
        pub backstop_seconds: f64 = Limits::default().backstop => any_above(0.0),
    }
}

settings! {
    /// Containers.
    pub struct DockerConfig {
        /// The engine's socket, such as unix:///var/run/docker.sock. If it is not set, the value of DOCKER_HOST, or else the usual socket.
        pub host: Option<String>,
        /// The image that programs run in.
        pub image: String = sandboxes::docker::Settings::default().image,
        /// Maximum processor time of a program, in seconds. It is longer if ten times the processor time of the task's canonical solution is, or the task's `time_limit`.
        pub seconds: u64 = 10 => whole(1, 86_400),
        /// A container runtime other than the engine's default, such as gVisor's runsc.
        pub runtime: Option<String>,
        /// Maximum number of containers at a time, including warm ones; at least 2. 0: two for each worker, and two more.
        pub containers: usize,
    }
}

settings! {
    /// The routes of other projects' clients.
    pub struct CompatConfig {
        /// Maximum seconds from a request of such a client to its answer, judging included. While the queue is full or a grader cannot judge now, the request waits; then it is
        /// answered 503. Each client has a limit of its own, a little below its time limit, and the lower one counts.
        pub hold_seconds: u64 = 600 => at_least(1.0),
        /// NeMo Gym.
        pub nemo_gym: NemoGymConfig,
    }
}

settings! {
    /// NeMo Gym.
    pub struct NemoGymConfig {
        /// Whether a sample that cannot be judged is answered with `reward: 0`, `mask_sample: true` and `_ng_failure_class` instead of an error. It is not a verdict, and only
        /// a trainer that reads these marks leaves the sample out. NeMo RL before July 2026 ignores them and trains on the reward 0, as it does later with
        /// `env.should_mask_flagged_samples: false`. In its GRPO, masked samples have still counted in the mean of their group (NVIDIA-NeMo/RL issue 4061).
        pub failsafe: bool,
    }
}

choice! {
    /// The sandbox of programs.
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

// Not `#[from]`: the error would be the source too, and be printed twice.
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
                let text = datasets::jsonl::read_text(path).map_err(|source| ConfigError::Io {
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
        let refuse = |key, reason: &str| Err(SettingError::value(key, reason));
        for (name, grader) in &self.graders {
            if let Err((key, reason)) = grader.check(name) {
                let path = format!("graders.{name}.{key}");
                return Err(SettingError::value(path.trim_end_matches('.'), reason));
            }
        }
        let known = graders::NAMES.into_iter();
        let known: Vec<&str> = known
            .chain(self.graders.keys().map(String::as_str))
            .collect();
        let unknown = |name: &&String| !known.contains(&name.as_str());
        if let Some(name) = self.require.iter().find(unknown) {
            let near = hint(nearest(name, known.iter().copied()));
            let known = known.join(", ");
            let reason = format!("`{name}` is not a grader{near}; the graders are {known}");
            return refuse("require", &reason);
        }
        let LimitsConfig { queue, items, .. } = self.limits;
        if queue < items {
            let reason = format!(
                "{queue} has no room for a whole request of limits.items = {items}; raise it, or lower limits.items"
            );
            return refuse("limits.queue", &reason);
        }
        if self.code.sandbox == SandboxKind::Docker && self.code.fuel != Limits::default().fuel {
            let reason = "Docker has no fuel; give docker.seconds: one second stood for 2 G";
            return refuse("code.fuel", reason);
        }
        if self.docker.containers == 1 {
            let reason = "give at least 2, as a task with test code needs two at once; 0 chooses by the number of workers";
            return refuse("docker.containers", reason);
        }
        if self.lean.project.is_some() && !self.lean.command.is_empty() {
            let reason = "it is for a Lean without a project; give it or lean.project, not both";
            return refuse("lean.command", reason);
        }
        Ok(())
    }

    /// The limits of a program.
    pub fn sandbox_limits(&self) -> Limits {
        Limits {
            fuel: match self.code.sandbox {
                SandboxKind::Docker => self.docker.seconds * FUEL_PER_SECOND,
                SandboxKind::Wasm | SandboxKind::None => self.code.fuel,
            },
            memory: self.code.memory_bytes,
            value: self.code.value_bytes,
            backstop: self.code.backstop_seconds,
            ..Limits::default()
        }
    }
}

#[cfg(test)]
mod tests;
