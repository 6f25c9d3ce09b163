//! `/openapi.json`: the OpenAPI document of the routes and bodies, for people who write their own client.

use datasets::did_you_mean::nearest;
use serde_json::{Value as Json, json};
use utoipa::OpenApi;
use verifier_api::{
    Datasets, Problem, Readiness, ServiceInfo, StoredVerdict, TaskInfo, VerifyRequest,
    VerifyResponse,
};

use super::compat;
use super::compat::sandbox_fusion_wire::{
    EvalResult, RunCodeRequest, RunCodeResponse, SubmitRequest,
};

/// An OpenAPI 3.1 document.
pub(super) fn document() -> Json {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "rapid-verifier",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Judges whether completions are correct: mathematics by comparison, Python in a sandbox, proofs by Lean. A reward is a pure function of task, prompt and completion.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" }
        },
        "paths": paths(),
        "components": {
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer" },
                "basic": { "type": "http", "scheme": "basic", "description": "The token as the password, for clients that can only put credentials into the URL; the user name is ignored. Without a password, the user name is the token." }
            },
            "responses": { "problem": { "description": "The error, as a problem document of RFC 9457.", "content": { "application/problem+json": { "schema": schema("Problem") } } } },
            "schemas": schemas()
        }
    })
}

fn paths() -> Json {
    let mut paths = native_paths();
    if let Some(paths) = paths.as_object_mut() {
        paths.extend(compat::paths());
    }
    paths
}

/// The route, with its method, that a path without one may mean: it differs by slashes, versions, letters' case or a typo.
pub(super) fn nearest_route(path: &str) -> Option<String> {
    let bare = |path: &str| {
        let names = path.split('/');
        let names = names.filter(|name| !matches!(*name, "" | "api" | "v1" | "v2"));
        names.collect::<Vec<_>>().join("/").to_ascii_lowercase()
    };
    let paths = paths();
    let routes = paths.as_object()?.iter();
    let routes: Vec<_> = routes
        .map(|(route, methods)| (bare(route), route, methods))
        .collect();
    let meant = nearest(&bare(path), routes.iter().map(|(bare, ..)| bare.as_str()))?;
    let (_, route, methods) = routes.iter().find(|(bare, ..)| bare == meant)?;
    let method = methods.as_object()?.keys().next()?.to_ascii_uppercase();
    Some(format!("{method} {route}"))
}

fn native_paths() -> Json {
    let guarded = json!([{ "token": [] }, { "basic": [] }, {}]);
    let problem = json!({ "$ref": "#/components/responses/problem" });
    let answer = |what: &str, name: &str| json!({ "description": what, "content": { "application/json": { "schema": schema(name) } } });
    json!({
        "/v1/verify": { "post": {
            "summary": "Judge a batch. Items are judged independently and answered in order.",
            "security": guarded,
            "parameters": [
                { "name": "errors", "in": "query", "schema": { "enum": ["request", "item"], "default": "request" }, "description": "Whether an item that cannot be used ends the request with 422, or has an answer of its own: `unavailable`, with the problem document in `detail.problem`. An item without an id always ends the request." },
                { "name": "Content-Encoding", "in": "header", "schema": { "enum": ["gzip"] }, "description": "The compression of the body, if it is compressed. The limit on the body applies to the decompressed body." }
            ],
            "requestBody": { "required": true, "content": { "application/json": { "schema": schema("VerifyRequest") } } },
            "responses": { "200": answer("One judgement per item, in the order of the items.", "VerifyResponse"), "400": problem, "401": problem, "408": problem, "413": problem, "415": problem, "422": problem, "429": problem, "500": problem }
        } },
        "/v1/datasets": { "get": { "summary": "The data sets whose tasks a request can name.", "security": guarded, "responses": { "200": answer("The data sets.", "Datasets"), "401": problem } } },
        "/v1/datasets/{name}/tasks/{id}": { "get": {
            "summary": "One task that a request can name.",
            "security": guarded,
            "parameters": [
                { "name": "name", "in": "path", "required": true, "schema": { "type": "string" }, "description": "The part of the task's id before the first slash." },
                { "name": "id", "in": "path", "required": true, "schema": { "type": "string" }, "description": "The rest of the id; it may have slashes of its own." }
            ],
            "responses": { "200": answer("The task.", "TaskInfo"), "401": problem, "404": problem }
        } },
        "/v1/info": { "get": { "summary": "The versions of the service, its graders, interpreter and data.", "security": guarded, "responses": { "200": answer("The service.", "ServiceInfo"), "401": problem } } },
        "/v1/verdicts/{key}": { "get": {
            "summary": "A verdict from the cache.",
            "security": guarded,
            "parameters": [{ "name": "key", "in": "path", "required": true, "schema": { "type": "string", "pattern": "^[0-9a-f]{64}$" } }],
            "responses": { "200": answer("The verdict.", "StoredVerdict"), "401": problem, "404": problem, "422": problem }
        } },
        "/compat/sandbox-fusion/run_code": { "post": {
            "summary": "Run a Python program, as SandboxFusion does. A request that cannot be answered now is held for compile_timeout + run_timeout + 8 seconds, and then refused with 504.",
            "security": guarded,
            "requestBody": { "required": true, "content": { "application/json": { "schema": schema("RunCodeRequest") } } },
            "responses": { "200": answer("How the program ended, and what it wrote.", "RunCodeResponse"), "400": problem, "401": problem, "408": problem, "413": problem, "415": problem, "422": problem, "500": problem, "504": problem }
        } },
        "/compat/sandbox-fusion/submit": { "post": {
            "summary": "Judge a completion, as SandboxFusion does. A request that cannot be answered now is held as those of run_code.",
            "security": guarded,
            "requestBody": { "required": true, "content": { "application/json": { "schema": schema("SubmitRequest") } } },
            "responses": { "200": answer("The verdict.", "EvalResult"), "400": problem, "401": problem, "408": problem, "413": problem, "415": problem, "422": problem, "500": problem, "504": problem }
        } },
        "/compat/sandbox-fusion/v1/ping": { "get": { "summary": "Whether the process answers, as SandboxFusion says it.", "security": guarded, "responses": { "200": { "description": "The text `pong`.", "content": { "application/json": {} } }, "401": problem } } },
        "/healthz": { "get": { "summary": "Whether the process answers.", "responses": { "200": { "description": "The process answers." } } } },
        "/readyz": { "get": { "summary": "Whether no grader is being prepared and every required one can judge.", "responses": { "200": answer("Ready.", "Readiness"), "503": answer("Not ready, with the reasons.", "Readiness") } } },
        "/metrics": { "get": { "summary": "Counters in Prometheus's text format.", "responses": { "200": { "description": "The counters.", "content": { "text/plain": {} } } } } },
        "/openapi.json": { "get": { "summary": "This document.", "responses": { "200": { "description": "The document.", "content": { "application/json": {} } } } } }
    })
}

