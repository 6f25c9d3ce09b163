//! Files of pairs of answers with the verdict of a careful reader, such as `tests/math_pairs.tsv`, and how fast they are compared.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::{Comparison, Policy, compare};

/// A careful reader's verdict on a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairVerdict {
    /// `=`: the same answer.
    Same,
    /// `~`: the same value, but a simplification is missing.
    Unsimplified,
    /// `!`: a different answer.
    Different,
}

/// A line of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair<'a> {
    /// The verdict.
    pub verdict: PairVerdict,
    /// The expected answer.
    pub expected: &'a str,
    /// The answer to compare with it.
    pub answer: &'a str,
}

impl Pair<'_> {
    /// Whether `policy` should accept the pair. The verdicts do not apply to the strict policy, which compares text.
    #[must_use]
    pub fn is_same(&self, policy: Policy) -> bool {
        match self.verdict {
            PairVerdict::Same => true,
            PairVerdict::Unsimplified => policy == Policy::Lenient,
            PairVerdict::Different => false,
        }
    }
}

/// A line that is not a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "line {0} is not a pair: a pair is =, ~ or !, the expected answer and the answer to compare, separated by tabs"
)]
pub struct InvalidPair(usize);

/// Parses the pairs of a file. Empty lines and lines that begin with `#` are skipped.
///
/// # Errors
/// Returns the number of the first line that is not a pair.
pub fn parse(text: &str) -> Result<Vec<Pair<'_>>, InvalidPair> {
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(number, line)| parse_pair(line).ok_or(InvalidPair(number + 1)))
        .collect()
}

fn parse_pair(line: &str) -> Option<Pair<'_>> {
    let mut fields = line.split('\t');
    let verdict = match fields.next()? {
        "=" => PairVerdict::Same,
        "~" => PairVerdict::Unsimplified,
        "!" => PairVerdict::Different,
        _ => return None,
    };
    let pair = Pair {
        verdict,
        expected: fields.next()?,
        answer: fields.next()?,
    };
    fields.next().is_none().then_some(pair)
}

/// How fast pairs are compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speed {
    /// Pairs that one thread compares per second.
    pub pairs_per_second: f64,
    /// The longest comparison.
    pub slowest: Duration,
}

/// Compares all pairs in turn, by the lenient policy and on this thread, for at least `min_time`.
#[must_use]
pub fn measure(pairs: &[Pair<'_>], min_time: Duration) -> Speed {
    let (mut compared, mut slowest) = (0_u64, Duration::ZERO);
    let started = Instant::now();
    while started.elapsed() < min_time {
        for pair in pairs {
            let start = Instant::now();
            black_box(is_accepted(pair));
            slowest = slowest.max(start.elapsed());
            compared += 1;
        }
    }
    Speed {
        pairs_per_second: compared as f64 / started.elapsed().as_secs_f64(),
        slowest,
    }
}

/// The pairs that the lenient policy judges differently from a careful reader.
#[must_use]
pub fn misjudged<'a>(pairs: &[Pair<'a>]) -> Vec<Pair<'a>> {
    pairs
        .iter()
        .filter(|pair| is_accepted(pair) != pair.is_same(Policy::Lenient))
        .copied()
        .collect()
}

fn is_accepted(pair: &Pair<'_>) -> bool {
    let comparison = compare(
        black_box(pair.expected),
        black_box(pair.answer),
        Policy::Lenient,
    );
    matches!(comparison, Comparison::Same(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_names_the_first_line_that_is_not_a_pair() {
        assert_eq!(
            parse("# pairs\n\n=\t1\t1.0\n").map(|pairs| pairs.len()),
            Ok(1)
        );
        for line in ["?\t1\t1", "=\t1", "=\t1\t1\t1", "= 1 1"] {
            assert_eq!(
                parse(&format!("=\t1\t1\n{line}")),
                Err(InvalidPair(2)),
                "{line}"
            );
        }
    }
}
