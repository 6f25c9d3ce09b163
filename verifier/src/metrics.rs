//! Counters of what the service did, in Prometheus's text format.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use verifier_api::Verdict;

/// Upper bounds of the histogram's buckets, in seconds.
const BUCKETS: [f64; 12] = [
    0.0001, 0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 2.0, 5.0, 20.0, 60.0, 300.0,
];

/// Everything counted since the start.
#[derive(Debug, Default)]
pub struct Metrics(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// By route and status.
    requests: BTreeMap<(String, u16), u64>,
    /// By grader, verdict and whether the cache had it.
    judgements: BTreeMap<(&'static str, &'static str, bool), u64>,
    /// By grader.
    seconds: BTreeMap<&'static str, Histogram>,
}

#[derive(Debug, Default)]
struct Histogram {
    buckets: [u64; BUCKETS.len()],
    count: u64,
    sum: f64,
}

/// What is read at the moment of asking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Items that wait.
    pub queued: usize,
    /// Items that are being judged.
    pub running: usize,
    /// Worker threads.
    pub workers: usize,
    /// Whether `/readyz` answers 200.
    pub ready: bool,
}

impl Metrics {
    /// Counts an answered request.
    pub fn request(&self, route: &str, status: u16) {
        *self
            .lock()
            .requests
            .entry((route.to_owned(), status))
            .or_default() += 1;
    }

    /// Counts a judgement, and the `seconds` that it took where it was made: neither remembered, nor refused by a grader that cannot judge (`None`).
    pub fn judgement(
        &self,
        grader: &'static str,
        verdict: Verdict,
        cached: bool,
        seconds: Option<f64>,
    ) {
        let mut counts = self.lock();
        *counts
            .judgements
            .entry((grader, name(verdict), cached))
            .or_default() += 1;
        if let Some(seconds) = seconds.filter(|_| !cached) {
            let histogram = counts.seconds.entry(grader).or_default();
            if let Some(bucket) = BUCKETS.iter().position(|bound| seconds <= *bound) {
                histogram.buckets[bucket] += 1;
            }
            histogram.count += 1;
            histogram.sum += seconds;
        }
    }

    /// All of it as text, version 0.0.4 of the format.
    #[must_use]
    pub fn render(&self, gauges: Gauges) -> String {
        let counts = self.lock();
        let mut out = String::new();
        family(
            &mut out,
            "requests_total",
            "counter",
            "HTTP requests answered.",
        );
        for ((route, status), count) in &counts.requests {
            line(
                &mut out,
                "requests_total",
                &format!("route=\"{route}\",status=\"{status}\""),
                *count as f64,
            );
        }
        family(&mut out, "judgements_total", "counter", "Items judged.");
        for ((grader, verdict, cached), count) in &counts.judgements {
            line(
                &mut out,
                "judgements_total",
                &format!("grader=\"{grader}\",verdict=\"{verdict}\",cached=\"{cached}\""),
                *count as f64,
            );
        }
        family(
            &mut out,
            "judge_seconds",
            "histogram",
            "Time that judging an item took; items that were cached or that no grader could take excepted.",
        );
        for (grader, histogram) in &counts.seconds {
            let mut below = 0;
            for (bound, count) in BUCKETS.iter().zip(histogram.buckets) {
                below += count;
                line(
                    &mut out,
                    "judge_seconds_bucket",
                    &format!("grader=\"{grader}\",le=\"{bound}\""),
                    below as f64,
                );
            }
            line(
                &mut out,
                "judge_seconds_bucket",
                &format!("grader=\"{grader}\",le=\"+Inf\""),
                histogram.count as f64,
            );
            line(
                &mut out,
                "judge_seconds_sum",
                &format!("grader=\"{grader}\""),
                histogram.sum,
            );
            line(
                &mut out,
                "judge_seconds_count",
                &format!("grader=\"{grader}\""),
                histogram.count as f64,
            );
        }
        for (name, help, value) in [
            (
                "queued_items",
                "Items that wait for a worker.",
                gauges.queued as f64,
            ),
            (
                "running_items",
                "Items that are being judged.",
                gauges.running as f64,
            ),
            ("workers", "Worker threads.", gauges.workers as f64),
            (
                "ready",
                "1 where /readyz answers 200.",
                f64::from(u8::from(gauges.ready)),
            ),
        ] {
            family(&mut out, name, "gauge", help);
            line(&mut out, name, "", value);
        }
        out
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The verdict as the wire writes it.
#[must_use]
pub fn name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Correct => "correct",
        Verdict::Incorrect => "incorrect",
        Verdict::Timeout => "timeout",
        Verdict::Memory => "memory",
        Verdict::Malformed => "malformed",
        Verdict::Unavailable => "unavailable",
    }
}

fn family(out: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "# HELP rapid_verifier_{name} {help}\n# TYPE rapid_verifier_{name} {kind}"
    );
}

fn line(out: &mut String, name: &str, labels: &str, value: f64) {
    let labels = if labels.is_empty() {
        String::new()
    } else {
        format!("{{{labels}}}")
    };
    let _ = writeln!(out, "rapid_verifier_{name}{labels} {value}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_is_rendered_with_cumulative_buckets() {
        let metrics = Metrics::default();
        metrics.request("/v1/verify", 200);
        metrics.judgement("math", Verdict::Correct, false, Some(0.0005));
        metrics.judgement("math", Verdict::Correct, false, Some(1000.0));
        metrics.judgement("math", Verdict::Correct, true, Some(0.0));
        metrics.judgement("math", Verdict::Unavailable, false, None);
        let text = metrics.render(Gauges {
            queued: 3,
            running: 1,
            workers: 2,
            ready: true,
        });
        for expected in [
            "rapid_verifier_requests_total{route=\"/v1/verify\",status=\"200\"} 1",
            "rapid_verifier_judgements_total{grader=\"math\",verdict=\"correct\",cached=\"false\"} 2",
            "rapid_verifier_judgements_total{grader=\"math\",verdict=\"correct\",cached=\"true\"} 1",
            "rapid_verifier_judgements_total{grader=\"math\",verdict=\"unavailable\",cached=\"false\"} 1",
            "rapid_verifier_judge_seconds_bucket{grader=\"math\",le=\"0.0001\"} 0",
            "rapid_verifier_judge_seconds_bucket{grader=\"math\",le=\"300\"} 1",
            "rapid_verifier_judge_seconds_bucket{grader=\"math\",le=\"+Inf\"} 2",
            "rapid_verifier_queued_items 3",
            "rapid_verifier_ready 1",
        ] {
            assert!(
                text.lines().any(|line| line == expected),
                "{expected} in\n{text}"
            );
        }
    }
}
