//! The known name that a mistyped one was probably meant to be.

use strsim::damerau_levenshtein;

/// The candidate that differs from `word` by a slip or two; else one that begins with `word`, up to a slip or two.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    let distance = |candidate: &str| {
        let known = candidate.chars().count();
        // A word may be long and hostile: the distance is computed only where it can be small enough.
        let whole = (length.abs_diff(known) <= MAX_SLIPS)
            .then(|| damerau_levenshtein(word, candidate))
            .filter(|distance| *distance <= slips(known));
        let beginning = || {
            let beginning: String = candidate.chars().take(length).collect();
            (known > length && length >= MIN_BEGINNING)
                .then(|| damerau_levenshtein(word, &beginning))
                .filter(|distance| *distance <= slips(length))
                .map(|distance| distance + MAX_SLIPS + 1)
        };
        whole.or_else(beginning)
    };
    candidates
        .into_iter()
        .filter_map(|candidate| Some((distance(candidate)?, candidate)))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Most slips in a name.
const MAX_SLIPS: usize = 2;

/// Fewest characters that say which name they begin.
const MIN_BEGINNING: usize = 5;

/// How many slips a name may contain: none in a very short one, where everything is near everything.
fn slips(length: usize) -> usize {
    match length {
        0..=2 => 0,
        3..=5 => 1,
        _ => MAX_SLIPS,
    }
}

/// ` (did you mean …?)`, where there is something to mean.
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
    fn a_slip_or_a_beginning_finds_its_name_and_another_word_finds_none() {
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
