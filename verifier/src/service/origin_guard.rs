//! The origin guard: keeps web pages away from a service without a token.
//!
//! A browser on this machine sends requests to the service for any page that it shows. A foreign page cannot read the answers, except by DNS rebinding: its domain then
//! resolves to 127.0.0.1. It can send requests with a media type that needs no permission; JSON's type needs one. So a service without a token answers only requests to
//! this machine's own names, from no other origin, and reads only JSON. A page cannot know a token, so with a token there is nothing to check.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{CONTENT_TYPE, HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderName, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::{ProblemResponse, Service};

pub(super) async fn refuse_other_origins(
    State(service): State<Arc<Service>>,
    request: Request,
    next: Next,
) -> Response {
    if service.settings.token.is_none()
        && let Err(problem) = check(&request, &service.settings.allowed_hosts)
    {
        return problem.into_response();
    }
    next.run(request).await
}

/// Fails if a web page may have sent the request. Browsers always send a host.
fn check(request: &Request, allowed: &[String]) -> Result<(), ProblemResponse> {
    let header = |name: HeaderName| {
        let value = request.headers().get(name);
        value.map(|value| String::from_utf8_lossy(value.as_bytes()))
    };
    // A proxy's client names the host in the request line instead.
    let host = match request.uri().authority() {
        Some(authority) => Some(authority.as_str().into()),
        None => header(HOST),
    };
    if let Some(host) = &host
        && !is_own(host, allowed)
    {
        return Err(ProblemResponse::unknown_host(host));
    }
    if let Some(origin) = header(ORIGIN)
        && !host.is_some_and(|host| is_page_of(&origin, &host))
    {
        return Err(ProblemResponse::unknown_origin(&origin));
    }
    if request.method() == Method::POST && !header(CONTENT_TYPE).is_some_and(|kind| is_json(&kind))
    {
        return Err(ProblemResponse::no_json_type());
    }
    Ok(())
}

/// Whether `host`, with or without a port, is allowed or always means the local machine.
fn is_own(host: &str, allowed: &[String]) -> bool {
    let Ok(authority) = host.parse::<Authority>() else {
        return false;
    };
    let name = authority.host().trim_end_matches('.').to_ascii_lowercase();
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost"
        || name.ends_with(".localhost")
        || address
            .parse::<IpAddr>()
            .is_ok_and(|address| address.to_canonical().is_loopback())
        || allowed
            .iter()
            .any(|allowed| allowed.trim_end_matches('.').eq_ignore_ascii_case(&name))
}

/// Whether `origin` is that of the pages of the service at `host`.
fn is_page_of(origin: &str, host: &str) -> bool {
    let rest = origin
        .strip_prefix("http://")
        .or_else(|| origin.strip_prefix("https://"));
    rest.is_some_and(|rest| rest.eq_ignore_ascii_case(host))
}

/// Whether a media type is JSON's, or that of a format based on it.
fn is_json(kind: &str) -> bool {
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let kind = kind.to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}
