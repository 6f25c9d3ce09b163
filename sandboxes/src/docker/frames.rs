//! The frames of requests and answers: a length in four bytes, big-endian, and then that many bytes.

use bytes::{Buf as _, Bytes, BytesMut};

/// Bytes of a length.
const HEAD: usize = 4;

/// `payload` as a frame.
///
/// # Panics
/// If it is longer than 4 GiB. Everything that the host sends is shorter.
pub(super) fn frame(payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a job or an argument is far below 4 GiB");
    [&length.to_be_bytes()[..], payload].concat()
}

/// A frame exceeds the limit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// Takes the first frame from `buffer`, if it has arrived as a whole.
///
/// # Errors
/// [`TooLong`], as soon as its length is known.
pub(super) fn take(buffer: &mut BytesMut, longest: usize) -> Result<Option<Bytes>, TooLong> {
    let Some(head) = buffer.first_chunk::<HEAD>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(*head) as usize;
    if length > longest {
        return Err(TooLong);
    }
    if buffer.len() < HEAD + length {
        // Reserves room for the whole frame, but not more than 1 MiB at a time: a guest may announce bytes that it never sends.
        buffer.reserve((HEAD + length - buffer.len()).min(1 << 20));
        return Ok(None);
    }
    buffer.advance(HEAD);
    Ok(Some(buffer.split_to(length).freeze()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_frame_beyond_the_limit_is_refused_before_it_has_arrived() {
        let mut buffer = BytesMut::from(&[0, 0, 1, 1][..]);
        assert_eq!(take(&mut buffer, 256), Err(TooLong));
        assert_eq!(take(&mut buffer, 257), Ok(None));
    }

    proptest! {
        #[test]
        fn frames_survive_a_round_trip_however_the_stream_is_cut(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..8),
            piece in 1_usize..40,
        ) {
            let stream: Vec<u8> = payloads.iter().flat_map(|payload| frame(payload)).collect();
            let (mut buffer, mut taken) = (BytesMut::new(), Vec::new());
            for piece in stream.chunks(piece) {
                buffer.extend_from_slice(piece);
                while let Some(payload) = take(&mut buffer, 20).unwrap() {
                    taken.push(payload.to_vec());
                }
            }
            prop_assert_eq!(taken, payloads);
            prop_assert!(buffer.is_empty());
        }
    }
}