fn schema(name: &str) -> Json {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// The schemas of the bodies, with all schemas that they refer to.
#[derive(OpenApi)]
#[openapi(components(schemas(
    VerifyRequest,
    VerifyResponse,
    StoredVerdict,
    Datasets,
    TaskInfo,
    ServiceInfo,
    Readiness,
    Problem,
    RunCodeRequest,
    RunCodeResponse,
    SubmitRequest,
    EvalResult
)))]
struct Bodies;

fn schemas() -> Json {
    let mut schemas = json!(Bodies::openapi().components.unwrap_or_default().schemas);
    name_variants(&mut schemas, "InlineTask");
    schemas
}

/// Turns the variants of a schema into schemas with their titles as names, so that generated clients have types for them.
fn name_variants(schemas: &mut Json, of: &str) {
    let mut named = Vec::new();
    for variant in schemas[of]["oneOf"].as_array_mut().into_iter().flatten() {
        if let Some(title) = variant["title"].as_str().map(str::to_owned) {
            named.push((std::mem::replace(variant, schema(&title)), title));
        }
    }
    for (variant, title) in named {
        schemas[title] = variant;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every `$ref` in `json`.
    fn references(json: &Json, found: &mut Vec<String>) {
        match json {
            Json::Object(fields) => {
                for (key, value) in fields {
                    match value {
                        Json::String(target) if key == "$ref" => found.push(target.clone()),
                        other => references(other, found),
                    }
                }
            }
            Json::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_has_a_target() {
        let document = document();
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 20);
        for target in found {
            let pointer = target.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{target}");
        }
    }

    #[test]
    fn the_document_names_every_grader_and_every_tag() {
        let text = document().to_string();
        for name in ["mathematics", "Python", "Lean"] {
            assert!(text.contains(name), "{name}");
        }
        for tag in [
            "tuple",
            "set",
            "frozenset",
            "bytes",
            "complex",
            "float",
            "int",
            "dict",
            "opaque",
        ] {
            assert!(text.contains(&format!("${tag}")), "{tag}");
        }
    }

    #[test]
    fn a_judgement_has_exactly_the_described_fields() {
        let judgement = verifier_api::Judgement {
            id: verifier_api::Id::Text(String::new()),
            reward: None,
            verdict: verifier_api::Verdict::Unavailable,
            detail: json!({}),
            passed: Some(1),
            total: Some(1),
            retryable: true,
            key: String::new(),
            cached: false,
            deterministic: true,
            elapsed_ms: 0.0,
        };
        let sent = serde_json::to_value(judgement).unwrap();
        let described = document();
        let described = described
            .pointer("/components/schemas/Judgement/properties")
            .and_then(Json::as_object)
            .unwrap();
        let mut sent: Vec<&String> = sent.as_object().unwrap().keys().collect();
        let mut described: Vec<&String> = described.keys().collect();
        sent.sort();
        described.sort();
        assert_eq!(sent, described);
    }
}
