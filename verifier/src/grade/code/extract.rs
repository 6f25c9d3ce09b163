//! Finds the program in a completion. Exactly one is chosen, by reading alone: nothing of the completion runs, and no second one is tried.
//!
//! ```text
//! completion ── answer ──▶ what is answered ── fences ──▶ texts ── sandbox reads ──▶ outlines ── choose ──▶ program
//! ```
//!
//! `docs/tasks.md` states the rule. The sandbox's own interpreter says what is Python, in an instance in which no program runs: parsing before a run in that program's own instance would save
//! an instance, but a program that is none could then be judged only after the task's expected values are there, which may take minutes.

mod answer;
mod choose;
mod fences;
mod last_block;

use clap::ValueEnum;
use datasets::CodeTask;
use datasets::settings::choice;
use sandboxes::outline::{self, Fault, Outline, Stopped, Text};
use sandboxes::{Limits, Sandbox};

use self::choose::Reading;
use self::fences::Part;
use super::program;

/// Bytes beyond which a text is not read: no model writes as much, and it would use up the fuel that is for the others.
const MAX_TEXT: usize = 1 << 20;

choice! {
    /// How the program is found in a completion. The command line's help says of each variant what is said of it here.
    #[derive(ValueEnum)]
    pub enum Extraction {
        /// The text itself where it is Python, else the last block that defines the entry point, with what it needs of earlier ones
        #[default]
        Program = "program",
        /// The last Python block, else the last block, else the whole text, as up to version 0.1
        LastBlock = "last-block",
    }
}

/// The program that a completion means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// Its source, never blank.
    pub source: String,
    /// Why it cannot be loaded, where the interpreter says so before any of it runs.
    pub fault: Option<Fault>,
}

/// The program of `completion`, as `extraction` finds it; `None` where it holds none.
///
/// # Errors
/// [`Stopped`].
pub(super) fn find(
    sandbox: &dyn Sandbox,
    extraction: Extraction,
    task: &CodeTask,
    completion: &str,
    limits: &Limits,
) -> Result<Option<Found>, Stopped> {
    match extraction {
        Extraction::Program => program(sandbox, task, completion, limits),
        Extraction::LastBlock => last_block(sandbox, task, completion, limits),
    }
}

fn last_block(
    sandbox: &dyn Sandbox,
    task: &CodeTask,
    completion: &str,
    limits: &Limits,
) -> Result<Option<Found>, Stopped> {
    let Some(code) = last_block::extract(completion) else {
        return Ok(None);
    };
    let fenced = code.len() < completion.len();
    let whole = program::is_whole(code, &task.entry_point);
    let source = program::assemble(task, code, fenced, whole).into_owned();
    let fault = faults(sandbox, &source, limits)?;
    Ok(Some(Found { source, fault }))
}

/// A whole program, which is not looked for in anything; `None` where it is blank.
///
/// # Errors
/// [`Stopped`].
pub(super) fn as_it_stands(
    sandbox: &dyn Sandbox,
    source: &str,
    limits: &Limits,
) -> Result<Option<Found>, Stopped> {
    if source.trim().is_empty() {
        return Ok(None);
    }
    Ok(Some(Found {
        source: source.to_owned(),
        fault: faults(sandbox, source, limits)?,
    }))
}

/// Why `source` cannot be loaded.
fn faults(sandbox: &dyn Sandbox, source: &str, limits: &Limits) -> Result<Option<Fault>, Stopped> {
    let text = Text {
        header: "",
        text: source,
        loose: false,
    };
    Ok(match outline::read(sandbox, &[text], limits)?.pop() {
        Some(Outline::Read { fault, .. }) => fault,
        Some(Outline::Unread) | None => None,
    })
}

fn program(
    sandbox: &dyn Sandbox,
    task: &CodeTask,
    completion: &str,
    limits: &Limits,
) -> Result<Option<Found>, Stopped> {
    // A mark of byte order is no Python.
    let completion = completion.trim_start_matches('\u{feff}');
    let said = answer::without_end_tokens(completion);
    if said.trim().is_empty() {
        return Ok(None);
    }
    let answered = answer::without_thought(answer::before_next_turn(said));
    let whole = |text| Asked {
        text,
        loose: true,
        fenced: false,
    };
    // The text as it stands, what of it is answered where that is less, and the parts between its fences.
    let mut asked = vec![whole(said)];
    if answered != said {
        asked.push(whole(&answered));
    }
    let wholes = asked.len();
    let marks = fences::marks(&answered);
    let parts = fences::parts(&answered, &marks);
    asked.extend(parts.iter().map(Asked::of));
    let readings = read(sandbox, task, &asked, limits)?;
    let (wholes, readings) = readings.split_at(wholes);
    let code = wholes.last().map(Reading::code).unwrap_or_default();
    let outside = fences::outside_of(&answered, &marks, &code);
    if outside.len() == marks.len() {
        return Ok(choose::choose(task, wholes, &marks, &parts, readings));
    }
    // Some of the fences stand in strings: the parts are others, which is rare.
    let parts = fences::parts(&answered, &outside);
    let asked: Vec<_> = parts.iter().map(Asked::of).collect();
    let readings = read(sandbox, task, &asked, limits)?;
    Ok(choose::choose(task, wholes, &outside, &parts, &readings))
}

/// A text that is to be read.
struct Asked<'a> {
    text: &'a str,
    loose: bool,
    fenced: bool,
}

impl<'a> Asked<'a> {
    fn of(part: &'a Part<'_>) -> Asked<'a> {
        Asked {
            text: &part.text,
            loose: !part.closed,
            fenced: part.fenced,
        }
    }
}

/// Has each text read, by itself and, where the task has a prefix, behind that.
fn read<'a>(
    sandbox: &dyn Sandbox,
    task: &CodeTask,
    asked: &[Asked<'a>],
    limits: &Limits,
) -> Result<Vec<Reading<'a>>, Stopped> {
    let prefix = task.prefix.as_deref();
    let behind = |fenced| {
        let prefix = prefix.unwrap_or_default();
        format!("{prefix}{}", program::line_break(prefix, fenced))
    };
    let (outside, inside) = (behind(false), behind(true));
    let is_read = |asked: &&Asked<'_>| asked.text.len() <= MAX_TEXT;
    let mut texts = Vec::with_capacity(asked.len() * 2);
    for Asked {
        text,
        loose,
        fenced,
    } in asked.iter().filter(is_read)
    {
        let (text, loose) = (*text, *loose);
        let text = |header| Text {
            header,
            text,
            loose,
        };
        texts.push(text(""));
        if prefix.is_some() {
            texts.push(text(if *fenced { &inside } else { &outside }));
        }
    }
    let mut outlines = outline::read(sandbox, &texts, limits)?.into_iter();
    let mut next = |asked: &Asked<'_>| {
        let outline = is_read(&asked).then(|| outlines.next()).flatten();
        outline.unwrap_or(Outline::Unread)
    };
    let readings = asked.iter().map(|asked| Reading {
        text: asked.text,
        alone: next(asked),
        behind: prefix.map(|_| next(asked)),
    });
    Ok(readings.collect())
}
