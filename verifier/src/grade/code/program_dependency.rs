//! Whether a test depends on the program, so that the program may be the cause of an exception in the test.

use std::collections::HashSet;

use datasets::python_name::is_keyword;

/// Whether the last of `texts`, the test code that ran, can depend on what the program does. It can if it uses a name that no earlier independent text assigned.
///
/// The program may define any name, even `len`. So a name is independent only if a text that does not depend on the program assigned it. A text that depends on the
/// program may pass it the objects of those names, such as a list that the program sorts in place. So after such a text no name is independent. Words in strings and
/// comments count as names: this errs on the side of "depends".
pub(super) fn depends_on_program<'a>(texts: impl Iterator<Item = &'a str>) -> bool {
    let mut independent = HashSet::new();
    let mut last_depends = false;
    for text in texts {
        let assigned = assigned_name(text);
        last_depends =
            names(text).any(|name| !independent.contains(name) && Some(name) != assigned);
        if last_depends {
            independent.clear();
        } else {
            independent.extend(assigned);
        }
    }
    last_depends
}

/// The name that a text assigns, if the text is one plain assignment: `x = 3`.
fn assigned_name(text: &str) -> Option<&str> {
    let (name, value) = text.split_once('=')?;
    let name = name.trim();
    let plain = names(name).eq([name]) && !value.contains(['=', '\n', ';']);
    let uses_itself = names(value).any(|other| other == name);
    (plain && !uses_itself).then_some(name)
}

/// The words of a Python text that can be names.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c != '_' && !c.is_alphanumeric())
        .filter(|word| word.starts_with(|c: char| c == '_' || c.is_alphabetic()))
        .filter(|word| !is_keyword(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_depends_on_the_program_through_the_names_it_uses() {
        for (texts, expected) in [
            (&["assert f(1) == 2"][..], true),
            (&["1/0"], false),
            (&["assert f(1) == 2", "1/0"], false),
            (&["assert f(1) == 2", "assert 1 == 2"], false),
            (&["x = f(1)", "y = x", "assert y"], true),
            (&["x = f(1)", "y = 2", "assert y == 3"], false),
            (&["x = 3", "y = x", "assert y == 4"], false),
            (&["x = 3", "x = f(1)", "assert x == 3"], true),
            // The program may have changed an object that was passed to it, under any name.
            (&["x = [2, 1]", "f(x)", "assert x == [1, 2]"], true),
            (
                &["x = [2, 1]", "y = x", "assert f(y) is None", "assert x"],
                true,
            ),
            (&["x = [2, 1]", "f(x)", "x = [2, 1]", "assert not x"], false),
            (&["x = x"], true),
            // Names that the program may have defined too.
            (&["assert z"], true),
            (&["assert len([]) == 1"], true),
            (&["x = 3", "assert f(x)"], true),
            (&["def g():\n    return f(1)", "assert g()"], true),
            (&["assert globals()['f'](1)"], true),
            (&[], false),
        ] {
            let depends = depends_on_program(texts.iter().copied());
            assert_eq!(depends, expected, "{texts:?}");
        }
    }
}
