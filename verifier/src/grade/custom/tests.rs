use std::path::Path;

use serde_json::json;
use verifier_api::Verdict;

use super::*;
use crate::grade::lean::JailChoice;

/// A program that answers each item by `BODY`; `say` writes an answer.
const PROGRAM: &str = r"
import json, os, subprocess, sys, time
def say(**fields):
    print(json.dumps({'id': item['id'], **fields}), flush=True)
for line in sys.stdin:
    item = json.loads(line)
    text = item['completion']
    BODY
";

fn settings(program: String) -> CustomSettings {
    CustomSettings {
        command: vec!["python3".to_owned(), "-c".to_owned(), program],
        seconds: 10.0,
        ..CustomSettings::default()
    }
}

fn grader(settings: &CustomSettings) -> CustomGrader {
    CustomGrader::open("brevity", settings, Vec::new()).unwrap()
}

fn grade(grader: &CustomGrader, completion: &str) -> Grading {
    let task = json!({ "kind": "brevity", "most": 9 });
    grader.grade(task.as_object().unwrap(), "Say hello.", completion)
}

fn reason(grading: &Grading) -> &str {
    assert_eq!(grading.verdict, Verdict::Unavailable, "{grading:?}");
    grading.detail["reason"].as_str().unwrap()
}

#[test]
fn only_a_number_from_0_to_1_for_this_item_in_time_is_a_reward() {
    // The program's answer; the reward, or a part of the reason why there is none.
    let cases = [
        ("say(reward=1)", Ok(1.0)),
        (
            "say(reward=0.25, terms={'style': -3}, detail='d')",
            Ok(0.25),
        ),
        (
            "say(reward=int(len(text) < item['task']['most']), prompt=item['prompt'])",
            Ok(1.0),
        ),
        ("sys.exit() if text == 'again' else say(reward=0)", Ok(0.0)),
        ("say(reward=float('nan'))", Err("is no answer")),
        ("say(reward=2)", Err("its reward is 2")),
        ("say(reward=-0.1)", Err("its reward is -0.1")),
        ("say(reward='1')", Err("its reward is \"1\"")),
        ("say(reward=True)", Err("its reward is true")),
        ("say()", Err("has no `reward`")),
        ("say(error='no key', reward=1)", Err("no key")),
        (
            "print('{\"id\": 1, \"reward\": 1, \"reward\": 0}', flush=True)",
            Err("duplicate field"),
        ),
        (
            "say(reward=1, terms={'a b': 1})",
            Err("`a b` is not a term's name"),
        ),
        ("say(reward=1, terms={'a': None})", Err("`a` is null")),
        (
            "say(reward=1, terms={f'a{i}': i for i in range(17)})",
            Err("17 terms"),
        ),
        ("print('hello', flush=True)", Err("hello")),
        ("item['id'] = 7; say(reward=1)", Err("the item 7")),
        (
            "sys.stdout.write('1' * (2 << 20)); sys.stdout.flush(); time.sleep(9)",
            Err("longer than 1 MiB"),
        ),
        (
            "print('no module', file=sys.stderr); sys.exit(3)",
            Err("status 3: no module"),
        ),
        ("os.kill(os.getpid(), 9)", Err("signal 9")),
        (
            "sys.stdout.close(); os.close(1); time.sleep(60)",
            Err("closed its standard output"),
        ),
    ];
    for (body, expected) in cases {
        let grader = grader(&settings(PROGRAM.replace("BODY", body)));
        let grading = grade(&grader, "hello");
        match expected {
            Ok(reward) => assert_eq!(grading.reward(), Some(reward), "{body}: {grading:?}"),
            Err(says) => assert!(reason(&grading).contains(says), "{body}: {grading:?}"),
        }
    }
}

