//! Any bytes as the body of the routes of one client, to a service that judges mathematics alone. There is a target for each client.
//!
//! No body makes a handler panic (the answer would be 500), and every answer is JSON. An answer without a verdict is a problem document, and has no reward.
#![no_main]

use std::sync::OnceLock;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt as _;
use verifier::config::{Config, SandboxKind};
use verifier::setup;

/// The targets, which Cargo.toml names too, each with its routes.
const ROUTES: &str = "\
kimina /compat/kimina/api/check /compat/kimina/verify
nemo_gym /compat/nemo-gym/seed_session /compat/nemo-gym/verify
nemo_gym_metrics /compat/nemo-gym/aggregate_metrics
openrlhf /compat/openrlhf/get_reward
sandbox_fusion /compat/sandbox-fusion/run_code /compat/sandbox-fusion/submit
slime /compat/slime/rm
verify /v1/verify";

fuzz_target!(|body: &[u8]| {
    let mut targets = ROUTES.lines().filter_map(|line| line.split_once(' '));
    let target = targets.find(|(name, _)| *name == env!("CARGO_BIN_NAME"));
    let Some((_, routes)) = target else {
        panic!("{} has no routes", env!("CARGO_BIN_NAME"));
    };
    for route in routes.split(' ') {
        answer(route, body);
    }
});

/// The runtime and the service of this process. Where the service can judge nothing, it holds a request to the end. There its waits end at once.
fn service(path: &str) -> &'static (Runtime, Router) {
    static SERVICE: OnceLock<(Runtime, Router)> = OnceLock::new();
    SERVICE.get_or_init(|| {
        let mut config = Config::default();
        config.workers = 1;
        config.code.sandbox = SandboxKind::None;
        config.compat.hold_seconds = 1;
        config.cache.disk = false;
        config.datasets = vec!["starter-math".to_owned()];
        let Ok((service, _, open)) = setup::service(&config, None) else {
            panic!("the threads of the service do not start");
        };
        service.judge.prepare(open);
        let runtime = Builder::new_current_thread()
            .enable_all()
            .start_paused(path.contains("/kimina/") || path.contains("/sandbox-fusion/"))
            .build();
        let Ok(runtime) = runtime else {
            panic!("the async runtime does not start");
        };
        (runtime, verifier::app(service))
    })
}

/// Sends a body, and checks the answer.
fn answer(path: &str, body: &[u8]) {
    let (runtime, app) = service(path);
    let request = Request::post(path)
        .header("content-type", "application/json")
        .body(Body::from(body.to_vec()));
    let Ok(request) = request else {
        panic!("`{path}` is no path");
    };
    let (status, answer) = runtime.block_on(async {
        let Ok(response) = app.clone().oneshot(request).await;
        let status = response.status().as_u16();
        let bytes = to_bytes(response.into_body(), usize::MAX).await;
        let bytes = bytes.unwrap_or_default();
        (status, bytes)
    });
    let answer = match serde_json::from_slice::<Value>(&answer) {
        Ok(answer) => answer,
        // A repeated row may have numbers beyond 64 bits (1e999). They are JSON.
        Err(_) if status == 200 && serde_json::from_slice::<&RawValue>(&answer).is_ok() => return,
        Err(error) => panic!("the answer is not JSON: {error}"),
    };
    match status {
        200 => {}
        400 | 413 | 422 | 503 | 504 => {
            assert_eq!(answer["status"], status);
            for field in ["reward", "rewards", "results", "accepted", "run_result"] {
                assert_eq!(answer.get(field), None, "{answer}");
            }
        }
        other => panic!("the status is {other}: {answer}"),
    }
}
