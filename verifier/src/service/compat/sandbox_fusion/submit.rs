//! `/submit`: judges a completion as `/v1/verify` does.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use datasets::fields::of_kind;
use datasets::{ProgramTask, ProgramTest, TaskSpec, loose_json};
use sandboxes::defined_names::Stopped;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::Instant;
use verifier_api::{Id, Judgement, Verdict};

use super::super::client::{self, rewards};
use super::deadline::{CLIENT, answer, check_language, deadline, read, refusal, timeout};
use super::wire::{EvalResult, EvalTestCase, RunCodeResponse, SubmitRequest};
use crate::item::JudgeItem;
use crate::judging::{Judge, run_queued};
use crate::pool::ClientId;
use crate::registry::{RegisteredTask, Registry};
use crate::service::backoff::Backoff;
use crate::service::request_context::RequestContext;
use crate::service::{ProblemResponse, Service, request};

/// The forms of a task that a request may bring.
const FORMS: &str = "it must be a whole task with `kind`, a record of HumanEval's form (`prompt`, `entry_point`, `test`), or an object with `test`, an array of \
                     {\"input\": {\"stdin\": …}, \"output\": {\"stdout\": …}} or a text with it in JSON";

pub(in crate::service::compat) async fn submit(
    context: RequestContext,
    body: Body,
) -> Result<Json<EvalResult>, ProblemResponse> {
    let arrival = Instant::now();
    let make = move |service: &Service, request: SubmitRequest| -> Result<_, ProblemResponse> {
        let compile = timeout("config.compile_timeout", request.config.compile_timeout)?;
        let run = timeout("config.run_timeout", request.config.run_timeout)?;
        let until = deadline(arrival, compile, run);
        Ok((item(&request, &service.judge.registry)?, until))
    };
    let (item, until) = read(&context, body, make).await?;
    let service = &context.service;
    let find = || program(&service.judge, context.client, &item);
    let program = async {
        Ok(match item.task.spec {
            TaskSpec::Code(_) | TaskSpec::Program(_) => Some(answer(service, until, find).await),
            TaskSpec::Math(_) | TaskSpec::Lean(_) | TaskSpec::Custom(_) => None,
        })
    };
    // Both at the same time, so that the request waits in the queue only once.
    let (judgement, program) = tokio::try_join!(judgement(&context, &item, until), program)?;
    let extracted = match program {
        Some(found) => found.map_err(|missing| refusal(service, &missing))?,
        None => {
            let extracted = judgement.detail["extracted"].as_str();
            extracted.unwrap_or_default().to_owned()
        }
    };
    CLIENT.count(service, judgement.verdict.name(), 1);
    Ok(Json(result(item.id, extracted, judgement)))
}

/// The completion's judgement, with a reward. Without one it refuses the client: at once if the task can never be judged. Otherwise, also while its grader cannot work,
/// it refuses at the deadline.
async fn judgement(
    context: &RequestContext,
    item: &JudgeItem,
    until: Instant,
) -> Result<Judgement, ProblemResponse> {
    let (service, mut backoff) = (&context.service, Backoff::until(until));
    let withheld = match rewards(context, vec![item.clone()], &mut backoff).await {
        Ok(mut judged) => {
            let judged = judged.pop().ok_or_else(ProblemResponse::internal)?;
            return Ok(judged.judgement);
        }
        Err(withheld) => withheld,
    };
    let unavailable = service.judge.graders.unavailable_grading(&item.task.spec);
    if unavailable.is_none() && !withheld.retryable {
        let reason = format!("the task cannot be judged: {}", withheld.reason);
        return Err(ProblemResponse::bad_field("id", &reason));
    }
    while backoff.wait(service).await {}
    Err(refusal(service, &withheld.reason))
}

/// The completion with its task.
fn item(submitted: &SubmitRequest, registry: &Registry) -> Result<JudgeItem, ProblemResponse> {
    let config = &submitted.config;
    if let Some(language) = &config.language {
        check_language("config.language", language)?;
    }
    if config.custom_extract_logic.is_some() {
        return Err(ProblemResponse::bad_field(
            "config.custom_extract_logic",
            "code of the client's does not run here; leave it out, and the program is found by the service's own rule",
        ));
    }
    let id = request::id(&submitted.id);
    let id = id.map_err(|reason| ProblemResponse::bad_field("id", &reason))?;
    let provided = config.provided_data.as_deref();
    let task = match provided.filter(|data| data.get() != "null") {
        Some(data) => registry
            .inline("config.provided_data.kind", provided_task(data)?)
            .map_err(|(field, reason)| ProblemResponse::bad_field(&field, &reason))?,
        None => registered_task(&submitted.dataset, &id.to_string(), registry)?,
    };
    Ok(JudgeItem {
        id,
        ..client::item(task, String::new(), &submitted.completion)
    })
}