#[test]
fn a_misbehaving_process_is_replaced_and_answers_no_other_item() {
    // Two answers for the first item.
    let twice = grader(&settings(
        PROGRAM.replace("BODY", "say(reward=1); say(reward=1)"),
    ));
    assert_eq!(grade(&twice, "first").reward(), Some(1.0));
    let second = grade(&twice, "second");
    assert!(
        reason(&second).contains("more than one line")
            || reason(&second).contains("answered the item")
    );
    // It ends after each item, or is killed while it waits.
    let body = "say(reward=1); time.sleep(0.2); os.kill(os.getpid(), 9)";
    let mortal = grader(&settings(PROGRAM.replace("BODY", body)));
    for completion in ["a", "b", "c"] {
        assert_eq!(grade(&mortal, completion).reward(), Some(1.0));
        std::thread::sleep(std::time::Duration::from_millis(400));
    }
}

#[test]
fn an_item_that_takes_too_long_ends_all_that_its_process_started() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ticks");
    let ticks = format!("while :; do echo >> {}; sleep 0.05; done", file.display());
    let body = format!("subprocess.run(['sh', '-c', '{ticks}'])");
    let hangs = CustomSettings {
        seconds: 1.0,
        ..settings(PROGRAM.replace("BODY", &body))
    };
    let grading = grade(&grader(&hangs), "x");
    assert!(reason(&grading).contains("within 1 seconds"));
    assert!(!grading.retryable);
    let size = || std::fs::metadata(&file).unwrap().len();
    std::thread::sleep(std::time::Duration::from_millis(200));
    let before = size();
    std::thread::sleep(std::time::Duration::from_millis(400));
    assert_eq!(size(), before);
}

#[test]
fn a_program_that_changes_is_started_again_and_has_another_version() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("reward.py");
    let write = |path: &Path, reward: &str| {
        let body = format!("say(reward={reward})");
        std::fs::write(path, PROGRAM.replace("BODY", &body)).unwrap();
    };
    write(&path, "1");
    let grader = grader(&CustomSettings {
        command: vec!["python3".to_owned(), path.to_string_lossy().into_owned()],
        ..settings(String::new())
    });
    let (first, reward) = (grader.version().unwrap(), grade(&grader, "x").reward());
    assert_eq!(reward, Some(1.0));
    write(&path, "0.5");
    assert_ne!(grader.version().unwrap(), first);
    assert_eq!(grade(&grader, "x").reward(), Some(0.5));
    std::fs::remove_file(&path).unwrap();
    assert!(reason(&grade(&grader, "x")).contains("cannot be read"));
}

#[test]
fn a_program_gets_only_named_variables_and_a_jail_where_asked() {
    let body = "say(reward=1, detail=sorted(os.environ))";
    let asked = CustomSettings {
        env: vec!["HOME".to_owned()],
        ..settings(PROGRAM.replace("BODY", body))
    };
    let variables = grade(&grader(&asked), "x").detail["detail"].clone();
    let variables = variables.as_array().unwrap();
    let has = |start: &str| {
        let mut names = variables.iter().filter_map(Json::as_str);
        names.any(|name| name.starts_with(start))
    };
    // Cargo has set its own for this test.
    assert_eq!((has("HOME"), has("CARGO")), (true, false), "{variables:?}");
    if sandboxes::lean::Jail::detect() != sandboxes::lean::Jail::Bubblewrap {
        eprintln!("SKIPPED: a jail for an operator's grader: bubblewrap does not work here");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let secret = home.path().join("secret");
    std::fs::write(&secret, "s").unwrap();
    let body = format!("say(reward=float(os.path.exists('{}')))", secret.display());
    for (jail, reward) in [(JailChoice::None, 1.0), (JailChoice::Bubblewrap, 0.0)] {
        let jailed = CustomSettings {
            jail,
            ..settings(PROGRAM.replace("BODY", &body))
        };
        assert_eq!(grade(&grader(&jailed), "x").reward(), Some(reward));
    }
}

/// Answers requests to `/N` with the result of the N-th function for the body.
fn serve(answers: Vec<fn(Json) -> (u16, String)>) -> (tokio::runtime::Runtime, String) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"));
    let listener = listener.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let answer = async move |uri: axum::http::Uri, axum::Json(body): axum::Json<Json>| {
        let number: usize = uri.path()[1..].parse().unwrap();
        let (status, text) = answers[number](body);
        (axum::http::StatusCode::from_u16(status).unwrap(), text)
    };
    let router = axum::Router::new().fallback(answer);
    runtime.spawn(axum::serve(listener, router).into_future());
    (runtime, address)
}

