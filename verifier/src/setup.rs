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
use crate::config::{Config, Listen, SandboxKind};
use crate::grade::lean;
use crate::graders::{GraderSettings, OpenSandbox, WasmFolders, no_sandbox};
use crate::memory_pool;
use crate::registry::Registry;
use crate::service::{CompatSettings, DiskStores, Service, ServiceSettings, Token};

/// The artifact that the wasm sandbox runs.
pub const SANDBOX: &str = "python-wasi";

/// Why a service cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// A data set that the configuration names.
    #[error(transparent)]
    Dataset(#[from] datasets::DatasetError),
    /// The token file.
    #[error(
        "the token file {path} {reason}. Put a long random text on its first line, such as `openssl rand -hex 32` prints"
    )]
    Token {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The worker threads cannot be started.
    #[error("the worker threads could not be started: {0}. Lower `workers`")]
    Threads(std::io::Error),
    /// Other machines could reach the service, and there is no token.
    #[error(
        "refusing to listen on {listen}{}, which other machines can reach, without a token: give --token-file FILE, or set RAPID_VERIFIER_TOKEN, or listen on 127.0.0.1",
        address_of_name(.listen, .address)
    )]
    Unguarded {
        /// The configured address.
        listen: Listen,
        /// One of its addresses that is not loopback.
        address: SocketAddr,
    },
    /// Other machines could reach the service, and with it code of proofs that no jail keeps from this machine.
    #[error(
        "refusing to judge proofs of other machines without a jail: set lean.jail = \"bubblewrap\", or lean.backend = \"none\", or listen on 127.0.0.1 instead of {listen}"
    )]
    Unjailed {
        /// The configured address.
        listen: Listen,
    },
    /// The host name to listen on has no address.
    #[error(
        "cannot listen on {listen}: its name cannot be looked up; give an IP address, such as 127.0.0.1"
    )]
    Unresolved {
        /// The configured address.
        listen: Listen,
        /// The system's error.
        source: std::io::Error,
    },
}

/// The address in parentheses, if the configuration has a name.
fn address_of_name(listen: &Listen, address: &SocketAddr) -> String {
    match listen {
        Listen::Address(_) => String::new(),
        Listen::Name { .. } => format!(" ({address})"),
    }
}

/// A service with its addresses and the opener of its sandbox.
pub struct Listening {
    /// The service, not prepared yet.
    pub service: Arc<Service>,
    /// The addresses to try: the service listens on the first that this machine has. Without a token, all of them are loopback addresses: a name is looked up once.
    pub addresses: Vec<SocketAddr>,
    /// Opens the sandbox.
    pub open: OpenSandbox,
}

/// Creates the service of a configuration. `token` is the environment's; a token file takes precedence over it.
///
/// # Errors
/// [`SetupError`].
pub fn service(config: &Config, token: Option<String>) -> Result<Listening, SetupError> {
    let token = read_token(config, token)?;
    let listen = || config.listen.clone();
    let addresses = config
        .listen
        .resolve()
        .map_err(|source| SetupError::Unresolved {
            listen: listen(),
            source,
        })?;
    let reachable = |address: &&SocketAddr| !address.ip().to_canonical().is_loopback();
    if let Some(address) = addresses.iter().find(reachable) {
        if token.is_none() {
            return Err(SetupError::Unguarded {
                listen: listen(),
                address: *address,
            });
        }
        if config.lean.runs_without_jail() {
            return Err(SetupError::Unjailed { listen: listen() });
        }
    }
    let registry = Registry::open(&config.datasets, config.data_dir.as_deref())?;
    let (service, open) = with_registry(config, token, registry, open_disk_stores(config))?;
    Ok(Listening {
        service,
        addresses,
        open,
    })
}

/// Like [`service`], with a registry that is loaded already.
///
/// # Errors
/// [`SetupError::Threads`].
pub fn with_registry(
    config: &Config,
    token: Option<Token>,
    registry: Registry,
    stores: DiskStores,
) -> Result<(Arc<Service>, OpenSandbox), SetupError> {
    let settings = ServiceSettings {
        limits: RequestLimits {
            body_bytes: config.limits.body_bytes,
            items: config.limits.items,
            queue: config.limits.queue,
        },
        connections: config.limits.connections,
        workers: workers(config),
        cache_bytes: config.cache.memory_bytes,
        token,
        allowed_hosts: allowed_hosts(config),
        compat: CompatSettings {
            hold: Duration::from_secs(config.compat.hold_seconds),
            nemo_gym_failsafe: config.compat.nemo_gym.failsafe,
        },
        graders: GraderSettings {
            math: config.math,
            code: config.code.extraction,
            lean: lean::LeanSettings {
                secrets: config.token_file.iter().cloned().collect(),
                ..config.lean.clone()
            },
            workers: workers(config),
            limits: config.sandbox_limits(),
            memory_pool: memory_pool_bytes(config),
            expected_bytes: config.cache.expected_bytes,
            require: config.require.clone(),
        },
    };
    let service = Service::new(settings, registry, stores).map_err(SetupError::Threads)?;
    Ok((service, sandbox(config)))
}

/// The names of this machine that a service without a token answers to, besides localhost.
fn allowed_hosts(config: &Config) -> Vec<String> {
    let own = match &config.listen {
        Listen::Name { host, .. } => Some(host.clone()),
        Listen::Address(_) => None,
    };
    config.allowed_hosts.iter().cloned().chain(own).collect()
}

