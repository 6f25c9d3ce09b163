//! A verifier may be anyone's, and so may what answers in its place.

use std::sync::OnceLock;

use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::*;

#[tokio::test]
async fn text_of_a_verifier_is_shown_in_one_line_of_the_log() {
    const DETAIL: &str = "busy\r\n WARN forged\u{85}\u{1b}[2J\u{9b}1m\u{202e}\u{2066}\u{2028}";
    for status in [503, 422] {
        let log = tempfile::NamedTempFile::new().unwrap();
        let writer = Arc::new(log.reopen().unwrap());
        let subscriber = tracing_subscriber::fmt().with_writer(writer);
        let subscriber = subscriber.with_ansi(false).without_time();
        let fields = debug_fn(crate::stderr::log_field);
        let logging = subscriber.fmt_fields(fields).set_default();
        let server = FakeVerifier::serve(move |number, items| match number {
            0 => Answer::Problem(status, json!({"status": status, "detail": DETAIL})),
            _ => Answer::accepting_b(&items),
        })
        .await;
        let client = client(&server, 0);
        judged(&client, &["b"]).await.unwrap();
        drop(logging);
        let log = std::fs::read_to_string(log.path()).unwrap();
        let shown = "busy␍  WARN forged␡␛[2J␡1m⟨U+202E⟩⟨U+2066⟩ ";
        assert!(log.contains(shown), "{status}: {log:?}");
        assert_eq!(log.matches(char::is_control).count(), 1, "{log:?}");
    }
}

#[tokio::test]
async fn a_reward_that_does_not_follow_from_the_verdict_is_refused() {
    for (refused, verdict, reward) in [
        (false, "correct", 1.0),
        (false, "timeout", 0.0),
        (true, "correct", 0.0),
        (true, "correct", 0.5),
        (true, "correct", -1.0),
        (true, "correct", 1e300),
        (true, "incorrect", 1.0),
        (false, "incorrect", 0.5),
        (true, "incorrect", -1e-300),
        (true, "malformed", 0.5),
        (true, "malformed", -7.5),
        (true, "unavailable", 0.0),
    ] {
        let server = FakeVerifier::serve(move |_, items| {
            let mut second = judgement(&items[1].id, true);
            second["reward"] = json!(reward);
            second["verdict"] = json!(verdict);
            Answer::Results(vec![judgement(&items[0].id, true), second])
        })
        .await;
        let judged = judged(&client(&server, 5), &["b", "c"]).await;
        let error = judged.map_or_else(|error| error.to_string(), |_| String::new());
        let expected = format!("is {reward:?} with the verdict `{verdict}`");
        assert_eq!(error.contains(&server.url), refused, "{expected}: {error}");
        assert_eq!(error.contains(&expected), refused, "{expected}: {error}");
    }
}

#[tokio::test]
async fn a_redirect_is_followed_only_within_scheme_host_and_port() {
    let other = FakeVerifier::accepting_b().await;
    for status in [301, 302, 303, 307, 308] {
        for to in ["port", "user", "host", "scheme", "same", ""] {
            let header: Arc<OnceLock<String>> = Arc::default();
            let sent = header.clone();
            let server = FakeVerifier::serve(move |number, items| match number {
                0 => Answer::Status(status, sent.get().unwrap().clone().leak()),
                _ => Answer::accepting_b(&items),
            })
            .await;
            let target = match to {
                "port" => other.url.clone(),
                "user" => other.url.replace("//", "//name:secret@"),
                "host" => server.url.replace("127.0.0.1", "localhost"),
                "scheme" => server.url.replace("http:", "https:"),
                "same" => server.url.clone(),
                _ => String::new(),
            };
            let line = format!("location: {target}/v1/verify\r\n");
            header.set(line).unwrap();
            let judged = judged(&client(&server, 0), &["b"]).await;
            if ["same", ""].contains(&to) {
                // The other statuses ask for a GET, without the completions.
                let repeated = status < 307 || rewards(&judged.unwrap()) == [Some(1.0)];
                assert!(repeated, "{status} {to}");
                continue;
            }
            let error = judged.unwrap_err().to_string();
            let target = target.replace("name:secret@", "");
            for part in [&server.url, &target, "give its address instead"] {
                assert!(error.contains(part), "{status} {to}: {error}");
            }
            assert!(!error.contains("secret"), "{error}");
            assert_eq!((server.requests(), other.requests()), (1, 0), "{to}");
        }
    }
}
