//! Units at the end of an answer: `90^{\circ}`, `5 cm`, `50%`.

use super::latex::{TEXT_CLOSE, TEXT_OPEN};

/// Bare words that are units where they follow a number.
const UNITS: [&str; 44] = [
    "degree", "deg", "percent", "dollar", "cent", "inch", "inches", "feet", "foot", "ft", "yard",
    "mile", "mph", "km", "m", "cm", "mm", "meter", "metre", "kg", "g", "gram", "pound", "ounce",
    "liter", "litre", "second", "sec", "minute", "min", "hour", "day", "week", "month", "year",
    "unit", "square", "cubic", "people", "point", "time", "way", "mi", "radian",
];

/// Takes a unit off the end of `text` where what remains ends as a number does.
pub(super) fn take_unit(text: &mut String) -> Option<String> {
    if let Some(rest) = text.strip_prefix('$') {
        *text = rest.to_owned();
        return Some("dollar".to_owned());
    }
    let numeric = |rest: &str| {
        rest.ends_with(|last: char| last.is_ascii_digit() || last == '}' || last == '.')
            && rest.contains(|c: char| c.is_ascii_digit())
    };
    for (suffix, unit) in [
        ("^{\\circ}", "degree"),
        ("\\circ", "degree"),
        ("%", "percent"),
        ("$", "dollar"),
    ] {
        if let Some(rest) = text.strip_suffix(suffix)
            && numeric(rest.trim_end())
        {
            *text = rest.trim_end().to_owned();
            return Some(unit.to_owned());
        }
    }
    // A power of the unit: cm^{2}.
    let (body, power) = match text.rfind("^{") {
        Some(at)
            if text.ends_with('}')
                && text[at + 2..text.len() - 1]
                    .bytes()
                    .all(|byte| byte.is_ascii_digit()) =>
        {
            text.split_at(at)
        }
        _ => (text.as_str(), ""),
    };
    let (rest, words) = if let Some(body) = body.strip_suffix(TEXT_CLOSE) {
        let open = body.rfind(TEXT_OPEN)?;
        (&body[..open], &body[open + TEXT_OPEN.len_utf8()..])
    } else {
        let words = body
            .rfind(|c: char| !(c.is_ascii_alphabetic() || c == ' '))
            .map_or(0, |at| at + 1);
        // `rfind` gave the start of an ASCII or longer character; step to the next boundary.
        let words = (words..=body.len()).find(|&at| body.is_char_boundary(at))?;
        let (rest, words) = body.split_at(words);
        if words.trim().is_empty()
            || !words
                .split(' ')
                .filter(|word| !word.is_empty())
                .all(|word| UNITS.contains(&singular(&word.to_ascii_lowercase())))
        {
            return None;
        }
        (rest, words)
    };
    let rest = rest.trim_end();
    if !numeric(rest) || words.contains(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let unit = format!("{}{power}", singular(&words.trim().to_ascii_lowercase()));
    *text = rest.to_owned();
    Some(unit)
}

fn singular(word: &str) -> &str {
    match word {
        "feet" => "foot",
        "inches" => "inch",
        word if word.len() > 2 => word.strip_suffix('s').unwrap_or(word),
        word => word,
    }
}

#[cfg(test)]
mod tests {
    use super::super::latex::normalise;

    #[test]
    fn units_are_taken_off_and_remembered() {
        for (answer, number, unit) in [
            (r"90^\circ", "90", "degree"),
            (r"\$18.90", "18.90", "dollar"),
            (r"864 \mbox{ inches}^2", "864", "inch^{2}"),
            (r"5.4 \text{ cents}", "5.4", "cent"),
            (r"\frac{270}7\text{ degrees}", r"\frac{270}{7}", "degree"),
            ("15 cm", "15", "cm"),
            (r"50\%", "50", "percent"),
        ] {
            let normal = normalise(answer);
            assert_eq!(
                (normal.text.as_str(), normal.unit.as_deref()),
                (number, Some(unit)),
                "{answer}"
            );
        }
        assert_eq!(normalise("2k").unit, None);
    }
}
