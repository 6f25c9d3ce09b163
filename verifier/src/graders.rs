//! The graders of one service: which ones can judge now, and why the others cannot.

mod grader_state;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datasets::{CodeTask, CodeTest, TaskSpec, Value};
use sandboxes::defined_names::Stopped;
use sandboxes::wasm::WasmSandbox;
use sandboxes::{Abandoned, Deferred, Identity, Limits, Sandbox, SandboxError};
use verifier_api::{GraderInfo, GraderState, Verdict};

use crate::cache::{ExpectedValueStore, Key, KeyWriter};
use crate::grade::Grading;
use crate::grade::code::{
    self, CanonicalResult, CodeGrader, CodingTask, Extraction, NoCanonicalResult, Pending,
    TestMode, Wanted,
};
use crate::grade::custom::{CustomGrader, CustomSettings};
use crate::grade::lean::{self, LeanGrader};
use crate::grade::math;
use crate::item::JudgeItem;
use crate::registry::RegisteredTask;
use grader_state::GraderCell;

/// Opens the sandbox. The first time is slow, so it runs in a separate thread.
pub type OpenSandbox = Box<dyn FnOnce() -> Result<Arc<dyn Sandbox>, SandboxError> + Send>;

/// The settings of the graders, fixed before the service starts.
#[derive(Debug, Clone)]
pub struct GraderSettings {
    /// How answers to math problems are found and compared.
    pub math: math::MathSettings,
    /// How the program is found in a completion.
    pub code: Extraction,
    /// How proofs are judged.
    pub lean: lean::LeanSettings,
    /// The graders of the operator's own.
    pub custom: BTreeMap<String, CustomSettings>,
    /// Files that a jail hides from programs: the service's token file, if it has one.
    pub secrets: Vec<PathBuf>,
    /// Number of threads for first passes. Proofs have as many, and long programs one more.
    pub workers: usize,
    /// The limits of a program.
    pub limits: Limits,
    /// Bytes shared by all programs that need more than [`crate::memory_pool::FREE_ALLOWANCE`]; `None` if the sandbox itself limits them.
    pub memory_pool: Option<u64>,
    /// Maximum size of the expected values cached in memory, in bytes.
    pub expected_bytes: usize,
    /// Graders without which the service is not ready.
    pub require: Vec<String>,
}

/// The names of the graders that every service has.
pub const NAMES: [&str; 3] = ["math", "code", "lean"];

/// The graders of one service.
pub struct Graders {
    settings: GraderSettings,
    expected_values: Option<Arc<ExpectedValueStore>>,
    code: GraderCell<CodeGrader>,
    lean: GraderCell<LeanGrader>,
    math: GraderCell<()>,
    custom: BTreeMap<String, GraderCell<CustomGrader>>,
}

impl Graders {
    /// Creates the graders without preparing them: [`Graders::prepare`] does that. Expected values are stored in `expected_values`.
    pub fn new(
        settings: GraderSettings,
        expected_values: Option<Arc<ExpectedValueStore>>,
    ) -> Graders {
        let custom = settings.custom.keys().cloned();
        Graders {
            custom: custom
                .map(|name| (name.clone(), GraderCell::new(name)))
                .collect(),
            settings,
            expected_values,
            code: GraderCell::new("the sandbox"),
            lean: GraderCell::new("Lean"),
            math: GraderCell::new("mathematics"),
        }
    }

    /// Opens the sandbox, and has every grader judge a correct and a wrong sample. Blocks; for a minute if the sandbox must be built first.
    pub fn prepare(&self, open: OpenSandbox) {
        self.math.set(self_test_math(self.settings.math));
        for (name, cell) in &self.custom {
            cell.set(self.open_custom(name));
        }
        std::thread::scope(|scope| {
            // Loading Mathlib takes as long as building a sandbox.
            scope.spawn(|| self.lean.set(self.prepare_lean()));
            let code = self.prepare_code(open);
            if let Err(reason) = &code {
                tracing::warn!("code cannot be judged: {reason}");
            }
            self.code.set(code);
        });
    }

