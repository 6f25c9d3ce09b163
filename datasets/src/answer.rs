//! The right answer that a text of a data set gives: the text itself, or the end of a worked solution.
//!
//! What no completion could match is refused, since every completion of its task would be incorrect. The text is not parsed as mathematics here, so its form
//! decides.

/// What precedes the answer of a worked solution in GSM8K's form.
const MARK: &str = "####";
const BOXES: [&str; 2] = ["\\boxed", "\\fbox"];
/// Maximum number of words of an answer: with a box, with a number or a formula, and any other.
const MAX_WORDS: [usize; 3] = [3, 8, 12];
/// Maximum number of words after a box at the end. They name a unit or what is counted.
const MAX_COUNTED: usize = 3;

/// Maximum length of an answer in bytes.
const MAX_LENGTH: usize = 1 << 14;

/// Words that make a text with a number, or with three words, a sentence about the answer.
const SENTENCE_WORDS: &str = "answer answers therefore thus hence because so we get gets give gives obtain equals yields conclude donc réponse daher antwort entonces respuesta ответ поэтому";
/// The same in languages without blanks between words.
const SENTENCE_SIGNS: [&str; 5] = ["答案", "答え", "所以", "因此", "等于"];
/// Verbs that make a text a sentence if a value follows.
const VERBS: [&str; 5] = ["is", "are", "was", "were", "be"];
/// Commands that begin with the letter of `\t`, `\n` or `\r`. `\nu` and `\ne` are missing, since a line may begin with u or e.
const ESCAPED_COMMANDS: &str = "tan tanh tau tbinom text textbf textit textrm tfrac theta tilde times to triangle nabla neg neq ngeq nleq nmid not notin rangle rbrace rceil rfloor rho right rightarrow rvert";

/// Why a text gives no right answer, and what to give.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AnswerError(String);

const PROSE: &str = "it is prose or several lines, which no completion could match; give the answer alone, with commas between several values, or a worked solution that ends with its only \\boxed{…} or with `####` and the answer";

fn refused<T>(reason: &str) -> Result<T, AnswerError> {
    Err(AnswerError(reason.to_owned()))
}

/// Whether the text has the form of a worked solution, and so is no id of a task.
#[must_use]
pub fn is_worked_solution(text: &str) -> bool {
    text.contains(MARK) || BOXES.iter().any(|name| text.contains(name))
}

/// The right answer that `text` gives. It is what follows the last `####`, without commas between thousands. Else it is the content of the only box and up to three
/// words after it, if the text ends with them. Else it is the text.
///
/// # Errors
/// If no completion could match the answer.
pub fn right_answer(text: &str) -> Result<String, AnswerError> {
    if let Some((_, answer)) = text.rsplit_once(MARK) {
        let line = answer.trim();
        if line.is_empty() {
            return refused("nothing follows its last `####`, so no completion could be correct");
        }
        if line.contains(['\n', '\r']) {
            return refused(
                "several lines follow its last `####`; leave only the line with the answer",
            );
        }
        check(answer)?;
        let number = has_thousands(line).then(|| line.replace(',', ""));
        return Ok(number.unwrap_or_else(|| line.to_owned()));
    }
    let (answer, counted) = final_box(text).unwrap_or((text, String::new()));
    check(answer)?;
    Ok(format!("{}{counted}", answer.trim()))
}

/// Whether the text is one number with commas between thousands, such as `-1,234.5`, and not a list such as `1,2`.
fn has_thousands(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.trim_start_matches(['-', '+', '$']);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    whole.split_once(',').is_some_and(|(first, groups)| {
        first.len() <= 3
            && digits(first)
            && groups
                .split(',')
                .all(|group| group.len() == 3 && digits(group))
            && digits(fraction)
    })
}

