//! Reads a request's body, up to a limit and within a time limit.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use futures::StreamExt as _;

use super::ProblemResponse;

/// Time limit for reading a request's body.
pub(super) const TIMEOUT: Duration = Duration::from_secs(120);

/// The maximum length of the body: the announced one, or `limit` if none is announced.
pub(super) fn length(headers: &HeaderMap, limit: usize) -> Result<usize, ProblemResponse> {
    let announced = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok())
        .and_then(|length| length.parse::<usize>().ok());
    match announced {
        Some(length) if length > limit => Err(ProblemResponse::too_large(limit)),
        announced => Ok(announced.unwrap_or(limit)),
    }
}

/// Reads a body of at most `limit` bytes within `timeout`.
pub(super) async fn read(
    body: Body,
    limit: usize,
    timeout: Duration,
) -> Result<Vec<u8>, ProblemResponse> {
    tokio::time::timeout(timeout, all(body, limit))
        .await
        .map_err(|_| ProblemResponse::late(timeout))?
}

async fn all(body: Body, limit: usize) -> Result<Vec<u8>, ProblemResponse> {
    let mut bytes = Vec::new();
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_| ProblemResponse::unread())?;
        if bytes.len() + piece.len() > limit {
            return Err(ProblemResponse::too_large(limit));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use axum::response::IntoResponse as _;

    use super::*;

    #[tokio::test]
    async fn a_body_that_does_not_arrive_is_given_up() {
        let pieces = futures::stream::pending::<Result<Vec<u8>, std::io::Error>>();
        let timeout = Duration::from_millis(10);
        let problem = read(Body::from_stream(pieces), 100, timeout)
            .await
            .unwrap_err();
        assert_eq!(
            problem.into_response().status(),
            StatusCode::REQUEST_TIMEOUT
        );
    }
}
