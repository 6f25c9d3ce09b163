//! Chooses the program among the parts of a completion, by what the interpreter has read in each.

use std::collections::HashSet;
use std::ops::Range;

use datasets::CodeTask;
use sandboxes::outline::{Fault, Outline, Piece};

use super::Found;
use super::fences::{Label, Mark, Part, PartPosition};
use crate::grade::code::program;

/// A text and what the interpreter read in it.
pub(super) struct Reading<'a> {
    pub text: &'a str,
    /// By itself.
    pub alone: Outline,
    /// Behind the task's prefix, where it has one.
    pub behind: Option<Outline>,
}

impl Reading<'_> {
    /// The lines of it that are Python.
    pub(super) fn code(&self) -> Vec<Range<usize>> {
        let outlines = [Some(&self.alone), self.behind.as_ref()];
        let pieces = outlines
            .into_iter()
            .flatten()
            .flat_map(|outline| match outline {
                Outline::Read { pieces, .. } => pieces.as_slice(),
                Outline::Unread => &[],
            });
        pieces.map(|piece| piece.lines.clone()).collect()
    }
}

/// Part of a completion that may be the program.
struct Block<'a> {
    text: String,
    label: Label,
    fenced: bool,
    /// What it is by itself.
    alone: Option<&'a Piece>,
    /// Whether it goes on with the task's prefix.
    goes_on: bool,
    fault: Option<&'a Fault>,
}

impl Block<'_> {
    fn defines(&self, name: &str) -> bool {
        self.goes_on
            || self
                .alone
                .is_some_and(|piece| piece.defines.iter().any(|defined| defined == name))
    }

    fn provides(&self) -> impl Iterator<Item = &str> {
        let piece = self.alone.into_iter();
        piece.flat_map(|piece| {
            piece
                .defines
                .iter()
                .chain(&piece.imports)
                .map(String::as_str)
        })
    }
}

/// The program of a completion that reads, as it stands and without what was thought, as `wholes`, and of which `parts` read as `readings`.
pub(super) fn choose(
    task: &CodeTask,
    wholes: &[Reading<'_>],
    marks: &[Mark],
    parts: &[Part<'_>],
    readings: &[Reading<'_>],
) -> Option<Found> {
    let blocks = wholes
        .iter()
        .find_map(|whole| itself(task, whole))
        .unwrap_or_else(|| {
            if marks.is_empty() {
                wholes.last().map(outside).unwrap_or_default()
            } else {
                blocks(marks, parts, readings)
            }
        });
    let last = |fits: &dyn Fn(&Block<'_>) -> bool| blocks.iter().rposition(fits);
    let counts = |block: &Block<'_>| block.label != Label::Other;
    let defines = |block: &Block<'_>| block.defines(&task.entry_point);
    let chosen = last(&|block| counts(block) && defines(block)).or_else(|| last(&defines));
    if let Some(chosen) = chosen {
        return Some(with_what_it_uses(task, &blocks[..=chosen]));
    }
    if let Some(block) = last(&counts).or_else(|| last(&|_| true)) {
        let block = &blocks[block];
        let source = program::assemble(task, &block.text, block.fenced, false).into_owned();
        return Some(Found {
            source,
            fault: block.fault.cloned(),
        });
    }
    // No part is anything: the text itself is what cannot be loaded, unless it is blank but for its fences.
    let whole = wholes.last()?;
    if whole.text.trim().is_empty() || !marks.is_empty() && parts.is_empty() {
        return None;
    }
    let source = program::assemble(task, whole.text, false, false).into_owned();
    Some(Found {
        source,
        fault: fault(whole).cloned(),
    })
}

/// The one block of a text that is a program itself: by itself, or behind the task's prefix.
fn itself<'a>(task: &CodeTask, whole: &'a Reading<'_>) -> Option<Vec<Block<'a>>> {
    let of_all = |outline: &'a Outline| match outline {
        Outline::Read {
            pieces,
            fault: None,
        } => match pieces.as_slice() {
            [piece] if piece.lines == (0..whole.text.split('\n').count()) => Some(piece),
            _ => None,
        },
        _ => None,
    };
    let alone = of_all(&whole.alone);
    let goes_on = whole
        .behind
        .as_ref()
        .and_then(of_all)
        .is_some_and(|piece| piece.continues_header);
    let defines = alone.is_some_and(|piece| piece.defines.contains(&task.entry_point));
    // A text that only uses the function is a program, but no answer to be put behind a prefix.
    if alone.is_none() && !goes_on || whole.text.trim().is_empty() {
        return None;
    }
    Some(vec![Block {
        text: whole.text.to_owned(),
        label: Label::None,
        fenced: false,
        alone,
        goes_on: goes_on && !defines,
        fault: fault(whole),
    }])
}

/// Why a text cannot be loaded: behind the prefix, where there is one.
fn fault<'a>(reading: &'a Reading<'_>) -> Option<&'a Fault> {
    match reading.behind.as_ref().unwrap_or(&reading.alone) {
        Outline::Read { fault, .. } => fault.as_ref(),
        Outline::Unread => None,
    }
}

/// The blocks of a text with fences, in their order.
fn blocks<'a>(marks: &[Mark], parts: &[Part<'_>], readings: &'a [Reading<'_>]) -> Vec<Block<'a>> {
    let part = |place: &dyn Fn(&PartPosition) -> bool| {
        let index = parts.iter().position(|part| place(&part.place))?;
        Some((&parts[index], &readings[index]))
    };
    let mut blocks = Vec::new();
    let (mut number, mut is_outside) = (0, true);
    while number <= marks.len() {
        let gap = part(&|place| is_outside && *place == PartPosition::Gap(number));
        let code = gap.is_some_and(|(_, reading)| {
            let before = blocks.len();
            blocks.extend(outside(reading));
            blocks.len() > before && ends_in_code(reading)
        });
        let Some(mark) = marks.get(number) else { break };
        // A bare fence behind code that no fence opened closes it.
        if mark.label == Label::Markdown || mark.is_bare() && code {
            (number, is_outside) = (number + 1, true);
            continue;
        }
        let block =
            part(&|place| matches!(place, PartPosition::Block { mark, .. } if *mark == number));
        let Some((block, reading)) = block else {
            // A blank one.
            let closes = marks.get(number + 1).is_some_and(Mark::is_bare);
            (number, is_outside) = (number + 1 + usize::from(closes), closes);
            continue;
        };
        let whole = if block.closed {
            None
        } else {
            Some(outside(reading))
        };
        match whole {
            // Where the text breaks off, so may its last statement.
            Some(found) if !found.is_empty() => {
                blocks.extend(found.into_iter().map(|found| Block {
                    label: mark.label,
                    fenced: true,
                    ..found
                }));
            }
            _ => blocks.push(fenced(reading, mark.label)),
        }
        let PartPosition::Block { next, outside, .. } = block.place else {
            break;
        };
        (number, is_outside) = (next, outside);
    }
    blocks
}

