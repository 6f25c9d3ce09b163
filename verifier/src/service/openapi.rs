//! `/openapi.json`: the routes and bodies for people's own clients.

use serde_json::{Value as Json, json};

/// An OpenAPI 3.1 document.
pub(super) fn document() -> Json {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "rapid-verifier",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Decides whether completions are right: mathematics by comparison, Python in a sandbox, proofs by Lean. A reward is a pure function of task, prompt and completion.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" }
        },
        "paths": paths(),
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "responses": { "problem": { "description": "What is wrong, as RFC 9457 has it.", "content": { "application/problem+json": { "schema": schema("Problem") } } } },
            "schemas": schemas()
        }
    })
}

fn paths() -> Json {
    let guarded = json!([{ "token": [] }, {}]);
    let problem = json!({ "$ref": "#/components/responses/problem" });
    let answer = |what: &str, name: &str| json!({ "description": what, "content": { "application/json": { "schema": schema(name) } } });
    json!({
        "/v1/verify": { "post": {
            "summary": "Judge a batch: items are judged independently and answered in order.",
            "security": guarded,
            "parameters": [{ "name": "Content-Encoding", "in": "header", "schema": { "enum": ["gzip"] }, "description": "How the body is packed, where it is. What it holds is limited as a body that is not." }],
            "requestBody": { "required": true, "content": { "application/json": { "schema": schema("VerifyRequest") } } },
            "responses": { "200": answer("One judgement an item.", "VerifyResponse"), "400": problem, "401": problem, "408": problem, "413": problem, "415": problem, "422": problem, "429": problem, "500": problem }
        } },
        "/v1/datasets": { "get": { "summary": "Data sets whose tasks can be named.", "security": guarded, "responses": { "200": answer("The data sets.", "Datasets"), "401": problem } } },
        "/v1/info": { "get": { "summary": "Versions of service, graders, interpreter and data.", "security": guarded, "responses": { "200": answer("The service.", "ServiceInfo"), "401": problem } } },
        "/v1/verdicts/{key}": { "get": {
            "summary": "A verdict from the cache.",
            "security": guarded,
            "parameters": [{ "name": "key", "in": "path", "required": true, "schema": { "type": "string", "pattern": "^[0-9a-f]{64}$" } }],
            "responses": { "200": answer("The verdict.", "StoredVerdict"), "401": problem, "404": problem, "422": problem }
        } },
        "/healthz": { "get": { "summary": "Whether the process answers.", "responses": { "200": { "description": "It does." } } } },
        "/readyz": { "get": { "summary": "Whether every grader is settled and every required one can judge.", "responses": { "200": answer("Ready.", "Readiness"), "503": answer("Not ready, and why.", "Readiness") } } },
        "/metrics": { "get": { "summary": "Counters in Prometheus's text format.", "responses": { "200": { "description": "The counters.", "content": { "text/plain": {} } } } } },
        "/openapi.json": { "get": { "summary": "This document.", "responses": { "200": { "description": "The document.", "content": { "application/json": {} } } } } }
    })
}

fn schema(name: &str) -> Json {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "every caller makes it on the spot"
)]
fn object(required: &[&str], properties: Json) -> Json {
    json!({ "type": "object", "required": required, "properties": properties })
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "every caller makes it on the spot"
)]
fn list(of: Json) -> Json {
    json!({ "type": "array", "items": of })
}

