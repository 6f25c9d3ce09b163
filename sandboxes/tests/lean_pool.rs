//! The pool of REPL processes against a stand-in that misbehaves: what a REPL may do wrong must cost one answer at most, and no other's.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod lean;

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lean::{jail, program};
use sandboxes::lean::{Bounds, Jail, Lean, LeanError, Pool, Said, pool};

const HEADER: &str = "import Stand.In";

fn settings(processes: usize) -> pool::Settings {
    pool::Settings {
        program: program("stand_in_repl.py", Jail::None),
        bounds: Bounds {
            seconds: 60,
            start_seconds: 60,
            memory_mib: 300,
        },
        processes,
        uses: 1_000,
        headers: vec![HEADER.to_owned()],
    }
}

/// For what never answers.
fn hasty() -> pool::Settings {
    let mut settings = settings(1);
    settings.bounds.seconds = 2;
    settings
}

/// The first line of the body that was answered, how many bodies its process had read, and the process.
fn heard(said: &Said) -> (String, u32, u32) {
    let [message] = said.body.as_slice() else {
        panic!("{said:?}")
    };
    let (body, rest) = message.data.split_once(", body ").unwrap();
    let (bodies, process) = rest.split_once(" of ").unwrap();
    (
        body.to_owned(),
        bodies.parse().unwrap(),
        process.parse().unwrap(),
    )
}

fn alive(process: u32) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{process}/stat"));
    state.is_ok_and(|stat| !stat.rsplit_once(')').unwrap().1.trim().starts_with('Z'))
}

/// Processes whose command line holds all of `words`.
fn running(words: &[&str]) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines
        .filter(|line| {
            words
                .iter()
                .all(|word| String::from_utf8_lossy(line).contains(word))
        })
        .count()
}

#[test]
fn a_process_is_kept_for_a_listed_header_and_ends_with_another() {
    let pool = Pool::new(settings(1));
    let (_, first, process) = heard(&pool.check(HEADER, "a").unwrap());
    let (_, second, same) = heard(&pool.check(&format!("{HEADER}\n\n"), "b").unwrap());
    assert_eq!((first, second, process), (1, 2, same));
    // A client's own header: read in a process of its own, which nobody gets after.
    let (_, bodies, other) = heard(&pool.check("import Other", "c").unwrap());
    assert_eq!(bodies, 1);
    assert_ne!(other, process);
    assert!(
        !alive(other) && !alive(process),
        "one process at a time is allowed"
    );
    let (_, bodies, another) = heard(&pool.check("import Other", "d").unwrap());
    assert_eq!(bodies, 1);
    assert_ne!(another, other);
}

#[test]
fn a_poisoned_header_harms_nobody_else() {
    let pool = Pool::new(settings(2));
    let (_, _, process) = heard(&pool.check(HEADER, "a").unwrap());
    let said = pool.check("import poison", "b").unwrap();
    assert_eq!((said.header.len(), said.body.len()), (1, 0));
    let (body, bodies, same) = heard(&pool.check(HEADER, "c").unwrap());
    assert_eq!((body.as_str(), bodies, same), ("c", 2, process));
}

#[test]
fn what_a_repl_does_wrong_costs_one_answer_and_leaves_no_process() {
    let pool = Pool::new(settings(1));
    for (body, wanted) in [
        ("die", "panic: unreachable"),
        ("flood", "more than 8 MiB of messages"),
        ("grow", "more than 300 MiB"),
        ("lie", "not to what it was asked"),
        ("forget", "Unknown environment"),
        ("babble", "is not JSON"),
        ("close", "the REPL ended"),
    ] {
        let (_, _, process) = heard(&pool.check(HEADER, "good").unwrap());
        let error = pool.check(HEADER, body).unwrap_err();
        assert!(error.to_string().contains(wanted), "{body}: {error}");
        assert!(!alive(process), "{body} left its process");
        let (answered, bodies, _) = heard(&pool.check(HEADER, "good").unwrap());
        assert_eq!((answered.as_str(), bodies), ("good", 1), "after {body}");
    }
}

#[test]
fn an_answer_of_another_question_is_never_taken() {
    let pool = Pool::new(settings(1));
    pool.check(HEADER, "first").unwrap();
    // It repeats the mark of `first`; asked again, in a fresh process, it has none to repeat.
    let (body, bodies, _) = heard(&pool.check(HEADER, "again").unwrap());
    assert_eq!((body.as_str(), bodies), ("again", 1));
    // Two answers to one question: the second is not taken for the next one's.
    heard(&pool.check(HEADER, "twice").unwrap());
    let (body, _, _) = heard(&pool.check(HEADER, "next").unwrap());
    assert_eq!(body, "next");
}

#[test]
fn what_a_process_that_was_kept_does_wrong_is_tried_in_a_fresh_one() {
    let pool = Pool::new(settings(1));
    pool.check(HEADER, "good").unwrap();
    let (body, bodies, _) = heard(&pool.check(HEADER, "die_once").unwrap());
    assert_eq!((body.as_str(), bodies), ("die_once", 1));
}

#[test]
fn chatter_on_the_error_stream_is_no_answer() {
    let pool = Pool::new(settings(1));
    assert_eq!(
        heard(&pool.check(HEADER, "complain").unwrap()).0,
        "complain"
    );
}

