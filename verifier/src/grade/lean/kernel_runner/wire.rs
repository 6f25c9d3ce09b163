//! The protocol between the verifier and a process of the kernel: frames of bounded size. Neither side trusts the other's frames.
//!
//! A request is the length of a head, the head as JSON, and the files. The head states their sizes. A response is a length, and JSON.

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Maximum size of a head or a response, in bytes.
const MAX_TEXT: usize = 64 << 10;
/// Maximum size of a file, in bytes. The files that Lean compiles are smaller.
pub(super) const MAX_FILE: usize = 64 << 20;
/// Maximum number of files in a request: the theorem's name, and the files of a compiled module.
const MAX_FILES: usize = 8;
/// Maximum length of a reason, in characters.
const MAX_REASON: usize = 4_000;

/// The first message of a process. It distinguishes the process from other programs.
pub(super) const HELLO: &str = concat!("rapid-verifier kernel ", env!("CARGO_PKG_VERSION"));

/// The kinds of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RequestKind {
    /// Sets the statement of the following requests, and opens its library. Files: the theorem's name, then the statement's compiled module.
    Statement {
        /// Whether axiom dependencies are checked transitively, through all imports.
        followed: bool,
        steps: u64,
        terms: usize,
    },
    /// Checks the statement without a proof.
    Alone,
    /// Checks whether the files, a compiled module, prove the statement.
    Proof,
}

/// The head of a request, before its files.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RequestHead {
    pub(super) number: u64,
    pub(super) ask: RequestKind,
    /// Size of each file, in bytes.
    files: Vec<usize>,
}

/// A response to the request with the same number; the number is 0 for the first message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KernelResponse {
    pub(super) number: u64,
    pub(super) said: ResponseKind,
}

/// The kinds of response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ResponseKind {
    /// The first message: [`HELLO`].
    Hello(String),
    /// The statement has no error so far.
    Ready,
    /// The statement is proved; the axioms are listed if they were checked transitively.
    Proved(Option<Vec<String>>),
    /// The statement or its library is faulty.
    Task(String),
    /// The proof is faulty.
    Rejected(String),
    /// The proof's compiled module cannot be read.
    Unreadable(String),
    /// The check needs too many steps or terms.
    Budget,
    /// The kernel itself failed.
    Failed,
}

impl ResponseKind {
    /// The response with its reason shortened to fit into a frame.
    fn bounded(self) -> Self {
        let cut = |reason: String| match reason.char_indices().nth(MAX_REASON) {
            Some((end, _)) => reason[..end].to_owned(),
            None => reason,
        };
        match self {
            ResponseKind::Task(reason) => ResponseKind::Task(cut(reason)),
            ResponseKind::Rejected(reason) => ResponseKind::Rejected(cut(reason)),
            ResponseKind::Unreadable(reason) => ResponseKind::Unreadable(cut(reason)),
            other => other,
        }
    }
}

fn invalid(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

fn write_text(to: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_vec(value)?;
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    if text.len() > MAX_TEXT {
        return Err(invalid("a frame is too long"));
    }
    to.write_all(&[&length.to_le_bytes(), &text[..]].concat())
}

/// Reads what [`write_text`] wrote; `None` at the end of the stream.
fn read_text<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    let first = loop {
        match from.read(&mut length[..1]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => break other?,
        }
    };
    if first == 0 {
        return Ok(None);
    }
    from.read_exact(&mut length[1..])?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_TEXT {
        return Err(invalid(format!("a frame of {length} bytes")));
    }
    let mut text = vec![0; length];
    from.read_exact(&mut text)?;
    Ok(Some(serde_json::from_slice(&text)?))
}

/// Writes a request.
pub(super) fn write_request(
    to: &mut impl Write,
    number: u64,
    ask: RequestKind,
    files: &[&[u8]],
) -> io::Result<()> {
    let head = RequestHead {
        number,
        ask,
        files: files.iter().map(|file| file.len()).collect(),
    };
    write_text(to, &head)?;
    for file in files {
        to.write_all(file)?;
    }
    to.flush()
}

