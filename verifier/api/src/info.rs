//! The bodies of the routes that say what a verifier has and is: `/v1/info`, `/v1/datasets`, `/v1/verdicts/{key}`, `/readyz`.

use serde::{Deserialize, Serialize};

use crate::Verdict;

/// Body of `GET /v1/info`: everything that a verdict depends on besides the item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServiceInfo {
    /// `rapid-verifier`.
    pub service: String,
    /// The service's own version.
    pub version: String,
    /// The wire contract's version, `v1`.
    pub api: String,
    /// Every grader that the service knows, usable or not.
    pub graders: Vec<GraderInfo>,
    /// The data sets whose tasks can be named.
    pub datasets: Vec<DatasetInfo>,
    /// What one request may hold.
    pub limits: RequestLimits,
}

/// One grader, its version and its state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GraderInfo {
    /// `math`, `code` or `lean`.
    pub name: String,
    /// Changes whenever the same item may get another verdict; part of the cache key.
    pub version: String,
    /// Whether it can judge now.
    pub state: GraderState,
    /// Why it cannot, and what to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub reason: Option<String>,
    /// Whether `/readyz` fails while this grader cannot judge.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub required: bool,
    /// What the grader runs its work in: `wasm` for code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub backend: Option<String>,
    /// Version of the interpreter, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub interpreter: Option<String>,
    /// Digest of the interpreter, 64 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub digest: Option<String>,
    /// Settings that change verdicts: for math where an answer may stand and what makes two the same, as in `boxed, standard`; for code how the program is found,
    /// `program` or `last-block`. Recipes name what they expect of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub policy: Option<String>,
}

/// Whether a grader can judge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum GraderState {
    /// Not yet: it is being prepared or tried out. Items for it answer `unavailable`, `retryable: true`.
    Preparing,
    /// It judged its known-good and known-bad samples as it should.
    Ready,
    /// Not until someone acts. Items for it answer `unavailable`, `retryable: false`.
    Unavailable,
}

/// One data set of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DatasetInfo {
    /// The part of a task's id before the first slash.
    pub name: String,
    /// Graders that its tasks need.
    pub graders: Vec<String>,
    /// Tasks to train on.
    pub train: usize,
    /// Tasks held out for evaluation.
    pub eval: usize,
    /// BLAKE3 of its tasks' ids and of what decides on each, 64 hexadecimal digits.
    pub digest: String,
}

/// Body of `GET /v1/datasets`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Datasets {
    /// The data sets, by name.
    pub datasets: Vec<DatasetInfo>,
}

/// What one request may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RequestLimits {
    /// Bytes of a request's body.
    pub body_bytes: usize,
    /// Items of a request.
    pub items: usize,
    /// Items that may wait in the server's queue, over all requests.
    pub queue: usize,
}

/// Body of `/readyz`, with status 200 where `ready` and 503 where not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Readiness {
    /// Whether every grader is settled and every required one can judge.
    pub ready: bool,
    /// The graders one by one.
    pub graders: Vec<GraderInfo>,
}

/// Body of `GET /v1/verdicts/{key}`: what the cache holds under a key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StoredVerdict {
    /// The key asked for.
    pub key: String,
    /// 1 or 0.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub reward: Option<f64>,
    /// The decision.
    pub verdict: Verdict,
    /// As in the judgement.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub detail: serde_json::Value,
    /// Tests passed, for code only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub passed: Option<u32>,
    /// Tests in all, for code only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub total: Option<u32>,
    /// Whether the verdict is a pure function of the key.
    pub deterministic: bool,
}