    fn prepare_code(&self, open: OpenSandbox) -> Result<CodeGrader, String> {
        let sandbox = open().map_err(|error| error.to_string())?;
        let (settings, store) = (&self.settings, self.expected_values.clone());
        let grader = CodeGrader::new(sandbox, settings.limits, settings.expected_bytes, store)
            .extracting(settings.code)
            .with_memory_pool(settings.memory_pool);
        self_test_code(&grader)?;
        Ok(grader)
    }

    fn open_custom(&self, name: &str) -> Result<CustomGrader, String> {
        let settings = self.settings.custom.get(name).cloned().unwrap_or_default();
        CustomGrader::open(name, &settings, self.settings.secrets.clone())
            .inspect_err(|reason| tracing::warn!("the grader `{name}` cannot judge: {reason}"))
    }

    /// Starts the program of the operator's grader `name` without asking it, and waits for whether it ends or writes. Blocks for two seconds.
    ///
    /// # Errors
    /// What it did.
    pub fn try_out(&self, name: &str) -> Result<(), String> {
        let cell = self.custom.get(name);
        match cell.and_then(|cell| cell.grader().ok()) {
            Some(grader) => grader.try_out(),
            None => Ok(()),
        }
    }

    /// The operator's grader with this name.
    fn custom(&self, name: &str) -> Result<Arc<CustomGrader>, Box<Grading>> {
        match self.custom.get(name) {
            Some(cell) => cell.grader(),
            None => {
                let reason = format!(
                    "this verifier has no grader `{name}`; its configuration names one as [graders.{name}]"
                );
                Err(Box::new(Grading::unavailable(&reason, false)))
            }
        }
    }

    fn prepare_lean(&self) -> Result<LeanGrader, String> {
        let grader = LeanGrader::open(&self.settings.lean, self.settings.workers)
            .inspect_err(|reason| tracing::info!("proofs cannot be judged: {reason}"))?;
        grader
            .self_test()
            .inspect_err(|reason| tracing::warn!("proofs cannot be judged: {reason}"))?;
        Ok(grader)
    }

    /// Judges an item, unless its verdict needs more than this attempt gives it. Blocks while the grader works. In a first pass, proofs get
    /// [`Pending::Deferred`], and so do programs that need more than a small part of their fuel. `abandoned` says whether nobody waits for the verdict any
    /// more.
    ///
    /// # Errors
    /// Why there is no verdict yet, as [`CodeGrader::grade`].
    pub fn grade(
        &self,
        item: &mut JudgeItem,
        first_pass: bool,
        abandoned: &Abandoned,
    ) -> Result<Grading, Pending> {
        let (task, prompt, completion) = (&item.task, &item.prompt, &item.completion);
        let coding_task = match &task.spec {
            TaskSpec::Math(spec) => {
                let (question, settings) = (question_text(task, prompt), self.settings.math);
                return Ok(math::grade(question, &spec.answer, completion, settings));
            }
            TaskSpec::Lean(_) if first_pass => return Err(Pending::Deferred),
            TaskSpec::Custom(spec) => {
                return Ok(match self.custom(&spec.grader) {
                    Ok(grader) => grader.grade(&spec.fields, prompt, completion),
                    Err(unavailable) => *unavailable,
                });
            }
            TaskSpec::Lean(spec) => {
                return Ok(match (self.lean.grader(), task.snippet_seconds) {
                    (Ok(grader), None) => grader.grade(spec, completion),
                    (Ok(grader), Some(seconds)) => grader.run_snippet(completion, seconds),
                    (Err(unavailable), _) => *unavailable,
                });
            }
            TaskSpec::Code(spec) => CodingTask::from(spec),
            TaskSpec::Program(spec) => CodingTask::from(spec),
        };
        match self.code_grader(task, first_pass, Some(abandoned)) {
            Ok(grader) => grader.grade(coding_task, completion, item.test_mode, &mut item.state),
            Err(unavailable) => Ok(*unavailable),
        }
    }

