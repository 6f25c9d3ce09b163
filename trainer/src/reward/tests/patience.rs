//! What counts as time without a verdict.

use super::*;

#[tokio::test]
async fn an_outage_and_masked_samples_are_reported_once() {
    let client = RewardClient::new(&verifier_settings("http://127.0.0.1:9", 5)).unwrap();
    let warnings = |masks: bool| (0..16).filter(|_| client.may_warn(masks)).count();
    assert_eq!([false, true, false, true].map(warnings), [1, 1, 0, 0]);
    client.last_warned.lock().unwrap()[0] = Instant::now().checked_sub(QUIET);
    assert_eq!([false, true].map(warnings), [1, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wait_for_other_requests_does_not_use_up_the_patience() {
    let refused = AtomicUsize::new(0);
    let server = FakeVerifier::serve(move |_, items| {
        if items[0].completion == "c" {
            // Longer than the patience. Meanwhile the client's own pauses go on.
            tokio::task::block_in_place(|| std::thread::sleep(Duration::from_millis(2500)));
        } else if refused.fetch_add(1, Ordering::SeqCst) < 2 {
            return Answer::Status(429, "retry-after: 0\r\n");
        }
        Answer::accepting_b(&items)
    })
    .await;
    // The second completion is judged after the first is refused, and before it is sent again.
    let settings = config::Verifier {
        batch: 1,
        in_flight: 1,
        ..verifier_settings(&server.url, 2)
    };
    let client = RewardClient::new(&settings).unwrap();
    assert_eq!(judge(&client, &["b", "c"]).await, [Some(1.0), Some(0.0)]);
    assert_eq!(server.requests(), 4);
}