/// A block inside its fences, which is Python as a whole or not at all.
fn fenced<'a>(reading: &'a Reading<'_>, label: Label) -> Block<'a> {
    let piece = |outline: &'a Outline| match outline {
        Outline::Read { pieces, .. } => pieces.first(),
        Outline::Unread => None,
    };
    Block {
        text: reading.text.to_owned(),
        label,
        fenced: true,
        alone: piece(&reading.alone),
        goes_on: reading
            .behind
            .as_ref()
            .and_then(piece)
            .is_some_and(|piece| piece.continues_header),
        fault: fault(reading),
    }
}

/// The pieces of a text without fences.
fn outside<'a>(reading: &'a Reading<'_>) -> Vec<Block<'a>> {
    let pieces = |outline: Option<&'a Outline>| match outline {
        Some(Outline::Read { pieces, .. }) => pieces.as_slice(),
        Some(Outline::Unread) | None => &[],
    };
    let lines: Vec<&str> = reading.text.split_inclusive('\n').collect();
    let block = |piece: &'a Piece, alone: bool| Block {
        text: lines[piece.lines.start.min(lines.len())..piece.lines.end.min(lines.len())].concat(),
        label: Label::None,
        fenced: false,
        alone: alone.then_some(piece),
        goes_on: !alone,
        fault: None,
    };
    let body = pieces(reading.behind.as_ref())
        .iter()
        .find(|piece| piece.continues_header);
    let behind = body.map_or(0, |body| body.lines.end);
    let alone = pieces(Some(&reading.alone))
        .iter()
        .filter(|piece| piece.lines.start >= behind);
    body.map(|body| block(body, false))
        .into_iter()
        .chain(alone.map(|piece| block(piece, true)))
        .collect()
}

/// Whether nothing but blank lines stand behind the last piece of a text.
fn ends_in_code(reading: &Reading<'_>) -> bool {
    let ends = reading.code().into_iter().map(|lines| lines.end);
    let end = ends.max().unwrap_or(0);
    reading
        .text
        .split('\n')
        .skip(end)
        .all(|line| line.trim().is_empty())
}

/// Names that a piece takes from elsewhere.
fn uses(piece: Option<&Piece>) -> impl Iterator<Item = &str> {
    piece
        .into_iter()
        .flat_map(|piece| piece.uses.iter().map(String::as_str))
}

/// The last of `blocks`, with those before it that provide names which it uses.
fn with_what_it_uses(task: &CodeTask, blocks: &[Block<'_>]) -> Found {
    let mut source = String::new();
    if let Some((chosen, earlier)) = blocks.split_last() {
        let body = chosen.goes_on
            && !chosen
                .alone
                .is_some_and(|piece| piece.defines.contains(&task.entry_point));
        let mut wanted: HashSet<&str> = HashSet::new();
        wanted.extend(uses(chosen.alone.filter(|_| !body)));
        let mut taken = Vec::new();
        if program::futures_can_move(&chosen.text) {
            for block in earlier
                .iter()
                .rev()
                .filter(|block| block.label != Label::Other)
            {
                if !block.provides().any(|name| wanted.contains(name)) {
                    continue;
                }
                block.provides().for_each(|name| _ = wanted.remove(name));
                wanted.extend(uses(block.alone));
                taken.push(block);
            }
        }
        for block in taken.into_iter().rev() {
            source.push_str(&block.text);
            if !source.ends_with('\n') {
                source.push('\n');
            }
        }
        source.push_str(&chosen.text);
        source = program::assemble(task, &source, chosen.fenced, !body).into_owned();
        source = program::futures_first(source);
    }
    Found {
        source,
        fault: None,
    }
}