    /// The result of a task's canonical solution, as [`CodeGrader::try_canonical_result`].
    ///
    /// # Errors
    /// [`NoCanonicalResult`].
    pub fn try_canonical_result(
        &self,
        task: &RegisteredTask,
        first_pass: bool,
        abandoned: Option<&Abandoned>,
    ) -> Result<CanonicalResult, NoCanonicalResult> {
        match &task.spec {
            TaskSpec::Code(spec) if CodeGrader::uses_canonical_solution(spec) => {
                let grader = self.code_grader(task, first_pass, abandoned);
                let grader = grader.map_err(|_| NoCanonicalResult::Unavailable)?;
                grader.try_canonical_result(spec)
            }
            _ => Err(NoCanonicalResult::Unavailable),
        }
    }

    /// Whether the result of a task's canonical solution is cached, in memory or on disk.
    pub fn has_canonical_result(&self, task: &RegisteredTask) -> bool {
        match (&task.spec, self.code_grader(task, false, None)) {
            (TaskSpec::Code(spec), Ok(grader)) => grader.has_canonical_result(spec),
            _ => false,
        }
    }

    /// The limits of a program.
    pub(crate) fn limits(&self) -> Limits {
        self.settings.limits
    }

    /// The program that is judged for `completion`; `None` if the task is not about code or there is no program. In a `first_pass`, a completion that takes long to read is
    /// deferred.
    ///
    /// # Errors
    /// [`Stopped`], also while code cannot be judged.
    pub(crate) fn program(
        &self,
        task: &RegisteredTask,
        completion: &str,
        first_pass: bool,
    ) -> Result<Option<String>, Stopped> {
        let wanted = match &task.spec {
            TaskSpec::Code(spec) => Wanted::from(spec),
            TaskSpec::Program(_) => Wanted::PROGRAM,
            TaskSpec::Math(_) | TaskSpec::Lean(_) | TaskSpec::Custom(_) => return Ok(None),
        };
        let grader = self
            .code_grader(task, first_pass, None)
            .map_err(|unavailable| {
                let reason = unavailable.detail["reason"].to_string();
                Stopped::Failed(Deferred::Failed(reason).into())
            })?;
        let program = grader.program(wanted, completion)?;
        Ok(program.map(|program| program.source))
    }

    /// The grader of a data set's programs.
    ///
    /// # Errors
    /// The `unavailable` grading, if code cannot be judged now.
    pub(crate) fn code(&self) -> Result<Arc<CodeGrader>, Box<Grading>> {
        self.code.grader()
    }

    /// The grader for a task. Anyone may send an inline task, so its work is cancelled when it is `abandoned`. The work on a data set's task is of use to the next
    /// client.
    fn code_grader(
        &self,
        task: &RegisteredTask,
        first_pass: bool,
        abandoned: Option<&Abandoned>,
    ) -> Result<CodeGrader, Box<Grading>> {
        let grader = self.code.grader()?;
        if task.inline {
            return Ok(grader.for_inline().attempt(first_pass, abandoned));
        }
        let grader = grader.attempt(first_pass, None);
        Ok(match task.is_whole_program {
            true => grader.for_whole_programs(),
            false => grader,
        })
    }

    /// The `unavailable` grading that says why the task's grader cannot judge now. `None` if it can judge.
    pub fn unavailable_grading(&self, spec: &TaskSpec) -> Option<Grading> {
        let unavailable = match spec {
            TaskSpec::Math(_) => None,
            TaskSpec::Code(_) | TaskSpec::Program(_) => self.code.grader().err(),
            TaskSpec::Lean(_) => self.lean.grader().err(),
            TaskSpec::Custom(spec) => self.custom(&spec.grader).err(),
        };
        unavailable.map(|grading| *grading)
    }

