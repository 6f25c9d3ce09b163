//! Unpacks gzip bodies. Both the packed and the unpacked size are limited.
//!
//! tower-http has a layer for this. It limits only the unpacked size, and only if the reader does, and it unpacks on the threads that serve other requests, which a body
//! that takes long to unpack would block.

use std::io::Read;

use axum::http::{HeaderMap, header};
use flate2::read::MultiGzDecoder;

use super::ProblemResponse;
use super::body_memory::BodyPermit;

/// Bytes that are unpacked at a time, before memory is reserved for them.
const CHUNK: usize = 64 << 10;

/// The content coding of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    Plain,
    Gzip,
}

/// The content coding that a request declares.
pub(super) fn coding(headers: &HeaderMap) -> Result<Coding, ProblemResponse> {
    let given: Vec<_> = headers.get_all(header::CONTENT_ENCODING).iter().collect();
    let coding = match given[..] {
        [] => return Ok(Coding::Plain),
        [coding] => String::from_utf8_lossy(coding.as_bytes()),
        _ => return Err(ProblemResponse::unknown_coding("several of them")),
    };
    match coding.trim().to_ascii_lowercase().as_str() {
        "" | "identity" => Ok(Coding::Plain),
        // RFC 9110, 8.4.1.3.
        "gzip" | "x-gzip" => Ok(Coding::Gzip),
        _ => Err(ProblemResponse::unknown_coding(&coding)),
    }
}

/// Unpacks a body of `packed` bytes, up to `limit` bytes. `permit` is grown to cover both.
///
/// # Errors
/// If the body is not gzip, is longer than `limit` when unpacked, or there is not enough memory now.
pub(super) fn unpacked(
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
    use proptest::prelude::*;

    use super::super::body_memory::BodyMemory;
    use super::super::tests::gzip;
    use super::*;

    fn unpack(body: &[u8], limit: usize) -> Result<Vec<u8>, u16> {
        let mut permit = BodyMemory::new(limit).acquire(body.len()).unwrap();
        unpacked(body, body.len(), limit, &mut permit)
            .map_err(|problem| problem.into_response().status().as_u16())
    }

    #[test]
    fn all_members_of_a_body_are_unpacked() {
        let text = b"text".repeat(50_000);
        let members = [gzip(&text[..7]), gzip(b""), gzip(&text[7..])].concat();
        assert_eq!(unpack(&members, text.len() - 1), Err(413));
        assert_eq!(unpack(&members, text.len()), Ok(text));
    }

    #[test]
    fn unpacking_a_bomb_stops_at_the_limit() {
        let bomb = gzip(&vec![0; 100 << 20]);
        let bodies = BodyMemory::new(1 << 20);
        let mut permit = bodies.acquire(bomb.len()).unwrap();
        let mut rest = &bomb[..];
        let problem = unpacked(&mut rest, bomb.len(), 1 << 20, &mut permit).unwrap_err();
        assert_eq!(problem.into_response().status().as_u16(), 413);
        assert!(
            rest.len() > bomb.len() / 2,
            "{} of {}",
            rest.len(),
            bomb.len()
        );
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

    proptest! {
        #[test]
        fn no_bytes_make_unpacking_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), head in any::<bool>()) {
            let bytes = if head { [&gzip(b"")[..10], &bytes].concat() } else { bytes };
            if !bytes.is_empty() {
                let _ = unpack(&bytes, 1000);
            }
        }
    }
}
