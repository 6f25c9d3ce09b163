//! The bare answer of a completion, whatever form it is written in.

/// The start of a question in the few-shot templates.
const QUESTION: &str = "\nQuestion:";

/// The last number of a completion: an integer, a decimal, `a/b` or `\frac{a}{b}`, without thousands separators and currency signs. The text before it is reasoning.
/// After their answer, models may continue a list of solved questions with invented ones, which do not count. `None` if there is no number.
pub(super) fn answer(completion: &str) -> Option<String> {
    let (own, _) = completion.split_once(QUESTION).unwrap_or((completion, ""));
    own.lines().rev().find_map(last_number)
}

fn last_number(line: &str) -> Option<String> {
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
    let bytes = line.as_bytes();
    let digit = |i: usize| bytes.get(i).is_some_and(u8::is_ascii_digit);
    let mut i = at;
    let mut number = String::new();
    // A minus sign belongs to the number unless it stands between two operands.
    if bytes[i] == b'-' && digit(i + 1) {
        let operand = line[..at]
            .trim_end()
            .bytes()
            .next_back()
            .is_some_and(|c| c.is_ascii_alphanumeric() || c == b')');
        if !operand {
            number.push('-');
        }
        i += 1;
    }
    if !digit(i) {
        return None;
    }
    while digit(i)
        || (bytes.get(i) == Some(&b',') && (1..=3).all(|d| digit(i + d)) && !digit(i + 4))
    {
        if bytes[i] != b',' {
            number.push(char::from(bytes[i]));
        }
        i += 1;
    }
    for separator in [b'.', b'/'] {
        if bytes.get(i) == Some(&separator) && digit(i + 1) {
            number.push(char::from(separator));
            i += 1;
            while digit(i) {
                number.push(char::from(bytes[i]));
                i += 1;
            }
        }
    }
    Some((number, i))
}

#[cfg(test)]
mod tests {
    use super::answer;
    use proptest::prelude::*;

    #[test]
    fn the_answer_is_found_in_the_forms_that_models_write() {
        for (completion, expected) in [
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
            (
                " 2 + 3 = 5\n= 5\nQuestion: What is 9 + 1?\nAnswer: 10\nQuestion: 1",
                "5",
            ),
            ("**42**", "42"),
            ("1,2,3", "3"),
        ] {
            assert_eq!(
                answer(completion).as_deref(),
                Some(expected),
                "{completion:?}"
            );
        }
    }

    #[test]
    fn without_a_number_there_is_no_answer() {
        for completion in ["", "none", "\\frac{}{}", "- / ."] {
            assert_eq!(answer(completion), None, "{completion:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_gives_a_number_or_nothing(text in "(?s).{0,80}") {
            if let Some(answer) = answer(&text) {
                prop_assert!(answer.bytes().any(|c| c.is_ascii_digit()));
                let allowed = |c: u8| c.is_ascii_digit() || b"-./\\frac{}".contains(&c);
                prop_assert!(answer.bytes().all(allowed), "{}", answer);
            }
        }
    }
}
