//! What texts define and use, as the sandbox's own interpreter reads them. Nothing of them is run.
//!
//! `guest/outline.py` reads one text after another. A text that breaks the reading off stays unread, and the next is read in a fresh instance, so that no text decides what
//! becomes of another. Where the fuel is used up, all further texts stay unread. Where a clock ends the reading, the outcome is an error for all texts, as another reading might
//! get further.

use std::ops::Range;

use serde::Deserialize;

use crate::{Call, End, Limits, Request, Run, Sandbox, SandboxError, Work};

/// Instances besides the first in which texts are read, where one breaks off.
const MAX_FURTHER: usize = 3;

/// A text that may be Python.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Text<'a> {
    /// Code that stands before it; it is no part of what is read loosely.
    pub header: &'a str,
    /// The text.
    pub text: &'a str,
    /// Whether lines that are no Python, and statements of mere words, are left out. Otherwise it is Python as a whole, or not at all.
    pub loose: bool,
}

/// What a text holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outline {
    /// It was read.
    Read {
        /// What of it is Python: one piece for all of it, none, or, read loosely, some.
        pieces: Vec<Piece>,
        /// Why header and text are no program as they stand.
        fault: Option<Fault>,
    },
    /// The interpreter broke off, or ran out of fuel.
    Unread,
}

/// Some lines of a text that are Python.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Numbers of its lines, which end in `\n`, from 0.
    pub lines: Range<usize>,
    /// Names that it gives values to at its top level, by `def`, `class`, an assignment and the like.
    pub defines: Vec<String>,
    /// Names that it imports there.
    pub imports: Vec<String>,
    /// Names that it takes from elsewhere, builtins left out.
    pub uses: Vec<String>,
    /// Whether it goes on with a statement that the header begins.
    pub goes_on: bool,
}

/// What loading a program would raise before any of it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// `SyntaxError`
    pub kind: String,
    /// The start of the message.
    pub message: String,
}

/// Why texts were not read.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    /// A clock ended the reading: they take too long.
    #[error("the texts take too long to read")]
    OutOfTime,
    /// The sandbox failed.
    #[error(transparent)]
    Failed(#[from] SandboxError),
}

/// Outlines of `texts`, in their order.
///
/// # Errors
/// [`Stopped`].
pub fn read(
    sandbox: &dyn Sandbox,
    texts: &[Text<'_>],
    limits: &Limits,
) -> Result<Vec<Outline>, Stopped> {
    let calls: Vec<String> = texts
        .iter()
        .map(|text| serde_json::json!([text.header, text.text, text.loose]).to_string())
        .collect();
    let mut outlines = Vec::with_capacity(texts.len());
    for _ in 0..=MAX_FURTHER {
        if outlines.len() >= calls.len() {
            break;
        }
        let work = Work::Outline {
            texts: &calls[outlines.len()..],
        };
        let Run {
            calls: read, end, ..
        } = sandbox.run(&Request::new(work, limits))?;
        outlines.extend(read.iter().map(outline));
        match end {
            End::OutOfTime => return Err(Stopped::OutOfTime),
            End::OutOfFuel => break,
            _ => {}
        }
        if outlines.len() < calls.len() {
            outlines.push(Outline::Unread);
        }
    }
    outlines.resize(texts.len(), Outline::Unread);
    Ok(outlines)
}

/// A piece as `guest/outline.py` writes it.
#[derive(Deserialize)]
struct Written(usize, usize, Vec<String>, Vec<String>, Vec<String>, bool);

fn outline(call: &Call) -> Outline {
    let Call::Returned(json) = call else {
        return Outline::Unread;
    };
    let Ok((pieces, fault)) =
        serde_json::from_str::<(Vec<Written>, Option<(String, String)>)>(json)
    else {
        return Outline::Unread;
    };
    Outline::Read {
        pieces: pieces
            .into_iter()
            .map(
                |Written(first, behind, defines, imports, uses, goes_on)| Piece {
                    lines: first..behind,
                    defines,
                    imports,
                    uses,
                    goes_on,
                },
            )
            .collect(),
        fault: fault.map(|(kind, message)| Fault { kind, message }),
    }
}
