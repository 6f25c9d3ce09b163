//! The parameters of the kernels, read from their sources, so that a cost can name them and a launch's arguments can be checked.

use std::collections::BTreeMap;

use super::super::driver::Arg;
use super::super::kernels::Source;

/// How a parameter is passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// A pointer to elements of a type: a parameter of the kernel's template, or a type of fixed size.
    Pointer(String),
    /// `unsigned int` or `int`.
    Word,
    /// `size_t`.
    Size,
    /// `float`.
    Float,
}

impl Kind {
    fn accepts(&self, arg: Arg) -> bool {
        matches!(
            (self, arg),
            (Self::Pointer(_), Arg::Address(_))
                | (Self::Word, Arg::Word(_))
                | (Self::Size, Arg::Size(_))
                | (Self::Float, Arg::Float(_))
        )
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) kind: Kind,
}

/// A kernel's parameters, and the names of its template's parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Signature {
    pub(super) parameters: Vec<Parameter>,
    pub(super) template: Vec<String>,
}

impl Signature {
    /// Rejects arguments of the wrong number or types.
    pub(super) fn check(&self, kernel: &str, args: &[Arg]) -> Result<(), String> {
        if args.len() != self.parameters.len() {
            return Err(format!(
                "`{kernel}` has {} parameters and is launched with {} arguments",
                self.parameters.len(),
                args.len()
            ));
        }
        let mut pairs = self.parameters.iter().zip(args);
        match pairs.find(|(parameter, arg)| !parameter.kind.accepts(**arg)) {
            None => Ok(()),
            Some((Parameter { name, .. }, arg)) => Err(format!(
                "the parameter `{name}` of `{kernel}` is launched with {arg:?}"
            )),
        }
    }
}

/// The signatures of all kernels in the sources, by name.
pub(super) fn signatures(sources: &[Source]) -> BTreeMap<String, Signature> {
    let kernels = sources.iter().flat_map(|(_, text)| {
        let marks = text.match_indices("__global__");
        marks.filter_map(|(at, _)| signature(text, at))
    });
    kernels.collect()
}

/// The kernel that is declared at the position of its `__global__`.
fn signature(text: &str, at: usize) -> Option<(String, Signature)> {
    let rest = text[at..].strip_prefix("__global__")?.trim_start();
    let rest = rest.strip_prefix("void")?.trim_start();
    let rest = match rest.strip_prefix("__launch_bounds__") {
        Some(bounds) => in_parentheses(bounds)?.1.trim_start(),
        None => rest,
    };
    let (name, rest) = rest.split_at(rest.find('(')?);
    let (list, _) = in_parentheses(rest)?;
    let parameters = list.split(',').map(parameter).collect::<Option<_>>()?;
    // A template's head stands directly before the kernel.
    let before = text[..at].trim_end();
    let template = match before.rfind("template <") {
        Some(start) if before.ends_with('>') && !before[start..].contains([';', '{']) => before
            [start + "template <".len()..before.len() - 1]
            .split(',')
            .filter_map(|one| one.split_whitespace().nth(1).map(str::to_owned))
            .collect(),
        _ => Vec::new(),
    };
    let signature = Signature {
        parameters,
        template,
    };
    Some((name.trim().to_owned(), signature))
}

/// The text inside the parenthesis that opens at the beginning, and the text after it.
fn in_parentheses(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0;
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((text.get(1..at)?, &text[at + 1..]));
        }
    }
    None
}

fn parameter(text: &str) -> Option<Parameter> {
    let text = text.trim();
    let at = text.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
    let (declared, name) = text.split_at(at + 1);
    let declared = declared.trim();
    let kind = match (declared.strip_suffix('*'), declared) {
        (Some(element), _) => Kind::Pointer(element.trim_start_matches("const ").trim().to_owned()),
        (None, "u32" | "int") => Kind::Word,
        (None, "size_t") => Kind::Size,
        (None, "float") => Kind::Float,
        _ => return None,
    };
    Some(Parameter {
        name: name.to_owned(),
        kind,
    })
}