/// Reads a request, with its files; `None` at the end of the stream.
pub(super) fn read_request(
    from: &mut impl Read,
) -> io::Result<Option<(RequestHead, Vec<Vec<u8>>)>> {
    let Some(head) = read_text::<RequestHead>(from)? else {
        return Ok(None);
    };
    if head.files.len() > MAX_FILES || head.files.iter().any(|size| *size > MAX_FILE) {
        return Err(invalid("a request has too many files, or too large ones"));
    }
    let mut files = Vec::new();
    for size in &head.files {
        let mut file = vec![0; *size];
        from.read_exact(&mut file)?;
        files.push(file);
    }
    Ok(Some((head, files)))
}

/// Writes a response.
pub(super) fn write_response(
    to: &mut impl Write,
    number: u64,
    said: ResponseKind,
) -> io::Result<()> {
    let said = said.bounded();
    write_text(to, &KernelResponse { number, said })?;
    to.flush()
}

/// Reads the response to the request with this number.
pub(super) fn read_response(from: &mut impl Read, number: u64) -> io::Result<ResponseKind> {
    let response: Option<KernelResponse> = read_text(from)?;
    let response = response.ok_or(io::ErrorKind::UnexpectedEof)?;
    if response.number != number {
        return Err(invalid("the response belongs to another request"));
    }
    Ok(response.said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_responses_are_read_as_they_were_written() {
        let mut bytes = Vec::new();
        let kind = RequestKind::Statement {
            followed: false,
            steps: 1,
            terms: 2,
        };
        write_request(&mut bytes, 7, kind, &[b"swap", b"", b"olean"]).unwrap();
        write_request(&mut bytes, 8, RequestKind::Proof, &[]).unwrap();
        let mut from = &bytes[..];
        let (head, files) = read_request(&mut from).unwrap().unwrap();
        assert_eq!((head.number, head.ask), (7, kind));
        assert_eq!(files, [&b"swap"[..], b"", b"olean"]);
        let (head, _) = read_request(&mut from).unwrap().unwrap();
        assert_eq!(head.ask, RequestKind::Proof);
        assert!(read_request(&mut from).unwrap().is_none());
        for said in [
            ResponseKind::Proved(Some(vec!["propext".to_owned()])),
            ResponseKind::Proved(None),
            ResponseKind::Rejected("no".to_owned()),
            ResponseKind::Budget,
        ] {
            let mut bytes = Vec::new();
            write_response(&mut bytes, 7, said.clone()).unwrap();
            assert_eq!(read_response(&mut &bytes[..], 7).unwrap(), said);
            let of_another_request = read_response(&mut &bytes[..], 6);
            assert!(of_another_request.is_err());
        }
    }

    #[test]
    fn oversized_and_malformed_frames_are_refused() {
        let head = |text: &str| [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
        for bytes in [
            vec![255; 4],
            b"\x05\0\0\0{".to_vec(),
            head("{}"),
            head(r#"{"number":1,"ask":"proof","files":[99999999999]}"#),
            head(r#"{"number":1,"ask":"proof","files":[0,0,0,0,0,0,0,0,0]}"#),
            head(r#"{"number":1,"ask":"proof","files":[9]}"#),
        ] {
            assert!(read_request(&mut &bytes[..]).is_err(), "{bytes:?}");
        }
        let unknown = head(r#"{"number":1,"said":"what"}"#);
        for bytes in [vec![255; 4], Vec::new(), unknown] {
            assert!(read_response(&mut &bytes[..], 1).is_err(), "{bytes:?}");
        }
        let mut bytes = Vec::new();
        write_response(&mut bytes, 1, ResponseKind::Rejected("\0é".repeat(1 << 20))).unwrap();
        assert!(bytes.len() <= MAX_TEXT && read_response(&mut &bytes[..], 1).is_ok());
    }
}
