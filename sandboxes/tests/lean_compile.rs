//! The process for each file, its jail, the files that it leaves, and the checker after it, tested with a stand-in for `lean`.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;

use crate::lean::{PYTHON, jail, program, stand_in};
use sandboxes::lean::{
    Bounds, Compiler, Jail, Lean, LeanError, Messages, Program, Project, SecondChecker,
};

const BOUNDS: Bounds = Bounds {
    seconds: 60,
    start_seconds: 60,
    memory_mib: 500,
};

/// Bounds for files that never end.
const SHORT: Bounds = Bounds {
    seconds: 2,
    start_seconds: 1,
    memory_mib: 500,
};

/// No jail, and the one that works here.
fn jails() -> impl Iterator<Item = Jail> {
    [Some(Jail::None), jail()].into_iter().flatten()
}

fn stand_in_for_lean(jail: Jail) -> Program {
    let mut program = program("stand_in_lean.py", jail);
    program.command.push("--json".to_owned());
    program
}

fn lean(jail: Jail) -> Compiler {
    Compiler::new(stand_in_for_lean(jail), BOUNDS, 2)
}

fn messages(lean: &Compiler, header: &str, body: &str) -> Messages {
    lean.compile(header, body).unwrap().messages
}

fn texts(messages: &Messages) -> Vec<(usize, &str)> {
    let body = messages.body.iter();
    let texts = body.map(|message| (message.pos.line, message.data.as_str()));
    texts.collect()
}

#[test]
fn messages_are_counted_from_the_bodys_first_line() {
    for header in ["", "import A", "import A\nopen B\n\n"] {
        let messages = messages(&lean(Jail::None), header, "say one\n\nsay three\n");
        assert_eq!(texts(&messages), [(1, "one"), (3, "three")], "{header:?}");
    }
}

/// An import of a header may be missing, or could not be loaded this time. Neither says anything about the body.
#[test]
fn an_error_in_the_header_is_no_answer_about_the_body() {
    let compile = |header, body| lean(Jail::None).compile(header, body);
    let error = Err(LeanError::Header("unknown module".to_owned()));
    for body in ["say one", "error unsolved goals"] {
        assert_eq!(compile("error unknown module", body), error);
    }
    let compiled = compile("say imported", "error unsolved goals").unwrap();
    assert_eq!(compiled.messages.header[0].data, "imported");
}

/// A file without a header of its own should lose no message for one that Lean places at the beginning.
#[test]
fn all_messages_are_returned_to_a_caller_that_asks_for_them() {
    let lean = lean(Jail::None);
    let body = "misplace no library\nerror unsolved goals";
    let compiled = lean.compile_within("", body, 60).unwrap();
    assert_eq!(compiled.messages.header[0].data, "no library");
    assert_eq!(texts(&compiled.messages), [(2, "unsolved goals")]);
    let error = Err(LeanError::Header("no library".to_owned()));
    assert_eq!(lean.compile("", body), error);
}

#[test]
fn an_error_is_an_answer_and_a_crash_is_not() {
    let compiled = lean(Jail::None)
        .compile("", "error unsolved goals")
        .unwrap();
    assert_eq!(texts(&compiled.messages), [(1, "unsolved goals")]);
    assert!(compiled.files.is_empty());
    // Lean exits with 1 also if its runtime ends for lack of memory.
    for body in ["say one\ndie", "warning one\nexit"] {
        let error = lean(Jail::None).compile("", body).unwrap_err();
        assert!(matches!(error, LeanError::Crashed(_)), "{error}");
    }
}

#[test]
fn a_compilation_past_its_deadline_is_ended() {
    for jail in jails() {
        let lean = Compiler::new(stand_in_for_lean(jail), SHORT, 1);
        assert_eq!(lean.compile("", "hang").unwrap_err(), LeanError::Timeout(3));
    }
}

/// Otherwise a file that loops would use the whole time for starting Lean, and another run as much again.
#[test]
fn a_looping_file_gets_little_more_than_lean_needs_to_start() {
    let bounds = Bounds {
        seconds: 1,
        start_seconds: 600,
        memory_mib: 500,
    };
    for jail in jails() {
        let lean = Compiler::new(stand_in_for_lean(jail), bounds, 1);
        lean.compile("import A", "say one").unwrap();
        let error = lean.compile("import A", "spin").unwrap_err();
        assert!(matches!(error, LeanError::ProcessorTime(_)), "{error:?}");
    }
}

