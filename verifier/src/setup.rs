//! From a configuration to a service: the one place where files and the cache folder are looked up.

use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;

use datasets::fetch::{self, Kind};
use sandboxes::docker::{self, DockerSandbox};
use verifier_api::RequestLimits;

use crate::cache::Disk;
use crate::config::{Config, SandboxKind};
use crate::grade::lean;
use crate::graders::{GraderSettings, OpenSandbox, WasmPlace, no_sandbox};
use crate::memory;
use crate::registry::Registry;
use crate::service::{Service, Settings, Token};

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
        "refusing to listen on {0}, which other machines can reach, without a token: give --token-file FILE, or set RAPID_VERIFIER_TOKEN, or listen on 127.0.0.1"
    )]
    Unguarded(std::net::SocketAddr),
}

/// The service of a configuration, and what opens its sandbox. `token` is the one of the environment; a token file goes before it.
///
/// # Errors
/// [`SetupError`].
pub fn service(
    config: &Config,
    token: Option<String>,
) -> Result<(Arc<Service>, OpenSandbox), SetupError> {
    let token = read_token(config, token)?;
    if token.is_none() && !config.listen.ip().to_canonical().is_loopback() {
        return Err(SetupError::Unguarded(config.listen));
    }
    let registry = Registry::open(&config.datasets, config.data_dir.as_deref())?;
    with_registry(config, token, registry, disk(config))
}

/// As [`service`], of tasks that are read already; `disk` is where verdicts are kept.
///
/// # Errors
/// [`SetupError::Threads`].
pub fn with_registry(
    config: &Config,
    token: Option<Token>,
    registry: Registry,
    disk: Option<Arc<Disk>>,
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
    let service = Service::new(settings, registry, disk).map_err(SetupError::Threads)?;
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
    // Those for all programs, and those for long ones.
    let threads = workers(config).saturating_mul(2);
    Some(memory::beyond_modest(
        all,
        threads,
        config.code.memory_bytes,
    ))
}

/// The cache's file, or `None` with a warning where it cannot be had: verdicts are then kept in memory only.
#[must_use]
pub fn disk(config: &Config) -> Option<Arc<Disk>> {
    if !config.cache.disk {
        return None;
    }
    let path = cache_dir(config).join("verdicts.redb");
    match Disk::open_within(&path, config.cache.disk_bytes) {
        Ok(disk) => Some(Arc::new(disk)),
        Err(error) => {
            tracing::warn!("{error}");
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
pub fn wasm_place(config: &Config) -> WasmPlace {
    WasmPlace {
        artifact_dir: config
            .code
            .dir
            .clone()
            .or_else(|| fetch::locate(Kind::Sandbox, SANDBOX)),
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
        for open in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"] {
            assert!(
                matches!(service(&quiet(open), None), Err(SetupError::Unguarded(_))),
                "{open}"
            );
            assert!(
                matches!(
                    service(&quiet(open), Some("  ".to_owned())),
                    Err(SetupError::Unguarded(_))
                ),
                "{open} with a blank token"
            );
            assert!(
                service(&quiet(open), Some("secret".to_owned())).is_ok(),
                "{open} with a token"
            );
        }
        for closed in ["127.0.0.1:0", "[::1]:0", "[::ffff:127.0.0.1]:0"] {
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
