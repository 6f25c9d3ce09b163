//! The measured times of starting Lean. Reading a file's imports is most of a start, and takes about as long for every file with the same imports.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum number of lists of imports that are remembered.
const MAX_IMPORTS: usize = 1_024;

/// The shortest time of a file, by the digest of its imports: little more than the time of starting Lean.
#[derive(Debug, Default)]
pub(super) struct StartTimes(Mutex<HashMap<[u8; 32], Duration>>);

impl StartTimes {
    /// The shortest time of a file with these imports, if one was compiled.
    pub(super) fn shortest(&self, imports: &str) -> Option<Duration> {
        self.locked().get(&digest(imports)).copied()
    }

    /// Records the time of a file that was compiled without errors, so that all its imports were read.
    pub(super) fn record(&self, imports: &str, taken: Duration) {
        let imports = digest(imports);
        let mut all = self.locked();
        if all.len() >= MAX_IMPORTS && !all.contains_key(&imports) {
            all.clear();
        }
        let shortest = all.entry(imports).or_insert(taken);
        *shortest = taken.min(*shortest);
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<[u8; 32], Duration>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn digest(imports: &str) -> [u8; 32] {
    *blake3::hash(imports.as_bytes()).as_bytes()
}

/// The beginning of a file up to its last line with the word `import`, so with all its imports. If there is a header, it has them.
#[must_use]
pub fn imports<'a>(header: &'a str, body: &'a str) -> &'a str {
    let text = if header.is_empty() { body } else { header };
    let (mut at, mut end) = (0, 0);
    for line in text.split_inclusive('\n') {
        at += line.len();
        if line.split_whitespace().any(|word| word == "import") {
            end = at;
        }
    }
    text[..end].trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_time_of_the_same_imports_counts() {
        let times = StartTimes::default();
        assert_eq!(times.shortest("import A"), None);
        for seconds in [4, 2, 3] {
            times.record("import A", Duration::from_secs(seconds));
        }
        times.record("import B", Duration::from_secs(1));
        assert_eq!(times.shortest("import A"), Some(Duration::from_secs(2)));
        for number in 0..2 * MAX_IMPORTS {
            times.record(&format!("import C{number}"), Duration::ZERO);
        }
        assert!(times.locked().len() <= MAX_IMPORTS);
    }

    #[test]
    fn imports_are_in_the_header_or_else_at_the_beginning_of_the_body() {
        for (header, body, expected) in [
            (
                "import A\nimport B\n\nopen C",
                "import D",
                "import A\nimport B",
            ),
            ("open C", "import D", ""),
            (
                "",
                "-- a\npublic import D\n\ntheorem important : True",
                "-- a\npublic import D",
            ),
            ("", "theorem t : True := trivial", ""),
        ] {
            assert_eq!(imports(header, body), expected);
        }
    }
}
