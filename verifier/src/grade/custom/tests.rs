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

/// Programs, each with the reward that it gives, or a part of the reason why it gives none.
const ANSWERS: &str = r#"
say(reward=1) => 1
say(reward=0.25, terms={'style': -3}, detail='d') => 0.25
say(reward=int(len(text) < item['task']['most']), prompt=item['prompt']) => 1
sys.exit() if text == 'again' else say(reward=0) => 0
say(reward=float('nan')) => is no answer
say(reward=2) => its reward is 2
say(reward=-0.1) => its reward is -0.1
say(reward='1') => its reward is "1"
say(reward=True) => its reward is true
say() => has no `reward`
say(error='no key', reward=1) => no key
print('{"id": 1, "reward": 1, "reward": 0}', flush=True) => duplicate field
say(reward=1, terms={'a b': 1}) => `a b` is not a term's name
say(reward=1, terms={'a': None}) => `a` is null
say(reward=1, terms={f'a{i}': i for i in range(17)}) => 17 terms
print('hello', flush=True) => hello
item['id'] = 7; say(reward=1) => the item 7
sys.stdout.write('1' * (2 << 20)); sys.stdout.flush(); time.sleep(9) => longer than 1 MiB
print('no module', file=sys.stderr); sys.exit(3) => status 3: no module
os.kill(os.getpid(), 9) => signal 9
sys.stdout.close(); os.close(1); time.sleep(60) => closed its standard output
"#;

#[test]
fn only_a_number_from_0_to_1_for_this_item_in_time_is_a_reward() {
    for line in ANSWERS.trim().lines() {
        let (body, expected) = line.split_once(" => ").unwrap();
        let grader = grader(&settings(PROGRAM.replace("BODY", body)));
        let grading = grade(&grader, "hello");
        // A status parses as a number too.
        match expected.parse::<f64>() {
            Ok(reward) => assert_eq!(grading.reward(), Some(reward), "{body}: {grading:?}"),
            Err(_) => assert!(reason(&grading).contains(expected), "{body}: {grading:?}"),
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
    // What has answered before may answer again; what never has, ends a run's start at once.
    let body = "say(reward=1) if text == 'a' else sys.exit(3)";
    for (first, retryable) in [("a", true), ("b", false)] {
        let fragile = grader(&settings(PROGRAM.replace("BODY", body)));
        grade(&fragile, first);
        let last = grade(&fragile, "b");
        assert!(reason(&last).contains("status 3"));
        assert_eq!(last.retryable, retryable, "{first}");
    }
    for (program, did) in [
        ("import absent", "status 1: ModuleNotFoundError"),
        (
            "print('ready', flush=True); input()",
            "before it was asked: ready",
        ),
    ] {
        let end = grader(&settings(program.to_owned())).try_out();
        assert!(end.unwrap_err().contains(did), "{program}");
    }
    let fine = grader(&settings(PROGRAM.replace("BODY", "say(reward=1)")));
    assert_eq!(fine.try_out(), Ok(()));
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

/// Servers' forms, statuses and answers, each with the reward, or a part of the reason why there is none.
const RESPONSES: &str = r#"
verify 200 {"results": [{"reward": 0.5, "verdict": "incorrect", "terms": {"style": -3}}]} => 0.5
verify 200 {"results": [{"reward": null}]} => has no `reward`
verify 422 no such task => 422 Unprocessable Entity: no such task
verify 429  => 429
verify 500  => 500
openrlhf 200 {"rewards": [1]} => 1
openrlhf 200 {"rewards": []} => answered no reward
slime 200 1 => 1
slime 200 1.5 => its reward is 1.5
slime 200 NaN => answered no JSON
slime 200 too long => more than 1 MiB
slime 200 too late => did not answer in time
nemo-gym 200 {"reward": 1} => 1
"#;

/// Texts in each form's request.
fn texts(form: &str) -> &'static [(&'static str, &'static str)] {
    match form {
        "verify" => &[
            ("/items/0/task/answer", "A"),
            ("/items/0/prompt", "Say hello."),
            ("/items/0/completion", "hello"),
        ],
        "openrlhf" => &[("/query/0", "Say hello.hello"), ("/labels/0", "A")],
        "slime" => &[("/response", "hello"), ("/label", "A")],
        _ => &[
            ("/response/output/0/content/0/text", "hello"),
            ("/expected_answer", "A"),
        ],
    }
}

/// Answers requests to `/N` as the N-th line of [`RESPONSES`] says, and those of another form with 400.
async fn respond(
    uri: axum::http::Uri,
    axum::Json(body): axum::Json<Json>,
) -> (axum::http::StatusCode, String) {
    let number: usize = uri.path()[1..].parse().unwrap();
    let (given, _) = RESPONSES
        .trim()
        .lines()
        .nth(number)
        .unwrap()
        .split_once(" => ")
        .unwrap();
    let [form, status, text] = given.splitn(3, ' ').collect::<Vec<_>>()[..] else {
        panic!("{given}")
    };
    let mut expected = texts(form).iter();
    if !expected.all(|(pointer, text)| body.pointer(pointer) == Some(&json!(text))) {
        return (axum::http::StatusCode::BAD_REQUEST, body.to_string());
    }
    if text == "too late" {
        tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    }
    let text = match text {
        "too long" => "1".repeat(2 << 20),
        text => text.to_owned(),
    };
    (status.parse().unwrap(), text)
}

#[test]
fn a_server_is_asked_in_its_form_and_answers_from_0_to_1() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"));
    let listener = listener.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let router = axum::Router::new().fallback(respond);
    runtime.spawn(axum::serve(listener, router).into_future());
    let ask = |url: String, form: &str| {
        let settings = CustomSettings {
            url: Some(url),
            form: RequestForm::named(form).unwrap(),
            version: Some("1".to_owned()),
            seconds: 2.0,
            ..CustomSettings::default()
        };
        let task = json!({ "kind": "brevity", "answer": "A" });
        grader(&settings).grade(task.as_object().unwrap(), "Say hello.", "hello")
    };
    for (number, line) in RESPONSES.trim().lines().enumerate() {
        let (given, expected) = line.split_once(" => ").unwrap();
        let (form, _) = given.split_once(' ').unwrap();
        let grading = ask(format!("{address}/{number}"), form);
        match expected.parse::<f64>() {
            Ok(reward) if reward <= 1.0 => {
                assert_eq!(grading.reward(), Some(reward), "{line}: {grading:?}");
            }
            _ => {
                assert!(reason(&grading).contains(expected), "{line}: {grading:?}");
                let may_pass = matches!(expected, "429" | "500");
                assert_eq!(grading.retryable, may_pass, "{line}");
            }
        }
    }
    let nobody = ask("http://127.0.0.1:9/".to_owned(), "verify");
    assert!(reason(&nobody).contains("cannot be reached") && nobody.retryable);
}
