//! Whether a test that raised can have done so by the program's doing.

use std::collections::HashSet;

use datasets::python_name::is_keyword;

/// Whether the last of `texts`, a task's test code as far as it was run, can depend on what the program does: it holds a name that is not of the test code's own making. A
/// program defines its entry point and whatever else it likes, `len` included, so only names of earlier texts that depend on nothing are known to be the tests' own. A text that
/// depends on the program may hand it what those names stand for, a list that it sorts in place, so that none is the tests' own any more. Words in strings and comments count as
/// names: in doubt it does.
pub(super) fn depends<'a>(texts: impl Iterator<Item = &'a str>) -> bool {
    let mut own = HashSet::new();
    let mut last = false;
    for text in texts {
        let assigned = assigned(text);
        last = names(text).any(|name| !own.contains(name) && Some(name) != assigned);
        if last {
            own.clear();
        } else {
            own.extend(assigned);
        }
    }
    last
}

/// The name that a text does nothing but assign to: `x = 3`.
fn assigned(text: &str) -> Option<&str> {
    let (name, value) = text.split_once('=')?;
    let name = name.trim();
    let plain = names(name).eq([name]) && !value.contains(['=', '\n', ';']);
    let of_others = names(value).any(|other| other == name);
    (plain && !of_others).then_some(name)
}

/// The words of a text of Python that can be names.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c != '_' && !c.is_alphanumeric())
        .filter(|word| word.starts_with(|c: char| c == '_' || c.is_alphabetic()))
        .filter(|word| !is_keyword(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_depends_on_the_program_where_names_lead_to_it() {
        for (texts, expected) in [
            (&["assert f(1) == 2"][..], true),
            (&["1/0"], false),
            (&["assert f(1) == 2", "1/0"], false),
            (&["assert f(1) == 2", "assert 1 == 2"], false),
            (&["x = f(1)", "y = x", "assert y"], true),
            (&["x = f(1)", "y = 2", "assert y == 3"], false),
            (&["x = 3", "y = x", "assert y == 4"], false),
            (&["x = 3", "x = f(1)", "assert x == 3"], true),
            // What the program was given, by whichever name, it may have changed.
            (&["x = [2, 1]", "f(x)", "assert x == [1, 2]"], true),
            (
                &["x = [2, 1]", "y = x", "assert f(y) is None", "assert x"],
                true,
            ),
            (&["x = [2, 1]", "f(x)", "x = [2, 1]", "assert not x"], false),
            (&["x = x"], true),
            // What the program may have defined besides.
            (&["assert z"], true),
            (&["assert len([]) == 1"], true),
            (&["x = 3", "assert f(x)"], true),
            (&["def g():\n    return f(1)", "assert g()"], true),
            (&["assert globals()['f'](1)"], true),
            (&[], false),
        ] {
            assert_eq!(depends(texts.iter().copied()), expected, "{texts:?}");
        }
    }
}
