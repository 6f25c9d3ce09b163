//! Whether a test that raised can have done so by the program's doing.

use std::collections::HashSet;

use super::name::is_keyword;

/// Whether the last of `texts`, a task's test code as far as it was run, can depend on what `entry_point` does: it holds that name, or shares a
/// name with an earlier text that depends on it. Words in strings and comments count as names: in doubt it does.
pub(super) fn depends<'a>(entry_point: &'a str, texts: impl Iterator<Item = &'a str>) -> bool {
    let mut reached = HashSet::from([entry_point]);
    let mut last = false;
    for text in texts {
        last = names(text).any(|name| reached.contains(name));
        if last {
            reached.extend(names(text));
        }
    }
    last
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
            (&["x = f(1)", "y = 2", "assert z"], false),
            (&["x = 3", "assert f(x)"], true),
            (&["def g():\n    return f(1)", "assert g()"], true),
            (&["assert iff(1)"], false),
            (&["assert globals()['f'](1)"], true),
            (&[], false),
        ] {
            assert_eq!(depends("f", texts.iter().copied()), expected, "{texts:?}");
        }
    }
}
