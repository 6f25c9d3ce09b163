//! The names that texts define and use, as the sandbox's own interpreter reads the texts. No part of a text is run.
//!
//! `guest/defined_names.py` reads one text after another. If a text interrupts the reading, it stays unread, and a fresh instance reads the next one. So no text affects
//! another. If the fuel is used up, all further texts stay unread. If a clock ends the reading, the outcome is an error for all texts, since another reading might get
//! further.

use std::ops::Range;

use serde::Deserialize;

use crate::{Call, End, Limits, Request, Sandbox, SandboxError, Work};

/// Maximum further instances after the first, if an instance breaks off.
const MAX_RESTARTS: usize = 3;

/// A text that may be Python.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Text<'a> {
    /// Code that stands before the text. Loose reading does not apply to it.
    pub header: &'a str,
    /// The text.
    pub text: &'a str,
    /// Whether lines that are not Python, and statements of mere words, are left out. Otherwise the text is Python as a whole, or not at all.
    pub loose: bool,
}

/// What the interpreter read in a text, in the form of `guest/defined_names.py`. The default is the outline of an unread text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Outline {
    /// The parts of it that are Python: one piece for the whole text, no piece, or some pieces if it is read loosely.
    pub pieces: Vec<Piece>,
    /// Why header and text are not a program as they stand.
    pub fault: Option<Fault>,
}

/// Some lines of a text that are Python.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Piece {
    /// Number of its first line, from 0. A line ends in `\n`.
    first: usize,
    /// Number of the line after its last.
    end: usize,
    /// Names that it binds at its top level, by `def`, `class`, an assignment and the like.
    pub defines: Vec<String>,
    /// Names that it imports at its top level.
    pub imports: Vec<String>,
    /// Names that it uses and does not define, without the builtins.
    pub uses: Vec<String>,
    /// Whether it continues a statement that the header begins.
    pub continues_header: bool,
}

impl Piece {
    /// Numbers of its lines, from 0.
    #[must_use]
    pub fn lines(&self) -> Range<usize> {
        self.first..self.end
    }
}

/// The exception that loading a program would raise before any of the program runs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Fault {
    /// `SyntaxError`
    pub kind: String,
    /// The start of the message.
    pub message: String,
}

/// Why texts were not read.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    /// A clock ended the reading: the texts take too long.
    #[error("the texts take too long to read")]
    OutOfTime,
    /// The machine had no memory for the reading.
    #[error("the machine had no memory to read the texts")]
    OutOfMemory,
    /// The sandbox failed.
    #[error(transparent)]
    Failed(#[from] SandboxError),
}

/// Returns the outlines of `texts`, in their order.
///
/// # Errors
/// [`Stopped`].
pub fn read(
    sandbox: &dyn Sandbox,
    texts: &[Text<'_>],
    limits: &Limits,
) -> Result<Vec<Outline>, Stopped> {
    let call = |it: &Text<'_>| serde_json::json!([it.header, it.text, it.loose]).to_string();
    let calls: Vec<String> = texts.iter().map(call).collect();
    let mut outlines = Vec::with_capacity(texts.len());
    for _ in 0..=MAX_RESTARTS {
        if outlines.len() >= calls.len() {
            break;
        }
        let work = Work::Outline {
            texts: &calls[outlines.len()..],
        };
        let run = sandbox.run(&Request::new(work, limits))?;
        outlines.extend(run.calls.iter().map(outline));
        match run.end {
            End::OutOfTime => return Err(Stopped::OutOfTime),
            End::MachineOutOfMemory => return Err(Stopped::OutOfMemory),
            End::OutOfFuel => break,
            _ => {}
        }
        if outlines.len() < calls.len() {
            outlines.push(Outline::default());
        }
    }
    outlines.resize(texts.len(), Outline::default());
    Ok(outlines)
}

fn outline(call: &Call) -> Outline {
    match call {
        Call::Returned(json) => serde_json::from_str(json).unwrap_or_default(),
        Call::Raised { .. } | Call::TooDeepOrLarge => Outline::default(),
    }
}
