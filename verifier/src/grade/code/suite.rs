//! Splits a task's test code into single tests.
//!
//! A text that defines tests is loaded once, and a separate statement runs each test. Tests are methods of `unittest.TestCase` and of classes in pytest's form,
//! functions `test_…`, and HumanEval's `check(candidate)`; each may be asynchronous. A test with pytest's `parametrize` is one test for each set of arguments. Any
//! other text is one test. Code under `if __name__ == "__main__":` runs if it tests something that would not run otherwise. In the sandbox, Python's own parser finds
//! the tests without running the text. Some texts are an error in the task, not in a program: those that are not Python, have only comments, or contain something like
//! a test that would not run.

use std::fmt::Write as _;
use std::sync::Arc;

use datasets::CodeTask;
use datasets::excerpt::excerpt;
use sandboxes::protocol::EVENT_LOOP;
use sandboxes::{Call, Limits, Program, Request, Sandbox, SandboxError, Work};
use serde_json::json;

use super::program_dependency;
use crate::cache::{BoundedCache, Key, KeyWriter};

const FIND_TESTS: &str = concat!(
    include_str!("find_tests.py"),
    include_str!("find_parameters.py")
);
const PYTEST_STAND_IN: &str = include_str!("pytest_stand_in.py");
const RUN_CASE: &str = include_str!("run_case.py");
/// Needs [`EVENT_LOOP`] before it.
const RUN_ASYNC: &str = include_str!("run_async.py");
/// Maximum size of the cached suites, in bytes.
const MAX_MEMORY: usize = 64 << 20;

/// The tests of a task.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Suite {
    /// Loaded before the tests.
    pub prelude: String,
    /// A statement for each test.
    pub tests: Vec<String>,
    /// The name of each test.
    pub names: Vec<String>,
    /// Whether each test may assign names that later tests use.
    pub assigns_names: Vec<bool>,
}

impl Suite {
    /// Whether the test at `index` can depend on what the program does.
    pub(super) fn depends_on_program(&self, index: usize) -> bool {
        let run = self.tests.iter().take(index + 1);
        let texts = std::iter::once(&self.prelude).chain(run);
        program_dependency::depends_on_program(texts.map(String::as_str))
    }

    /// Adds a text to the prelude, once.
    fn load(&mut self, text: &str) {
        if !self.prelude.contains(text) {
            let _ = write!(self.prelude, "\n{text}\n");
        }
    }

    fn add(&mut self, test: String, name: String, assigns_names: bool) {
        self.tests.push(test);
        self.names.push(name);
        self.assigns_names.push(assigns_names);
    }

    /// The setup for a fresh instance that continues at the test `index`: the earlier tests that assign names. Tests that `stopped` the program are left out.
    pub(super) fn setup_for(&self, index: usize, stopped: &[usize]) -> Vec<String> {
        (0..index)
            .filter(|earlier| self.assigns_names[*earlier] && !stopped.contains(earlier))
            .map(|earlier| self.tests[earlier].clone())
            .collect()
    }
}

/// A cache of suites, so that each task's test code is parsed once.
pub(super) struct Suites(BoundedCache<Arc<Suite>>);

impl Suites {
    pub(super) fn new() -> Suites {
        Suites(BoundedCache::new(MAX_MEMORY))
    }

    /// The suite of `task`'s test code.
    ///
    /// # Errors
    /// As [`Sandbox::run`], and [`SandboxError::Unusable`] if the code is not Python, or is empty.
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
        let suite = Arc::new(split_into_tests(sandbox, task, limits)?);
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

fn split_into_tests(
    sandbox: &dyn Sandbox,
    task: &CodeTask,
    limits: &Limits,
) -> Result<Suite, SandboxError> {
    let calls: Vec<String> = task
        .asserts
        .iter()
        .map(|text| json!([text, task.entry_point]).to_string())
        .collect();
    let program = Program {
        source: FIND_TESTS,
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
        assigns_names: Vec::new(),
    };
    for (index, text) in task.asserts.iter().enumerate() {
        // The code to load, and the statement and the name of each test.
        let (code, tests): (String, Vec<(String, String)>) = match run.calls.get(index) {
            Some(Call::Returned(found)) => {
                serde_json::from_str(found).map_err(|_| unreadable("it is too large"))?
            }
            Some(Call::Raised { kind, message }) => {
                return Err(unreadable(&format!("{kind}: {}", excerpt(message))));
            }
            Some(Call::TooDeepOrLarge) | None => return Err(unreadable("it is too large")),
        };
        let mentions = |words: &[&str]| words.iter().any(|word| text.contains(*word));
        // Many test suites import the function from a module named `solution`.
        if mentions(&["import solution", "from solution import"]) {
            suite.load(
                "import sys, types\nsys.modules['solution'] = types.ModuleType('solution')\nsys.modules['solution'].__dict__.update(globals())",
            );
        }
        if mentions(&["pytest"]) {
            suite.load(PYTEST_STAND_IN);
        }
        if mentions(&["async def", "asyncio", "Asyncio"]) {
            suite.load(EVENT_LOOP);
            suite.load(RUN_ASYNC);
        }
        if tests.is_empty() {
            suite.add(text.clone(), text.clone(), assigns_names(text));
            continue;
        }
        let mut statements = tests.iter().map(|(statement, _)| statement);
        if statements.any(|statement| statement.starts_with("_rapid_run_")) {
            suite.load(RUN_CASE);
        }
        let _ = write!(suite.prelude, "\n{code}\n");
        for (test, name) in tests {
            // A test with its text as its name stands for the whole text, in another form.
            let is_whole_text = name == *text;
            suite.add(test, name, is_whole_text);
        }
    }
    Ok(suite)
}

/// Whether a text may assign names: whether it is more than a sequence of assertions. Errs on the side of true.
fn assigns_names(text: &str) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assertions_alone_assign_no_names() {
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
            // A line of a string counts as one that may assign names, unless it looks like an assertion.
            ("assert f(1) == \"\"\"\nx\"\"\"", true),
        ] {
            assert_eq!(assigns_names(text), expected, "{text}");
        }
    }
}
