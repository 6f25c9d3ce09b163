//! The routes.

use std::sync::Arc;

use axum::Router;
use axum::middleware;
use axum::routing::{get, post};
use tower_http::catch_panic::CatchPanicLayer;

use super::state::Service;
use super::{auth, compat, origin_guard, problem, routes};

/// The service's router. Tests call it directly, without a socket.
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
            origin_guard::refuse_other_origins,
        ))
        .layer(middleware::from_fn_with_state(
            Arc::clone(&service),
            routes::count,
        ))
        .layer(CatchPanicLayer::custom(problem::panicked))
        .with_state(service)
}
