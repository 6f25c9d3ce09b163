//! A sandbox for tests that runs nothing: a function returns its results.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sandboxes::{
    Abandoned, Call, Deferred, End, Identity, Limits, Request, Run, Sandbox, SandboxError, Work,
};

/// Returns the run for a program's source, its calls (or its tests), and the limits.
pub(crate) type RunFn =
    Box<dyn Fn(&str, &[String], &Limits) -> Result<Run, SandboxError> + Send + Sync>;

pub(crate) struct FakeSandbox {
    pub(crate) identity: Identity,
    run: RunFn,
    /// Whether it calls the watch.
    pub(crate) watched: bool,
    /// The source, the calls and the limit of fuel of each run so far.
    seen: Mutex<Vec<(String, Vec<String>, u64)>>,
    parses: AtomicUsize,
}

impl FakeSandbox {
    pub(crate) fn new(
        run: impl Fn(&str, &[String], &Limits) -> Result<Run, SandboxError> + Send + Sync + 'static,
    ) -> FakeSandbox {
        let identity = Identity {
            backend: "scripted".to_owned(),
            interpreter: "none".to_owned(),
            digest: "0".repeat(64),
        };
        FakeSandbox {
            identity,
            run: Box::new(run),
            watched: true,
            seen: Mutex::default(),
            parses: AtomicUsize::new(0),
        }
    }

    /// Every run is that of [`doubled`].
    pub(crate) fn doubling() -> FakeSandbox {
        FakeSandbox::new(|source, calls, _| Ok(doubled(source, calls)))
    }

    /// Number of runs of programs so far.
    pub(crate) fn runs(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    /// How often texts were parsed.
    pub(crate) fn parses(&self) -> usize {
        self.parses.load(Ordering::SeqCst)
    }

    /// The source of each run.
    pub(crate) fn sources(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        seen.iter().map(|(source, ..)| source.clone()).collect()
    }

    /// The calls of each run.
    pub(crate) fn calls(&self) -> Vec<Vec<String>> {
        let seen = self.seen.lock().unwrap();
        seen.iter().map(|(_, calls, _)| calls.clone()).collect()
    }

    /// The limit of fuel of each run.
    pub(crate) fn fuel_limits(&self) -> Vec<u64> {
        let seen = self.seen.lock().unwrap();
        seen.iter().map(|(.., fuel)| *fuel).collect()
    }

    fn record_and_run(
        &self,
        source: &str,
        calls: &[String],
        limits: &Limits,
    ) -> Result<Run, SandboxError> {
        let seen = (source.to_owned(), calls.to_vec(), limits.fuel);
        self.seen.lock().unwrap().push(seen);
        (self.run)(source, calls, limits)
    }
}

/// The run of a program. If its source contains "right", it returns twice its argument and its `assert`s hold; otherwise it returns the square, and they fail. No test code
/// defines tests.
pub(crate) fn doubled(source: &str, calls: &[String]) -> Run {
    if finds_tests(source) {
        return no_tests(calls);
    }
    let right = source.contains("right") || source.contains("2 * n") || source.contains("n + n");
    let answer = |call: &String| match call.trim_matches(['[', ']']).parse::<i64>() {
        Ok(n) if right => Call::Returned((2 * n).to_string()),
        Ok(n) => Call::Returned((n * n).to_string()),
        Err(_) if right => Call::Returned("null".to_owned()),
        Err(_) => raised("AssertionError", ""),
    };
    completed(calls.iter().map(answer).collect())
}

/// Whether a program is the one that finds the tests in test code.
pub(crate) fn finds_tests(source: &str) -> bool {
    source.starts_with("\"\"\"Finds the tests")
}

/// The run of that program on texts that define no tests.
pub(crate) fn no_tests(calls: &[String]) -> Run {
    completed(vec![Call::Returned(r#"["",[]]"#.to_owned()); calls.len()])
}

pub(crate) fn raised(kind: &str, message: &str) -> Call {
    let (kind, message) = (kind.to_owned(), message.to_owned());
    Call::Raised { kind, message }
}

/// The run of a whole program that exited with `status` after it wrote `stdout`.
pub(crate) fn exited(status: i32, stdout: &str) -> Run {
    let stderr = match status {
        0 => String::new(),
        _ => "Traceback\nValueError: no\n".to_owned(),
    };
    Run {
        stdout: stdout.to_owned(),
        ..ended(Vec::new(), End::Exited { status, stderr })
    }
}

pub(crate) fn completed(calls: Vec<Call>) -> Run {
    ended(calls, End::Completed)
}

pub(crate) fn ended(calls: Vec<Call>, end: End) -> Run {
    Run {
        calls,
        end,
        fuel: 1_000,
        stdout: String::new(),
    }
}

impl Sandbox for FakeSandbox {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    /// A program that contains "endless" ends when it is abandoned.
    fn run(&self, request: &Request<'_>) -> Result<Run, SandboxError> {
        if let Work::Calls { program, .. } | Work::Tests { program, .. } = request.work
            && program.source.contains("endless")
        {
            while !request.abandoned.is_some_and(Abandoned::is_abandoned) {
                std::thread::sleep(Duration::from_millis(1));
            }
            return Err(Deferred::Abandoned.into());
        }
        let (program, calls) = match request.work {
            Work::Calls { program, calls } => (program, calls),
            Work::Tests { program, tests, .. } => (program, tests),
            Work::WholeProgram { source, stdin } => {
                return self.record_and_run(source, &[stdin.to_owned()], &request.limits);
            }
            Work::Outline { texts } => {
                self.parses.fetch_add(1, Ordering::SeqCst);
                return Ok(outline(texts));
            }
        };
        let mut run = self.record_and_run(program.source, calls, &request.limits)?;
        let last = request.watch.filter(|_| self.watched).and_then(|watch| {
            (0..run.calls.len()).find(|index| !watch.should_continue(*index, &run.calls[*index]))
        });
        if let Some(last) = last {
            run.calls.truncate(last + 1);
            run.end = End::Watched;
        }
        Ok(run)
    }
}

/// Every text is a valid program that continues its header, except those with "no python". Parsing ends at "long to read" by a clock, and at "large to read" by the
/// machine's lack of memory.
fn outline(texts: &[String]) -> Run {
    if texts.iter().any(|text| text.contains("long to read")) {
        return ended(Vec::new(), End::OutOfTime);
    }
    if texts.iter().any(|text| text.contains("large to read")) {
        return ended(Vec::new(), End::MachineOutOfMemory);
    }
    let programs = texts.iter().map(|text| {
        if text.contains("no python") {
            let fault = r#"[[],["SyntaxError","invalid syntax, line 1"]]"#;
            return Call::Returned(fault.to_owned());
        }
        let lines = text.matches("\\n").count() + 1;
        Call::Returned(format!("[[[0,{lines},[],[],[],true]],null]"))
    });
    completed(programs.collect())
}
