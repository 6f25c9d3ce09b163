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
            TaskSpec::Custom(_) => "own",
            TaskSpec::Math(_) | TaskSpec::Code(_) | TaskSpec::Lean(_) => self.kind(),
        };
        let writer = DigestWriter::new().field(form);
        let writer = match self {
            TaskSpec::Math(task) => writer.field(&task.answer),
            TaskSpec::Lean(task) => writer.field(&task.header).field(&task.statement),
            // Sorted by name. One of them is the grader's.
            TaskSpec::Custom(task) => {
                let fields = task.fields.iter();
                writer.fields(fields.map(|(name, value)| format!("{name}: {value}")))
            }
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
            TaskSpec::Math(_) | TaskSpec::Lean(_) | TaskSpec::Custom(_) => None,
        };
        let limit = limit.map(|limit| limit.as_nanos().to_le_bytes());
        limit.into_iter().fold(writer, DigestWriter::field).finish()
    }
}

impl Task {
    /// Digest of everything that the prompt and the verdicts depend on: two tasks with the same digest give the same prompts and verdicts.
    #[must_use]
    pub fn digest(&self) -> Digest {
        DigestWriter::new()
            .field(&self.id)
            .field(&self.question)
            .fields(self.example.iter())
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
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::{CodeTask, CodeTest, Compare, ProgramTask, ProgramTest};

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

    fn program(tests: &[(&str, &str)]) -> TaskSpec {
        let test = |&(stdin, stdout): &(&str, &str)| ProgramTest {
            stdin: stdin.to_owned(),
            stdout: stdout.to_owned(),
        };
        TaskSpec::Program(ProgramTask {
            tests: tests.iter().map(test).collect(),
            time_limit: None,
        })
    }

    fn assert_differ(digests: impl Iterator<Item = Digest>) {
        let digests: Vec<Digest> = digests.collect();
        let distinct: std::collections::HashSet<_> = digests.iter().collect();
        assert_eq!(distinct.len(), digests.len());
    }

    #[test]
    fn everything_that_decides_changes_the_digest_and_nothing_else_does() {
        let changed = |change: &dyn Fn(&mut CodeTask)| {
            let mut task = code();
            change(&mut task);
            TaskSpec::Code(task)
        };
        let specs = [
            TaskSpec::math("1"),
            TaskSpec::math("2"),
            changed(&|_| {}),
            changed(&|task| task.entry_point = "g".to_owned()),
            changed(&|task| task.prefix = Some("def f(n):".to_owned())),
            changed(&|task| task.canonical = Some("def f(n):".to_owned())),
            changed(&|task| task.imports = vec!["import math".to_owned()]),
            changed(&|task| task.asserts.clear()),
            changed(&|task| task.atol = 1e-6),
            changed(&|task| task.compare = Compare::Set),
            changed(&|task| task.time_limit = Some(Duration::from_secs(1))),
            changed(&|task| task.tests[0].expected = None),
            program(&[]),
            program(&[("1", "2")]),
            program(&[("12", "")]),
            program(&[("1", "3")]),
            program(&[("1", "2"), ("1", "2")]),
        ];
        assert_differ(specs.iter().map(TaskSpec::digest));
        let shown = Task {
            example: Some("f(1)".to_owned()),
            ..Task::new("d/1", "f?", TaskSpec::Code(code()))
        };
        let tasks = [
            Task::new("d/1", "f?", TaskSpec::Code(code())),
            Task::new("d/2", "f?", TaskSpec::Code(code())),
            Task::new("d/1", "f!", TaskSpec::Code(code())),
            shown,
            Task::new("d/1", "f?", TaskSpec::math("1")),
        ];
        assert_differ(tasks.iter().map(Task::digest));
        let dataset = |id: &str, question: &str, answer: &str| {
            let dataset = Dataset {
                name: "d".to_owned(),
                train: vec![Task::new(id, question, TaskSpec::math(answer))],
                eval: Vec::new(),
            };
            dataset.digest()
        };
        let digest = dataset("d/1", "1 + 1?", "2");
        assert_eq!(dataset("d/1", "One and one?", "2"), digest);
        let others = [dataset("d/1", "1 + 1?", "3"), dataset("d/2", "1 + 1?", "2")];
        assert_differ(std::iter::once(digest).chain(others));
    }

    #[test]
    fn digests_are_those_of_earlier_versions() {
        // Services of earlier versions have cached verdicts under them.
        let none = std::iter::empty::<&str>;
        let empty = DigestWriter::new().fields(none()).finish();
        assert_eq!(empty, Digest(*blake3::hash(&[0; 8]).as_bytes()));
        let by_hand = DigestWriter::new()
            .field("code")
            .field("f")
            .fields(none())
            .fields(none())
            .fields(none())
            .fields(["assert f(1) == 2"].iter())
            .field([0_u8; 8])
            .field("Equal")
            .field([1_u8, 0, 0, 0, 0, 0, 0, 0])
            .fields(["1"].iter())
            .fields(["2"].iter())
            .finish();
        assert_eq!(TaskSpec::Code(code()).digest(), by_hand);
        let names = ["starter-math", "starter-code", "starter-lean"];
        let digests = [
            "d18b4acaa4db9279f72bc17ce090e23e1b2c8d5ea54e549d5eb513c40c8e966c",
            "0f0e6c78f62712aa3d69a45c17875a0e045a8fd68e3496d6f289f3f1cd1fcad2",
            "cb02b165233838ba35757c4e42e09101657ef7abcc1b5b54178bfb425592662d",
        ];
        for (name, digest) in names.into_iter().zip(digests) {
            let found = crate::open(name, None).unwrap().digest();
            assert_eq!(found.to_string(), digest);
            assert_eq!(digest.parse::<Digest>().unwrap(), found);
        }
    }

    proptest! {
        #[test]
        fn different_fields_give_different_digests(a in prop::collection::vec(".{0,3}", 0..4), b in prop::collection::vec(".{0,3}", 0..4)) {
            let digest = |fields: &[String]| fields.iter().fold(DigestWriter::new(), DigestWriter::field).finish();
            prop_assert_eq!(digest(&a) == digest(&b), a == b);
        }
    }
}