#[test]
fn processes_and_memory_that_no_process_shows_are_limited() {
    let compile = |jail, memory_mib, body| {
        let bounds = Bounds {
            memory_mib,
            ..BOUNDS
        };
        Compiler::new(stand_in_for_lean(jail), bounds, 1).compile("", body)
    };
    for jail in jails() {
        let crowd = Err(LeanError::TooMany(64, "processes"));
        assert_eq!(compile(jail, 8_000, "crowd"), crowd);
        for body in ["conceal", "behead"] {
            let limited = Err(LeanError::Memory(150));
            assert_eq!(compile(jail, 150, body), limited, "{body}");
        }
    }
}

/// Otherwise the memory of its files without a name would be counted for none.
#[test]
fn a_process_that_hides_its_open_files_is_ended() {
    if rustix::process::geteuid().is_root() {
        println!("SKIPPED: hidden files: no process hides them from root");
        return;
    }
    for jail in jails() {
        assert_eq!(lean(jail).compile("", "hide"), Err(LeanError::Hidden));
    }
}

/// Some memory is counted for no process. If it fills the machine, no other process should be ended for it.
#[test]
fn a_process_is_the_first_that_the_system_ends_without_memory() {
    for jail in jails() {
        let messages = messages(&lean(jail), "", "wait");
        assert_eq!(texts(&messages), [(1, "ended first without memory")]);
    }
}

#[test]
fn a_jail_has_no_network_no_processes_and_one_folder_to_write_in() {
    let Some(jail) = jail() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let body = format!("write\ncall {port}\nlook\nleave");
    let inside = messages(&lean(jail), "", &body);
    // Its own processes: bubblewrap's init, the shell that appends its files, and itself. In a user namespace of its own, it could mount any amount of memory.
    let expected = [
        (1, "wrote ['beside']"),
        (2, "nobody there"),
        (3, "3 processes"),
        (4, "stays"),
    ];
    assert_eq!(texts(&inside), expected);
    // The view without a jail.
    let outside = messages(&lean(Jail::None), "", &body);
    let outside = texts(&outside);
    assert_eq!([outside[1], outside[3]], [(2, "called"), (4, "left")]);
}

#[test]
fn a_jail_has_no_sockets_and_no_secrets_and_shows_named_files() {
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
    // A file outside the folders that a jail empties.
    let token = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::fs::write(token.path(), "secret").unwrap();

    let others = others.path().display();
    let body = format!(
        "read {others}/secret\nknock {others}/socket\nread {others}/link/library\nread {others}/own/library\nread {others}/link/token\nread {}",
        token.path().display()
    );
    let mut program = stand_in_for_lean(jail);
    program.dir = Some(link);
    program.secrets = vec![own.join("token"), token.path().to_owned()];
    let seen = |program: &Program| {
        let messages = messages(&Compiler::new(program.clone(), BOUNDS, 1), "", &body);
        let texts: Vec<&str> = texts(&messages).iter().map(|it| it.1).collect();
        texts.join(", ")
    };
    let inside = "nothing there, nobody there, own, own, nothing there, nothing there";
    assert_eq!(seen(&program), inside);
    // The view without a jail.
    program.jail = Jail::None;
    assert_eq!(seen(&program), "others', called, own, own, secret, secret");
}

#[test]
fn a_process_gets_leans_variables_and_no_others() {
    for jail in jails() {
        let mut program = stand_in_for_lean(jail);
        program.env = vec![("GIVEN".to_owned(), "1".to_owned())];
        let messages = messages(&Compiler::new(program, BOUNDS, 1), "", "variables");
        let names: Vec<&str> = messages.body[0].data.split(' ').collect();
        let given = names.contains(&"PATH") && names.contains(&"GIVEN");
        // Cargo sets some variables for the tests that it starts.
        let is_cargos = names.iter().any(|name| name.starts_with("CARGO"));
        assert!(given && !is_cargos, "{names:?}");
    }
}

