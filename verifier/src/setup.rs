//! From a configuration to a service: the one place where files and the cache folder are looked up.

use std::net::SocketAddr;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;

use datasets::fetch::{self, ArtifactKind};
use sandboxes::docker::{self, DockerSandbox};
use verifier_api::RequestLimits;

use crate::cache::{Disk, Shelf};
use crate::config::{Config, Listen, SandboxKind};
use crate::grade::lean;
use crate::graders::{GraderSettings, OpenSandbox, WasmFolders, no_sandbox};
use crate::memory;
use crate::registry::Registry;
use crate::service::{Kept, Service, Settings, Token};

/// The artifact that the wasm sandbox runs.
pub const SANDBOX: &str = "python-wasi";

/// Why a service cannot be put together.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// A data set that was asked for by name.
    #[error(transparent)]
    Dataset(#[from] datasets::DatasetError),
    /// The token's file.
    #[error(
        "the token file {path} {reason}. Put a long random text on its first line, such as `openssl rand -hex 32` prints"
    )]
    Token {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The system gives no threads.
    #[error("the worker threads could not be started: {0}. Lower `workers`")]
    Threads(std::io::Error),
    /// Others could reach the service, and nothing would stop them.
    #[error(
        "refusing to listen on {listen}{}, which other machines can reach, without a token: give --token-file FILE, or set RAPID_VERIFIER_TOKEN, or listen on 127.0.0.1",
        of_name(.listen, .address)
    )]
    Unguarded {
        /// What was asked for.
        listen: Listen,
        /// One of its addresses, which is beyond loopback.
        address: SocketAddr,
    },
    /// The name of where to listen stands for nothing.
    #[error(
        "cannot listen on {listen}: its name cannot be looked up; give an IP address, such as 127.0.0.1"
    )]
    Unresolved {
        /// What was asked for.
        listen: Listen,
        /// What the system said.
        source: std::io::Error,
    },
}

/// The address, where a name stood for it.
fn of_name(listen: &Listen, address: &SocketAddr) -> String {
    match listen {
        Listen::Address(_) => String::new(),
        Listen::Name { .. } => format!(" ({address})"),
    }
}

/// A service, where it listens, and what opens its sandbox.
pub struct Listening {
    /// The service, which is not prepared yet.
    pub service: Arc<Service>,
    /// Addresses of which the first that this machine has is listened on. Without a token, all of them are loopback's: a name is looked up once.
    pub addresses: Vec<SocketAddr>,
    /// Opens the sandbox.
    pub open: OpenSandbox,
}

/// The service of a configuration. `token` is the one of the environment; a token file goes before it.
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
    if let (None, Some(address)) = (&token, addresses.iter().find(reachable)) {
        return Err(SetupError::Unguarded {
            listen: listen(),
            address: *address,
        });
    }
    let registry = Registry::open(&config.datasets, config.data_dir.as_deref())?;
    let (service, open) = with_registry(config, token, registry, kept(config))?;
    Ok(Listening {
        service,
        addresses,
        open,
    })
}

/// As [`service`], of tasks that are read already.
///
/// # Errors
/// [`SetupError::Threads`].
pub fn with_registry(
    config: &Config,
    token: Option<Token>,
    registry: Registry,
    kept: Kept,
) -> Result<(Arc<Service>, OpenSandbox), SetupError> {
    let settings = Settings {
        limits: RequestLimits {
            body_bytes: config.limits.body_bytes,
            items: config.limits.items,
            queue: config.limits.queue,
        },
        connections: config.limits.connections,
        workers: workers(config),
        cache_bytes: config.cache.memory_bytes,
        token,
        graders: GraderSettings {
            math: config.math,
            code: config.code.extraction,
            lean: lean::Settings {
                secrets: config.token_file.iter().cloned().collect(),
                ..config.lean.clone()
            },
            workers: workers(config),
            limits: config.sandbox_limits(),
            room: room(config),
            expected_bytes: config.cache.expected_bytes,
            require: config.require.clone(),
        },
    };
    let service = Service::new(settings, registry, kept).map_err(SetupError::Threads)?;
    Ok((service, sandbox(config)))
}

