//! The service's metrics, in Prometheus's text format.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::prometheus_text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};
use verifier_api::Verdict;

/// The media type of the text from [`Metrics::render`].
pub use prometheus_text::CONTENT_TYPE;

/// Upper bounds of the histogram's buckets, in seconds.
const BUCKETS: [f64; 12] = [
    0.0001, 0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 2.0, 5.0, 20.0, 60.0, 300.0,
];

/// All metrics since the service started.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: Counters<2>,
    judgements: Counters<3>,
    client_items: Counters<2>,
    seconds: Family<[(&'static str, String); 1], Histogram>,
    queued: Count,
    running: Count,
    workers: Count,
    ready: Count,
}

/// Counters by the names and values of labels.
type Counters<const LABELS: usize> = Family<[(&'static str, String); LABELS], Counter>;
type Count = Gauge<u64, AtomicU64>;

/// Values that are read when the metrics are requested.
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

impl Default for Metrics {
    fn default() -> Metrics {
        let mut all = Registry::with_prefix("rapid_verifier");
        let r = &mut all;
        let new = Count::default;
        Metrics {
            requests: add(r, "requests", "HTTP requests answered", Family::default()),
            judgements: add(r, "judgements", "Items judged", Family::default()),
            client_items: add(
                r,
                "client_items",
                "Items of other projects' clients by what the client was told: the verdict, withheld (an error and no reward), failsafe (a reward 0 that is masked), or run (what a program wrote)",
                Family::default(),
            ),
            seconds: add(
                r,
                "judge_seconds",
                "Time that judging an item took, without cached items and items that no grader could judge",
                Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            ),
            queued: add(r, "queued_items", "Items that wait for a worker", new()),
            running: add(r, "running_items", "Items that are being judged", new()),
            workers: add(r, "workers", "Worker threads", new()),
            ready: add(r, "ready", "1 if /readyz answers 200, otherwise 0", new()),
            registry: all,
        }
    }
}

/// Registers a metric and returns it. The library appends a full stop to the help, and `_total` to a counter's name.
fn add<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

impl Metrics {
    /// Counts an answered request.
    pub fn request(&self, route: &str, status: u16) {
        let labels = [("route", route.to_owned()), ("status", status.to_string())];
        self.requests.get_or_create(&labels).inc();
    }

    /// Counts a judgement, and records the `seconds` that it took. They are not recorded for a cached judgement, and are `None`
    /// if the grader cannot judge.
    pub fn judgement(&self, grader: &str, verdict: Verdict, cached: bool, seconds: Option<f64>) {
        let labels = [
            ("grader", grader.to_owned()),
            ("verdict", verdict.name().to_owned()),
            ("cached", cached.to_string()),
        ];
        self.judgements.get_or_create(&labels).inc();
        if let Some(seconds) = seconds.filter(|_| !cached) {
            let labels = [("grader", grader.to_owned())];
            self.seconds.get_or_create(&labels).observe(seconds);
        }
    }

    /// Counts items by the outcome that the client got.
    pub fn client_items(&self, client: &'static str, outcome: &'static str, items: usize) {
        let (client, outcome) = (client.to_owned(), outcome.to_owned());
        let labels = [("client", client), ("outcome", outcome)];
        let counter = self.client_items.get_or_create(&labels);
        counter.inc_by(items as u64);
    }

    /// All metrics as text of the type [`CONTENT_TYPE`].
    pub fn render(&self, gauges: Gauges) -> String {
        self.queued.set(gauges.queued as u64);
        self.running.set(gauges.running as u64);
        self.workers.set(gauges.workers as u64);
        self.ready.set(u64::from(gauges.ready));
        let mut text = String::new();
        prometheus_text::encode(&mut text, &self.registry)
            .expect("integers and times can be encoded, and writing to a String does not fail");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_rendered_with_cumulative_buckets() {
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
            let found = text.lines().any(|line| line == expected);
            assert!(found, "{expected} in\n{text}");
        }
    }
}
