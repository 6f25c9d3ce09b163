//! What of a task's test code is one test each.
//!
//! A text that defines tests (`unittest.TestCase` classes, `test_…` functions, HumanEval's `check(candidate)`) is loaded once, and each of its
//! tests is run by a statement of its own; any other text is a test by itself. Which tests there are is read from the text in the
//! sandbox, by Python's own parser; nothing of it is run for that. A text that is no Python, or nothing but comments, is the task's fault and no program's.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use datasets::{CodeTask, Value};
use sandboxes::{Call, Limits, Program, Sandbox, SandboxError};
use serde_json::json;

use super::blame;
use crate::cache::{Key, KeyWriter, Lru};
use crate::grade::excerpt;

const FIND: &str = include_str!("find_tests.py");
const RUN_CASE: &str = include_str!("run_case.py");
/// Bytes of suites kept in memory.
const MEMORY: usize = 64 << 20;

/// The tests of a task.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Suite {
    /// Loaded before the tests.
    pub prelude: String,
    /// A statement for each test.
    pub tests: Vec<String>,
    /// What each test is called.
    pub names: Vec<String>,
}

impl Suite {
    /// Whether the test of that number can depend on what the program does.
    pub(super) fn depends_on_program(&self, index: usize) -> bool {
        let run = self.tests.iter().take(index + 1);
        let texts = std::iter::once(&self.prelude).chain(run);
        blame::depends(texts.map(String::as_str))
    }
}

/// Suites by task, so that each is read once.
pub(super) struct Suites(Mutex<Lru<Arc<Suite>>>);

impl Suites {
    pub(super) fn new() -> Suites {
        Suites(Mutex::new(Lru::new(MEMORY)))
    }

    /// The suite of `task`'s test code.
    ///
    /// # Errors
    /// As [`Sandbox::run`], and [`SandboxError::Unusable`] where the code is no Python, or none at all.
    pub(super) fn of(
        &self,
        sandbox: &dyn Sandbox,
        task: &CodeTask,
        limits: &Limits,
    ) -> Result<Arc<Suite>, SandboxError> {
        let key = key(task);
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = lock().get(&key) {
            return Ok(Arc::clone(kept));
        }
        let suite = Arc::new(read(sandbox, task, limits)?);
        let bytes = |texts: &[String]| texts.iter().map(|text| text.len() + 24).sum::<usize>();
        let weight = 256 + suite.prelude.len() + bytes(&suite.tests) + bytes(&suite.names);
        lock().put(key, Arc::clone(&suite), weight);
        Ok(suite)
    }
}

fn key(task: &CodeTask) -> Key {
    KeyWriter::new()
        .field("suite-1")
        .field(&task.entry_point)
        .fields(task.imports.iter())
        .fields(task.asserts.iter())
        .finish()
}

fn read(sandbox: &dyn Sandbox, task: &CodeTask, limits: &Limits) -> Result<Suite, SandboxError> {
    let calls: Vec<String> = task
        .asserts
        .iter()
        .map(|text| json!([text, task.entry_point]).to_string())
        .collect();
    let program = Program {
        source: FIND,
        entry_point: "find",
        calls: &calls,
        watch: None,
    };
    let run = sandbox.run(&program, limits)?;
    let mut suite = Suite {
        prelude: task.imports.join("\n"),
        tests: Vec::new(),
        names: Vec::new(),
    };
    for (index, text) in task.asserts.iter().enumerate() {
        let (code, tests) = match run.calls.get(index) {
            Some(Call::Returned(found)) => {
                found_tests(found).ok_or_else(|| unreadable("it is too large"))?
            }
            Some(Call::Raised { kind, message }) => {
                return Err(unreadable(&format!("{kind}: {}", excerpt(message))));
            }
            Some(Call::TooLarge) | None => return Err(unreadable("it is too large")),
        };
        if tests.is_empty() {
            suite.tests.push(text.clone());
            suite.names.push(text.clone());
            continue;
        }
        // Many people's tests import the function from a module of this name.
        if code.contains("import solution") || code.contains("from solution import") {
            let name = &task.entry_point;
            let _ = write!(
                suite.prelude,
                "\nimport sys, types\nsys.modules['solution'] = types.ModuleType('solution')\nsys.modules['solution'].{name} = {name}\n"
            );
        }
        if tests
            .iter()
            .any(|(test, _)| test.starts_with("_rapid_run_case("))
        {
            let _ = write!(suite.prelude, "\n{RUN_CASE}");
        }
        let _ = write!(suite.prelude, "\n{code}\n");
        for (test, name) in tests {
            suite.tests.push(test);
            suite.names.push(name);
        }
    }
    Ok(suite)
}

fn unreadable(why: &str) -> SandboxError {
    SandboxError::Unusable(format!(
        "the task's own test code cannot be read ({why}); correct the task"
    ))
}

/// What `find` returned: the code to load, and `(statement, name)` of each test.
fn found_tests(found: &str) -> Option<(String, Vec<(String, String)>)> {
    let Value::List(parts) = Value::parse_json(found).ok()? else {
        return None;
    };
    let [Value::Str(code), Value::List(tests)] = parts.as_slice() else {
        return None;
    };
    let tests = tests
        .iter()
        .map(|test| match test {
            Value::List(pair) => match pair.as_slice() {
                [Value::Str(test), Value::Str(name)] => Some((test.clone(), name.clone())),
                _ => None,
            },
            _ => None,
        })
        .collect::<Option<_>>()?;
    Some((code.clone(), tests))
}
