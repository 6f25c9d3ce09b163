//! What the verifier and the process of its kernel say to each other: frames of bounded size, each side trusting the other's no further.
//!
//! A question is the length of a head, the head as JSON, and as many bytes as the head says. An answer is a length, and JSON.

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

/// What a process says first, so that no other program is taken for it.
pub(super) const HELLO: &str = concat!("rapid-verifier kernel ", env!("CARGO_PKG_VERSION"));

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Ask {
    /// Opens the library of a statement, about which the next questions are. Its files: the theorem's name, then the statement's compiled module.
    Statement {
        /// Whether it is followed through all that is imported what a proof rests on.
        followed: bool,
        steps: u64,
        terms: usize,
    },
    /// Whether the statement can be judged by itself.
    Alone,
    /// Whether these files, a compiled module, prove it.
    Proof,
}

impl Ask {
    /// A statement's.
    pub(super) fn statement(axioms: kernel::Axioms, budget: Budget) -> Self {
        Ask::Statement {
            followed: axioms == kernel::Axioms::Followed,
            steps: budget.steps,
            terms: budget.terms,
        }
    }
}

/// What precedes the files of a question.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    number: u64,
    ask: Ask,
    /// Bytes of each file.
    files: Vec<usize>,
}

/// A question, as it was read.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) number: u64,
    pub(super) ask: Ask,
    pub(super) files: Vec<Vec<u8>>,
}

/// An answer to the question of a number; 0 for what is said before any.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) number: u64,
    pub(super) said: Said,
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Said {
    /// The process is what it should be.
    Hello(String),
    /// Nothing is wrong with the statement, so far.
    Ready,
    /// It is proved; from these axioms, where they were followed.
    Proved(Option<Vec<String>>),
    /// The statement or its library is at fault.
    Task(String),
    /// The proof is.
    Rejected(String),
    /// The proof's compiled module is no such thing.
    Unreadable(String),
    /// It takes too many steps or terms.
    Budget,
    /// The kernel itself failed.
    Failed,
}

impl Said {
    /// With its reason cut to what fits into an answer.
    fn bounded(self) -> Self {
        let cut = |reason: String| match reason.char_indices().nth(MAX_REASON) {
            Some((end, _)) => reason[..end].to_owned(),
            None => reason,
        };
        match self {
            Said::Task(reason) => Said::Task(cut(reason)),
            Said::Rejected(reason) => Said::Rejected(cut(reason)),
            Said::Unreadable(reason) => Said::Unreadable(cut(reason)),
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

/// Reads what [`write_text`] wrote; `None` at the end of a stream.
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
pub(super) fn ask(to: &mut impl Write, number: u64, ask: Ask, files: &[&[u8]]) -> io::Result<()> {
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

/// Reads a question; `None` where no more come.
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
pub(super) fn answer(to: &mut impl Write, number: u64, said: Said) -> io::Result<()> {
    let said = said.bounded();
    write_text(to, &Answer { number, said })?;
    to.flush()
}

/// Reads the answer to the question of a number.
pub(super) fn answered(from: &mut impl Read, number: u64) -> io::Result<Said> {
    let answer: Option<Answer> = read_text(from)?;
    let answer = answer.ok_or(io::ErrorKind::UnexpectedEof)?;
    if answer.number != number {
        return Err(invalid("it answered another question than was asked"));
    }
    Ok(answer.said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut bytes = Vec::new();
        let asked = Ask::statement(kernel::Axioms::Named, Budget::default());
        ask(&mut bytes, 7, asked, &[b"swap", b"", b"olean"]).unwrap();
        ask(&mut bytes, 8, Ask::Proof, &[]).unwrap();
        let mut from = &bytes[..];
        let read = question(&mut from).unwrap().unwrap();
        assert_eq!((read.number, read.ask), (7, asked));
        assert_eq!(read.files, [&b"swap"[..], b"", b"olean"]);
        assert_eq!(question(&mut from).unwrap().unwrap().ask, Ask::Proof);
        assert!(question(&mut from).unwrap().is_none());
        for said in [
            Said::Proved(Some(vec!["propext".to_owned()])),
            Said::Proved(None),
            Said::Rejected("no".to_owned()),
            Said::Budget,
        ] {
            let mut bytes = Vec::new();
            answer(&mut bytes, 7, said.clone()).unwrap();
            assert_eq!(answered(&mut &bytes[..], 7).unwrap(), said);
            assert!(answered(&mut &bytes[..], 6).is_err(), "another's answer");
        }
    }

    #[test]
    fn what_is_too_long_or_no_frame_is_refused_and_not_read() {
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
        answer(&mut bytes, 1, Said::Rejected("\0é".repeat(1 << 20))).unwrap();
        assert!(bytes.len() <= MAX_TEXT && answered(&mut &bytes[..], 1).is_ok());
    }
}
