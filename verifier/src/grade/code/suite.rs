//! What of a task's test code is one test each.
//!
//! A text that defines tests (`unittest.TestCase` classes, classes of pytest's form, `test_…` functions, HumanEval's `check(candidate)`, each of which may be asynchronous) is loaded
//! once, and each of its tests is run by a statement of its own; of a test with pytest's `parametrize`, each set of arguments is. Any other text is a test by itself. What stands under `if __name__ == "__main__":` is run where it tests something that is
//! not run anyway. Which tests there are is read from the text in the sandbox, by Python's own parser; nothing of it is run for that. A text that is no Python, or nothing but
//! comments, or holds what looks like a test but would not be run, is the task's fault and no program's.

use std::fmt::Write as _;
use std::sync::Arc;

use datasets::{CodeTask, Value};
use sandboxes::{Call, Limits, Program, Request, Sandbox, SandboxError, Work};
use serde_json::json;

use super::blame;
use crate::cache::{Bounded, Key, KeyWriter};
use crate::grade::excerpt;

const FIND: &str = concat!(
    include_str!("find_tests.py"),
    include_str!("find_parameters.py")
);
const PYTEST: &str = include_str!("pytest_stand_in.py");
const RUN_CASE: &str = include_str!("run_case.py");
const RUN_ASYNC: &str = include_str!("run_async.py");
/// Bytes of suites in memory.
const MAX_MEMORY: usize = 64 << 20;

/// The tests of a task.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Suite {
    /// Loaded before the tests.
    pub prelude: String,
    /// A statement for each test.
    pub tests: Vec<String>,
    /// What each test is called.
    pub names: Vec<String>,
    /// Whether it may give values to names that later tests go by.
    pub binds: Vec<bool>,
}

impl Suite {
    /// Whether the test of that number can depend on what the program does.
    pub(super) fn depends_on_program(&self, index: usize) -> bool {
        let run = self.tests.iter().take(index + 1);
        let texts = std::iter::once(&self.prelude).chain(run);
        blame::depends(texts.map(String::as_str))
    }

    /// Has a text loaded before the tests, once.
    fn load(&mut self, text: &str) {
        if !self.prelude.contains(text) {
            let _ = write!(self.prelude, "\n{text}\n");
        }
    }

    fn add(&mut self, test: String, name: String, binds: bool) {
        self.tests.push(test);
        self.names.push(name);
        self.binds.push(binds);
    }

    /// What is run before the test of that number in a fresh instance, so that it finds the names that earlier tests have made, but for those that `stopped` the program.
    pub(super) fn before(&self, index: usize, stopped: &[usize]) -> Vec<String> {
        (0..index)
            .filter(|earlier| self.binds[*earlier] && !stopped.contains(earlier))
            .map(|earlier| self.tests[earlier].clone())
            .collect()
    }
}

/// Suites by task, so that each is read once.
pub(super) struct Suites(Bounded<Arc<Suite>>);

impl Suites {
    pub(super) fn new() -> Suites {
        Suites(Bounded::new(MAX_MEMORY))
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
        if let Some(known) = self.0.get(&key) {
            return Ok(known);
        }
        let suite = Arc::new(read(sandbox, task, limits)?);
        let bytes = |texts: &[String]| texts.iter().map(|text| text.len() + 24).sum::<usize>();
        let weight = suite.prelude.len() + bytes(&suite.tests) + bytes(&suite.names);
        self.0.put(key, Arc::clone(&suite), weight);
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
    };
    let work = Work::Calls {
        program,
        calls: &calls,
    };
    let run = sandbox.run(&Request::new(work, limits))?;
    let mut suite = Suite {
        prelude: task.imports.join("\n"),
        tests: Vec::new(),
        names: Vec::new(),
        binds: Vec::new(),
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
        let says = |words: &[&str]| words.iter().any(|word| text.contains(*word));
        // Many people's tests import the function from a module of this name.
        if says(&["import solution", "from solution import"]) {
            let name = &task.entry_point;
            suite.load(&format!(
                "import sys, types\nsys.modules['solution'] = types.ModuleType('solution')\nsys.modules['solution'].{name} = {name}"
            ));
        }
        if says(&["pytest"]) {
            suite.load(PYTEST);
        }
        if says(&["async def", "asyncio", "Asyncio"]) {
            suite.load(RUN_ASYNC);
        }
        if tests.is_empty() {
            suite.add(text.clone(), text.clone(), binds(text));
            continue;
        }
        if tests
            .iter()
            .any(|(test, _)| test.starts_with("_rapid_run_"))
        {
            suite.load(RUN_CASE);
        }
        let _ = write!(suite.prelude, "\n{code}\n");
        for (test, name) in tests {
            // A text that is a test in another form than its own.
            let whole = name == *text;
            suite.add(test, name, whole);
        }
    }
    Ok(suite)
}

/// Whether a text may give values to names: whether it is more than assertions, one below the other. In doubt it may.
fn binds(text: &str) -> bool {
    let continues = |line: &str| line.starts_with([' ', '\t', ')', ']', '}', '#']);
    let asserts = |line: &str| line.starts_with("assert ") || line.starts_with("assert(");
    !text
        .lines()
        .filter(|line| !line.is_empty())
        .all(|line| continues(line) || asserts(line))
        || text.contains(';')
        || text.contains(":=")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_assertions_alone_defines_no_names() {
        for (text, expected) in [
            ("assert f(1) == 2", false),
            (
                "assert f(\n    1,\n) == {'a': 2}\nassert(f(2))\n\n# and so on",
                false,
            ),
            ("x = f(1)", true),
            ("import math\nassert f(1)", true),
            ("assert f(1); x = 2", true),
            ("assert (x := f(1)) == 2", true),
            ("for x in range(3):\n    assert f(x)", true),
            // What looks like more, inside a text, may be more.
            ("assert f(1) == \"\"\"\nx\"\"\"", true),
        ] {
            assert_eq!(binds(text), expected, "{text}");
        }
    }
}
