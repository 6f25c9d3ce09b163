//! Random numbers that depend only on the two answers. So a verdict depends only on them too.

/// The seed of two answers.
pub(crate) fn seed(expected: &str, answer: &str) -> u64 {
    hash(0, expected.bytes().chain([0]).chain(answer.bytes()))
}

/// A hash of bytes that continues from `start`.
pub(crate) fn hash(start: u64, bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(start, |hash, byte| mix(hash ^ u64::from(byte)))
}

/// SplitMix64's step (Steele, Lea & Flood 2014).
pub(crate) fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
