//! Checks the token. It is the token of the scheme Bearer, or the password of the scheme Basic, for clients that can only put credentials into the URL.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::http::header::AUTHORIZATION;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::{ProblemResponse, Service};

pub(super) async fn check(
    State(service): State<Arc<Service>>,
    request: Request,
    next: Next,
) -> Response {
    if let Some(token) = &service.settings.token {
        let given = request.headers().get(AUTHORIZATION).and_then(given);
        if !given.as_ref().is_some_and(|given| token.matches(given)) {
            return ProblemResponse::unauthorised(given.is_some()).into_response();
        }
    }
    next.run(request).await
}

/// The token in a header. With Basic it is the password, or the user name if there is no password; clients decode the URL's percent signs.
fn given(header: &HeaderValue) -> Option<Vec<u8>> {
    let (scheme, credentials) = header.to_str().ok()?.split_once(' ')?;
    let credentials = credentials.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(credentials.as_bytes().to_owned());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let mut user = BASE64_STANDARD.decode(credentials).ok()?;
    let colon = user.iter().position(|byte| *byte == b':')?;
    let password = user.split_off(colon + 1);
    user.pop();
    Some(if password.is_empty() { user } else { password })
}
