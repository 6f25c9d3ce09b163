//! With which completions a run is evaluated.

use super::*;
use crate::record::SampleRecord;

#[tokio::test(flavor = "multi_thread")]
async fn only_evaluations_have_the_least_number_of_tokens() {
    let (home, server) = home_and_verifier().await;
    let roots = [0, 3].map(|least| home.path().join(format!("run-{least}")));
    for (root, least) in roots.iter().zip([0, 3]) {
        let least = format!("eval.min_tokens={least}");
        let config = config(&server.url, &[&least, "run.updates=3", "eval.every=0"]);
        run_in(root, &config).await.unwrap();
    }
    let shortest = |root: &Path| {
        let text = std::fs::read_to_string(root.join("samples/eval-3.jsonl")).unwrap();
        let tokens = |line| serde_json::from_str::<SampleRecord>(line).unwrap().tokens;
        text.lines().map(tokens).min()
    };
    // Three letters, and the last of at most four.
    assert_eq!(
        roots.each_ref().map(|root| shortest(root)),
        [Some(1), Some(4)]
    );
    let [without, with] = roots.each_ref().map(|root| outputs(root));
    for name in ["metrics.jsonl", "phase-0.jsonl", "state"] {
        assert_eq!(without[name], with[name], "{name}");
    }
}
