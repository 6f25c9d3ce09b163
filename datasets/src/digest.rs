//! Digests of tasks: BLAKE3 over length-prefixed fields.
//!
//! The verifier caches verdicts under keys that contain them. A client sends a task's digest with its id, to state which version of the task it means. The same
//! content has the same digest on every machine.

use std::fmt;
use std::str::FromStr;

use crate::{Dataset, Task, TaskSpec, Value};

/// A digest of fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

impl fmt::Display for Digest {
    /// 64 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(blake3::Hash::from_bytes(self.0).to_hex().as_str())
    }
}

impl FromStr for Digest {
    type Err = blake3::HexError;

    fn from_str(text: &str) -> Result<Digest, blake3::HexError> {
        blake3::Hash::from_hex(text).map(|hash| Digest(*hash.as_bytes()))
    }
}

/// Collects the fields of a digest. Each field is preceded by its length, so that different lists of fields give different bytes.
#[derive(Debug, Clone, Default)]
pub struct DigestWriter(blake3::Hasher);

impl DigestWriter {
    /// A writer without fields.
    #[must_use]
    pub fn new() -> DigestWriter {
        DigestWriter::default()
    }

    /// Adds one field.
    #[must_use]
    pub fn field(mut self, field: impl AsRef<[u8]>) -> DigestWriter {
        let field = field.as_ref();
        self.0.update(&(field.len() as u64).to_le_bytes());
        self.0.update(field);
        self
    }

    /// Adds a list of fields, preceded by its length.
    #[must_use]
    pub fn fields<F: AsRef<[u8]>>(
        mut self,
        fields: impl ExactSizeIterator<Item = F>,
    ) -> DigestWriter {
        self.0.update(&(fields.len() as u64).to_le_bytes());
        fields.fold(self, DigestWriter::field)
    }

    /// The digest.
    #[must_use]
    pub fn finish(self) -> Digest {
        Digest(*self.0.finalize().as_bytes())
    }
}

impl TaskSpec {
    /// Digest of everything in the task that decides whether an answer is right.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let form = match self {
            TaskSpec::Program(_) => "program",
            TaskSpec::Math(_) | TaskSpec::Code(_) | TaskSpec::Lean(_) => self.kind(),
        };
        let writer = DigestWriter::new().field(form);
        let writer = match self {
            TaskSpec::Math(task) => writer.field(&task.answer),
            TaskSpec::Lean(task) => writer.field(&task.header).field(&task.statement),
            TaskSpec::Program(task) => task.tests.iter().fold(writer, |writer, test| {
                writer.field(&test.stdin).field(&test.stdout)
            }),
            TaskSpec::Code(task) => {
                let mut writer = writer
                    .field(&task.entry_point)
                    .fields(task.prefix.iter())
                    .fields(task.canonical.iter())
                    .fields(task.imports.iter())
                    .fields(task.asserts.iter())
                    .field(task.atol.to_bits().to_le_bytes())
                    .field(format!("{:?}", task.compare))
                    .field((task.tests.len() as u64).to_le_bytes());
                for test in &task.tests {
                    writer = writer
                        .fields(test.args.iter().map(Value::to_json_text))
                        .fields(test.expected.iter().map(Value::to_json_text));
                }
                writer
            }
        };
        // Digests without a time limit are those of earlier versions. The tests are counted, or have two fields each.
        let limit = match self {
            TaskSpec::Code(task) => task.time_limit,
            TaskSpec::Program(task) => task.time_limit,
            TaskSpec::Math(_) | TaskSpec::Lean(_) => None,
        };
        let limit = limit.map(|limit| limit.as_nanos().to_le_bytes());
        limit.into_iter().fold(writer, DigestWriter::field).finish()
    }
}

