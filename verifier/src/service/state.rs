//! The state of the HTTP side.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use verifier_api::RequestLimits;

use super::body_memory::BodyMemory;
use super::token::Token;
use crate::graders::GraderSettings;
use crate::judging::{DiskStores, Judge};
use crate::registry::Registry;

/// The settings of a service, resolved once before it starts.
pub struct ServiceSettings {
    /// The limits of a request.
    pub limits: RequestLimits,
    /// Maximum number of connections at a time.
    pub connections: usize,
    /// The token that `/v1` and `/compat` require.
    pub token: Option<Token>,
    /// Without a token, the names to which the service answers besides localhost.
    pub allowed_hosts: Vec<String>,
    /// The longest time from a request of another project's client to its answer.
    pub compat_hold: Duration,
    /// Whether NeMo Gym gets a masked reward 0 instead of an error.
    pub nemo_gym_failsafe: bool,
    /// Maximum size of the verdicts cached in memory, in bytes.
    pub cache_bytes: usize,
    /// The graders' settings.
    pub graders: GraderSettings,
}

/// A running service, shared by its requests. It receives items and sends the judgements of its judge.
pub struct Service {
    pub(super) settings: ServiceSettings,
    /// Judges the items of all requests.
    pub judge: Arc<Judge>,
    pub(super) body_memory: BodyMemory,
    /// Whether it accepts no further requests.
    pub(super) stopping: AtomicBool,
}

impl Service {
    /// Creates a service. Its judge is not prepared yet.
    ///
    /// # Errors
    /// If the threads cannot be started.
    pub fn new(
        settings: ServiceSettings,
        registry: Registry,
        stores: DiskStores,
    ) -> std::io::Result<Arc<Service>> {
        let sizes = (settings.limits.queue, settings.cache_bytes);
        Ok(Arc::new(Service {
            judge: Judge::new(settings.graders.clone(), sizes, registry, stores)?,
            body_memory: BodyMemory::new(settings.limits.body_bytes),
            stopping: AtomicBool::new(false),
            settings,
        }))
    }
}
