//! Receives request bodies within the limits of size, time and memory, and unpacks them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{HeaderMap, header};
use datasets::jsonl::GZIP;
use datasets::loose_json;
use futures::StreamExt as _;

use super::body_memory::BodyPermit;
use super::gzip::{self, Coding};
use super::hold::Hold;
use super::pace::Pace;
use super::sender::{Held, Sender};
use super::{ProblemResponse, Service};
use crate::pool::Full;

/// Time limit for reading a request's body.
const TIMEOUT: Duration = Duration::from_secs(120);

/// How far a client may lag that sends a body.
const LAG: Duration = Duration::from_secs(10);

/// A complete body, as it was sent.
pub(super) struct ReceivedBody {
    bytes: Vec<u8>,
    coding: Coding,
    permit: BodyPermit,
    held: Held,
    service: Arc<Service>,
}

/// Receives the body of a request from `sender`.
///
/// # Errors
/// If the body is too large, too slow or incomplete, if its coding is unknown, or if there is no memory for it while `hold` lasts.
pub(super) async fn receive(
    sender: &Sender,
    body: Body,
    hold: &mut Hold,
) -> Result<ReceivedBody, ProblemResponse> {
    receive_within(sender, body, hold, LAG).await
}

/// [`receive`] with another lag.
pub(super) async fn receive_within(
    sender: &Sender,
    body: Body,
    hold: &mut Hold,
    lag: Duration,
) -> Result<ReceivedBody, ProblemResponse> {
    let service = &sender.service;
    let limit = service.settings.limits.body_bytes;
    let coding = gzip::coding(&sender.headers)?;
    check_length(&sender.headers, limit)?;
    let mut permit = with_hold(service, hold, || service.body_memory.acquire(0)).await?;
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
        with_hold(service, hold, || permit.grow(length)).await?;
        pace.record(piece.len(), Instant::now());
        bytes.extend_from_slice(&piece);
    }
    Ok(ReceivedBody {
        bytes,
        coding,
        permit,
        held: sender.held.clone(),
        service: Arc::clone(service),
    })
}

/// Repeats an attempt to reserve memory while `hold` lasts.
async fn with_hold<T>(
    service: &Service,
    hold: &mut Hold,
    mut attempt: impl FnMut() -> Result<T, Full>,
) -> Result<T, Full> {
    loop {
        match attempt() {
            Err(_) if hold.wait(service).await => {}
            result => return result,
        }
    }
}

impl ReceivedBody {
    /// Unpacks the body and parses it, on a thread that serves no other requests, which a large body would block. The sender holds its memory from then on.
    ///
    /// # Errors
    /// If the body cannot be unpacked, if there is no memory for its values, and those of `parse`.
    pub(super) async fn parse<T: Send + 'static>(
        self,
        parse: impl FnOnce(&Service, &[u8]) -> Result<T, ProblemResponse> + Send + 'static,
    ) -> Result<T, ProblemResponse> {
        let ReceivedBody {
            bytes,
            coding,
            mut permit,
            held,
            service,
        } = self;
        tokio::task::spawn_blocking(move || {
            let bytes = match coding {
                // A packed body is no JSON, so what begins like one is packed, whether its header says so or not.
                Coding::Plain if !bytes.starts_with(&GZIP) => bytes,
                Coding::Plain | Coding::Gzip => {
                    let limit = service.settings.limits.body_bytes;
                    let unpacked = gzip::unpacked(&bytes[..], bytes.len(), limit, &mut permit)?;
                    drop(bytes);
                    permit.shrink(unpacked.len());
                    unpacked
                }
            };
            let bytes = loose_json::repaired(bytes);
            permit.grow_for_values(&bytes)?;
            let parsed = parse(&service, &bytes)?;
            held.put(permit);
            Ok(parsed)
        })
        .await
        .map_err(|_| ProblemResponse::unread())?
    }
}

/// Fails if a body is announced that is longer than `limit`.
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