/// Worker threads: as configured, else as many as the machine has cores for this process.
#[must_use]
pub fn workers(config: &Config) -> usize {
    match config.workers {
        0 => std::thread::available_parallelism().map_or(1, NonZero::get),
        workers => workers,
    }
}

/// Bytes for programs that need more memory than nearly all do; `None` for containers, whose number bounds it.
fn room(config: &Config) -> Option<u64> {
    if config.code.sandbox != SandboxKind::Wasm {
        return None;
    }
    let all = match config.code.memory_total_bytes {
        0 => memory::of_machine() / 4 * 3,
        bytes => bytes,
    };
    // Those for all programs, those for long ones, and those for tasks' own solutions.
    let threads = workers(config).saturating_mul(3) + 1;
    Some(memory::beyond_modest(
        all,
        threads,
        config.code.memory_bytes,
    ))
}

/// What is kept on disk.
#[must_use]
pub fn kept(config: &Config) -> Kept {
    Kept {
        disk: disk(config),
        shelf: shelf(config),
    }
}

/// The cache's file, or `None` with a warning where it cannot be had: verdicts are then kept in memory only.
fn disk(config: &Config) -> Option<Arc<Disk>> {
    if !config.cache.disk {
        return None;
    }
    let path = cache_dir(config).join("verdicts.redb");
    match Disk::open_within(&path, config.cache.disk_bytes / 2) {
        Ok(disk) => Some(Arc::new(disk)),
        Err(error) => {
            tracing::warn!("{error}");
            None
        }
    }
}

/// The folder of expected values, or `None` with a warning where it cannot be had. Unlike the cache's file, several processes may use it.
#[must_use]
pub fn shelf(config: &Config) -> Option<Arc<Shelf>> {
    if !config.cache.disk {
        return None;
    }
    let folder = cache_dir(config).join("expected");
    match Shelf::open(&folder, config.cache.disk_bytes / 2) {
        Ok(shelf) => Some(Arc::new(shelf)),
        Err(error) => {
            tracing::warn!(
                "expected values cannot be kept in {} ({error}), but in memory only; free some space there, or name a writable folder with --cache-dir",
                folder.display()
            );
            None
        }
    }
}

/// The folder of the cache's file and of the warmed interpreter.
#[must_use]
pub fn cache_dir(config: &Config) -> PathBuf {
    config
        .cache
        .dir
        .clone()
        .unwrap_or_else(|| fetch::home().join("verifier"))
}

/// What opens the configured sandbox.
#[must_use]
pub fn sandbox(config: &Config) -> OpenSandbox {
    match config.code.sandbox {
        SandboxKind::Wasm => wasm_place(config).open(),
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

/// How the Docker sandbox is set up.
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

/// Where the wasm sandbox lives.
#[must_use]
pub fn wasm_place(config: &Config) -> WasmFolders {
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
    let text =
        std::fs::read_to_string(path).map_err(|error| fault(format!("cannot be read: {error}")))?;
    let token = text.lines().next().unwrap_or_default().trim();
    if token.is_empty() {
        return Err(fault("has nothing on its first line".to_owned()));
    }
    Ok(Some(Token::new(token)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quiet(listen: &str) -> Config {
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
        // The last is a name, which stands for 0.0.0.0 wherever names are looked up.
        for open in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80", "0x0:0"] {
            assert!(
                matches!(
                    service(&quiet(open), None),
                    Err(SetupError::Unguarded { .. })
                ),
                "{open}"
            );
            assert!(
                matches!(
                    service(&quiet(open), Some("  ".to_owned())),
                    Err(SetupError::Unguarded { .. })
                ),
                "{open} with a blank token"
            );
            assert!(
                service(&quiet(open), Some("secret".to_owned())).is_ok(),
                "{open} with a token"
            );
        }
        for closed in [
            "127.0.0.1:0",
            "[::1]:0",
            "[::ffff:127.0.0.1]:0",
            "localhost:0",
        ] {
            assert!(service(&quiet(closed), None).is_ok(), "{closed}");
        }
    }

    #[test]
    fn a_token_file_must_hold_a_token() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let config = Config {
            token_file: Some(path.clone()),
            ..quiet("0.0.0.0:0")
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
