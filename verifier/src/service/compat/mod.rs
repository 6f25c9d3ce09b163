//! The routes of other services, so that their clients work here unchanged, each under a base path of its own.
//!
//! An infrastructure failure never becomes a verdict. Where a client knows no answer that says so, a route holds its requests for as long as the client waits, and then refuses
//! them.

mod sandbox_fusion;

use std::sync::Arc;

use axum::Router;

use super::Service;

pub(super) use sandbox_fusion::wire as sandbox_fusion_wire;

/// All of them.
pub(super) fn routes() -> Router<Arc<Service>> {
    Router::new().nest("/compat/sandbox-fusion", sandbox_fusion::routes())
}