/// Number of worker threads: as configured, or the number of cores that this process may use.
#[must_use]
pub fn workers(config: &Config) -> usize {
    match config.workers {
        0 => std::thread::available_parallelism().map_or(1, NonZero::get),
        workers => workers,
    }
}

/// Bytes for all the programs together that need more than the free allowance; `None` for containers, whose number limits that.
fn memory_pool_bytes(config: &Config) -> Option<u64> {
    if config.code.sandbox != SandboxKind::Wasm {
        return None;
    }
    let all = match config.code.memory_total_bytes {
        0 => memory_pool::available_bytes() / 4 * 3,
        bytes => bytes,
    };
    // Threads for first passes, for long programs and for canonical solutions, and one for first passes of canonical solutions.
    let threads = workers(config).saturating_mul(3) + 1;
    Some(memory_pool::pool_bytes(
        all,
        threads,
        config.code.memory_bytes,
    ))
}

/// Opens the stores on disk.
#[must_use]
pub fn open_disk_stores(config: &Config) -> DiskStores {
    DiskStores {
        verdicts: open_verdict_db(config),
        expected_values: open_expected_values(config),
    }
}

/// Opens the verdict database; `None`, with a warning, if it cannot be opened: verdicts are then stored in memory only.
fn open_verdict_db(config: &Config) -> Option<Arc<VerdictDb>> {
    if !config.cache.disk {
        return None;
    }
    let path = cache_dir(config).join("verdicts.redb");
    match VerdictDb::open_within(&path, config.cache.disk_bytes / 2) {
        Ok(disk) => Some(Arc::new(disk)),
        Err(error) => {
            tracing::warn!("{error}");
            None
        }
    }
}

/// Opens the folder of expected values; `None`, with a warning, if it cannot be opened. Unlike the verdict database, several processes may use it at once.
#[must_use]
pub fn open_expected_values(config: &Config) -> Option<Arc<ExpectedValueStore>> {
    if !config.cache.disk {
        return None;
    }
    let folder = cache_dir(config).join("expected");
    match ExpectedValueStore::open(&folder, config.cache.disk_bytes / 2) {
        Ok(store) => Some(Arc::new(store)),
        Err(error) => {
            tracing::warn!(
                "expected values cannot be stored in {} ({error}), and stay in memory only; free some space there, or name a writable folder with --cache-dir",
                folder.display()
            );
            None
        }
    }
}

/// The folder of the verdict database, of the expected values and of the warmed interpreter.
#[must_use]
pub fn cache_dir(config: &Config) -> PathBuf {
    config
        .cache
        .dir
        .clone()
        .unwrap_or_else(|| fetch::home().join("verifier"))
}

/// Returns a function that opens the configured sandbox.
#[must_use]
pub fn sandbox(config: &Config) -> OpenSandbox {
    match config.code.sandbox {
        SandboxKind::Wasm => wasm_folders(config).open(),
        SandboxKind::Docker => {
            let settings = docker(config);
            Box::new(move || {
                Ok(Arc::new(DockerSandbox::open(&settings)?) as Arc<dyn sandboxes::Sandbox>)
            })
        }
        SandboxKind::None => no_sandbox(
            "code is not judged here: the configuration says code.sandbox = \"none\"".to_owned(),
        ),
    }
}

/// The settings of the Docker sandbox.
#[must_use]
pub fn docker(config: &Config) -> docker::Settings {
    docker::Settings {
        host: config.docker.host.clone(),
        image: config.docker.image.clone(),
        runtime: config.docker.runtime.clone(),
        containers: match config.docker.containers {
            0 => 2 * workers(config) + 2,
            containers => containers,
        },
        memory: config.code.memory_bytes,
    }
}

/// The folders of the wasm sandbox.
#[must_use]
pub fn wasm_folders(config: &Config) -> WasmFolders {
    WasmFolders {
        artifact_dir: config
            .code
            .dir
            .clone()
            .or_else(|| fetch::locate(ArtifactKind::Sandbox, SANDBOX)),
        cache_dir: cache_dir(config).join("wasm"),
    }
}

fn read_token(config: &Config, environment: Option<String>) -> Result<Option<Token>, SetupError> {
    let Some(path) = &config.token_file else {
        return Ok(environment
            .filter(|token| !token.trim().is_empty())
            .map(|token| Token::new(token.trim())));
    };
    let fault = |reason: String| SetupError::Token {
        path: path.clone(),
        reason,
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
        // The last is a name that resolves to 0.0.0.0 everywhere.
        for open in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80", "0x0:0"] {
            assert!(
                matches!(
                    service(&config_on(open), None),
                    Err(SetupError::Unguarded { .. })
                ),
                "{open}"
            );
            assert!(
                matches!(
                    service(&config_on(open), Some("  ".to_owned())),
                    Err(SetupError::Unguarded { .. })
                ),
                "{open} with a blank token"
            );
            assert!(
                service(&config_on(open), Some("secret".to_owned())).is_ok(),
                "{open} with a token"
            );
        }
        for closed in [
            "127.0.0.1:0",
            "[::1]:0",
            "[::ffff:127.0.0.1]:0",
            "localhost:0",
        ] {
            assert!(service(&config_on(closed), None).is_ok(), "{closed}");
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
        assert!(matches!(
            service(&config, None),
            Err(SetupError::Token { .. })
        ));
        std::fs::write(&path, "\n").unwrap();
        assert!(matches!(
            service(&config, Some("else".to_owned())),
            Err(SetupError::Token { .. })
        ));
        std::fs::write(&path, "secret\n").unwrap();
        assert!(service(&config, None).is_ok());
    }
}
