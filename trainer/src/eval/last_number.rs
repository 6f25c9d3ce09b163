//! The last number of a completion, for a second reading of answers outside of the graded form (`any_form` in the records).

/// The start of a question in the few-shot templates.
const QUESTION: &str = "\nQuestion:";

/// The last number of a completion: an integer, a decimal, `a/b` or `\frac{a}{b}`, without thousands separators and currency signs. The text before it is reasoning.
/// After their answer, models may continue a list of solved questions with invented ones, which do not count. `None` if there is no number.
pub(super) fn last_number(completion: &str) -> Option<String> {
    let (own, _) = completion.split_once(QUESTION).unwrap_or((completion, ""));
    own.lines().rev().find_map(last_of_line)
}

fn last_of_line(line: &str) -> Option<String> {
    let bytes = line.as_bytes();
    let mut last = None;
    let mut at = 0;
    while at < bytes.len() {
        if let Some((number, end)) = fraction_command(line, at).or_else(|| plain(line, at)) {
            last = Some(number);
            at = end;
        } else {
            at += 1;
        }
    }
    last
}

/// `\frac{a}{b}` (also `\dfrac`, `\tfrac`), optionally negative.
fn fraction_command(line: &str, at: usize) -> Option<(String, usize)> {
    let rest = line.get(at..)?;
    let (sign, body) = match rest.strip_prefix('-') {
        Some(body) => ("-", body),
        None => ("", rest),
    };
    let body = ["\\frac{", "\\dfrac{", "\\tfrac{"]
        .iter()
        .find_map(|command| body.strip_prefix(command))?;
    let (a, body) = body.split_once('}')?;
    let (b, body) = body.strip_prefix('{')?.split_once('}')?;
    let whole = |text: &str| {
        !text.is_empty() && text.len() <= 40 && text.bytes().all(|c| c.is_ascii_digit())
    };
    let a_digits = a.strip_prefix('-').unwrap_or(a);
    (whole(a_digits) && whole(b)).then(|| {
        (
            format!("{sign}\\frac{{{a}}}{{{b}}}"),
            line.len() - body.len(),
        )
    })
}

/// Digits with an optional sign, thousands separators, decimals, and `/` digits.
fn plain(line: &str, at: usize) -> Option<(String, usize)> {
    let rest = line.get(at..)?;
    let unsigned = rest.strip_prefix('-').unwrap_or(rest);
    let mut length = digits(unsigned);
    if length == 0 {
        return None;
    }
    while unsigned[length..].starts_with(',') && digits(&unsigned[length + 1..]) == 3 {
        length += 4;
    }
    for separator in ['.', '/'] {
        let part = unsigned[length..].strip_prefix(separator);
        match part.map(digits) {
            Some(count) if count > 0 => length += 1 + count,
            _ => {}
        }
    }
    // A minus sign belongs to the number unless it stands between two operands.
    let before = line[..at].trim_end().bytes().next_back();
    let is_minus = before.is_some_and(|c| c.is_ascii_alphanumeric() || c == b')');
    let sign = if is_minus || rest.len() == unsigned.len() {
        ""
    } else {
        "-"
    };
    let number = unsigned[..length].replace(',', "");
    let end = line.len() - unsigned.len() + length;
    Some((format!("{sign}{number}"), end))
}

/// The number of digits with which a text begins.
fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

#[cfg(test)]
mod tests {
    use super::last_number;
    use proptest::prelude::*;

    #[test]
    fn the_answer_is_found_in_the_forms_that_models_write() {
        const INVENTED: &str = " 2 + 3 = 5\n= 5\nQuestion: What is 9 + 1?\nAnswer: 10\nQuestion: 1";
        for (completion, expected) in [
            ("", ""),
            ("none", ""),
            ("\\frac{}{}", ""),
            ("- / .", ""),
            (" \\boxed{12}", "12"),
            (" 12", "12"),
            (" 12.", "12"),
            ("The answer is 12 apples.", "12"),
            ("7 + 5 = 12", "12"),
            ("31 - 9", "9"),
            ("= -4", "-4"),
            ("$1,250.50", "1250.50"),
            ("about 3/4 of it", "3/4"),
            ("\\(-\\frac{3}{4}\\)", "-\\frac{3}{4}"),
            ("\n\n 8\nQuestion: What is 9 + 1?", "8"),
            ("3 + 4 = 7.\nThen 7 * 2 = 14.\n\nSo it is 14 in all.", "14"),
            ("In 2 steps: 8,\nwhich is the answer.", "8"),
            (INVENTED, "5"),
            ("**42**", "42"),
            ("1,2,3", "3"),
        ] {
            let expected = Some(expected).filter(|it| !it.is_empty());
            let found = last_number(completion);
            assert_eq!(found.as_deref(), expected, "{completion:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_gives_a_number_or_nothing(text in "(?s).{0,80}") {
            if let Some(answer) = last_number(&text) {
                prop_assert!(answer.bytes().any(|c| c.is_ascii_digit()));
                let allowed = |c: u8| c.is_ascii_digit() || b"-./\\frac{}".contains(&c);
                prop_assert!(answer.bytes().all(allowed), "{}", answer);
            }
        }
    }
}
