//! The known name that a mistyped one was probably meant to be.

/// The candidate nearest to `word`, if it is near enough to be a slip of the fingers.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= slips(candidate))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// How many slips a name may contain: none in a very short one, where everything is near everything.
fn slips(name: &str) -> usize {
    match name.len() {
        0..=3 => 0,
        4..=5 => 1,
        _ => 2,
    }
}

/// `; did you mean …?`, where there is something to mean.
pub(crate) fn hint(nearest: Option<&str>) -> String {
    nearest
        .map(|name| format!(" (did you mean `{name}`?)"))
        .unwrap_or_default()
}
