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
        chosen.key(&program("2"), "", "x", TestMode::All),
        chosen.key(&program("2"), "", "x", TestMode::UntilFailure),
        chosen.key(&program("3"), "", "x", TestMode::All),
        chosen.key(&program("2"), "", "y", TestMode::All),
        last.key(&program("2"), "", "x", TestMode::All),
        chosen.key(&program("2").for_whole_programs(), "", "x", TestMode::All),
    ];
    assert_eq!(chosen.key(&program("2"), "", "x", TestMode::All), keys[0]);
    keys.sort();
    assert!(keys.windows(2).all(|pair| pair[0] != pair[1]));
}

#[test]
fn the_extraction_rule_is_no_part_of_the_key_of_a_whole_program() {
    let spec = TaskSpec::Code(CodeTask {
        entry_point: "f".to_owned(),
        asserts: vec!["assert f(1) == 2".to_owned()],
        ..CodeTask::default()
    });
    let task = RegisteredTask::from(spec);
    let keys = |task: &RegisteredTask| {
        [Extraction::Program, Extraction::LastBlock]
            .map(|code| graders(code).key(task, "", "x = 1", TestMode::All))
    };
    let ([one, other], [whole, by_other_rule]) = (keys(&task), keys(&task.for_whole_programs()));
    assert!(one != other && whole == by_other_rule && one != whole);
}

#[test]
fn whether_its_header_is_trusted_changes_the_key_of_a_proof_and_of_no_other() {
    let key = |trusted: &[&str], header: &str| {
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
        graders.key(&task, "", "trivial", TestMode::All)
    };
    let (notation, plain) = ("local notation \"ℕ\" => Unit", "import Mathlib");
    assert_ne!(key(&[notation], notation), key(&[], notation));
    assert_eq!(key(&[notation], plain), key(&[], plain));
}
