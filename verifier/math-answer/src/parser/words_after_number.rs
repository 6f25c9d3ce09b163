//! Words after a value. They may be ignored if they only name what is counted.
//!
//! If they cannot be a unit, a scale such as "million" or a plain noun phrase, the answer is not parsed and is compared as text. `counted_nouns.rs` decides
//! whether a noun is known.

use crate::expression::Function;
use crate::parser::contains_word;
use crate::parser::counted_nouns::{FILLER_WORDS, may_end_phrase, normalise_word, unlisted_words};
use crate::parser::unit::{Measure, measure};
use crate::parser::word_answers::{is_choice, is_numeral};

/// Maximum number of words of a phrase for what is counted.
const MAX_WORDS: usize = 12;

/// Maximum number of scales after a number: hundred thousand million.
const MAX_SCALES: usize = 3;

/// Words that change a value, hedge it, or mean more than what is counted.
const MEANING_CHANGING_WORDS: &str = "or and nor to through until till between but also both \
    either neither less more fewer greater smaller larger least most than not no none never half \
    halves quarter quarters about around nearly almost roughly squared cubed factorial dozen \
    dozens score gross times plus minus over under below above divided multiplied percent \
    percentage percentile mod modulo base remainder double twice triple thrice opposite \
    reciprocal inverse maybe perhaps possibly probably versus instead rather actually if unless \
    when where without except excluding including exclusive is are was equals loss lost decrease \
    decreased decline deficit debt owed down south west southwest ago before off discount short \
    wrong incorrect false undefined impossible unknown doubled tripled halved quadrupled negated \
    inverted conjugate complement transpose lakh crore grand permille mille basis oder und bis \
    infinity power exponent choose repeating recurring repeated as reduction reduced reduce drop \
    drops dropped fall falls fell fallen falling cut cuts lower lowered lowering shrink shrinks \
    shrank shrunk shrinkage diminished dip decay decreasing declined declining cheaper slower \
    backward backwards losing loses reductions subtracted quadrillion quadrillions quintillion \
    sine sines cosine tangent secant cosecant cotangent logarithm milli kilo micro nano mega giga \
    centi deci imaginary myriad myriads googol cosines inverses opposites negatives reciprocals \
    factorials powers exponents derivative conjugates cosecants approximately sixteenths losses \
    deficits debts binary ternary octal hexadecimal hex";

/// Words that change a value at the end of a phrase: "3 negative", but not "3 negative numbers".
const MEANING_CHANGING_WORDS_AT_END: &str = "negative left square cubic cube root \
    counterclockwise anticlockwise south west";

/// Names of constants and variables that are spelled out in mathematics.
const SPELLED_SYMBOLS: &str = "pi alpha beta gamma delta theta lambda omega sigma phi sqrt infty";

/// The words after a number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TrailingWords {
    /// The scales that multiply the number, from the number outwards, and then the unit or the noun phrase: `million`, then `dollars`.
    pub(crate) layers: Vec<String>,
    /// Words of the noun phrase that are in no list.
    pub(crate) unlisted: Vec<String>,
}

/// Parses the words after a number. `None` if they cannot be ignored.
pub(crate) fn parse_trailing_words(words: &str) -> Option<TrailingWords> {
    let spaced = words.replace('/', " per ");
    let mut rest: Vec<&str> = spaced.split_whitespace().collect();
    let mut layers = Vec::new();
    while let [first, more @ ..] = rest.as_slice()
        && matches!(measure(first), Measure::Scale(_))
    {
        if layers.len() == MAX_SCALES {
            return None;
        }
        layers.push((*first).to_owned());
        rest = more.to_vec();
    }
    let mut unlisted = Vec::new();
    if !rest.is_empty() {
        let (meaning, phrase) = unit_or_noun_phrase(&rest)?;
        layers.push(meaning);
        unlisted = unlisted_words(&phrase);
    }
    Some(TrailingWords { layers, unlisted })
}

