use datasets::{LeanTask, ProgramTask, ProgramTest};

use super::*;
use crate::service::tests::settings;

fn graders(code: Extraction) -> Graders {
    let settings = GraderSettings {
        code,
        ..settings().graders
    };
    Graders::new(settings, None)
}

/// The key of a verdict.
fn key(graders: &Graders, task: RegisteredTask, texts: [&str; 2], test_mode: TestMode) -> Key {
    let [prompt, completion] = texts.map(str::to_owned);
    graders.key(&JudgeItem {
        id: verifier_api::Id::Text(String::new()),
        task: Arc::new(task),
        prompt,
        completion,
        test_mode,
        state: code::SampleState::default(),
    })
}

/// Verdicts are cached under these keys. Whoever changes one makes the caches of earlier versions useless.
#[test]
fn the_keys_of_verdicts_are_those_of_earlier_versions() {
    let graders = graders(Extraction::Program);
    let limits = Limits::default();
    let Limits { fuel, memory, .. } = limits;
    let limits = [fuel, memory, limits.output as u64, limits.value as u64];
    let limits = limits.map(u64::to_le_bytes);
    let texts = |texts: &[&str]| -> Vec<Vec<u8>> {
        texts.iter().map(|text| text.as_bytes().to_vec()).collect()
    };
    let code = |version: &[&str]| {
        let mut fields = texts(&[&[code::VERSION, "program"], version, &["", ""]].concat());
        fields.extend(limits.map(|limit| limit.to_vec()));
        [fields, vec![vec![0]]].concat()
    };
    let answer = "2".to_owned();
    let stdio = ProgramTask {
        tests: Vec::new(),
        time_limit: None,
    };
    let theorem = LeanTask {
        header: "import Mathlib".to_owned(),
        statement: "theorem t : True := by".to_owned(),
    };
    for (spec, kind, fields) in [
        (
            TaskSpec::math(answer),
            "math",
            texts(&[math::VERSION, "boxed, standard"]),
        ),
        (TaskSpec::Code(CodeTask::default()), "code", code(&[])),
        (
            TaskSpec::Program(stdio),
            "code",
            code(&[code::STDIO_VERSION]),
        ),
        (
            TaskSpec::Lean(theorem),
            "lean",
            [texts(&[lean::VERSION, "", ""]), vec![vec![0]]].concat(),
        ),
    ] {
        let task = RegisteredTask::from(spec);
        let ends = [task.content.0.to_vec(), b"p".to_vec(), b"x = 1".to_vec()];
        let fields = [texts(&["verdict-1", kind]), fields, ends.to_vec()].concat();
        let by_hand = fields.iter().fold(KeyWriter::new(), KeyWriter::field);
        let found = key(&graders, task, ["p", "x = 1"], TestMode::UntilFailure);
        assert_eq!(found, by_hand.finish(), "{kind}");
    }
}

#[test]
fn everything_that_decides_on_a_program_with_stdio_tests_changes_its_key() {
    let program = |stdout: &str| {
        RegisteredTask::from(TaskSpec::Program(ProgramTask {
            tests: vec![ProgramTest {
                stdin: "1".to_owned(),
                stdout: stdout.to_owned(),
            }],
            time_limit: None,
        }))
    };
    let [chosen, last] = [Extraction::Program, Extraction::LastBlock].map(graders);
    let mut keys = [
        (&chosen, program("2"), "x", TestMode::All),
        (&chosen, program("2"), "x", TestMode::UntilFailure),
        (&chosen, program("3"), "x", TestMode::All),
        (&chosen, program("2"), "y", TestMode::All),
        (&last, program("2"), "x", TestMode::All),
        (
            &chosen,
            program("2").for_whole_programs(),
            "x",
            TestMode::All,
        ),
    ]
    .map(|(graders, task, completion, mode)| key(graders, task, ["", completion], mode));
    let again = key(&chosen, program("2"), ["", "x"], TestMode::All);
    assert_eq!(again, keys[0]);
    // A whole program is not searched for.
    let whole = program("2").for_whole_programs();
    let by_other_rule = key(&last, whole, ["", "x"], TestMode::All);
    assert_eq!(by_other_rule, keys[5]);
    keys.sort();
    assert!(keys.windows(2).all(|pair| pair[0] != pair[1]));
}

#[test]
fn a_trusted_header_changes_the_key_of_its_proofs_alone() {
    let key_of = |trusted: &[&str], header: &str| {
        let settings = lean::LeanSettings {
            command: vec!["lean".to_owned(), "--json".to_owned()],
            headers: trusted.iter().map(|header| (*header).to_owned()).collect(),
            jail: lean::JailChoice::None,
            ..lean::LeanSettings::default()
        };
        let graders = graders(Extraction::Program);
        graders.set_lean(LeanGrader::open(&settings, 1).unwrap());
        let task = RegisteredTask::from(TaskSpec::Lean(LeanTask {
            header: header.to_owned(),
            statement: "theorem t : True := by".to_owned(),
        }));
        key(&graders, task, ["", "trivial"], TestMode::All)
    };
    let (notation, plain) = ("local notation \"ℕ\" => Unit", "import Mathlib");
    assert_ne!(key_of(&[notation], notation), key_of(&[], notation));
    assert_eq!(key_of(&[notation], plain), key_of(&[], plain));
}
