//! Suggests the known name that a misspelt one was probably meant to be.

use strsim::damerau_levenshtein;

/// The candidate that differs from `word` by a typo or two; otherwise one that begins with `word`, up to a typo or two.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    let distance = |candidate: &str| {
        let known = candidate.chars().count();
        // A word may be long and hostile: the distance is computed only if it can be small enough.
        let typo_distance = (length.abs_diff(known) <= MAX_TYPOS)
            .then(|| damerau_levenshtein(word, candidate))
            .filter(|distance| *distance <= allowed_typos(known));
        let prefix = || {
            let prefix: String = candidate.chars().take(length).collect();
            (known > length && length >= MIN_PREFIX)
                .then(|| damerau_levenshtein(word, &prefix))
                .filter(|distance| *distance <= allowed_typos(length))
                .map(|distance| distance + MAX_TYPOS + 1)
        };
        typo_distance.or_else(prefix)
    };
    candidates
        .into_iter()
        .filter_map(|candidate| Some((distance(candidate)?, candidate)))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Maximum number of typos in a name.
const MAX_TYPOS: usize = 2;

/// Minimum length of a word that is matched with the beginning of a name.
const MIN_PREFIX: usize = 5;

/// Number of typos that a name of this length may contain. It is 0 for very short names, since all of them are near each other.
fn allowed_typos(length: usize) -> usize {
    match length {
        0..=2 => 0,
        3..=5 => 1,
        _ => MAX_TYPOS,
    }
}

/// ` (did you mean …?)`, or an empty text without a name.
#[must_use]
pub fn hint(nearest: Option<&str>) -> String {
    nearest
        .map(|name| format!(" (did you mean `{name}`?)"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_or_a_beginning_finds_its_name_and_another_word_finds_none() {
        let names = ["lr", "eta", "seed", "temperature", "smollm2-135m-instruct"];
        for (word, meant) in [
            ("sede", Some("seed")),
            ("temprature", Some("temperature")),
            ("smolm2", Some("smollm2-135m-instruct")),
            ("smollm2-135m", Some("smollm2-135m-instruct")),
            ("lx", None),
            ("learning_rate", None),
            ("tem", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, names), meant, "{word}");
        }
        assert_eq!(nearest(&"x".repeat(100_000_000), names), None);
    }
}
