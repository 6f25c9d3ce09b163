//! Receives request bodies within the limits of size, time and memory, and unpacks them.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use datasets::jsonl::GZIP;
use datasets::loose_json;
use futures::StreamExt as _;

use super::body_memory::BodyPermit;
use super::gzip::{self, Coding};
use super::hold::Hold;
use super::{ProblemResponse, Service};

/// Time limit for reading a request's body.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A complete body, as it was sent.
pub(super) struct ReceivedBody {
    bytes: Vec<u8>,
    coding: Coding,
    permit: BodyPermit,
}

/// Receives the body of a request with these headers.
///
/// # Errors
/// If the body is too large, too slow or incomplete, if its coding is unknown, or if there is no memory for it while `hold` lasts.
pub(super) async fn receive(
    service: &Service,
    headers: &HeaderMap,
    body: Body,
    hold: &mut Hold,
) -> Result<ReceivedBody, ProblemResponse> {
    let limit = service.limits.body_bytes;
    let coding = gzip::coding(headers)?;
    let length = length(headers, limit)?;
    let mut permit = loop {
        match service.body_memory.acquire(length) {
            Ok(permit) => break permit,
            Err(_) if hold.wait(service).await => {}
            Err(full) => return Err(full.into()),
        }
    };
    let bytes = read(body, limit, TIMEOUT).await?;
    permit.shrink(bytes.len());
    Ok(ReceivedBody {
        bytes,
        coding,
        permit,
    })
}

impl ReceivedBody {
    /// Unpacks the body and parses it, on a thread that serves no other requests, which a large body would block. Also returns the permit, to be held until the response.
    ///
    /// # Errors
    /// If the body cannot be unpacked, if there is no memory for its values, and those of `parse`.
    pub(super) async fn parse<T: Send + 'static>(
        self,
        service: &Arc<Service>,
        parse: impl FnOnce(&Service, &[u8]) -> Result<T, ProblemResponse> + Send + 'static,
    ) -> Result<(T, BodyPermit), ProblemResponse> {
        let service = Arc::clone(service);
        let ReceivedBody {
            bytes,
            coding,
            mut permit,
        } = self;
        tokio::task::spawn_blocking(move || {
            let bytes = match coding {
                // A packed body is no JSON, so what begins like one is packed, whether its header says so or not.
                Coding::Plain if !bytes.starts_with(&GZIP) => bytes,
                Coding::Plain | Coding::Gzip => {
                    let limit = service.limits.body_bytes;
                    let unpacked = gzip::unpacked(&bytes[..], bytes.len(), limit, &mut permit)?;
                    drop(bytes);
                    permit.shrink(unpacked.len());
                    unpacked
                }
            };
            let bytes = loose_json::repaired(bytes);
            permit.grow_for_values(&bytes)?;
            Ok((parse(&service, &bytes)?, permit))
        })
        .await
        .map_err(|_| ProblemResponse::unread())?
    }
}

/// The maximum length of the body: the announced one, or `limit` if none is announced.
fn length(headers: &HeaderMap, limit: usize) -> Result<usize, ProblemResponse> {
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
async fn read(body: Body, limit: usize, timeout: Duration) -> Result<Vec<u8>, ProblemResponse> {
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