/// The service's task `id` of `dataset`. The id may have the data set's name before it: `HumanEval/3`.
fn registered_task(
    dataset: &str,
    id: &str,
    registry: &Registry,
) -> Result<Arc<RegisteredTask>, ProblemResponse> {
    let named = |id: &str| registry.get(&format!("{dataset}/{id}"));
    let number = id
        .split_once('/')
        .filter(|(before, _)| before.eq_ignore_ascii_case(dataset))
        .map(|(_, number)| number);
    named(id).or_else(|| named(number?)).ok_or_else(|| {
        let reason = registry.missing(&format!("{dataset}/{id}"));
        ProblemResponse::bad_field("id", &reason)
    })
}

/// The fields that tell the forms of a record apart.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Form {
    kind: Option<Box<RawValue>>,
    prompt: Option<String>,
    entry_point: Option<String>,
    test: Option<Box<RawValue>>,
}

/// A test of SandboxFusion's form `GeneralStdioTest`.
#[derive(Deserialize)]
struct StdioTest {
    input: Stdin,
    output: Stdout,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stdin {
    stdin: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stdout {
    stdout: String,
}

/// The task that a request brings.
fn provided_task(data: &RawValue) -> Result<TaskSpec, ProblemResponse> {
    const FIELD: &str = "config.provided_data";
    let wrong = |reason: &str| ProblemResponse::bad_field(FIELD, reason);
    let form: Form = serde_json::from_str(data.get()).map_err(|_| wrong(FORMS))?;
    let whole_task = |task: &RawValue| {
        TaskSpec::inline(task).map_err(|(field, reason)| {
            ProblemResponse::bad_field(&field.replacen("task", FIELD, 1), &reason)
        })
    };
    if form.kind.is_some() {
        return whole_task(data);
    }
    let test = form.test.ok_or_else(|| wrong(FORMS))?;
    let text: Option<String> = of_kind(&test);
    // The array may be in a text, as tables have it.
    let list = loose_json::repaired(text.as_deref().unwrap_or(test.get()).into());
    if let Ok(tests) = serde_json::from_slice::<Vec<StdioTest>>(&list) {
        let tests: Vec<ProgramTest> = tests
            .into_iter()
            .map(|test| ProgramTest {
                stdin: test.input.stdin,
                stdout: test.output.stdout,
            })
            .collect();
        if tests.is_empty() {
            return Err(wrong("`test` is empty; give at least one test"));
        }
        let time_limit = None;
        return Ok(TaskSpec::Program(ProgramTask { tests, time_limit }));
    }
    match (form.prompt, form.entry_point, text) {
        (Some(prompt), Some(entry_point), Some(test)) => {
            // Tests may use the definitions that stand before the function.
            let head = format!("def {entry_point}(");
            let preamble = prompt.rfind(&head).map_or("", |at| prompt[..at].trim());
            let imports = (!preamble.is_empty()).then_some(preamble);
            let task = json!({
                "kind": "code",
                "entry_point": entry_point,
                "prefix": prompt,
                "imports": imports.into_iter().collect::<Vec<_>>(),
                "asserts": [test],
            });
            let task = RawValue::from_string(task.to_string()).map_err(|_| wrong(FORMS))?;
            whole_task(&task)
        }
        _ => Err(wrong(FORMS)),
    }
}

/// The program in the completion; empty if there is none. Verdicts are cached without the program, so the sandbox parses the completion again.
async fn program(judge: &Arc<Judge>, client: ClientId, item: &JudgeItem) -> Result<String, String> {
    let (judging, item) = (Arc::clone(judge), item.clone());
    let program = run_queued(judge, client, move |first_pass, _| {
        let graders = &judging.graders;
        match graders.program(&item.task, &item.completion, first_pass) {
            Ok(program) => Ok(program.unwrap_or_default()),
            Err(Stopped::OutOfTime | Stopped::OutOfMemory) => Ok(String::new()),
            Err(Stopped::Failed(error)) => Err(error),
        }
    });
    program.await
}

fn result(id: Id, extracted_code: String, judgement: Judgement) -> EvalResult {
    let (verdict, detail) = (judgement.verdict, judgement.detail);
    let accepted = verdict == Verdict::Correct;
    // Answers and proofs count as one test.
    let passing = judgement.passed.unwrap_or(u32::from(accepted));
    let test = |verdict: Verdict, test_info| EvalTestCase {
        passed: verdict == Verdict::Correct,
        exec_info: exec_info(verdict),
        test_info,
    };
    let mut tests = vec![test(Verdict::Correct, None); passing as usize];
    if !accepted {
        tests.push(test(verdict, Some(detail.clone())));
    }
    EvalResult {
        id,
        accepted,
        extracted_code,
        tests,
        extra: json!({ "verdict": verdict, "detail": detail, "passed": judgement.passed, "total": judgement.total, "key": judgement.key }),
    }
}

/// A test's run, as far as the verdict tells.
fn exec_info(verdict: Verdict) -> RunCodeResponse {
    let return_code = match verdict {
        Verdict::Correct => Some(0),
        Verdict::Timeout => None,
        _ => Some(1),
    };
    RunCodeResponse::new(return_code, Duration::ZERO, String::new(), String::new())
}
