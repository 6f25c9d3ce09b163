//! The comparison that the MATH data set was published with (Hendrycks et al. 2021): text after a normalisation of spellings.
//!
//! It serves to compare with published numbers. It does not compare values: 0.25 is not ¼, and (1, 2) is not (1,2.0).

/// Whether both are the same text after normalisation.
pub(crate) fn is_same(expected: &str, answer: &str) -> bool {
    let (expected, answer) = (normalise(expected), normalise(answer));
    !expected.is_empty() && expected == answer
}

fn normalise(answer: &str) -> String {
    let mut text = answer.trim().replace('\n', "");
    for (from, to) in [
        ("\\!", ""),
        ("\\\\", "\\"),
        ("tfrac", "frac"),
        ("dfrac", "frac"),
        ("\\left", ""),
        ("\\right", ""),
        ("^{\\circ}", ""),
        ("^\\circ", ""),
        ("\\$", ""),
    ] {
        text = text.replace(from, to);
    }
    // Units are text at the end.
    if let Some(at) = text.find("\\text{ ") {
        text.truncate(at);
    }
    for (from, to) in [("\\%", ""), (" .", " 0."), ("{.", "{0.")] {
        text = text.replace(from, to);
    }
    if text.starts_with('.') {
        text.insert(0, '0');
    }
    // A short name before an equals sign: k = 5.
    if let Some((name, value)) = text.split_once('=')
        && name.chars().count() <= 2
        && !value.contains('=')
    {
        text = value.to_owned();
    }
    let text = braced(&text, "\\sqrt", 1).replace(' ', "");
    let text = braced(&text, "\\frac", 2);
    if text == "0.5" {
        return "\\frac{1}{2}".into();
    }
    fraction(&text).unwrap_or(text)
}

/// Puts braces around the arguments of `command` that have none: \frac12, \sqrt3.
fn braced(text: &str, command: &str, arguments: usize) -> String {
    let mut parts = text.split(command);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str(command);
        let mut rest = part;
        for _ in 0..arguments {
            match rest.chars().next() {
                None | Some('{') => break,
                Some(first) => {
                    out.push('{');
                    out.push(first);
                    out.push('}');
                    rest = &rest[first.len_utf8()..];
                }
            }
        }
        out.push_str(rest);
    }
    out
}

/// a/b of whole numbers as \frac{a}{b}.
fn fraction(text: &str) -> Option<String> {
    let (above, below) = text.split_once('/')?;
    let whole = |part: &str| {
        part.parse::<i64>()
            .is_ok_and(|number| number.to_string() == part)
    };
    (whole(above) && whole(below)).then(|| format!("\\frac{{{above}}}{{{below}}}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_the_data_set_are_normalised() {
        for (a, b) in [
            (r"\frac12", r"\dfrac{1}{2}"),
            ("0.5", r"\frac{1}{2}"),
            ("3/4", r"\frac{3}{4}"),
            (r"\sqrt3", r"\sqrt{3}"),
            (r"90^\circ", "90"),
            (r"5\text{ cm}", "5"),
            ("x=5", "5"),
            (".5", "0.5"),
            (r"\left(1, 2\right)", "(1,2)"),
        ] {
            assert!(is_same(a, b), "{a} and {b}");
        }
    }

    #[test]
    fn the_strict_policy_compares_text_only() {
        for (a, b) in [("0.25", r"\frac14"), ("1,2", "2,1"), ("2^2", "4"), ("", "")] {
            assert!(!is_same(a, b), "{a} and {b}");
        }
    }
}