    /// Fails if Lean is ready and no jail keeps the code that it runs from this machine.
    ///
    /// # Errors
    /// The reason, with a remedy.
    pub fn check_jail(&self) -> Result<(), &'static str> {
        match self.lean.grader() {
            Ok(grader) if !grader.is_jailed() => Err(lean::NO_JAIL),
            _ => Ok(()),
        }
    }

    /// Maximum seconds for a file of Lean, in addition to starting Lean.
    pub fn max_lean_seconds(&self) -> u64 {
        self.settings.lean.seconds
    }

    /// The Lean of a test instead of the configured one.
    #[cfg(test)]
    pub(crate) fn set_lean(&self, grader: LeanGrader) {
        self.lean.set(Ok(grader));
    }

    /// The key of a verdict: the digest of everything that the verdict depends on.
    pub fn key(&self, item: &JudgeItem) -> Key {
        let (task, prompt) = (&item.task, &item.prompt);
        let writer = KeyWriter::new().field("verdict-1").field(task.spec.kind());
        let writer = match &task.spec {
            TaskSpec::Math(_) => writer.field(math::VERSION).field(self.settings.math.name()),
            TaskSpec::Custom(spec) => {
                let version = self
                    .custom(&spec.grader)
                    .ok()
                    .map(|grader| grader.version());
                writer.fields(version.and_then(Result::ok).iter())
            }
            TaskSpec::Lean(spec) => {
                let lean = self.lean.grader().ok();
                let identity = lean.as_ref().map(|grader| &grader.identity);
                // A verdict under a header that was trusted is not found once the header is checked.
                let trusted = lean
                    .as_ref()
                    .is_some_and(|grader| grader.trusts_header(&spec.header));
                let writer = writer.field(lean::VERSION);
                with_identity(writer, identity).field([u8::from(trusted)])
            }
            TaskSpec::Code(_) | TaskSpec::Program(_) => {
                let code = self.code.grader().ok();
                let identity = code.as_ref().map(|grader| grader.sandbox().identity());
                let Limits {
                    fuel,
                    memory,
                    output,
                    value,
                    backstop: _,
                } = self.settings.limits;
                // A whole program is not searched for.
                let extraction = match task.is_whole_program {
                    true => "whole",
                    false => self.settings.code.name(),
                };
                let writer = writer.field(code::VERSION).field(extraction);
                let writer = match &task.spec {
                    TaskSpec::Program(_) => writer.field(code::STDIO_VERSION),
                    _ => writer,
                };
                with_identity(writer, identity)
                    .field(fuel.to_le_bytes())
                    .field(memory.to_le_bytes())
                    .field((output as u64).to_le_bytes())
                    .field((value as u64).to_le_bytes())
                    .field([u8::from(item.test_mode == TestMode::All)])
            }
        };
        writer
            .field(task.content.0)
            .field(question_text(task, prompt))
            .field(&item.completion)
            .finish()
    }

    /// The state of every grader.
    pub fn info(&self) -> Vec<GraderInfo> {
        let blank = |name: &str, version: &str| GraderInfo {
            name: name.to_owned(),
            version: version.to_owned(),
            state: GraderState::Unavailable,
            reason: None,
            required: self.settings.require.iter().any(|other| other == name),
            backend: None,
            interpreter: None,
            digest: None,
            policy: None,
        };
        let math = GraderInfo {
            policy: Some(self.settings.math.name()),
            ..blank("math", math::VERSION)
        };
        let math = self.math.info(math, |()| None);
        let code = GraderInfo {
            policy: Some(self.settings.code.name().to_owned()),
            ..blank("code", code::VERSION)
        };
        let code = self
            .code
            .info(code, |grader| Some(grader.sandbox().identity()));
        let lean = blank("lean", lean::VERSION);
        let lean = self.lean.info(lean, |grader| Some(&grader.identity));
        let custom = self.custom.iter().map(|(name, cell)| {
            let version = |grader: &CustomGrader| grader.version().unwrap_or_default();
            let version = cell
                .grader()
                .map_or_else(|_| String::new(), |grader| version(&grader));
            cell.info(blank(name, &version), |_| None)
        });
        [math, code, lean].into_iter().chain(custom).collect()
    }

    /// Whether no grader is still being prepared and every required one can judge.
    pub fn ready(&self) -> bool {
        self.info().iter().all(|grader| match grader.state {
            GraderState::Ready => true,
            GraderState::Preparing => false,
            GraderState::Unavailable => !grader.required,
        })
    }
}

