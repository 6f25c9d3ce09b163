//! The routes of other projects' clients, each under a base path of its own, in a file of its own.
//!
//! A route reads its client's request into the items of `/v1/verify`, and answers in the client's form. The same code judges the items. None of the routes makes a
//! reward of `unavailable`: it holds the request for nearly as long as the client waits ([`client`]), then refuses it.

mod client;
mod completion;
mod kimina;
mod label;
mod messages;
mod nemo_gym;
mod openrlhf;
mod sandbox_fusion;
mod slime;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use super::Service;

pub(super) use sandbox_fusion::wire as sandbox_fusion_wire;

pub(super) fn routes() -> Router<Arc<Service>> {
    let nemo_gym = Router::new()
        .route("/seed_session", post(nemo_gym::session))
        .route("/verify", post(nemo_gym::verify))
        .route("/close_session", post(nemo_gym::session))
        .route("/aggregate_metrics", post(nemo_gym::aggregate_metrics))
        .route("/reverify_mode", get(nemo_gym::reverify_mode));
    Router::new()
        .route("/compat/kimina/api/check", post(kimina::check))
        .route("/compat/kimina/verify", post(kimina::verify))
        .route("/compat/kimina/health", get(kimina::health))
        .nest("/compat/nemo-gym", nemo_gym.clone())
        .merge(nemo_gym)
        .route("/compat/openrlhf/get_reward", post(openrlhf::get_reward))
        .route(
            "/compat/sandbox-fusion/run_code",
            post(sandbox_fusion::run_code),
        )
        .route(
            "/compat/sandbox-fusion/submit",
            post(sandbox_fusion::submit),
        )
        .route("/compat/sandbox-fusion/v1/ping", get(sandbox_fusion::ping))
        .route("/compat/slime/rm", post(slime::rm))
}
