//! Creates a service from a configuration. Only this module locates files and the cache folder.

use std::net::SocketAddr;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use datasets::fetch::{self, ArtifactKind};
use sandboxes::docker::{self, DockerSandbox};
use verifier_api::RequestLimits;

use crate::cache::{ExpectedValueStore, VerdictDb};
use crate::config::{Config, SandboxKind};
use crate::grade::lean;
use crate::graders::{GraderSettings, OpenSandbox, WasmFolders, no_sandbox};
use crate::judging::{DiskStores, Judge};
use crate::memory_pool;
use crate::registry::Registry;
use crate::service::{Service, ServiceSettings, Token};

/// The artifact that the wasm sandbox runs.
pub const SANDBOX: &str = "python-wasi";

/// Why a service cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// A data set that the configuration names.
    #[error(transparent)]
    Dataset(#[from] datasets::DatasetError),
    /// The token, or where to listen.
    #[error("{reason}")]
    Refused {
        /// What is wrong, and what to change.
        reason: String,
        /// The system's error, if there is one.
        source: Option<std::io::Error>,
    },
    /// The worker threads cannot be started.
    #[error("the worker threads could not be started: {0}. Lower `workers`")]
    Threads(std::io::Error),
}

fn refused(reason: String) -> SetupError {
    SetupError::Refused {
        reason,
        source: None,
    }
}

/// Creates the service of a configuration, with the opener of its sandbox and the addresses to try. It listens on the first address that this machine has. Without a
/// token, all of them are loopback addresses, so a name is looked up only once. `token` is the environment's; a token file takes precedence over it.
///
/// # Errors
/// [`SetupError`].
pub fn service(
    config: &Config,
    token: Option<String>,
) -> Result<(Arc<Service>, Vec<SocketAddr>, OpenSandbox), SetupError> {
    let token = read_token(config, token)?;
    let listen = &config.listen;
    let addresses = listen.resolve().map_err(|source| SetupError::Refused {
        reason: format!(
            "cannot listen on {listen}: its name cannot be looked up; give an IP address, such as 127.0.0.1"
        ),
        source: Some(source),
    })?;
    let reachable = |address: &&SocketAddr| !address.ip().to_canonical().is_loopback();
    if let Some(address) = addresses.iter().find(reachable) {
        if token.is_none() {
            let looked_up = match address.to_string() {
                same if same == listen.to_string() => String::new(),
                other => format!(" ({other})"),
            };
            return Err(refused(format!(
                "refusing to listen on {listen}{looked_up}, which other machines can reach, without a token: give --token-file FILE, or set RAPID_VERIFIER_TOKEN, or listen on 127.0.0.1"
            )));
        }
        if config.lean.runs_without_jail() {
            return Err(refused(format!(
                "refusing to judge proofs of other machines without a jail: set lean.jail = \"bubblewrap\", or lean.backend = \"none\", or listen on 127.0.0.1 instead of {listen}"
            )));
        }
    }
    let registry = Registry::open(&config.datasets, config.data_dir.as_deref())?;
    let settings = settings(config, token);
    let service = Service::new(settings, registry, open_disk_stores(config));
    let service = service.map_err(SetupError::Threads)?;
    Ok((service, addresses, sandbox(config)))
}

/// The judge of a configuration, with the opener of its sandbox, for commands that judge without a service.
///
/// # Errors
/// [`SetupError::Threads`].
pub fn judge(
    config: &Config,
    registry: Registry,
    stores: DiskStores,
) -> Result<(Arc<Judge>, OpenSandbox), SetupError> {
    let sizes = (config.limits.queue, config.cache.memory_bytes);
    let judge = Judge::new(grader_settings(config), sizes, registry, stores);
    Ok((judge.map_err(SetupError::Threads)?, sandbox(config)))
}

