//! Chooses the program among the parts of a completion, by the parser's outline of each.

use std::collections::HashSet;
use std::ops::Range;

use sandboxes::defined_names::{Fault, Outline, Piece};

use super::fences::{Label, Mark, Part, PartPosition};
use crate::grade::code::program::{self, Wanted};

/// The program that was found in a completion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtractedProgram {
    /// Its source, never blank.
    pub source: String,
    /// Why it cannot be loaded, as the parser reports it; `None` if the parser found no error.
    pub fault: Option<Fault>,
}

/// A part of a completion that may be the program.
struct Block<'a> {
    text: String,
    label: Label,
    fenced: bool,
    /// The outline of the part alone, if it is valid Python.
    alone: Option<&'a Piece>,
    /// Whether it continues the task's prefix.
    continues_prefix: bool,
    fault: Option<&'a Fault>,
}

impl Block<'_> {
    fn defines(&self, name: &str) -> bool {
        self.continues_prefix || self.alone.is_some_and(|piece| defines(piece, name))
    }

    /// The names that the block defines or imports.
    fn provides(&self) -> impl Iterator<Item = &str> {
        let pieces = self.alone.into_iter();
        let names = pieces.flat_map(|piece| piece.defines.iter().chain(&piece.imports));
        names.map(String::as_str)
    }
}

/// Chooses the program of a completion. `wholes` are the text with and without its thoughts, and `parts` lie between its `marks`.
pub(super) fn choose(
    wanted: Wanted<'_>,
    wholes: &[Part<'_>],
    marks: &[Mark],
    parts: &[Part<'_>],
) -> Option<ExtractedProgram> {
    let blocks = wholes
        .iter()
        .find_map(|whole| whole_as_program(wanted, whole))
        .unwrap_or_else(|| {
            if marks.is_empty() {
                wholes.last().map(unfenced_blocks).unwrap_or_default()
            } else {
                fenced_text_blocks(marks, parts)
            }
        });
    let last = |fits: &dyn Fn(&Block<'_>) -> bool| blocks.iter().rposition(fits);
    let counts = |block: &Block<'_>| block.label != Label::Other;
    let chosen = match wanted.entry_point {
        Some(name) => {
            let defines = |block: &Block<'_>| block.defines(name);
            last(&|block| counts(block) && defines(block)).or_else(|| last(&defines))
        }
        // A block without a label may be an example of the input or the output. Even that may be valid Python.
        None => last(&|block| block.label == Label::Python && block.alone.is_some())
            .or_else(|| last(&|block| counts(block) && block.alone.is_some())),
    };
    if let Some(chosen) = chosen {
        let (earlier, chosen) = (&blocks[..chosen], &blocks[chosen]);
        return Some(with_dependencies(wanted, chosen, earlier));
    }
    if let Some(block) = last(&counts).or_else(|| last(&|_| true)) {
        let block = &blocks[block];
        let source = program::assemble(wanted, &block.text, block.fenced, false).into_owned();
        return Some(ExtractedProgram {
            source,
            fault: block.fault.cloned(),
        });
    }
    // No block is valid Python: report the error of the whole text, unless it is blank except for its fences.
    let whole = wholes.last()?;
    let text = &whole.text;
    if text.trim().is_empty() || !marks.is_empty() && parts.is_empty() {
        return None;
    }
    Some(ExtractedProgram {
        source: program::assemble(wanted, text, false, false).into_owned(),
        fault: whole.load_error().cloned(),
    })
}

/// The single block of a text that is a program as a whole: alone, or after the task's prefix.
fn whole_as_program<'a>(wanted: Wanted<'_>, whole: &'a Part<'_>) -> Option<Vec<Block<'a>>> {
    let text = &whole.text;
    let lines = 0..text.split('\n').count();
    let only_piece = |outline: &'a Outline| match &outline.pieces[..] {
        [piece] if outline.fault.is_none() && piece.lines() == lines => Some(piece),
        _ => None,
    };
    let alone = only_piece(&whole.alone);
    let continues_prefix = whole
        .after_prefix
        .as_ref()
        .and_then(only_piece)
        .is_some_and(|piece| piece.continues_header);
    // A text that only uses the function is a program, but does not continue a prefix.
    if alone.is_none() && !continues_prefix || text.trim().is_empty() {
        return None;
    }
    let defines = alone.is_some_and(|piece| defines_entry_point(wanted, piece));
    Some(vec![Block {
        text: text.to_string(),
        label: Label::None,
        fenced: false,
        alone,
        continues_prefix: continues_prefix && !defines,
        fault: whole.load_error(),
    }])
}

fn defines(piece: &Piece, name: &str) -> bool {
    piece.defines.iter().any(|defined| defined == name)
}

fn defines_entry_point(wanted: Wanted<'_>, piece: &Piece) -> bool {
    wanted.entry_point.is_some_and(|name| defines(piece, name))
}

