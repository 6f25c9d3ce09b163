//! Finds the program in a completion. Exactly one is chosen, by parsing alone: nothing of the completion is run, and no second program is tried.
//!
//! ```text
//! completion ── answer ──▶ answer text ── fences ──▶ parts ── sandbox parses ──▶ outlines ── choose ──▶ program
//! ```
//!
//! `verifier/docs/code-extraction.md` states the rule. The sandbox's interpreter parses the texts, in an instance that runs no program. Parsing in the program's own
//! instance, before its run, would save an instance. But then even a completion without valid Python would wait for the task's expected values, perhaps for minutes.

mod answer;
mod choose;
mod fences;
mod last_block;

use clap::ValueEnum;
use datasets::settings::choice;
use sandboxes::defined_names::{self, Stopped, Text};
use sandboxes::{Limits, Sandbox};

pub use self::choose::ExtractedProgram;
use self::fences::Part;
use super::program::{self, Wanted};

/// Maximum bytes of a text to parse. No model writes more, and a longer text would use up the fuel of the others.
const MAX_TEXT_BYTES: usize = 1 << 20;

choice! {
    /// How the program is found in a completion. The command line's help shows the comments of the variants.
    #[derive(ValueEnum)]
    pub enum Extraction {
        /// The text itself if it is Python, else the last block that defines the entry point, with the definitions that it needs from earlier blocks
        #[default]
        Program = "program",
        /// The last Python block, else the last block, else the whole text, as in version 0.1.0
        LastBlock = "last-block",
    }
}

/// Finds the program of `completion` by the rule `extraction`; without a rule, the completion is the program. `None` if there is none.
///
/// # Errors
/// [`Stopped`].
pub(super) fn find(
    sandbox: &dyn Sandbox,
    extraction: Option<Extraction>,
    wanted: Wanted<'_>,
    completion: &str,
    limits: &Limits,
) -> Result<Option<ExtractedProgram>, Stopped> {
    match extraction {
        Some(Extraction::Program) => {}
        Some(Extraction::LastBlock) => return last_block(sandbox, wanted, completion, limits),
        None if completion.trim().is_empty() => return Ok(None),
        None => return with_load_error(sandbox, completion.to_owned(), limits),
    }
    // A byte order mark is not Python.
    let completion = completion.trim_start_matches('\u{feff}');
    let text = answer::without_end_tokens(completion);
    if text.trim().is_empty() {
        return Ok(None);
    }
    let answer = answer::without_thought(answer::before_next_turn(text));
    // The whole text, the answer in it if that is shorter, and the parts between the answer's fences.
    let mut texts = vec![Part::whole(text)];
    if answer != text {
        texts.push(Part::whole(&answer));
    }
    let wholes = texts.len();
    let marks = fences::marks(&answer);
    texts.extend(fences::parts(&answer, &marks));
    parse(sandbox, wanted, &mut texts, limits)?;
    let (wholes, parts) = texts.split_at(wholes);
    let code = wholes.last().map(Part::code).unwrap_or_default();
    let outside = fences::outside_of(&answer, &marks, &code);
    if outside.len() == marks.len() {
        return Ok(choose::choose(wanted, wholes, &marks, parts));
    }
    // Some fences are inside strings, which is rare: the parts change.
    let mut parts = fences::parts(&answer, &outside);
    parse(sandbox, wanted, &mut parts, limits)?;
    Ok(choose::choose(wanted, wholes, &outside, &parts))
}

fn last_block(
    sandbox: &dyn Sandbox,
    wanted: Wanted<'_>,
    completion: &str,
    limits: &Limits,
) -> Result<Option<ExtractedProgram>, Stopped> {
    let Some(code) = last_block::extract(completion) else {
        return Ok(None);
    };
    let fenced = code.len() < completion.len();
    let whole = wanted
        .entry_point
        .is_some_and(|name| program::is_whole(code, name));
    let source = program::assemble(wanted, code, fenced, whole).into_owned();
    with_load_error(sandbox, source, limits)
}

/// The program `source`, with the fault that the parser finds in it.
fn with_load_error(
    sandbox: &dyn Sandbox,
    source: String,
    limits: &Limits,
) -> Result<Option<ExtractedProgram>, Stopped> {
    let text = Text {
        header: "",
        text: &source,
        loose: false,
    };
    let outline = defined_names::read(sandbox, &[text], limits)?.pop();
    let fault = outline.and_then(|outline| outline.fault);
    Ok(Some(ExtractedProgram { source, fault }))
}

/// Parses each part, alone and, if the task has a prefix, after the prefix.
fn parse(
    sandbox: &dyn Sandbox,
    wanted: Wanted<'_>,
    parts: &mut [Part<'_>],
    limits: &Limits,
) -> Result<(), Stopped> {
    let prefix = wanted.prefix;
    let header = |fenced| {
        let prefix = prefix.unwrap_or_default();
        format!("{prefix}{}", program::line_break(prefix, fenced))
    };
    let (outside, inside) = (header(false), header(true));
    let is_short = |part: &Part<'_>| part.text.len() <= MAX_TEXT_BYTES;
    let mut texts = Vec::with_capacity(parts.len() * 2);
    for part in parts.iter().filter(|part| is_short(part)) {
        let text = |header| Text {
            header,
            text: &part.text,
            loose: !part.closed,
        };
        texts.push(text(""));
        if prefix.is_some() {
            texts.push(text(if part.fenced { &inside } else { &outside }));
        }
    }
    let mut outlines = defined_names::read(sandbox, &texts, limits)?.into_iter();
    for part in parts.iter_mut().filter(|part| is_short(part)) {
        part.alone = outlines.next().unwrap_or_default();
        part.after_prefix = prefix.and_then(|_| outlines.next());
    }
    Ok(())
}
