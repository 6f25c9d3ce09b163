//! The deadline of a request to either route, and how it is refused then.

use std::time::Duration;

use axum::body::Body;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

use crate::service::backoff::Backoff;
use crate::service::compat::client::Client;
use crate::service::request_context::RequestContext;
use crate::service::{ProblemResponse, Service};

pub(super) const CLIENT: Client = Client {
    name: "sandbox-fusion",
    // For a body, before the request's own timeouts are known.
    patience: Duration::from_secs(28),
    refusal: ProblemResponse::no_answer,
};

/// The default of SandboxFusion for a timeout that is missing in the request, in seconds.
const DEFAULT_TIMEOUT: f64 = 10.0;
/// Seconds that verl waits beyond both timeouts.
const CLIENT_SLACK: f64 = 10.0;
/// A request is refused this many seconds before its client's timeout.
const MARGIN: f64 = 2.0;
/// The longest timeout, in seconds.
const MAX_TIMEOUT: f64 = 3600.0;

/// The answer of SandboxFusion's own server.
pub(in crate::service::compat) async fn ping() -> axum::Json<&'static str> {
    axum::Json("pong")
}

/// When to refuse a request that arrived at `arrival`.
pub(super) fn deadline(arrival: Instant, compile: f64, run: f64) -> Instant {
    arrival + Duration::from_secs_f64(compile + run + CLIENT_SLACK - MARGIN)
}

/// A timeout of a request, in seconds.
pub(super) fn timeout(field: &str, given: Option<f64>) -> Result<f64, ProblemResponse> {
    match given {
        None => Ok(DEFAULT_TIMEOUT),
        Some(seconds) if (0.0..=MAX_TIMEOUT).contains(&seconds) => Ok(seconds),
        Some(_) => Err(ProblemResponse::bad_field(
            field,
            &format!("it must be a number of seconds, at most {MAX_TIMEOUT}"),
        )),
    }
}

pub(super) fn check_language(field: &str, language: &str) -> Result<(), ProblemResponse> {
    if language == "python" {
        return Ok(());
    }
    let language: String = language.chars().take(50).collect();
    Err(ProblemResponse::bad_field(
        field,
        &format!(
            "`{language}` does not run here, only `python`; send programs in other languages to a service of SandboxFusion's own"
        ),
    ))
}

/// Reads a request's body, and calls `make` with it on the thread that parses.
pub(super) async fn read<T: DeserializeOwned, U: Send + 'static>(
    context: &RequestContext,
    body: Body,
    make: impl FnOnce(&Service, T) -> Result<U, ProblemResponse> + Send + 'static,
) -> Result<U, ProblemResponse> {
    let parse = move |service: &Service, body: &[u8]| {
        let request = serde_json::from_slice(body)
            .map_err(|error| ProblemResponse::bad_body(body, &error))?;
        make(service, request)
    };
    let mut backoff = Backoff::at_most(CLIENT.patience);
    CLIENT.read(context, body, &mut backoff, parse).await
}

/// Attempts to answer until that succeeds, or until the deadline `until`.
///
/// # Errors
/// The reason of the last attempt that ended.
pub(super) async fn answer<T, F>(
    service: &Service,
    until: Instant,
    attempt: impl Fn() -> F,
) -> Result<T, String>
where
    F: Future<Output = Result<T, String>>,
{
    let mut backoff = Backoff::until(until);
    let mut missing = "the service is busy".to_owned();
    loop {
        match timeout_at(until, attempt()).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(reason)) => missing = reason,
            Err(_) => {}
        }
        if !backoff.wait(service).await {
            return Err(missing);
        }
    }
}

/// Counts and returns the answer to a request that cannot be answered in time.
pub(super) fn refusal(service: &Service, missing: &str) -> ProblemResponse {
    CLIENT.count(service, "withheld", 1);
    (CLIENT.refusal)(missing)
}
