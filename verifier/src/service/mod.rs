//! The service: what it holds, and its routes as a plain function from state to router.

mod auth;
mod bodies;
mod canonical_queue;
mod connections;
mod decimal;
mod gzip;
mod id;
mod judge;
mod openapi;
mod problem;
mod request;
mod routes;
pub(crate) mod surrogates;

use std::sync::Arc;

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
pub use id::Id;
pub use judge::{Batch, Refusal, judge};
pub use problem::ProblemResponse;
pub use request::Question;

/// Everything that a service is made of; resolved once, before it starts.
pub struct Settings {
    /// What one request may hold.
    pub limits: RequestLimits,
    /// Connections at a time.
    pub connections: usize,
    /// Worker threads for programs; answers to math problems have threads of their own.
    pub workers: usize,
    /// Bytes of verdicts kept in memory.
    pub cache_bytes: usize,
    /// The token that `/v1` asks for.
    pub token: Option<Token>,
    /// The graders' settings.
    pub graders: GraderSettings,
}

/// What is kept on disk. The default is nothing.
#[derive(Default)]
pub struct Kept {
    /// Verdicts.
    pub disk: Option<Arc<VerdictDb>>,
    /// Values that tasks' own solutions return.
    pub shelf: Option<Arc<ExpectedValueStore>>,
}

/// A running service, shared by its requests.
pub struct Service {
    limits: RequestLimits,
    connections: usize,
    token: Option<Token>,
    registry: Registry,
    graders: Graders,
    cache: VerdictCache,
    /// For what takes microseconds, so that it never waits behind programs that take minutes.
    light: Pool,
    /// For programs, each of which is given up here where it is not over soon.
    heavy: Pool,
    /// For the programs that were: a loop that takes a minute delays no other sample by more than its share of the processors.
    long: Pool,
    /// For what tasks' own solutions return, so that no worker waits for that.
    solutions: canonical_queue::CanonicalQueue,
    in_flight: judge::InFlight,
    bodies: bodies::Bodies,
    /// What a service that stops waits for.
    open: connections::Open,
    metrics: Metrics,
}

impl Service {
    /// Puts a service together. Graders that need preparing are not ready until [`Service::prepare`] has run.
    ///
    /// # Errors
    /// Where the system gives no threads.
    pub fn new(
        settings: Settings,
        registry: Registry,
        kept: Kept,
    ) -> std::io::Result<Arc<Service>> {
        let Settings {
            limits,
            connections,
            workers,
            cache_bytes,
            token,
            graders,
        } = settings;
        Ok(Arc::new(Service {
            light: Pool::new("light", 1, limits.queue)?,
            heavy: Pool::new("worker", workers, limits.queue)?,
            long: Pool::new("long", workers, limits.queue)?,
            solutions: canonical_queue::CanonicalQueue::new(workers, limits.queue)?,
            graders: Graders::new(graders, kept.shelf),
            cache: VerdictCache::new(cache_bytes, kept.disk),
            in_flight: judge::InFlight::default(),
            bodies: bodies::Bodies::new(limits.body_bytes),
            open: connections::Open::default(),
            metrics: Metrics::default(),
            limits,
            connections,
            token,
            registry,
        }))
    }

    /// Prepares the graders. Blocks; [`Service::prepare_beside`] does not.
    pub fn prepare(&self, open: OpenSandbox) {
        self.graders.prepare(open);
    }

    /// Prepares the graders in a thread of its own while the service answers already.
    ///
    /// # Errors
    /// Where the system gives no thread.
    pub fn prepare_beside(self: &Arc<Self>, open: OpenSandbox) -> std::io::Result<()> {
        let service = Arc::clone(self);
        std::thread::Builder::new()
            .name("prepare".to_owned())
            .spawn(move || service.prepare(open))?;
        Ok(())
    }

    /// Waits until every verdict that was given is on the disk, where there is one.
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

    /// The key of the verdict on `question`; where its grader cannot judge now, and the key is not known, what it says of that.
    pub(crate) fn key(&self, question: &Question) -> Result<Key, Box<Grading>> {
        match self.graders.refusal(&question.task.spec) {
            Some(unavailable) => Err(Box::new(unavailable)),
            None => Ok(self.graders.key(
                &question.task,
                &question.prompt,
                &question.completion,
                question.test_mode,
            )),
        }
    }

    /// The tasks that can be named.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// What one request may hold.
    #[must_use]
    pub fn limits(&self) -> RequestLimits {
        self.limits
    }

    /// The graders.
    #[must_use]
    pub fn graders(&self) -> &Graders {
        &self.graders
    }

    fn gauges(&self) -> Gauges {
        let [short, long] = self.solutions.pools();
        let pools = [&self.light, &self.heavy, &self.long, short, long];
        Gauges {
            queued: pools.iter().map(|pool| pool.load().0).sum::<usize>()
                + self.solutions.waiting(),
            running: pools.iter().map(|pool| pool.load().1).sum(),
            workers: pools.iter().map(|pool| pool.workers()).sum(),
            ready: self.graders.ready(),
        }
    }
}

/// The service's routes. Needs no socket: tests call the router itself.
pub fn app(service: Arc<Service>) -> Router {
    let guarded = Router::new()
        .route("/v1/verify", post(routes::verify))
        .route("/v1/datasets", get(routes::datasets))
        .route("/v1/info", get(routes::info))
        .route("/v1/verdicts/{key}", get(routes::verdict))
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
            routes::count,
        ))
        .layer(CatchPanicLayer::custom(problem::panicked))
        .with_state(service)
}

#[cfg(test)]
mod tests;