#[test]
fn a_server_is_asked_in_its_form_and_answers_from_0_to_1() {
    use RequestForm::{NemoGym, OpenRlhf, Slime, Verify};
    const FULL: &str =
        r#"{"results": [{"reward": 0.5, "verdict": "incorrect", "terms": {"style": -3}}]}"#;
    // The form; the server's answer to a request; and the reward. Without a reward, a part of the reason instead, and whether another try may help.
    type Case = (
        RequestForm,
        fn(Json) -> (u16, String),
        Result<f64, (&'static str, bool)>,
    );
    let cases: [Case; 14] = [
        (Verify, |_| (200, FULL.to_owned()), Ok(0.5)),
        (
            Verify,
            |body| {
                let item = &body["items"][0];
                let same = item["task"]["answer"] == "A" && item["prompt"] == "Say hello.";
                let reward = f64::from(u8::from(same && item["completion"] == "hello"));
                (
                    200,
                    json!({ "results": [{ "reward": reward }] }).to_string(),
                )
            },
            Ok(1.0),
        ),
        (
            OpenRlhf,
            |body| {
                let same = body["query"][0] == "Say hello.hello" && body["labels"][0] == "A";
                (
                    200,
                    json!({ "rewards": [f64::from(u8::from(same))] }).to_string(),
                )
            },
            Ok(1.0),
        ),
        (
            Slime,
            |body| {
                let same = body["response"] == "hello" && body["label"] == "A";
                (200, f64::from(u8::from(same)).to_string())
            },
            Ok(1.0),
        ),
        (
            NemoGym,
            |body| {
                let text = &body["response"]["output"][0]["content"][0]["text"];
                let same = text == "hello" && body["expected_answer"] == "A";
                (
                    200,
                    json!({ "reward": f64::from(u8::from(same)) }).to_string(),
                )
            },
            Ok(1.0),
        ),
        (
            Slime,
            |_| (200, "1.5".to_owned()),
            Err(("its reward is 1.5", false)),
        ),
        (
            Slime,
            |_| (200, "NaN".to_owned()),
            Err(("answered no JSON", false)),
        ),
        (
            OpenRlhf,
            |_| (200, "{\"rewards\": []}".to_owned()),
            Err(("answered no reward", false)),
        ),
        (
            Verify,
            |_| (200, "{\"results\": [{\"reward\": null}]}".to_owned()),
            Err(("has no `reward`", false)),
        ),
        (
            Verify,
            |_| (422, "no such task".to_owned()),
            Err(("422 Unprocessable Entity: no such task", false)),
        ),
        (Verify, |_| (429, String::new()), Err(("429", true))),
        (Verify, |_| (500, String::new()), Err(("500", true))),
        (
            Slime,
            |_| (200, "1".repeat(2 << 20)),
            Err(("more than 1 MiB", false)),
        ),
        (
            Slime,
            |_| {
                std::thread::sleep(std::time::Duration::from_secs(3));
                (200, "1".to_owned())
            },
            Err(("did not answer in time", false)),
        ),
    ];
    let (_runtime, address) = serve(cases.iter().map(|(_, answer, _)| *answer).collect());
    let ask = |url: String, form: RequestForm| {
        let settings = CustomSettings {
            url: Some(url),
            form,
            version: Some("1".to_owned()),
            seconds: 2.0,
            ..CustomSettings::default()
        };
        let task = json!({ "kind": "brevity", "answer": "A" });
        grader(&settings).grade(task.as_object().unwrap(), "Say hello.", "hello")
    };
    for (number, (form, _, expected)) in cases.into_iter().enumerate() {
        let grading = ask(format!("{address}/{number}"), form);
        match expected {
            Ok(reward) => assert_eq!(grading.reward(), Some(reward), "{number}: {grading:?}"),
            Err((says, retryable)) => {
                assert!(reason(&grading).contains(says), "{number}: {grading:?}");
                assert_eq!(grading.retryable, retryable, "{number}");
            }
        }
    }
    let nobody = ask("http://127.0.0.1:9/".to_owned(), Verify);
    assert!(reason(&nobody).contains("cannot be reached") && nobody.retryable);
}
