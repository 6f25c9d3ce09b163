//! Checks the bearer token.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::{ProblemResponse, Service};

/// A token's digest. The token itself is not stored, and the comparison takes the same time for every wrong token.
#[derive(Clone)]
pub struct Token(blake3::Hash);

impl Token {
    /// The token with this text.
    #[must_use]
    pub fn new(text: &str) -> Token {
        Token(blake3::hash(text.as_bytes()))
    }

    fn matches(&self, text: &str) -> bool {
        // `blake3::Hash` compares in constant time.
        self.0 == blake3::hash(text.as_bytes())
    }
}

pub(super) async fn check(
    State(service): State<Arc<Service>>,
    request: Request,
    next: Next,
) -> Response {
    if let Some(token) = &service.token {
        let given = request
            .headers()
            .get(AUTHORIZATION)
            .and_then(|header| header.to_str().ok())
            .and_then(|header| {
                let (scheme, rest) = header.split_once(' ')?;
                scheme.eq_ignore_ascii_case("bearer").then(|| rest.trim())
            });
        if !given.is_some_and(|given| token.matches(given)) {
            return ProblemResponse::unauthorised(given.is_some()).into_response();
        }
    }
    next.run(request).await
}