/// The blocks of a text with fences, in order.
fn fenced_text_blocks<'a>(marks: &[Mark], parts: &'a [Part<'_>]) -> Vec<Block<'a>> {
    let part =
        |is_at: &dyn Fn(&PartPosition) -> bool| parts.iter().find(|parsed| is_at(&parsed.position));
    let mut blocks = Vec::new();
    let (mut index, mut is_outside) = (0, true);
    while index <= marks.len() {
        let gap = part(&|position| is_outside && *position == PartPosition::Gap(index));
        let code = gap.is_some_and(|parsed| {
            let before = blocks.len();
            blocks.extend(unfenced_blocks(parsed));
            blocks.len() > before && ends_in_code(parsed)
        });
        let Some(mark) = marks.get(index) else { break };
        // Code may begin without a fence. A bare fence after it closes it.
        if mark.label == Label::Markdown || mark.is_bare() && code {
            (index, is_outside) = (index + 1, true);
            continue;
        }
        let block = part(
            &|position| matches!(position, PartPosition::Block { mark, .. } if *mark == index),
        );
        let Some(parsed) = block else {
            // The block is blank.
            let closes = marks.get(index + 1).is_some_and(Mark::is_bare);
            (index, is_outside) = (index + 1 + usize::from(closes), closes);
            continue;
        };
        // If the text ends inside the block, the last statement may be incomplete.
        let pieces = match parsed.closed {
            true => Vec::new(),
            false => unfenced_blocks(parsed),
        };
        if pieces.is_empty() {
            blocks.push(fenced_block(parsed, mark.label));
        }
        blocks.extend(pieces.into_iter().map(|piece| Block {
            label: mark.label,
            fenced: true,
            ..piece
        }));
        let PartPosition::Block { next, outside, .. } = parsed.position else {
            break;
        };
        (index, is_outside) = (next, outside);
    }
    blocks
}

/// A block between two fences. It is Python as a whole or not at all.
fn fenced_block<'a>(parsed: &'a Part<'_>, label: Label) -> Block<'a> {
    Block {
        text: parsed.text.to_string(),
        label,
        fenced: true,
        alone: parsed.alone.pieces.first(),
        continues_prefix: parsed
            .pieces_after_prefix()
            .first()
            .is_some_and(|piece| piece.continues_header),
        fault: parsed.load_error(),
    }
}

/// The pieces of Python in a text without fences.
fn unfenced_blocks<'a>(parsed: &'a Part<'_>) -> Vec<Block<'a>> {
    let lines: Vec<&str> = parsed.text.split_inclusive('\n').collect();
    let block = |piece: &'a Piece, alone: bool| {
        let Range { start, end } = piece.lines();
        Block {
            text: lines[start.min(lines.len())..end.min(lines.len())].concat(),
            label: Label::None,
            fenced: false,
            alone: alone.then_some(piece),
            continues_prefix: !alone,
            fault: None,
        }
    };
    let body = parsed
        .pieces_after_prefix()
        .iter()
        .find(|piece| piece.continues_header);
    let body_end = body.map_or(0, |body| body.lines().end);
    let alone = parsed.alone.pieces.iter();
    let alone = alone.filter(|piece| piece.lines().start >= body_end);
    body.map(|body| block(body, false))
        .into_iter()
        .chain(alone.map(|piece| block(piece, true)))
        .collect()
}

/// Whether only blank lines follow the last piece of Python in a text.
fn ends_in_code(parsed: &Part<'_>) -> bool {
    let ends = parsed.code().into_iter().map(|lines| lines.end);
    let mut after = parsed.text.split('\n').skip(ends.max().unwrap_or(0));
    after.all(|line| line.trim().is_empty())
}

/// The names that a piece uses without defining them.
fn uses(piece: Option<&Piece>) -> impl Iterator<Item = &str> {
    piece
        .into_iter()
        .flat_map(|piece| piece.uses.iter().map(String::as_str))
}

/// The program of the `chosen` block, with those `earlier` blocks that provide names for it.
fn with_dependencies(
    wanted: Wanted<'_>,
    chosen: &Block<'_>,
    earlier: &[Block<'_>],
) -> ExtractedProgram {
    let is_body = chosen.continues_prefix
        && !chosen
            .alone
            .is_some_and(|piece| defines_entry_point(wanted, piece));
    let mut missing: HashSet<&str> = HashSet::new();
    missing.extend(uses(chosen.alone.filter(|_| !is_body)));
    let mut providers = Vec::new();
    if program::futures_can_move(&chosen.text) {
        for block in earlier.iter().rev() {
            if block.label == Label::Other || !block.provides().any(|name| missing.contains(name)) {
                continue;
            }
            block.provides().for_each(|name| _ = missing.remove(name));
            missing.extend(uses(block.alone));
            providers.push(block);
        }
    }
    let mut source = String::new();
    for block in providers.into_iter().rev() {
        source.push_str(&block.text);
        if !source.ends_with('\n') {
            source.push('\n');
        }
    }
    source.push_str(&chosen.text);
    let source = program::assemble(wanted, &source, chosen.fenced, !is_body).into_owned();
    ExtractedProgram {
        source: program::futures_first(source),
        fault: None,
    }
}
