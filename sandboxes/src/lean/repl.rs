//! A REPL process: leanprover-community/repl's protocol.
//!
//! A command is a line of JSON and an empty line, the answer a JSON object. `{"cmd": TEXT}` reads a text from nothing and answers with the number of the environment
//! that it left; `{"cmd": TEXT, "env": N}` reads one on top of it. Environments are kept until the process ends, which is why it must end now and then.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;

use super::process::Process;
use super::{Bounds, LeanError, Message, Program, Severity};

/// A process that has read a header.
pub(super) struct Repl {
    process: Process,
    /// The header, as it was given.
    pub(super) header: String,
    env: u64,
    /// Bodies that it has read.
    pub(super) uses: u32,
}

/// What the REPL answers.
#[derive(Debug, Deserialize)]
struct Answer {
    env: Option<u64>,
    #[serde(default)]
    messages: Vec<Message>,
    /// In place of everything else, where it did not understand.
    message: Option<String>,
}

impl Repl {
    /// Starts a process and has it read `header`; with what it said of it.
    pub(super) fn start(
        program: &Program,
        bounds: &Bounds,
        header: &str,
    ) -> Result<(Self, Vec<Message>), LeanError> {
        let command = program.command(&program.command, &[], None);
        let mut process = Process::start(command, program.jail, bounds.memory_mib)?;
        let (env, messages) = ask(&mut process, header, None, bounds.start_seconds)?;
        let repl = Self {
            process,
            header: header.to_owned(),
            env,
            uses: 0,
        };
        Ok((repl, messages))
    }

    /// What Lean says of `body` behind the header.
    pub(super) fn read(&mut self, body: &str, bounds: &Bounds) -> Result<Vec<Message>, LeanError> {
        self.uses += 1;
        let (_, messages) = ask(&mut self.process, body, Some(self.env), bounds.seconds)?;
        Ok(messages)
    }

    /// MiB of resident memory.
    pub(super) fn memory_mib(&self) -> u64 {
        self.process.memory_mib()
    }
}

/// Has the process read a text. A mark that nobody can foresee is printed at its end: the answer to another text, or one that was made up, does not have it.
fn ask(
    process: &mut Process,
    text: &str,
    env: Option<u64>,
    seconds: u64,
) -> Result<(u64, Vec<Message>), LeanError> {
    let mark = format!("end of {:016x}{:016x}", random(), random());
    let text = format!("{}\n\n#print \"{mark}\"\n", text.trim_end());
    let line = text.lines().count();
    let mut command = json!({ "cmd": text });
    if let Some(env) = env {
        command["env"] = json!(env);
    }
    process.write(format!("{command}\n\n").into_bytes());
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let (answer, all) = process.read_until(deadline, seconds, |all| {
        let ends = all.trim_ascii_end().ends_with(b"}");
        let mut objects = serde_json::Deserializer::from_slice(all).into_iter::<Answer>();
        match ends.then(|| objects.next())?? {
            Err(error) if error.is_eof() => None,
            answer => Some(answer),
        }
    })?;
    let Some(answer) = answer else {
        let said = String::from_utf8_lossy(&all);
        let last = said
            .trim()
            .lines()
            .next_back()
            .map_or_else(|| process.complaint(), str::to_owned);
        return Err(LeanError::Crashed(format!(
            "the REPL ended: {}",
            last.chars().take(300).collect::<String>()
        )));
    };
    let answer = answer
        .map_err(|error| LeanError::Crashed(format!("the REPL's answer is not JSON: {error}")))?;
    if let Some(message) = answer.message {
        return Err(LeanError::Crashed(format!("the REPL says: {message}")));
    }
    let is_mark = |message: &Message| {
        message.severity == Severity::Information
            && message.pos.line == line
            && message.data.trim() == mark
    };
    let (marks, messages): (Vec<Message>, Vec<Message>) =
        answer.messages.into_iter().partition(is_mark);
    match (answer.env, marks.len()) {
        (Some(env), 1) => Ok((env, messages)),
        _ => Err(LeanError::Crashed(
            "the REPL's answer is not to what it was asked".into(),
        )),
    }
}

fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
