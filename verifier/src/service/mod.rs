//! The service: its state, and its routes as a function from the state to a router.

mod auth;
mod body;
mod body_memory;
mod canonical_queue;
mod compat;
mod connections;
mod decimal;
mod hold;
mod judge;
mod openapi;
mod pace;
mod problem;
mod request;
mod routes;
mod sender;
mod sockets;
mod strangers;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use axum::Router;
use axum::middleware;
use axum::routing::{get, post};
use tower_http::catch_panic::CatchPanicLayer;
use verifier_api::{Readiness, RequestLimits};

use crate::cache::{ExpectedValueStore, Key, VerdictCache, VerdictDb};
use crate::grade::Grading;
use crate::graders::{GraderSettings, Graders, OpenSandbox};
use crate::metrics::{Gauges, Metrics};
use crate::pool::Pool;
use crate::registry::Registry;

pub use auth::Token;
pub use connections::serve;
pub(crate) use judge::no_judgement;
pub use judge::{Batch, judge};
pub use problem::ProblemResponse;
pub use request::JudgeItem;
pub(crate) use request::json_kind;

/// The settings of a service, resolved once before it starts.
pub struct ServiceSettings {
    /// The limits of a request.
    pub limits: RequestLimits,
    /// Maximum number of connections at a time.
    pub connections: usize,
    /// Number of threads for first passes over programs, and as many each for long programs, for proofs and for canonical solutions. Mathematics has one thread, and so
    /// have first passes over canonical solutions.
    pub workers: usize,
    /// Maximum size of the verdicts cached in memory, in bytes.
    pub cache_bytes: usize,
    /// The token that `/v1` and `/compat` require.
    pub token: Option<Token>,
    /// Without a token, the names to which the service answers besides localhost.
    pub allowed_hosts: Vec<String>,
    /// The longest time from a request of another project's client to its answer.
    pub compat_hold: Duration,
    /// Whether NeMo Gym gets a masked reward 0 instead of an error.
    pub nemo_gym_failsafe: bool,
    /// The graders' settings.
    pub graders: GraderSettings,
}

/// The stores on disk. By default there are none.
#[derive(Default)]
pub struct DiskStores {
    /// The verdicts.
    pub verdicts: Option<Arc<VerdictDb>>,
    /// The expected values of tasks.
    pub expected_values: Option<Arc<ExpectedValueStore>>,
}

/// A running service, shared by its requests.
pub struct Service {
    settings: ServiceSettings,
    registry: Registry,
    graders: Graders,
    cache: VerdictCache,
    /// For mathematics, which takes microseconds, so that it never waits for programs that run for minutes.
    math_pool: Pool,
    /// For first passes over programs, which give up long programs.
    first_pass_pool: Pool,
    /// For long programs, so that a program that runs for a minute delays other samples only by its share of the processors.
    long_pool: Pool,
    /// For proofs, so that those that wait for a Lean process (`lean.processes`) or for their statement delay no program.
    proof_pool: Pool,
    /// For canonical solutions, so that no worker waits for their results.
    canonical_queue: canonical_queue::CanonicalQueue,
    in_flight: judge::InFlight,
    body_memory: body_memory::BodyMemory,
    /// Whether the requests that are open are the last.
    stopping: AtomicBool,
    metrics: Metrics,
}

impl Service {
    /// Creates a service. Graders that need preparing are not ready until [`Service::prepare`] has run.
    ///
    /// # Errors
    /// If the threads cannot be started.
    pub fn new(
        settings: ServiceSettings,
        registry: Registry,
        stores: DiskStores,
    ) -> std::io::Result<Arc<Service>> {
        let (limits, workers) = (settings.limits, settings.workers);
        Ok(Arc::new(Service {
            math_pool: Pool::new("math", 1, limits.queue)?,
            first_pass_pool: Pool::new("first-pass", workers, limits.queue)?,
            long_pool: Pool::new("long", workers, limits.queue)?,
            proof_pool: Pool::new("proof", workers, limits.queue)?,
            canonical_queue: canonical_queue::CanonicalQueue::new(workers, limits.queue)?,
            graders: Graders::new(settings.graders.clone(), stores.expected_values),
            cache: VerdictCache::new(settings.cache_bytes, stores.verdicts),
            in_flight: judge::InFlight::default(),
            body_memory: body_memory::BodyMemory::new(limits.body_bytes),
            stopping: AtomicBool::new(false),
            metrics: Metrics::default(),
            settings,
            registry,
        }))
    }

