//! The digest in place of a value that is too long; see [`Call::Returned`](crate::Call::Returned).

/// The beginning of every digest.
const START: &str = "{\"$digest\":\"";

/// The digest of a value. `length` is the bytes of its encoding, and `hash` the hash of that.
pub(crate) fn digest(length: u64, hash: &blake3::Hash) -> String {
    format!("{START}{length} bytes, BLAKE3 {hash}\"}}")
}

/// Whether two returned values have the same encoding. One of them may be a digest and the other not: the room for a value also depends on the earlier values of the
/// same run.
#[must_use]
pub fn is_same_encoding(a: &str, b: &str) -> bool {
    let digest_of = |text: &str| digest(text.len() as u64, &blake3::hash(text.as_bytes()));
    match (a.starts_with(START), b.starts_with(START)) {
        (true, false) => digest_of(b) == a,
        (false, true) => digest_of(a) == b,
        (true, true) | (false, false) => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_the_same_as_its_digest_and_as_no_other() {
        let digest_of = |text: &str| digest(text.len() as u64, &blake3::hash(text.as_bytes()));
        for (a, b, same) in [
            ("[1,2]", "[1,2]".to_owned(), true),
            ("[1,2]", "[1,3]".to_owned(), false),
            ("[1,2]", digest_of("[1,2]"), true),
            ("[1,2]", digest_of("[1,3]"), false),
            ("[1,2]", format!("{START}5 bytes\"}}"), false),
            (&digest_of("[1,2]"), digest_of("[1,2]"), true),
            (&digest_of("[1,2]"), digest_of("[1,3]"), false),
        ] {
            assert_eq!(is_same_encoding(a, &b), same, "{a} and {b}");
            assert_eq!(is_same_encoding(&b, a), same, "{b} and {a}");
        }
    }
}
