//! `/run_code`: runs a program, and returns what it wrote.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use sandboxes::{End, MAX_STREAM_BYTES, Run};
use tokio::time::Instant;

use super::deadline::{CLIENT, answer, check_language, deadline, read, refusal, timeout};
use super::wire::{RunCodeRequest, RunCodeResponse};
use crate::grade::code::ProgramRun;
use crate::judging::{Judge, run_queued};
use crate::pool::ClientId;
use crate::service::request_context::RequestContext;
use crate::service::{ProblemResponse, Service};

/// Fuel per second of a request's timeout. The default limits of a program are 20 G of fuel here, and 10 s in SandboxFusion.
const FUEL_PER_SECOND: f64 = 2e9;
/// Maximum fuel of a program, in multiples of the service's limit.
const MAX_FUEL: u64 = 10;
/// Minimum memory of a program, in bytes: what the interpreter itself needs.
const MIN_MEMORY: u64 = 256 << 20;
/// Exit statuses, as a shell gives them, of a program that the kernel kills and of one that aborts.
const KILLED: i32 = 137;
const ABORTED: i32 = 134;

pub(in crate::service::compat) async fn run_code(
    context: RequestContext,
    body: Body,
) -> Result<Json<RunCodeResponse>, ProblemResponse> {
    let arrival = Instant::now();
    let make = move |service: &Service, request: RunCodeRequest| -> Result<_, ProblemResponse> {
        let compile = timeout("compile_timeout", request.compile_timeout)?;
        let run = timeout("run_timeout", request.run_timeout)?;
        let until = deadline(arrival, compile, run);
        Ok((Arc::new(program(service, request, run)?), until))
    };
    let (program, until) = read(&context, body, make).await?;
    let service = &context.service;
    let attempt = || attempt(&service.judge, context.client, &program);
    let ran = answer(service, until, attempt).await;
    let (run, time) = ran.map_err(|missing| refusal(service, &missing))?;
    CLIENT.count(service, "run", 1);
    Ok(Json(response(run, time)))
}

/// The program of a request, with its limits.
fn program(
    service: &Service,
    request: RunCodeRequest,
    seconds: f64,
) -> Result<ProgramRun, ProblemResponse> {
    check_language("language", &request.language)?;
    let no_files = "programs have no files here; let them read standard input and write standard output, and leave it out";
    let no_arguments = "programs have no arguments here; leave it out";
    for (field, is_empty, reason) in [
        ("files", request.files.is_empty(), no_files),
        ("fetch_files", request.fetch_files.is_empty(), no_files),
        ("args", request.args.is_empty(), no_arguments),
    ] {
        if !is_empty {
            return Err(ProblemResponse::bad_field(field, reason));
        }
    }
    let stdin = request.stdin.unwrap_or_default();
    if stdin.len() > MAX_STREAM_BYTES {
        let reason = format!("it may have {MAX_STREAM_BYTES} bytes at most");
        return Err(ProblemResponse::bad_field("stdin", &reason));
    }
    let limits = service.judge.graders.limits();
    let memory = request
        .memory_limit_mb
        .and_then(|mib| u64::try_from(mib).ok())
        .filter(|mib| *mib > 0)
        .map_or(limits.memory, |mib| mib.saturating_mul(1 << 20));
    Ok(ProgramRun {
        source: request.code,
        stdin,
        fuel: ((seconds * FUEL_PER_SECOND) as u64).clamp(1, limits.fuel.saturating_mul(MAX_FUEL)),
        memory: memory.max(MIN_MEMORY).min(limits.memory),
    })
}

/// Runs the program once, in the order of the queue. Returns the run and its time. Nothing is cached.
async fn attempt(
    judge: &Arc<Judge>,
    client: ClientId,
    program: &Arc<ProgramRun>,
) -> Result<(Run, Duration), String> {
    let grader = judge.graders.code().map_err(|unavailable| {
        let reason = unavailable.detail["reason"].as_str();
        reason.unwrap_or("code cannot be judged now").to_owned()
    })?;
    let program = Arc::clone(program);
    run_queued(judge, client, move |first_pass, abandoned| {
        let started = std::time::Instant::now();
        let attempt = grader.attempt(first_pass, Some(abandoned));
        let run = attempt.run_program(&program)?;
        Ok((run, started.elapsed()))
    })
    .await
}

/// A run in the form of SandboxFusion.
fn response(run: Run, time: Duration) -> RunCodeResponse {
    let (return_code, stderr) = match run.end {
        End::Exited { status, stderr } => (Some(status), stderr),
        End::OutOfFuel | End::OutOfTime => (None, String::new()),
        End::OutOfMemory | End::MachineOutOfMemory => (
            Some(KILLED),
            "MemoryError: the program was stopped".to_owned(),
        ),
        End::TooMuchOutput => (
            Some(1),
            format!("OSError: more than {MAX_STREAM_BYTES} bytes of standard output"),
        ),
        End::Died(how) => (Some(ABORTED), how),
        // A whole program does not end like this.
        End::Unloadable { kind, message } => (Some(1), format!("{kind}: {message}")),
        End::Completed | End::Uncalled | End::Watched => (Some(ABORTED), String::new()),
    };
    RunCodeResponse::new(return_code, time, run.stdout, stderr)
}
