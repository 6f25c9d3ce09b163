//! The bodies of the routes that describe a verifier and its contents: `/v1/info`, `/v1/datasets`, `/v1/verdicts/{key}` and
//! `/readyz`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Verdict;

/// Body of `GET /v1/info`: everything that a verdict depends on, except the item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServiceInfo {
    /// `rapid-verifier`.
    pub service: String,
    /// The service's own version.
    pub version: String,
    /// The wire contract's version, `v1`.
    pub api: String,
    /// Every grader of the service, including those that cannot judge.
    pub graders: Vec<GraderInfo>,
    /// The data sets with tasks that a request can name.
    pub datasets: Vec<DatasetInfo>,
    /// The limits of a request.
    pub limits: RequestLimits,
}

/// One grader, its version and its state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GraderInfo {
    /// `math`, `code` or `lean`.
    pub name: String,
    /// Changes whenever the same item may get another verdict. It is part of the cache key.
    pub version: String,
    /// Whether it can judge now.
    pub state: GraderState,
    /// Why it cannot judge, and what to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub reason: Option<String>,
    /// Whether `/readyz` fails while this grader cannot judge.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub required: bool,
    /// The sandbox that the grader uses, such as `wasm` for code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub backend: Option<String>,
    /// Version of the interpreter, for people to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub interpreter: Option<String>,
    /// Digest of the interpreter, 64 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub digest: Option<String>,
    /// Settings that change verdicts. For math: where the answer is looked for and how two answers are compared, such as `boxed,
    /// standard`. For code: how the program is extracted, `program` or `last-block`. Recipes name the settings that they expect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub policy: Option<String>,
}

/// Whether a grader can judge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum GraderState {
    /// Not yet: it is being prepared or tested. Its items get the verdict `unavailable`, with `retryable: true`.
    Preparing,
    /// It can judge: it has judged its known-good and known-bad samples correctly.
    Ready,
    /// It cannot judge until somebody fixes it. Its items get the verdict `unavailable`, with `retryable: false`.
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
    /// BLAKE3 of its tasks' ids and of the data that decides on each task, 64 hexadecimal digits.
    pub digest: String,
}

/// Body of `GET /v1/datasets`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Datasets {
    /// The data sets, by name.
    pub datasets: Vec<DatasetInfo>,
}

/// Body of `GET /v1/datasets/{name}/tasks/{id}`: one task that a request can name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TaskInfo {
    /// Its id, as a request names it, such as `mbppplus/2`.
    pub id: String,
    /// The grader that it needs: `math`, `code` or `lean`.
    pub grader: String,
    /// BLAKE3 of the data that decides on it, 64 hexadecimal digits: an item's `task_digest`.
    pub digest: String,
}

/// The limits of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RequestLimits {
    /// Maximum size of a request's body, in bytes.
    pub body_bytes: usize,
    /// Maximum number of items in a request.
    pub items: usize,
    /// Maximum number of items in each of the server's queues, over all requests.
    pub queue: usize,
}

/// Body of `/readyz`, with status 200 if `ready` and 503 otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Readiness {
    /// Whether no grader is being prepared and every required one can judge.
    pub ready: bool,
    /// The state of each grader.
    pub graders: Vec<GraderInfo>,
}

/// Body of `GET /v1/verdicts/{key}`: the cached verdict under a key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StoredVerdict {
    /// The requested key.
    pub key: String,
    /// 1 or 0.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub reward: Option<f64>,
    /// The decision.
    pub verdict: Verdict,
    /// As in the judgement.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub detail: serde_json::Value,
    /// Number of tests that passed, for code only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub passed: Option<u32>,
    /// Number of all tests, for code only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub total: Option<u32>,
    /// Parts of the reward by name, from a grader of the operator's own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub terms: BTreeMap<String, f64>,
    /// Whether the verdict is a pure function of the key.
    pub deterministic: bool,
}