pub(crate) fn settings(config: &Config, token: Option<Token>) -> ServiceSettings {
    let own_host = config.listen.host().to_owned();
    ServiceSettings {
        limits: RequestLimits {
            body_bytes: config.limits.body_bytes,
            items: config.limits.items,
            queue: config.limits.queue,
        },
        connections: config.limits.connections,
        token,
        // A service without a token answers to these names, and to that in `listen`.
        allowed_hosts: [&config.allowed_hosts[..], &[own_host]].concat(),
        compat_hold: Duration::from_secs(config.compat.hold_seconds),
        nemo_gym_failsafe: config.compat.nemo_gym.failsafe,
        cache_bytes: config.cache.memory_bytes,
        graders: grader_settings(config),
    }
}

fn grader_settings(config: &Config) -> GraderSettings {
    GraderSettings {
        math: config.math,
        code: config.code.extraction,
        lean: lean::LeanSettings {
            secrets: config.token_file.iter().cloned().collect(),
            ..config.lean.clone()
        },
        custom: config.graders.clone(),
        secrets: config.token_file.iter().cloned().collect(),
        workers: workers(config),
        limits: config.sandbox_limits(),
        memory_pool: memory_pool_bytes(config),
        expected_bytes: config.cache.expected_bytes,
        require: config.require.clone(),
    }
}

/// Number of worker threads: as configured, or the number of cores that this process may use.
pub fn workers(config: &Config) -> usize {
    match config.workers {
        0 => std::thread::available_parallelism().map_or(1, NonZero::get),
        workers => workers,
    }
}

/// Bytes shared by all programs that need more than the free allowance. `None` for containers, since their number limits the memory.
fn memory_pool_bytes(config: &Config) -> Option<u64> {
    if config.code.sandbox != SandboxKind::Wasm {
        return None;
    }
    let all = match config.code.memory_total_bytes {
        0 => memory_pool::available_bytes() / 4 * 3,
        bytes => bytes,
    };
    // Two sets of threads: for first passes, and for long programs and canonical solutions, with one more. Instances that stay to read texts take as much as a third
    // set.
    let threads = workers(config).saturating_mul(3) + 1;
    let limit = config.code.memory_bytes;
    Some(memory_pool::pool_bytes(all, threads, limit))
}

/// Opens the stores on disk. One that cannot be opened is left out, with a warning: its content is then in memory only.
pub fn open_disk_stores(config: &Config) -> DiskStores {
    let path = cache_dir(config).join("verdicts.redb");
    let opened = (config.cache.disk)
        .then(|| VerdictDb::open(&path, config.cache.disk_bytes / 2))
        .transpose()
        .inspect_err(|error| tracing::warn!("{error}"));
    DiskStores {
        verdicts: opened.ok().flatten().map(Arc::new),
        expected_values: open_expected_values(config),
    }
}

/// Opens the folder of expected values; `None`, with a warning, if it cannot be opened. Unlike the verdict database, several processes may use it at once.
pub fn open_expected_values(config: &Config) -> Option<Arc<ExpectedValueStore>> {
    let folder = cache_dir(config).join("expected");
    let opened = (config.cache.disk)
        .then(|| ExpectedValueStore::open(&folder, config.cache.disk_bytes / 2))?
        .inspect_err(|error| {
            tracing::warn!(
                "expected values cannot be stored in {} ({error}), and stay in memory only; free some space there, or name a writable folder with --cache-dir",
                folder.display()
            );
        });
    opened.ok().map(Arc::new)
}

/// The folder of the verdict database, of the expected values and of the warmed interpreter.
pub fn cache_dir(config: &Config) -> PathBuf {
    let default = || fetch::home().join("verifier");
    config.cache.dir.clone().unwrap_or_else(default)
}

/// Returns a function that opens the configured sandbox.
pub fn sandbox(config: &Config) -> OpenSandbox {
    match config.code.sandbox {
        SandboxKind::Wasm => wasm_folders(config).open(),
        SandboxKind::Docker => {
            let settings = docker::Settings {
                host: config.docker.host.clone(),
                image: config.docker.image.clone(),
                runtime: config.docker.runtime.clone(),
                containers: match config.docker.containers {
                    0 => 2 * workers(config) + 2,
                    containers => containers,
                },
                memory: config.code.memory_bytes,
            };
            Box::new(move || {
                Ok(Arc::new(DockerSandbox::open(&settings)?) as Arc<dyn sandboxes::Sandbox>)
            })
        }
        SandboxKind::None => no_sandbox(
            "code is not judged here: the configuration says code.sandbox = \"none\"".to_owned(),
        ),
    }
}