/// Splits words without scales. Returns the unit or the noun phrase that they are, and the noun phrase alone. After a unit the latter is empty unless more words
/// follow.
fn unit_or_noun_phrase(words: &[&str]) -> Option<(String, String)> {
    if words.len() > MAX_WORDS {
        return None;
    }
    let joined = words.join(" ");
    if !matches!(measure(&joined), Measure::Words) {
        return Some((joined, String::new()));
    }
    // 5 liters of water, 20 percent of them and 10 dollars profit begin with units. 10 dollar bills are bills.
    for length in (1..words.len()).rev() {
        let (unit, rest) = words.split_at(length);
        let named = unit.join(" ");
        let has_size = matches!(
            measure(&named),
            Measure::Unit(..) | Measure::Percent | Measure::Degrees | Measure::Generic(_)
        );
        let unit_ends = matches!(
            rest.first(),
            Some(&("of" | "for" | "from" | "in" | "away" | "apart"))
        ) || unit.last().is_some_and(|word| word.ends_with('s'))
            || matches!(measure(&named), Measure::Percent);
        // Percentage points are a difference of percentages.
        if measure(&named) == Measure::Percent && rest[0].starts_with("point") {
            return None;
        }
        if has_size && unit_ends {
            return is_noun_phrase(rest).then(|| (named, rest.join(" ")));
        }
    }
    is_noun_phrase(words).then(|| (joined.clone(), joined))
}

/// Whether the words can only name what is counted.
fn is_noun_phrase(words: &[&str]) -> bool {
    // (A) in 10 (A) is the label of the choice.
    if let [one] = words
        && is_choice(one)
    {
        return true;
    }
    let normalised: Vec<String> = words.iter().map(|word| normalise_word(word)).collect();
    if let [one] = normalised.as_slice()
        && one == "times"
    {
        return true;
    }
    let last = normalised.last().map_or("", String::as_str);
    let square_root = normalised.windows(2).any(|pair| {
        matches!(pair[0].as_str(), "square" | "cube" | "cubic") && pair[1].starts_with("root")
    });
    let ordinal = ["th", "st", "nd", "rd"].contains(&normalised.first().map_or("", String::as_str));
    let has_noun = ordinal
        || normalised
            .iter()
            .any(|word| !FILLER_WORDS.contains(&word.as_str()));
    has_noun
        && !square_root
        && !contains_word(MEANING_CHANGING_WORDS_AT_END, last)
        && may_end_phrase(last)
        && normalised.iter().all(|word| is_ordinary_word(word))
}

fn is_ordinary_word(word: &str) -> bool {
    !word.is_empty()
        && word.split('-').all(|part| {
            let spelled = part.len() > 2
                && part.chars().all(|c| c.is_alphabetic() && c < '\u{250}')
                && part.contains(['a', 'e', 'i', 'o', 'u'])
                && Function::named(part).is_none();
            FILLER_WORDS.contains(&part)
                || (spelled
                    && !contains_word(MEANING_CHANGING_WORDS, part)
                    && !contains_word(SPELLED_SYMBOLS, part)
                    && !is_numeral(part))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Option<String> {
        parse_trailing_words(words).map(|trailing| trailing.layers.join("|"))
    }

    #[test]
    fn only_phrases_that_name_what_is_counted_are_accepted() {
        for words in "right triangles,ways.,students,distinct integers,student(s),pairs of socks,\
            (A),negative numbers,real roots,times,th,th term"
            .split(',')
        {
            assert!(read(words).is_some(), "{words}");
        }
        for words in "one-way streets,to 6,and a half,hundredths,squared,factorial,x,xy,dxdy,pi,sin,\
            or more,at least,below zero,is wrong,for,of the,root,square roots,negative,of ten,dozens,\
            percentage points,percent points,per mille,repeating,二,万,mod,"
            .split(',')
        {
            assert!(read(words).is_none_or(|read| read.is_empty()), "{words}");
        }
    }

    #[test]
    fn scales_and_units_are_split_from_the_other_words() {
        assert_eq!(read("million people").as_deref(), Some("million|people"));
        assert_eq!(
            read("hundred thousand dollars").as_deref(),
            Some("hundred|thousand|dollars")
        );
        assert_eq!(read("dozen").as_deref(), Some("dozen"));
        assert_eq!(read("liters of water").as_deref(), Some("liters"));
        for word in ["percent", "percentage", "pct", "per cent"] {
            let of = format!("{word} of the students");
            assert_eq!(read(&of).as_deref(), Some(word));
        }
        assert_eq!(read("dollar bills").as_deref(), Some("dollar bills"));
    }
}