/// The content of the only box, and the words after it in `\text`, if the text ends with them.
fn final_box(text: &str) -> Option<(&str, String)> {
    let (inside, after) = first_box(text)?;
    if first_box(after).is_some() {
        return None;
    }
    // The end of `\end{align*}` may follow.
    let (before, end) = after.split_once("\\end{").unwrap_or((after, "}"));
    let after = format!("{before}{}", end.split_once('}')?.1);
    let closing = |c: char| c.is_whitespace() || "$.,*}!;。\\])".contains(c);
    let words: Vec<&str> = after.trim_matches(closing).split_whitespace().collect();
    let is_noun = |word: &&str| {
        word.chars().all(char::is_alphabetic) && !VERBS.contains(word) && !is_sentence_word(word)
    };
    if words.len() > MAX_COUNTED || !words.iter().all(is_noun) {
        return None;
    }
    let counted = (!words.is_empty()).then(|| format!("\\text{{ {}}}", words.join(" ")));
    Some((inside, counted.unwrap_or_default()))
}

/// The content of the first box with braces, and the text after it.
fn first_box(text: &str) -> Option<(&str, &str)> {
    let inside = text.match_indices('\\').find_map(|(at, _)| {
        let name = BOXES.iter().find(|name| text[at..].starts_with(**name))?;
        text[at + name.len()..].trim_start().strip_prefix('{')
    })?;
    let (mut depth, mut escaped) = (1_usize, false);
    let close = inside.bytes().position(|byte| {
        match byte {
            b'{' if !escaped => depth += 1,
            b'}' if !escaped => depth -= 1,
            _ => {}
        }
        escaped = !escaped && byte == b'\\';
        depth == 0
    })?;
    Some((&inside[..close], &inside[close + 1..]))
}

/// Refuses what no completion could match.
fn check(text: &str) -> Result<(), AnswerError> {
    if text.len() > MAX_LENGTH {
        return refused(PROSE);
    }
    if let Some(control) = damage(text) {
        return Err(AnswerError(format!(
            "it has the control character U+{:04X}, which is what JSON and Python read where one backslash stands before a command such as \\frac or \\text; write two",
            u32::from(control)
        )));
    }
    if has_doubled_backslash(text) {
        return refused(
            "two backslashes stand before a command, where LaTeX breaks the line; write one (two in the JSON text)",
        );
    }
    let mut text = text.trim();
    for (open, close) in [("$$", "$$"), ("$", "$"), ("\\[", "\\]"), ("\\(", "\\)")] {
        let inside = text
            .strip_prefix(open)
            .and_then(|rest| rest.strip_suffix(close));
        text = inside.unwrap_or(text).trim();
    }
    if text.is_empty() {
        return refused("it is empty, so no completion could be correct; give the correct answer");
    }
    if has_separate_lines(text) || is_prose(text) {
        return refused(PROSE);
    }
    Ok(())
}

/// The first control character, other than blanks and line breaks after which no command goes on.
fn damage(text: &str) -> Option<char> {
    let is_damage = |(at, control): &(usize, char)| {
        let letter = match control {
            '\t' => 't',
            '\n' => 'n',
            '\r' => 'r',
            other => return other.is_control(),
        };
        let letters = leading_letters(&text[at + 1..]);
        ESCAPED_COMMANDS
            .split(' ')
            .any(|name| name.strip_prefix(letter) == Some(letters))
    };
    text.char_indices()
        .find(is_damage)
        .map(|(_, control)| control)
}

fn leading_letters(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphabetic());
    &text[..end.unwrap_or(text.len())]
}

/// Whether two backslashes stand before a command. In an environment they end a row.
fn has_doubled_backslash(text: &str) -> bool {
    let (mut doubled, mut rest) = (false, text);
    while let Some(at) = rest.find('\\') {
        let after = rest[at..].trim_start_matches('\\');
        let is_command = (rest.len() - at - after.len()) % 2 == 1;
        if is_command && after.starts_with("begin") {
            return false;
        }
        doubled |= !is_command
            && (leading_letters(after).len() > 1
                || after.starts_with(|c| "%${}()[]|,!".contains(c)));
        rest = after;
    }
    doubled
}

