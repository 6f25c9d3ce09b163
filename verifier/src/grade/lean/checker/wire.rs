//! The protocol between the verifier and the process of its kernel: frames of bounded size, which neither side trusts further.
//!
//! A question is the length of a head, the head as JSON, and the files whose sizes the head states. An answer is a length, and JSON.

use std::io::{self, Read, Write};

use kernel::Budget;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Bytes of a head or an answer.
const MAX_TEXT: usize = 64 << 10;
/// Bytes of a file. What Lean compiles is no larger.
pub(super) const MAX_FILE: usize = 64 << 20;
/// Files of a question: the theorem's name, and those of a compiled module.
const MAX_FILES: usize = 8;
/// Characters of a reason.
const MAX_REASON: usize = 4_000;

/// The first message of a process, so that no other program is mistaken for it.
pub(super) const HELLO: &str = concat!("rapid-verifier kernel ", env!("CARGO_PKG_VERSION"));

/// A request to the kernel's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum CheckRequest {
    /// Opens the library of a statement, to which the next requests refer. Its files are the theorem's name, then the statement's compiled module.
    Statement {
        /// Whether the axioms that a proof rests on are followed through all imports.
        followed: bool,
        steps: u64,
        terms: usize,
    },
    /// Checks whether the statement can be judged by itself.
    Alone,
    /// Checks whether its files, a compiled module, prove the statement.
    Proof,
}

impl CheckRequest {
    /// The request that opens a statement.
    pub(super) fn statement(axioms: kernel::Axioms, budget: Budget) -> Self {
        CheckRequest::Statement {
            followed: axioms == kernel::Axioms::Followed,
            steps: budget.steps,
            terms: budget.terms,
        }
    }
}

/// The head of a question, which precedes its files.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    number: u64,
    ask: CheckRequest,
    /// Bytes of each file.
    files: Vec<usize>,
}

/// A question that was read.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) number: u64,
    pub(super) ask: CheckRequest,
    pub(super) files: Vec<Vec<u8>>,
}

/// An answer to the question with this number, or 0 for the message before any question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) number: u64,
    pub(super) said: CheckReply,
}

/// A reply of the kernel's process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum CheckReply {
    /// The process identifies itself.
    Hello(String),
    /// Nothing is wrong with the statement so far.
    Ready,
    /// The statement is proved; from these axioms, if they were followed.
    Proved(Option<Vec<String>>),
    /// The statement or its library is at fault.
    Task(String),
    /// The proof is at fault.
    Rejected(String),
    /// The proof's files are not a compiled module.
    Unreadable(String),
    /// The check takes too many steps or terms.
    Budget,
    /// The kernel itself failed.
    Failed,
}

impl CheckReply {
    /// The reply with its reason cut so that it fits into an answer.
    fn bounded(self) -> Self {
        let cut = |reason: String| match reason.char_indices().nth(MAX_REASON) {
            Some((end, _)) => reason[..end].to_owned(),
            None => reason,
        };
        match self {
            CheckReply::Task(reason) => CheckReply::Task(cut(reason)),
            CheckReply::Rejected(reason) => CheckReply::Rejected(cut(reason)),
            CheckReply::Unreadable(reason) => CheckReply::Unreadable(cut(reason)),
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

/// Reads a value that [`write_text`] wrote; `None` at the end of a stream.
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

/// Writes a question.
pub(super) fn ask(
    to: &mut impl Write,
    number: u64,
    ask: CheckRequest,
    files: &[&[u8]],
) -> io::Result<()> {
    let head = Head {
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

/// Reads a question; `None` at the end of the stream.
pub(super) fn question(from: &mut impl Read) -> io::Result<Option<Question>> {
    let Some(head) = read_text::<Head>(from)? else {
        return Ok(None);
    };
    if head.files.len() > MAX_FILES || head.files.iter().any(|size| *size > MAX_FILE) {
        return Err(invalid("a question has too many files, or too large ones"));
    }
    let mut files = Vec::new();
    for size in head.files {
        let mut file = vec![0; size];
        from.read_exact(&mut file)?;
        files.push(file);
    }
    Ok(Some(Question {
        number: head.number,
        ask: head.ask,
        files,
    }))
}

/// Writes an answer.
pub(super) fn answer(to: &mut impl Write, number: u64, said: CheckReply) -> io::Result<()> {
    let said = said.bounded();
    write_text(to, &Answer { number, said })?;
    to.flush()
}

/// Reads the answer to the question with this number.
pub(super) fn answered(from: &mut impl Read, number: u64) -> io::Result<CheckReply> {
    let answer: Option<Answer> = read_text(from)?;
    let answer = answer.ok_or(io::ErrorKind::UnexpectedEof)?;
    if answer.number != number {
        return Err(invalid("it answered a different question"));
    }
    Ok(answer.said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_answers_survive_a_round_trip() {
        let mut bytes = Vec::new();
        let asked = CheckRequest::statement(kernel::Axioms::Named, Budget::default());
        ask(&mut bytes, 7, asked, &[b"swap", b"", b"olean"]).unwrap();
        ask(&mut bytes, 8, CheckRequest::Proof, &[]).unwrap();
        let mut from = &bytes[..];
        let read = question(&mut from).unwrap().unwrap();
        assert_eq!((read.number, read.ask), (7, asked));
        assert_eq!(read.files, [&b"swap"[..], b"", b"olean"]);
        assert_eq!(
            question(&mut from).unwrap().unwrap().ask,
            CheckRequest::Proof
        );
        assert!(question(&mut from).unwrap().is_none());
        for said in [
            CheckReply::Proved(Some(vec!["propext".to_owned()])),
            CheckReply::Proved(None),
            CheckReply::Rejected("no".to_owned()),
            CheckReply::Budget,
        ] {
            let mut bytes = Vec::new();
            answer(&mut bytes, 7, said.clone()).unwrap();
            assert_eq!(answered(&mut &bytes[..], 7).unwrap(), said);
            assert!(answered(&mut &bytes[..], 6).is_err(), "another's answer");
        }
    }

    #[test]
    fn frames_that_are_too_long_or_malformed_are_refused() {
        let head = |text: &str| [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
        for bytes in [
            vec![255; 4],
            b"\x05\0\0\0{".to_vec(),
            head("{}"),
            head(r#"{"number":1,"ask":"proof","files":[99999999999]}"#),
            head(r#"{"number":1,"ask":"proof","files":[0,0,0,0,0,0,0,0,0]}"#),
            head(r#"{"number":1,"ask":"proof","files":[9]}"#),
        ] {
            assert!(question(&mut &bytes[..]).is_err(), "{bytes:?}");
        }
        for bytes in [
            vec![255; 4],
            Vec::new(),
            head(r#"{"number":1,"said":"what"}"#),
        ] {
            assert!(answered(&mut &bytes[..], 1).is_err(), "{bytes:?}");
        }
        let mut bytes = Vec::new();
        answer(&mut bytes, 1, CheckReply::Rejected("\0é".repeat(1 << 20))).unwrap();
        assert!(bytes.len() <= MAX_TEXT && answered(&mut &bytes[..], 1).is_ok());
    }
}
