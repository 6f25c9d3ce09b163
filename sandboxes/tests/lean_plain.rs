//! A process a file, its jail and the checker after it, against a stand-in for `lean`.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod lean;

use std::net::TcpListener;
use std::os::unix::net::UnixListener;

use lean::{PYTHON, jail, program, stand_in};
use sandboxes::lean::{Bounds, Jail, Lean, LeanError, Plain, Project, Replay, Said};

const BOUNDS: Bounds = Bounds {
    seconds: 60,
    start_seconds: 60,
    memory_mib: 500,
};

/// For what never ends.
const SHORT: Bounds = Bounds {
    seconds: 2,
    start_seconds: 1,
    memory_mib: 500,
};

fn plain(jail: Jail) -> Plain {
    let mut program = program("stand_in_lean.py", jail);
    program.command.push("--json".to_owned());
    Plain {
        program,
        bounds: BOUNDS,
    }
}

fn texts(said: &Said) -> Vec<(usize, &str)> {
    said.body
        .iter()
        .map(|message| (message.pos.line, message.data.as_str()))
        .collect()
}

#[test]
fn messages_are_counted_from_the_bodys_first_line() {
    for header in ["", "import A", "import A\nopen B\n\n"] {
        let said = plain(Jail::None)
            .check(header, "say one\n\nsay three\n")
            .unwrap();
        assert_eq!(texts(&said), [(1, "one"), (3, "three")], "{header:?}");
    }
    let said = plain(Jail::None)
        .check("error unknown module", "say one")
        .unwrap();
    assert_eq!(said.header[0].data, "unknown module");
}

#[test]
fn an_error_is_an_answer_and_a_crash_is_none() {
    let said = plain(Jail::None).check("", "error unsolved goals").unwrap();
    assert_eq!(texts(&said), [(1, "unsolved goals")]);
    let error = plain(Jail::None).check("", "say one\ndie").unwrap_err();
    assert!(matches!(error, LeanError::Crashed(_)), "{error}");
}

#[test]
fn what_does_not_end_is_ended() {
    for jail in [Some(Jail::None), jail()].into_iter().flatten() {
        let plain = Plain {
            bounds: SHORT,
            ..plain(jail)
        };
        assert_eq!(plain.check("", "hang").unwrap_err(), LeanError::Timeout(3));
    }
}

#[test]
fn a_jail_has_no_network_no_files_to_write_and_no_other_processes() {
    let Some(jail) = jail() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let body = format!(
        "write\ncall {}\nlook",
        listener.local_addr().unwrap().port()
    );
    let said = plain(jail).check("", &body).unwrap();
    // Its own processes: bubblewrap's init and itself.
    assert_eq!(
        texts(&said),
        [(1, "wrote []"), (2, "nobody there"), (3, "2 processes")]
    );
    // What the test would see without one.
    let said = plain(Jail::None).check("", &body).unwrap();
    assert_eq!(texts(&said)[1], (2, "called"));
}

#[test]
fn a_jail_has_no_sockets_and_no_secrets_and_shows_what_the_program_names() {
    let Some(jail) = jail() else { return };
    let others = tempfile::tempdir_in("/var/tmp").unwrap();
    let own = others.path().join("own");
    std::fs::create_dir(&own).unwrap();
    for (name, text) in [
        ("secret", "others'"),
        ("own/token", "secret"),
        ("own/library", "own"),
    ] {
        std::fs::write(others.path().join(name), text).unwrap();
    }
    let link = others.path().join("link");
    std::os::unix::fs::symlink(&own, &link).unwrap();
    let _socket = UnixListener::bind(others.path().join("socket")).unwrap();
    // A file outside of the folders that a jail empties.
    let token = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::fs::write(token.path(), "secret").unwrap();

    let others = others.path().display();
    let body = format!(
        "read {others}/secret\nknock {others}/socket\nread {others}/link/library\nread {others}/own/library\nread {others}/link/token\nread {}",
        token.path().display()
    );
    let mut plain = plain(jail);
    plain.program.dir = Some(link);
    plain.program.secrets = vec![own.join("token"), token.path().to_owned()];
    let said = plain.check("", &body).unwrap();
    let seen: Vec<&str> = texts(&said).into_iter().map(|(_, text)| text).collect();
    assert_eq!(
        seen,
        [
            "nothing there",
            "nobody there",
            "own",
            "own",
            "nothing there",
            "nothing there"
        ]
    );
    // What the test would see without one.
    plain.program.jail = Jail::None;
    let said = plain.check("", &body).unwrap();
    let seen: Vec<&str> = texts(&said).into_iter().map(|(_, text)| text).collect();
    assert_eq!(
        seen,
        ["others'", "called", "own", "own", "secret", "secret"]
    );
}

#[test]
fn a_process_gets_leans_variables_and_no_others() {
    // Cargo sets some for the tests that it starts.
    let ours = |name: &str| name.starts_with("CARGO");
    for jail in [Some(Jail::None), jail()].into_iter().flatten() {
        let mut plain = plain(jail);
        plain.program.env = vec![("GIVEN".to_owned(), "1".to_owned())];
        let said = plain.check("", "variables").unwrap();
        let names: Vec<&str> = said.body[0].data.split(' ').collect();
        assert!(
            names.contains(&"PATH") && names.contains(&"GIVEN"),
            "{names:?}"
        );
        assert!(!names.iter().any(|name| ours(name)), "{names:?}");
    }
}

fn replay(jail: Jail) -> Replay {
    let command = [
        PYTHON.as_str(),
        &stand_in("stand_in_checker.py"),
        "{olean}",
        "{file}",
        "{module}",
    ];
    Replay {
        lean: plain(jail).program,
        command: command.map(str::to_owned).to_vec(),
        bounds: BOUNDS,
    }
}

#[test]
fn a_checker_reads_what_was_compiled_and_has_the_last_word() {
    let jails = [Some(Jail::None), jail()];
    for jail in jails.into_iter().flatten() {
        let replay = replay(jail);
        assert_eq!(replay.objection("say fine").unwrap(), None);
        let objection = replay.objection("say unsound").unwrap();
        assert_eq!(
            objection.as_deref(),
            Some("(kernel) declaration type mismatch")
        );
        assert!(matches!(
            replay.objection("say crash"),
            Err(LeanError::Crashed(_))
        ));
        assert!(matches!(
            replay.objection("error what does not compile"),
            Err(LeanError::Crashed(_))
        ));
    }
}

#[test]
fn a_project_that_is_not_one_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    for dir in [folder.path().to_owned(), folder.path().join("nowhere")] {
        let error = Project::open(&dir).unwrap_err().to_string();
        assert!(
            error.contains(&*dir.to_string_lossy()) && error.contains("sandboxes/lean/README.md"),
            "{error}"
        );
    }
}
