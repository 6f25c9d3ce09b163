//! Wire types and async client of the verifier's HTTP interface, version 1.
//!
//! It has no logic and does not depend on the server. The verifier serialises these types; trainers and other clients parse them. A task is `datasets`'s.

#![forbid(unsafe_code)]

mod client;
mod error;
mod id;
mod info;
mod problem;
mod types;

pub use client::{Client, chain, check_address, http_client, without_secrets};
pub use error::ClientError;
pub use id::Id;
pub use info::{
    DatasetInfo, Datasets, GraderInfo, GraderState, Readiness, RequestLimits, ServiceInfo,
    StoredVerdict, TaskInfo,
};
pub use problem::Problem;
pub use types::{Item, Judgement, TaskRef, Verdict, VerifyRequest, VerifyResponse};

/// Version of the wire contract, which is the first path segment of its routes.
pub const API_VERSION: &str = "v1";
