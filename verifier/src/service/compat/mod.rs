//! The routes of other projects' clients, each under a base path of its own, in a file of its own.
//!
//! They read a client's request into the items of `/v1/verify`, which are judged by the same code, and answer in the client's form. None of them makes a reward out of
//! `unavailable`: a request is held for nearly as long as its client waits ([`client`]), then it is refused.

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

use super::Service;

pub use client::CompatSettings;
pub(super) use sandbox_fusion::wire as sandbox_fusion_wire;

/// The routes.
pub(super) fn routes() -> Router<Arc<Service>> {
    Router::new()
        .merge(kimina::routes())
        .merge(nemo_gym::routes())
        .merge(openrlhf::routes())
        .nest("/compat/sandbox-fusion", sandbox_fusion::routes())
        .merge(slime::routes())
}