impl Task {
    /// Digest of everything that the prompt and the verdicts depend on: two tasks with the same digest give the same prompts and verdicts.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let example = match &self.spec {
            TaskSpec::Code(task) => task.example.as_ref(),
            TaskSpec::Math(_) | TaskSpec::Program(_) | TaskSpec::Lean(_) => None,
        };
        DigestWriter::new()
            .field(&self.id)
            .field(&self.question)
            .fields(example.iter())
            .field(self.spec.digest().0)
            .finish()
    }
}

impl Dataset {
    /// Digest of the ids and digests of its tasks, training tasks first.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let tasks = self.train.iter().chain(&self.eval);
        of_tasks(tasks.map(|task| (task.id.as_str(), task.spec.digest())))
    }
}

/// Digest of a list of tasks, given as their ids and digests, in this order.
#[must_use]
pub fn of_tasks<'a>(tasks: impl Iterator<Item = (&'a str, Digest)>) -> Digest {
    tasks
        .fold(DigestWriter::new(), |writer, (id, digest)| {
            writer.field(id).field(digest.0)
        })
        .finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use std::time::Duration;

    use super::*;
    use crate::{CodeTask, CodeTest, Compare, MathTask, ProgramTask, ProgramTest, Task};

    #[test]
    fn boundaries_between_fields_change_the_digest() {
        assert_ne!(
            DigestWriter::new().field("ab").field("c").finish(),
            DigestWriter::new().field("a").field("bc").finish()
        );
        assert_ne!(
            DigestWriter::new().field("").finish(),
            DigestWriter::new().finish()
        );
    }

    fn math(answer: &str) -> TaskSpec {
        TaskSpec::Math(MathTask {
            answer: answer.to_owned(),
        })
    }

    fn code() -> CodeTask {
        CodeTask {
            entry_point: "f".to_owned(),
            tests: vec![CodeTest {
                args: vec![Value::from(1)],
                expected: Some(Value::from(2)),
            }],
            asserts: vec!["assert f(1) == 2".to_owned()],
            ..CodeTask::default()
        }
    }

    #[test]
    fn every_field_that_decides_changes_the_digest_and_the_example_does_not() {
        assert_eq!(math("1").digest(), math("1").digest());
        assert_ne!(math("1").digest(), math("2").digest());
        let digest = |change: &dyn Fn(&mut CodeTask)| {
            let mut task = code();
            change(&mut task);
            TaskSpec::Code(task).digest()
        };
        let plain = digest(&|_| {});
        assert_eq!(
            digest(&|task| task.example = Some("f(1)".to_owned())),
            plain
        );
        let changes: [&dyn Fn(&mut CodeTask); 9] = [
            &|task| task.entry_point = "g".to_owned(),
            &|task| task.prefix = Some("def f(n):".to_owned()),
            &|task| task.canonical = Some("def f(n):".to_owned()),
            &|task| task.imports = vec!["import math".to_owned()],
            &|task| task.asserts.clear(),
            &|task| task.atol = 1e-6,
            &|task| task.compare = Compare::Set,
            &|task| task.time_limit = Some(Duration::from_secs(1)),
            &|task| task.tests[0].expected = None,
        ];
        let mut digests = vec![plain];
        for change in changes {
            digests.push(digest(change));
        }
        digests.sort();
        digests.dedup();
        assert_eq!(digests.len(), 10);
    }

    #[test]
    fn the_digest_of_a_function_without_optional_fields_equals_that_of_earlier_versions() {
        // Services of earlier versions have cached verdicts under it.
        let none = DigestWriter::new()
            .fields(std::iter::empty::<&str>())
            .finish();
        assert_eq!(none, Digest(*blake3::hash(&[0; 8]).as_bytes()));
        let by_hand = DigestWriter::new()
            .field("code")
            .field("f")
            .fields(std::iter::empty::<&str>())
            .fields(std::iter::empty::<&str>())
            .fields(std::iter::empty::<&str>())
            .fields(["assert f(1) == 2"].iter())
            .field([0_u8; 8])
            .field("Equal")
            .field([1_u8, 0, 0, 0, 0, 0, 0, 0])
            .fields(["1"].iter())
            .fields(["2"].iter())
            .finish();
        assert_eq!(TaskSpec::Code(code()).digest(), by_hand);
    }

    #[test]
    fn each_test_of_a_program_changes_its_digest() {
        let program = |tests: &[(&str, &str)]| {
            let test = |&(stdin, stdout): &(&str, &str)| ProgramTest {
                stdin: stdin.to_owned(),
                stdout: stdout.to_owned(),
            };
            let tests = tests.iter().map(test).collect();
            let time_limit = None;
            TaskSpec::Program(ProgramTask { tests, time_limit }).digest()
        };
        let mut digests = [
            program(&[]),
            program(&[("1", "2")]),
            program(&[("12", "")]),
            program(&[("1", "3")]),
            program(&[("1", "2"), ("1", "2")]),
        ];
        assert_eq!(program(&[("1", "2")]), digests[1]);
        digests.sort();
        assert!(digests.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn the_digests_of_other_tasks_are_those_of_earlier_versions() {
        // Services of earlier versions have cached verdicts under them.
        let dataset = |name| crate::open(name, None).unwrap().digest().to_string();
        assert_eq!(
            ["starter-math", "starter-code", "starter-lean"].map(dataset),
            [
                "d18b4acaa4db9279f72bc17ce090e23e1b2c8d5ea54e549d5eb513c40c8e966c",
                "0f0e6c78f62712aa3d69a45c17875a0e045a8fd68e3496d6f289f3f1cd1fcad2",
                "cb02b165233838ba35757c4e42e09101657ef7abcc1b5b54178bfb425592662d",
            ]
        );
    }

    #[test]
    fn a_tasks_digest_depends_on_its_id_question_example_and_answer() {
        let task = |id: &str, question: &str, spec: &TaskSpec| Task {
            id: id.to_owned(),
            question: question.to_owned(),
            spec: spec.clone(),
        };
        let (plain, mut shown) = (TaskSpec::Code(code()), code());
        shown.example = Some("f(1)".to_owned());
        let tasks = [
            task("d/1", "f?", &plain),
            task("d/2", "f?", &plain),
            task("d/1", "f!", &plain),
            task("d/1", "f?", &TaskSpec::Code(shown)),
            task("d/1", "f?", &math("1")),
        ];
        let mut digests = tasks.each_ref().map(Task::digest);
        digests.sort();
        assert!(digests.windows(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(tasks[0].digest(), task("d/1", "f?", &plain).digest());
    }

    #[test]
    fn a_data_sets_digest_depends_on_ids_and_answers_only() {
        let dataset = |id: &str, question: &str, answer: &str| Dataset {
            name: "d".to_owned(),
            train: vec![Task {
                id: id.to_owned(),
                question: question.to_owned(),
                spec: math(answer),
            }],
            eval: Vec::new(),
        };
        let digest = dataset("d/1", "1 + 1?", "2").digest();
        assert_eq!(dataset("d/1", "One and one?", "2").digest(), digest);
        assert_ne!(dataset("d/1", "1 + 1?", "3").digest(), digest);
        assert_ne!(dataset("d/2", "1 + 1?", "2").digest(), digest);
    }

    proptest! {
        #[test]
        fn a_digest_is_parsed_from_its_digits(bytes in any::<[u8; 32]>()) {
            let text = Digest(bytes).to_string();
            prop_assert_eq!(text.len(), 64);
            prop_assert_eq!(text.parse::<Digest>().ok(), Some(Digest(bytes)));
        }

        #[test]
        fn different_fields_give_different_digests(a in prop::collection::vec(".{0,3}", 0..4), b in prop::collection::vec(".{0,3}", 0..4)) {
            let digest = |fields: &[String]| fields.iter().fold(DigestWriter::new(), DigestWriter::field).finish();
            prop_assert_eq!(digest(&a) == digest(&b), a == b);
        }
    }
}
