//! Any bytes, read as a value in the interpreter's binary form, do not make the reader panic. If it accepts them, it produces JSON text. It never writes more text than
//! allowed.
//!
//! ```sh
//! bash scripts/fuzz.sh 300 marshal
//! ```
#![no_main]

use libfuzzer_sys::fuzz_target;
use sandboxes::protocol::marshal::{elements, value};

/// Maximum bytes of text for `bytes` bytes: the text of a value, and the text that one refusal may add.
fn limit(bytes: usize) -> u64 {
    ((64 + 16) * bytes + 4096) as u64
}

fuzz_target!(|bytes: &[u8]| {
    let mut written = 0;
    let read = value(bytes, &mut written);
    assert!(written <= limit(bytes.len()), "{written} bytes of text");
    if let Ok(text) = read {
        let json: Result<serde_json::Value, _> = serde_json::from_slice(&text);
        assert!(json.is_ok(), "{}", String::from_utf8_lossy(&text));
    }
    let mut written = 0;
    let read = elements(bytes, &mut written);
    assert!(written <= limit(bytes.len()), "{written} bytes of text");
    if let Ok(text) = read {
        let list = [&b"["[..], &text, b"]"].concat();
        let json: Result<serde_json::Value, _> = serde_json::from_slice(&list);
        assert!(json.is_ok(), "{}", String::from_utf8_lossy(&list));
    }
});