fn schemas() -> Json {
    let (string, integer, boolean, number) = (
        json!({ "type": "string" }),
        json!({ "type": "integer", "minimum": 0 }),
        json!({ "type": "boolean" }),
        json!({ "type": "number" }),
    );
    let text = json!({ "type": "string", "minLength": 1 });
    let id = json!({ "type": ["string", "number"], "description": "The client's own name for the item; the same in the answer." });
    let value = json!({ "description": "A Python value. What JSON lacks is tagged: {\"$tuple\":[…]}, {\"$set\":[…]}, {\"$frozenset\":[…]}, {\"$bytes\":\"base64\"}, {\"$complex\":[re,im]}, {\"$float\":\"nan\"|\"inf\"|\"-inf\"}, {\"$int\":\"digits\"}, {\"$dict\":[[k,v],…]}, {\"$opaque\":\"type\"} (an object that has no encoding; it equals nothing)." });
    let reward = json!({ "type": ["number", "null"], "description": "1 or 0; null where the verdict is unavailable." });
    json!({
        "VerifyRequest": object(&["items"], json!({ "items": list(schema("Item")) })),
        "Item": object(&["id", "task", "completion"], json!({
            "id": id,
            "task": { "oneOf": [ { "type": "string", "examples": ["mbppplus/2"] }, schema("MathTask"), schema("CodeTask"), schema("LeanTask") ] },
            "task_digest": { "type": "string", "description": "The digest of what decides on a named task, as the client has it (64 hexadecimal digits): where the server's task is another, the item is refused." },
            "prompt": { "type": "string", "default": "", "description": "The prompt as the model saw it. The verdict's key holds it. Mathematics takes from it what is counted and in which unit; no other grader looks at it." },
            "completion": string,
            "all_tests": { "type": "boolean", "default": false, "description": "Whether all tests of a code task are run, so that `passed` of `total` is the share of those that are passed. Otherwise judging ends with the first that is not, and `passed` counts those before it." }
        })),
        "MathTask": object(&["kind", "answer"], json!({
            "kind": { "const": "math" },
            "answer": { "oneOf": [ text.clone(), { "type": "number" } ], "description": "LaTeX or plain text. A number counts as the text that it is written as." }
        })),
        "CodeTask": object(&["kind", "entry_point"], json!({
            "kind": { "const": "code" },
            "entry_point": { "type": "string", "description": "The function that the completion must define: a name, and no keyword of Python." },
            "tests": list(object(&["args"], json!({ "args": list(value.clone()), "expected": value }))),
            "asserts": list(text),
            "prefix": { "type": "string", "description": "What a completion goes on with, where it is the rest of a program: HumanEval's prompt." },
            "canonical": { "type": "string", "description": "A right program. Run in the same sandbox, it tells the values that are expected, and a test may lack `expected`." },
            "imports": { "type": "array", "items": { "type": "string" }, "description": "Python that runs before `asserts`." },
            "atol": { "type": "number", "minimum": 0, "default": 0, "description": "Absolute tolerance of results that are floats, or hold some." },
            "compare": { "enum": ["equal", "set", "not-none", "pyramid-surface", "digit-distance", "root"], "default": "equal", "description": "How a result is compared with the value that is expected." }
        })),
        "LeanTask": object(&["kind", "header", "statement"], json!({ "kind": { "const": "lean" }, "header": string, "statement": string })),
        "VerifyResponse": object(&["results"], json!({ "results": list(schema("Judgement")) })),
        "Verdict": { "enum": ["correct", "incorrect", "timeout", "memory", "malformed", "unavailable"] },
        "Judgement": object(&["id", "reward", "verdict", "detail", "retryable", "key", "cached", "deterministic", "elapsed_ms"], json!({
            "id": id, "reward": reward, "verdict": schema("Verdict"), "detail": { "type": "object" }, "passed": integer, "total": integer,
            "retryable": boolean, "key": string, "cached": boolean, "deterministic": boolean, "elapsed_ms": number
        })),
        "StoredVerdict": object(&["key", "reward", "verdict", "detail", "deterministic"], json!({
            "key": string, "reward": reward, "verdict": schema("Verdict"), "detail": { "type": "object" }, "passed": integer, "total": integer, "deterministic": boolean
        })),
        "Datasets": object(&["datasets"], json!({ "datasets": list(schema("DatasetInfo")) })),
        "DatasetInfo": object(&["name", "graders", "train", "eval", "digest"], json!({ "name": string, "graders": list(string.clone()), "train": integer, "eval": integer, "digest": string })),
        "GraderInfo": object(&["name", "version", "state", "required"], json!({
            "name": string, "version": string, "state": { "enum": ["preparing", "ready", "unavailable"] }, "reason": string, "required": boolean,
            "backend": string, "interpreter": string, "digest": string, "policy": string
        })),
        "RequestLimits": object(&["body_bytes", "items", "queue"], json!({ "body_bytes": integer, "items": integer, "queue": integer })),
        "ServiceInfo": object(&["service", "version", "api", "graders", "datasets", "limits"], json!({
            "service": string, "version": string, "api": string, "graders": list(schema("GraderInfo")), "datasets": list(schema("DatasetInfo")), "limits": schema("RequestLimits")
        })),
        "Readiness": object(&["ready", "graders"], json!({ "ready": boolean, "graders": list(schema("GraderInfo")) })),
        "Problem": object(&["type", "title", "status", "detail"], json!({ "type": string, "title": string, "status": integer, "detail": string, "item": integer, "field": string }))
    })
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
    fn every_reference_leads_somewhere() {
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
    fn every_grader_and_every_tag_is_named() {
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
    fn the_judgement_that_is_sent_is_the_one_described() {
        let judgement = verifier_api::Judgement {
            id: String::new(),
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