    /// Prepares the graders. Blocks, unlike [`Service::prepare_in_background`].
    pub fn prepare(&self, open: OpenSandbox) {
        self.graders.prepare(open);
    }

    /// Prepares the graders in a separate thread, while the service already answers requests.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn prepare_in_background(self: &Arc<Self>, open: OpenSandbox) -> std::io::Result<()> {
        let service = Arc::clone(self);
        std::thread::Builder::new()
            .name("prepare".to_owned())
            .spawn(move || service.prepare(open))?;
        Ok(())
    }

    /// Waits until every verdict is on disk, if verdicts are stored there.
    pub fn flush(&self) {
        self.cache.flush();
    }

    /// Whether the service is ready, and each grader's state.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        Readiness {
            ready: self.graders.ready(),
            graders: self.graders.info(),
        }
    }

    /// The key of the verdict on `item`.
    ///
    /// # Errors
    /// The `unavailable` grading, if the item's grader cannot judge now: the key depends on the grader's identity.
    pub(crate) fn key(&self, item: &JudgeItem) -> Result<Key, Box<Grading>> {
        match self.graders.unavailable_grading(&item.task.spec) {
            Some(unavailable) => Err(Box::new(unavailable)),
            None => {
                Ok(self
                    .graders
                    .key(&item.task, &item.prompt, &item.completion, item.test_mode))
            }
        }
    }

    /// The tasks that a request can name by id.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The limits of a request.
    #[must_use]
    pub fn limits(&self) -> RequestLimits {
        self.settings.limits
    }

    /// The graders.
    #[must_use]
    pub fn graders(&self) -> &Graders {
        &self.graders
    }

    fn pools(&self) -> [&Pool; 6] {
        let [canonical_first_pass, canonical_full_runs] = self.canonical_queue.pools();
        [
            &self.math_pool,
            &self.first_pass_pool,
            &self.long_pool,
            &self.proof_pool,
            canonical_first_pass,
            canonical_full_runs,
        ]
    }

    fn gauges(&self) -> Gauges {
        let pools = self.pools();
        Gauges {
            queued: pools.iter().map(|pool| pool.load().0).sum::<usize>()
                + self.canonical_queue.waiting(),
            running: pools.iter().map(|pool| pool.load().1).sum(),
            workers: pools.iter().map(|pool| pool.workers()).sum(),
            ready: self.graders.ready(),
        }
    }
}

/// The service's router. It needs no socket: tests call it directly.
pub fn app(service: Arc<Service>) -> Router {
    let guarded = Router::new()
        .route("/v1/verify", post(routes::verify))
        .route("/v1/datasets", get(routes::datasets))
        .route("/v1/datasets/{name}/tasks/{*id}", get(routes::task))
        .route("/v1/info", get(routes::info))
        .route("/v1/verdicts/{key}", get(routes::verdict))
        .merge(compat::routes())
        .layer(middleware::from_fn_with_state(
            Arc::clone(&service),
            auth::check,
        ));
    Router::new()
        .merge(guarded)
        .route("/healthz", get(routes::healthz))
        .route("/readyz", get(routes::readyz))
        .route("/metrics", get(routes::metrics))
        .route("/openapi.json", get(routes::openapi))
        .fallback(routes::unknown)
        .method_not_allowed_fallback(routes::wrong_method)
        .layer(middleware::from_fn_with_state(
            Arc::clone(&service),
            strangers::check,
        ))
        .layer(middleware::from_fn_with_state(
            Arc::clone(&service),
            routes::count,
        ))
        .layer(CatchPanicLayer::custom(problem::panicked))
        .with_state(service)
}

#[cfg(test)]
pub(crate) mod tests;