/// The folders of the wasm sandbox.
pub fn wasm_folders(config: &Config) -> WasmFolders {
    let fetched = || fetch::locate(ArtifactKind::Sandbox, SANDBOX);
    WasmFolders {
        artifact_dir: config.code.dir.clone().or_else(fetched),
        cache_dir: cache_dir(config).join("wasm"),
    }
}

fn read_token(config: &Config, environment: Option<String>) -> Result<Option<Token>, SetupError> {
    let Some(path) = &config.token_file else {
        return Ok(environment
            .filter(|token| !token.trim().is_empty())
            .map(|token| Token::new(token.trim())));
    };
    let fault = |reason: String| {
        refused(format!(
            "the token file {} {reason}. Put a long random text on its first line, such as `openssl rand -hex 32` prints",
            path.display()
        ))
    };
    let text = datasets::jsonl::read_text(path)
        .map_err(|error| fault(format!("cannot be read: {error}")))?;
    let token = text.lines().next().unwrap_or_default().trim();
    if token.is_empty() {
        return Err(fault("has nothing on its first line".to_owned()));
    }
    Ok(Some(Token::new(token)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config_on(listen: &str) -> Config {
        let mut config = Config {
            listen: listen.parse().unwrap(),
            datasets: vec!["starter-math".to_owned()],
            ..Config::default()
        };
        config.cache.disk = false;
        config
    }

    #[test]
    fn an_address_that_others_can_reach_needs_a_token() {
        let start = |listen: &str, token: Option<&str>| {
            let started = service(&config_on(listen), token.map(str::to_owned));
            started.map(drop).map_err(|error| error.to_string())
        };
        // The last is a name that resolves to 0.0.0.0 everywhere.
        for open in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80", "0x0:0"] {
            for none in [None, Some("  ")] {
                let refused = start(open, none).unwrap_err();
                assert!(refused.contains("without a token"), "{open}: {refused}");
            }
            assert_eq!(start(open, Some("secret")), Ok(()), "{open}");
        }
        for closed in "127.0.0.1:0 [::1]:0 [::ffff:127.0.0.1]:0 localhost:0".split(' ') {
            assert_eq!(start(closed, None), Ok(()), "{closed}");
        }
    }

    #[test]
    fn proofs_of_other_machines_need_a_jail() {
        let start = |listen: &str, change: fn(&mut lean::LeanSettings)| {
            let mut config = config_on(listen);
            config.lean.command = vec!["lean".to_owned(), "--json".to_owned()];
            config.lean.jail = lean::JailChoice::None;
            change(&mut config.lean);
            service(&config, Some("secret".to_owned())).map(drop)
        };
        let refused = start("0.0.0.0:0", |_| {}).unwrap_err().to_string();
        assert!(refused.contains("lean.jail = \"bubblewrap\""), "{refused}");
        assert!(start("127.0.0.1:0", |_| {}).is_ok());
        let safe: [fn(&mut lean::LeanSettings); 3] = [
            |settings| settings.jail = lean::JailChoice::Bubblewrap,
            |settings| settings.backend = lean::Backend::None,
            |settings| settings.command.clear(),
        ];
        for change in safe {
            assert!(start("0.0.0.0:0", change).is_ok());
        }
    }

    #[test]
    fn a_token_file_must_hold_a_token() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let config = Config {
            token_file: Some(path.clone()),
            ..config_on("0.0.0.0:0")
        };
        let refused = |token: Option<&str>| {
            let started = service(&config, token.map(str::to_owned));
            started.err().map(|error| error.to_string())
        };
        assert!(refused(None).unwrap().contains("cannot be read"));
        std::fs::write(&path, "\n").unwrap();
        assert!(refused(Some("else")).unwrap().contains("has nothing"));
        std::fs::write(&path, "secret\n").unwrap();
        assert_eq!(refused(None), None);
    }
}