fn second_checker(jail: Jail) -> SecondChecker {
    let script = stand_in("stand_in_checker.py");
    let command = [PYTHON.as_str(), &script, "{olean}", "{file}", "{module}"];
    SecondChecker {
        lean: stand_in_for_lean(jail),
        command: command.map(str::to_owned).to_vec(),
        bounds: BOUNDS,
    }
}

#[test]
fn a_checker_reads_the_compiled_module_and_can_object_to_it() {
    for jail in jails() {
        let second_checker = second_checker(jail);
        let compiled = lean(jail).compile("", "say fine").unwrap();
        assert_eq!(compiled.files, [b"compiled".to_vec()]);
        let objection = |file| second_checker.objection(file, &compiled);
        assert_eq!(objection("say fine"), Ok(None));
        let mismatch = "(kernel) declaration type mismatch".to_owned();
        assert_eq!(objection("say unsound"), Ok(Some(mismatch)));
        assert!(matches!(objection("say crash"), Err(LeanError::Crashed(_))));
    }
}

/// A process that runs a proof may put anything in place of its compiled module.
#[test]
fn a_link_pipe_or_folder_in_place_of_a_compiled_module_is_not_read() {
    let Some(jail) = jail() else { return };
    let secret = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::fs::write(secret.path(), "secret").unwrap();
    let link = format!("link {}", secret.path().display());
    for body in [link.as_str(), "pipe", "folder"] {
        let compiled = lean(jail).compile("", body).unwrap();
        assert_eq!(compiled.files, Vec::<Vec<u8>>::new(), "{body}");
    }
    let filled = lean(jail).compile("", "fill");
    assert_eq!(filled, Err(LeanError::Output(72)));
}

#[test]
fn without_a_jail_written_bytes_are_counted() {
    for body in ["fill", "litter"] {
        let filled = lean(Jail::None).compile("", body);
        assert_eq!(filled, Err(LeanError::Output(64)), "{body}");
    }
}

/// No file is written to a disk, whether it has a name, had one, or never had one.
#[test]
fn in_a_jail_no_more_can_be_written_than_its_memory_limit_allows() {
    let Some(jail) = jail() else { return };
    // A folder inside one of the emptied folders, and a folder outside them.
    for place in ["/tmp", env!("CARGO_TARGET_TMPDIR")] {
        let folder = tempfile::tempdir_in(place).unwrap();
        let body = format!("hoard\nhoard {}", folder.path().display());
        let inside = messages(&lean(jail), "", &body);
        let [(1, own), (2, "0")] = texts(&inside)[..] else {
            panic!("{inside:?}")
        };
        assert!((32..=64).contains(&own.parse().unwrap()), "{own} MiB");
    }
    // Empty files take memory, too.
    let littered = lean(jail).compile("", "litter");
    assert_eq!(littered, Err(LeanError::Output(64)));
}

#[test]
fn no_more_processes_run_at_a_time_than_are_allowed() {
    let lean = Compiler::new(stand_in_for_lean(Jail::None), BOUNDS, 1);
    let span = || -> (f64, f64) {
        let compiled = lean.compile("", "times").unwrap();
        let (from, to) = compiled.messages.body[0].data.split_once(' ').unwrap();
        (from.parse().unwrap(), to.parse().unwrap())
    };
    let mut spans = std::thread::scope(|scope| {
        let all = [(); 3].map(|()| scope.spawn(span));
        all.map(|one| one.join().unwrap())
    });
    spans.sort_by(|one, other| one.0.total_cmp(&other.0));
    let apart = spans.windows(2).all(|pair| pair[0].1 <= pair[1].0);
    assert!(apart, "{spans:?}");
}

#[test]
fn the_error_for_a_folder_that_is_not_a_project_names_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    for dir in [folder.path().to_owned(), folder.path().join("nowhere")] {
        let error = Project::open(&dir).unwrap_err().to_string();
        assert!(error.contains(&*dir.to_string_lossy()), "{error}");
        assert!(error.contains("sandboxes/lean/README.md"), "{error}");
    }
}