/// The question that a completion answers: the prompt, or the question of the data set if the prompt is empty.
fn question_text<'a>(task: &'a RegisteredTask, prompt: &'a str) -> &'a str {
    if prompt.is_empty() {
        &task.question
    } else {
        prompt
    }
}

fn with_identity(writer: KeyWriter, identity: Option<&Identity>) -> KeyWriter {
    writer
        .field(identity.map_or("", |identity| identity.backend.as_str()))
        .field(identity.map_or("", |identity| identity.digest.as_str()))
}

fn self_test_math(settings: math::MathSettings) -> Result<(), String> {
    let right = math::grade("", r"\frac{1}{2}", r"\boxed{\frac12}", settings).verdict;
    let wrong = math::grade("", r"\frac{1}{2}", r"\boxed{2}", settings).verdict;
    if (right, wrong) == (Verdict::Correct, Verdict::Incorrect) {
        Ok(())
    } else {
        Err(format!(
            "the math grader judged a right answer {right:?} and a wrong one {wrong:?}: report this as a bug"
        ))
    }
}

/// Has the grader judge a correct and a wrong program, each by values and by test code.
fn self_test_code(grader: &CodeGrader) -> Result<(), String> {
    let task = CodeTask {
        entry_point: "double".to_owned(),
        canonical: Some("def double(n):\n    return 2 * n\n".to_owned()),
        tests: vec![CodeTest {
            args: vec![Value::from(21)],
            expected: None,
        }],
        asserts: vec!["assert double(4) == 8".to_owned()],
        ..CodeTask::default()
    };
    for (program, expected) in [
        ("def double(n):\n    return n + n\n", Verdict::Correct),
        ("def double(n):\n    return n * n\n", Verdict::Incorrect),
    ] {
        let grading = grader.judge(&task, program, TestMode::All);
        if grading.verdict != expected {
            return Err(format!(
                "a sample that should be {expected:?} was judged {:?} ({}). Run `rapid-verifier doctor` to see what is wrong with the sandbox",
                grading.verdict, grading.detail
            ));
        }
    }
    Ok(())
}

/// The folders of the wasm sandbox: of its artifact, and of the module compiled from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WasmFolders {
    /// Has `python-snapshot.wasm` and `python-stdlib.zip`; `None` if they have not been fetched.
    pub artifact_dir: Option<PathBuf>,
    /// The folder of the warmed module.
    pub cache_dir: PathBuf,
}

impl WasmFolders {
    /// Returns a function that opens the sandbox, and builds it first if necessary.
    pub fn open(self) -> OpenSandbox {
        Box::new(move || self.build(&|line| tracing::info!("{line}")))
    }

    /// Opens the sandbox; `None` if it is not built yet.
    ///
    /// # Errors
    /// As [`WasmSandbox::open`]; and if the artifact has not been fetched.
    pub fn load(&self) -> Result<Option<Arc<dyn Sandbox>>, SandboxError> {
        let sandbox = WasmSandbox::load(self.artifact()?, &self.cache_dir)?;
        Ok(sandbox.map(|sandbox| Arc::new(sandbox) as Arc<dyn Sandbox>))
    }

    /// Opens the sandbox, and builds it first if necessary. Building takes a minute or two, and reports to `progress`.
    ///
    /// # Errors
    /// As [`WasmFolders::load`].
    pub fn build(&self, progress: &dyn Fn(&str)) -> Result<Arc<dyn Sandbox>, SandboxError> {
        let sandbox = WasmSandbox::open(self.artifact()?, &self.cache_dir, progress)?;
        Ok(Arc::new(sandbox))
    }

    fn artifact(&self) -> Result<&Path, SandboxError> {
        self.artifact_dir.as_deref().ok_or_else(|| {
            SandboxError::Unusable(
                "the Python interpreter that code is judged in is not on this machine: fetch it with `rapid-verifier fetch`, or name its folder with --sandbox-dir".to_owned(),
            )
        })
    }
}

/// Returns an opener that always fails with this reason.
pub fn no_sandbox(reason: String) -> OpenSandbox {
    Box::new(move || Err(SandboxError::Unusable(reason)))
}

#[cfg(test)]
mod tests;
