//! `/openapi.json`: the OpenAPI document of the routes and bodies, for people who write their own client.

use datasets::did_you_mean::nearest;
use serde_json::{Value as Json, json};
use utoipa::OpenApi;
use verifier_api::{
    Datasets, Problem, Readiness, ServiceInfo, StoredVerdict, TaskInfo, VerifyRequest,
    VerifyResponse,
};

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

/// The known route nearest to `path`, with its method: one that differs by slashes, versions, letters' case or a typo.
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

/// The operations of each path. The file has only what is special to a route: the schema of its body, its answers that are no problems, and problems that similar
/// routes lack.
fn paths() -> Json {
    // A test parses the file.
    let mut paths: Json = serde_json::from_str(include_str!("openapi.json")).unwrap_or_default();
    for (path, operations) in paths.as_object_mut().into_iter().flatten() {
        for (_, operation) in operations.as_object_mut().into_iter().flatten() {
            let own = operation["problems"].take();
            let mut problems: Vec<u16> = serde_json::from_value(own).unwrap_or_default();
            if path.starts_with("/v1/") || path.starts_with("/compat/") {
                operation["security"] = json!([{ "token": [] }, { "basic": [] }, {}]);
                problems.push(401);
            }
            let body = operation["requestBody"].take();
            if !body.is_null() {
                let content = json!({ "application/json": { "schema": body } });
                operation["requestBody"] = json!({ "required": true, "content": content });
                problems.extend([400, 408, 413, 415, 422, 500]);
            }
            for status in problems {
                let problem = json!({ "$ref": "#/components/responses/problem" });
                operation["responses"][status.to_string()] = problem;
            }
            if let Some(operation) = operation.as_object_mut() {
                operation.retain(|_, value| !value.is_null());
            }
        }
    }
    paths
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
    name_kinds(&mut schemas);
    // Reading a task merges this field into the entry point.
    schemas["CodeTask"]["properties"]["class_name"] = json!({
        "type": ["string", "null"],
        "description": "The class with the method `entry_point`, if that is only the method's name."
    });
    schemas
}

/// Gives the schema of each kind of task its `kind`, so that generated clients have types for them.
fn name_kinds(schemas: &mut Json) {
    let mut kinds = schemas["InlineTask"]["oneOf"].take();
    for kind in kinds.as_array_mut().into_iter().flatten() {
        let [task, tag] = [0, 1].map(|part| kind["allOf"][part].take());
        let reference = task["$ref"].as_str().unwrap_or_default();
        let name = reference.rsplit('/').next().unwrap_or_default();
        schemas[name]["properties"]["kind"] = tag["properties"]["kind"].clone();
        if let Some(required) = schemas[name]["required"].as_array_mut() {
            required.push(json!("kind"));
        }
        *kind = schema(name);
    }
    schemas["InlineTask"]["oneOf"] = kinds;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_has_a_target() {
        let document = document();
        let text = document.to_string();
        let references: Vec<&str> = text.split(r##""$ref":"#"##).skip(1).collect();
        assert!(references.len() > 20);
        for reference in references {
            let (pointer, _) = reference.split_once('"').unwrap();
            assert!(document.pointer(pointer).is_some(), "{pointer}");
        }
    }
}
