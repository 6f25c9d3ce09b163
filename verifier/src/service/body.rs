//! Receives request bodies within the limits of size, time and memory, and unpacks them.
//!
//! tower-http has layers that limit and unpack bodies. They limit neither the pace of a body nor the memory of all bodies together, and of sizes only the unpacked one.
//! They unpack on the threads that serve other requests, so a slow body would block those.

use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{HeaderMap, header};
use datasets::jsonl::GZIP;
use datasets::loose_json;
use flate2::read::MultiGzDecoder;
use futures::StreamExt as _;

use super::backoff::Backoff;
use super::body_memory::BodyPermit;
use super::pace::Pace;
use super::request_context::RequestContext;
use super::{ProblemResponse, Service};
use crate::pool::Full;

/// Time limit for reading a request's body.
const TIMEOUT: Duration = Duration::from_secs(120);

/// How far a client may lag while it sends a body.
const LAG: Duration = Duration::from_secs(10);

/// Bytes that are unpacked at a time, before memory is reserved for them.
const CHUNK: usize = 64 << 10;

/// Receives the body of a request, and parses it.
///
/// # Errors
/// If the body is too large, too slow or incomplete, or its coding is unknown. If there is no memory for it until the deadline of `backoff`. Also the errors of `parse`.
pub(super) async fn read<T: Send + 'static>(
    context: &RequestContext,
    body: Body,
    backoff: &mut Backoff,
    parse: impl FnOnce(&Service, &[u8]) -> Result<T, ProblemResponse> + Send + 'static,
) -> Result<T, ProblemResponse> {
    let declared_packed = is_declared_packed(&context.headers)?;
    let (mut bytes, mut permit) = receive(context, body, backoff, LAG).await?;
    // JSON never begins like a packed body, so what begins like one is packed, whether its header says so or not.
    let is_packed = declared_packed || bytes.starts_with(&GZIP);
    let service = Arc::clone(&context.service);
    let body_permit = context.body_permit.clone();
    // Parsing a large body would block a thread that serves other requests.
    let parsed = tokio::task::spawn_blocking(move || {
        if is_packed {
            let (packed, limit) = (bytes.len(), service.settings.limits.body_bytes);
            bytes = unpacked(&bytes[..], packed, limit, &mut permit)?;
            permit.shrink(bytes.len());
        }
        let bytes = loose_json::repaired(bytes);
        permit.grow_for_values(&bytes)?;
        let parsed = parse(&service, &bytes)?;
        body_permit.put(permit);
        Ok(parsed)
    });
    parsed.await.map_err(|_| ProblemResponse::unread())?
}

/// Receives a body as it was sent. The client may lag as far as `lag`.
pub(super) async fn receive(
    context: &RequestContext,
    body: Body,
    backoff: &mut Backoff,
    lag: Duration,
) -> Result<(Vec<u8>, BodyPermit), ProblemResponse> {
    let service = &context.service;
    let limit = service.settings.limits.body_bytes;
    check_length(&context.headers, limit)?;
    let mut permit = with_backoff(service, backoff, || service.body_memory.acquire(0)).await?;
    let mut bytes = Vec::new();
    let mut pieces = body.into_data_stream();
    let mut pace = Pace::new(Instant::now());
    let end = Instant::now() + TIMEOUT;
    loop {
        let now = Instant::now();
        let wait = lag.saturating_sub(pace.lag(now)).min(end - now);
        let piece = tokio::time::timeout(wait, pieces.next()).await;
        let Some(piece) = piece.map_err(|_| ProblemResponse::late(TIMEOUT))? else {
            break;
        };
        let piece = piece.map_err(|_| ProblemResponse::unread())?;
        let length = bytes.len() + piece.len();
        if length > limit {
            return Err(ProblemResponse::too_large(limit));
        }
        with_backoff(service, backoff, || permit.grow(length)).await?;
        pace.record(piece.len(), Instant::now());
        bytes.extend_from_slice(&piece);
    }
    Ok((bytes, permit))
}

/// Repeats an attempt to reserve memory until the deadline of `backoff`.
async fn with_backoff<T>(
    service: &Service,
    backoff: &mut Backoff,
    mut attempt: impl FnMut() -> Result<T, Full>,
) -> Result<T, Full> {
    loop {
        match attempt() {
            Err(_) if backoff.wait(service).await => {}
            result => return result,
        }
    }
}

/// Fails if the announced length exceeds `limit`.
fn check_length(headers: &HeaderMap, limit: usize) -> Result<(), ProblemResponse> {
    let announced = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok())
        .and_then(|length| length.parse::<usize>().ok());
    match announced {
        Some(length) if length > limit => Err(ProblemResponse::too_large(limit)),
        _ => Ok(()),
    }
}

/// Whether a request declares that its body is packed.
fn is_declared_packed(headers: &HeaderMap) -> Result<bool, ProblemResponse> {
    let given: Vec<_> = headers.get_all(header::CONTENT_ENCODING).iter().collect();
    let coding = match given[..] {
        [] => return Ok(false),
        [coding] => String::from_utf8_lossy(coding.as_bytes()),
        _ => return Err(ProblemResponse::unknown_coding("several of them")),
    };
    match coding.trim().to_ascii_lowercase().as_str() {
        "" | "identity" => Ok(false),
        // RFC 9110, 8.4.1.3.
        "gzip" | "x-gzip" => Ok(true),
        _ => Err(ProblemResponse::unknown_coding(&coding)),
    }
}

/// Unpacks a body of `packed` bytes, up to `limit` bytes. `permit` is grown to cover both.
fn unpacked(
    body: impl Read,
    packed: usize,
    limit: usize,
    permit: &mut BodyPermit,
) -> Result<Vec<u8>, ProblemResponse> {
    let mut all = Vec::new();
    let mut decoder = MultiGzDecoder::new(body);
    let mut piece = vec![0; CHUNK.min(limit.saturating_add(1))];
    loop {
        let length = decoder
            .read(&mut piece)
            .map_err(|error| ProblemResponse::not_gzip(&error))?;
        if length == 0 {
            return Ok(all);
        }
        if all.len() + length > limit {
            return Err(ProblemResponse::too_large(limit));
        }
        permit.grow(packed + all.len() + length)?;
        all.extend_from_slice(&piece[..length]);
    }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse as _;

    use super::super::body_memory::BodyMemory;
    use super::super::tests::gzip;
    use super::*;

    #[test]
    fn unpacking_a_bomb_stops_at_the_limit() {
        let bomb = gzip(&vec![0; 100 << 20]);
        let mut permit = BodyMemory::new(1 << 20).acquire(bomb.len()).unwrap();
        let mut rest = &bomb[..];
        let problem = unpacked(&mut rest, bomb.len(), 1 << 20, &mut permit).unwrap_err();
        assert_eq!(problem.into_response().status().as_u16(), 413);
        assert!(rest.len() > bomb.len() / 2, "{}", rest.len());
    }

    #[test]
    fn an_unpacked_body_counts_in_addition_to_the_other_bodies() {
        let limit = 1 << 20;
        let bodies = BodyMemory::new(limit);
        let body = gzip(&vec![0; limit]);
        let others: Vec<BodyPermit> = (0..3).map(|_| bodies.acquire(limit).unwrap()).collect();
        let mut permit = bodies.acquire(body.len()).unwrap();
        let problem = unpacked(&body[..], body.len(), limit, &mut permit).unwrap_err();
        assert_eq!(problem.into_response().status().as_u16(), 429);
        drop(others);
        assert!(unpacked(&body[..], body.len(), limit, &mut permit).is_ok());
    }
}