/// Whether a line ends outside of brackets and environments where no formula or list goes on.
fn has_separate_lines(text: &str) -> bool {
    let mut depth = 0_usize;
    text.char_indices().any(|(at, c)| {
        let (before, after) = text.split_at(at);
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            '\\' if after.starts_with("\\begin") => depth += 1,
            '\\' if after.starts_with("\\end") => depth = depth.saturating_sub(1),
            '\n' | '\r' | '\u{2028}' if depth == 0 => {
                let (before, after) = (before.trim_end(), after.trim_start());
                let joins = |word: Option<&str>| matches!(word, Some("and" | "or"));
                return !(before.ends_with(|c| ",;=+-*/&\\<>".contains(c))
                    || after.starts_with(|c| ",;=&".contains(c))
                    || joins(before.split_whitespace().next_back())
                    || joins(after.split_whitespace().next()));
            }
            _ => {}
        }
        false
    })
}

/// Whether the text is a sentence about the answer, several sentences, or longer than any answer in words.
fn is_prose(text: &str) -> bool {
    let lower = text.to_lowercase();
    let has_number = lower.contains(|c: char| c.is_numeric() || matches!(c, '$' | '='));
    let has_box = is_worked_solution(text);
    let (mut words, mut about_answer, mut sentence) = (0, false, false);
    let mut rest = lower.as_str();
    while let Some(first) = rest.chars().next() {
        let word = match first {
            '\\' => &rest[..1 + leading_letters(&rest[1..]).len()],
            _ if first.is_alphabetic() => rest
                .split(|c: char| !c.is_alphabetic())
                .next()
                .unwrap_or(rest),
            _ => &rest[..first.len_utf8()],
        };
        rest = &rest[word.len()..];
        let letters = if first.is_alphabetic() {
            word.chars().count()
        } else {
            0
        };
        words += usize::from(letters > 1);
        // so(3) is an algebra.
        about_answer |= is_sentence_word(word) && !rest.starts_with(['(', '}', '_', '^']);
        sentence |= VERBS.contains(&word) && (has_box || begins_value(rest));
        let ends = letters > 4 || first.is_numeric() || matches!(first, '$' | ')' | '}');
        sentence |= ends && begins_sentence(rest);
    }
    about_answer |= SENTENCE_SIGNS.iter().any(|sign| lower.contains(sign));
    let max = match (has_box, has_number) {
        (true, _) => MAX_WORDS[0],
        (_, true) => MAX_WORDS[1],
        _ => MAX_WORDS[2],
    };
    sentence || words > max || about_answer && (has_number || words > 2)
}

fn is_sentence_word(word: &str) -> bool {
    SENTENCE_WORDS.split(' ').any(|known| known == word)
}

fn begins_value(text: &str) -> bool {
    let text = text.trim_start_matches([' ', ':', '*', '}', '"']);
    text.starts_with(|c: char| c.is_numeric() || matches!(c, '$' | '-' | '−'))
        || ["\\(", "\\[", "\\frac", "\\dfrac", "\\sqrt", "\\boxed"]
            .iter()
            .any(|value| text.starts_with(value))
}

/// Whether the text ends a sentence and begins another.
fn begins_sentence(text: &str) -> bool {
    let next = text.strip_prefix(['.', '!', '?']).unwrap_or_default();
    next.starts_with(char::is_whitespace) && next.trim_start().starts_with(char::is_alphabetic)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_text_gives_its_answer_or_is_refused_as_the_table_says() {
        let lines = include_str!("../tests/right_answers.jsonl").lines();
        for line in lines.filter(|line| !line.starts_with('#')) {
            let (text, answer, reason): (String, Option<String>, String) =
                serde_json::from_str(line).expect(line);
            let read = super::right_answer(&text);
            assert_eq!(read.clone().ok(), answer, "{line}");
            let error = read.err().map(|error| error.to_string());
            assert!(error.unwrap_or_default().contains(&reason), "{line}");
        }
    }
}