#[test]
fn what_never_answers_is_ended_and_the_next_is_answered() {
    let pool = Pool::new(hasty());
    assert_eq!(
        pool.check(HEADER, "hang").unwrap_err(),
        LeanError::Timeout(2)
    );
    // Two seconds may be too few for any answer while the machine is busy.
    let said = (0..20)
        .find_map(|_| pool.check(HEADER, "good").ok())
        .unwrap();
    assert_eq!(heard(&said).1, 1);
}

#[test]
fn no_child_outlives_the_process_that_started_it() {
    let before = running(&["sleep", "3600"]);
    let pool = Pool::new(hasty());
    assert_eq!(
        pool.check(HEADER, "leave").unwrap_err(),
        LeanError::Timeout(2)
    );
    // A killed process may be seen for a moment.
    for _ in 0..100 {
        if running(&["sleep", "3600"]) == before {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!(
        "{} processes were left",
        running(&["sleep", "3600"]) - before
    );
}

#[test]
fn a_process_outlives_the_thread_that_started_it() {
    for jail in [Some(Jail::None), jail()].into_iter().flatten() {
        let mut settings = settings(1);
        settings.program.jail = jail;
        let pool = Pool::new(settings);
        std::thread::scope(|scope| {
            let first = scope.spawn(|| pool.check(HEADER, "a").unwrap());
            assert_eq!(heard(&first.join().unwrap()).1, 1);
        });
        // It is slow to answer, so that a process which is about to die would.
        let (_, bodies, _) = heard(&pool.check(HEADER, "slow 0.2").unwrap());
        assert_eq!(bodies, 2, "{jail:?}: it was read by another process");
    }
}

#[test]
fn a_process_ends_with_a_verifier_that_is_killed() {
    const NAME: &str = "a_process_ends_with_a_verifier_that_is_killed";
    if std::env::var_os("RAPID_TEST_KILLED").is_some() {
        // This is the process that is killed, in the middle of a proof.
        let pool = Pool::new(settings(1));
        let (_, _, process) = heard(&pool.check(HEADER, "a").unwrap());
        println!("\nprocess {process}");
        let _ = pool.check(HEADER, "slow 3600");
        return;
    }
    let mut killed = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", NAME, "--nocapture"])
        .env("RAPID_TEST_KILLED", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let process = BufReader::new(killed.stdout.take().unwrap())
        .lines()
        .find_map(|line| line.unwrap().strip_prefix("process ")?.parse().ok())
        .unwrap();
    assert!(alive(process));
    killed.kill().unwrap();
    killed.wait().unwrap();
    let started = Instant::now();
    while alive(process) {
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "Lean goes on without the verifier"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_process_ends_with_its_pool() {
    let pool = Pool::new(settings(1));
    let (_, _, process) = heard(&pool.check(HEADER, "a").unwrap());
    drop(pool);
    assert!(!alive(process));
}

#[test]
fn a_process_is_replaced_when_it_is_old_or_large() {
    let pool = Pool::new(pool::Settings {
        uses: 2,
        ..settings(1)
    });
    let processes: Vec<u32> = (0..4)
        .map(|_| heard(&pool.check(HEADER, "a").unwrap()).2)
        .collect();
    assert_eq!(processes[0], processes[1]);
    assert_ne!(processes[1], processes[2]);
    let pool = Pool::new(settings(1));
    let (_, _, first) = heard(&pool.check(HEADER, "swell 250").unwrap());
    assert!(!alive(first), "a process of 250 of 300 MiB was kept");
    assert_ne!(heard(&pool.check(HEADER, "a").unwrap()).2, first);
}

#[test]
fn many_at_once_get_their_own_answers_from_few_processes() {
    let pool = Pool::new(settings(3));
    let seen = std::sync::Mutex::new(BTreeSet::new());
    std::thread::scope(|scope| {
        for worker in 0..8 {
            let (pool, seen) = (&pool, &seen);
            scope.spawn(move || {
                for question in 0..20 {
                    let body = match (worker + question) % 7 {
                        0 => "die".to_owned(),
                        1 => "lie".to_owned(),
                        2 => format!("slow 0.01 {worker}-{question}"),
                        _ => format!("good {worker}-{question}"),
                    };
                    let header = if question % 9 == 8 {
                        "import Other"
                    } else {
                        HEADER
                    };
                    match pool.check(header, &body) {
                        Ok(said) => {
                            let (answered, _, process) = heard(&said);
                            assert_eq!(answered, body);
                            seen.lock().unwrap().insert(process);
                        }
                        Err(error) => assert!(body == "die" || body == "lie", "{body}: {error}"),
                    }
                }
            });
        }
    });
    let left: Vec<u32> = seen
        .into_inner()
        .unwrap()
        .into_iter()
        .filter(|process| alive(*process))
        .collect();
    assert!(left.len() <= 3, "{left:?}");
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let mut settings = settings(1);
    settings.program.command = vec!["/nowhere/repl".to_owned()];
    let error = Pool::new(settings).check(HEADER, "a").unwrap_err();
    assert!(
        matches!(&error, LeanError::Missing(_)) && error.to_string().contains("/nowhere/repl"),
        "{error}"
    );
}
