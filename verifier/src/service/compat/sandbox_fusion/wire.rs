//! SandboxFusion's bodies.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use verifier_api::Id;

/// A program to run.
#[derive(Debug, Clone, PartialEq, Deserialize, ToSchema)]
pub(in crate::service) struct RunCodeRequest {
    /// Python source.
    pub code: String,
    /// What the program reads from standard input.
    pub stdin: Option<String>,
    /// `python`.
    pub language: String,
    /// Seconds. Nothing is compiled here; a request is held for this time too. 10 by default.
    pub compile_timeout: Option<f64>,
    /// Seconds that the program may run; one stands for 2 G of fuel. 10 by default.
    pub run_timeout: Option<f64>,
    /// MiB of memory, if that is less than the service's limit. Negative numbers stand for no limit. Without effect in Docker with `docker.runtime`.
    #[serde(rename = "memory_limit_MB")]
    pub memory_limit_mb: Option<i64>,
    /// Empty: programs have no files here.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub files: BTreeMap<String, Option<String>>,
    /// Empty: programs have no files here.
    #[serde(default)]
    pub fetch_files: Vec<String>,
    /// Empty: these are arguments of pytest.
    #[serde(default)]
    pub args: Vec<String>,
}

/// What a program wrote and how it ended.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(in crate::service) struct RunCodeResponse {
    pub status: RunStatus,
    /// Empty.
    pub message: String,
    /// `null`: nothing is compiled.
    #[schema(value_type = Option<Object>)]
    pub compile_result: Option<CommandRunResult>,
    pub run_result: CommandRunResult,
    /// `null`.
    pub executor_pod_name: Option<String>,
    /// Empty.
    #[schema(value_type = Object)]
    pub files: BTreeMap<String, String>,
}

impl RunCodeResponse {
    /// A program that ended with this exit status; with none, its time was up.
    pub(super) fn new(
        return_code: Option<i32>,
        time: Duration,
        stdout: String,
        stderr: String,
    ) -> Self {
        RunCodeResponse {
            status: match return_code {
                Some(0) => RunStatus::Success,
                _ => RunStatus::Failed,
            },
            message: String::new(),
            compile_result: None,
            run_result: CommandRunResult {
                status: match return_code {
                    Some(_) => CommandStatus::Finished,
                    None => CommandStatus::TimeLimitExceeded,
                },
                execution_time: time.as_secs_f64(),
                return_code,
                stdout,
                stderr,
            },
            executor_pod_name: None,
            files: BTreeMap::new(),
        }
    }
}

/// Whether a program succeeded. `SandboxError` is never sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub(in crate::service) enum RunStatus {
    Success,
    Failed,
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(in crate::service) struct CommandRunResult {
    pub status: CommandStatus,
    /// Seconds.
    pub execution_time: f64,
    /// The exit status; `null` if the program was stopped because its time was up.
    pub return_code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// How a process ended. `Error` is never sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub(in crate::service) enum CommandStatus {
    Finished,
    TimeLimitExceeded,
}

/// A completion to judge.
#[derive(Debug, Clone, Deserialize, ToSchema)]
pub(in crate::service) struct SubmitRequest {
    /// A data set that the service has; any text if `config.provided_data` has the task.
    pub dataset: String,
    /// The task's id in the data set, text or a number. It is returned as it was written.
    #[schema(value_type = Object)]
    pub id: Box<RawValue>,
    /// The model's completion.
    pub completion: String,
    #[serde(default)]
    pub config: TestConfig,
}

/// How a completion is judged. Other fields are ignored.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
pub(in crate::service) struct TestConfig {
    /// `python`.
    pub language: Option<String>,
    /// Seconds for which a request is held, besides `run_timeout`. 10 by default.
    pub compile_timeout: Option<f64>,
    /// Seconds for which a request is held, besides `compile_timeout`. 10 by default. The limits of a program are the service's own.
    pub run_timeout: Option<f64>,
    /// `null`: code of the client's does not run here.
    pub custom_extract_logic: Option<String>,
    /// The task itself: a whole task as in `/v1/verify`, a record of HumanEval's form, or an object with `test`, an array of `{"input": {"stdin": …}, "output": {"stdout": …}}`.
    #[schema(value_type = Option<Object>)]
    pub provided_data: Option<Box<RawValue>>,
}

/// A verdict.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::service) struct EvalResult {
    /// The request's.
    #[schema(value_type = Object)]
    pub id: Id,
    /// Whether the completion is correct.
    pub accepted: bool,
    /// The program, answer or proof that was found in the completion.
    pub extracted_code: String,
    /// The tests up to the first that failed.
    pub tests: Vec<EvalTestCase>,
    /// The verdict as `/v1/verify` gives it: `verdict`, `detail`, `passed`, `total`, `key`.
    #[schema(value_type = Object)]
    pub extra: Json,
}

/// One test of a completion.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(in crate::service) struct EvalTestCase {
    pub passed: bool,
    pub exec_info: RunCodeResponse,
    /// Why it failed.
    #[schema(value_type = Option<Object>)]
    pub test_info: Option<Json>,
}
