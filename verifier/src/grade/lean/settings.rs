//! The `[lean]` section of the configuration, and the grader that follows from it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use sandboxes::Identity;
use sandboxes::lean::{Bounds, Jail, Lean, Plain, Pool, Program, Project, Replay, pool};
use serde::{Deserialize, Serialize};

use super::{Axioms, LeanGrader, NO_LEAN};

/// The header of MiniF2F's statements.
const MINIF2F: &str = "import Mathlib\nimport Aesop\n\nset_option maxHeartbeats 0\n\nopen BigOperators Real Nat Topology Rat";

/// How Lean is run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Folder of a built Lake project, such as `sandboxes/lean` describes.
    pub project: Option<PathBuf>,
    /// How proofs reach Lean.
    pub backend: Backend,
    /// Program and arguments of a Lean that is no project's: a REPL, or what reads `--json FILE`.
    pub command: Vec<String>,
    /// Variables of its environment.
    pub env: BTreeMap<String, String>,
    /// Where it is started; where the verifier was started if not given.
    pub dir: Option<PathBuf>,
    /// What tells one Lean from another where `command` does not: part of what verdicts are cached under.
    pub revision: String,
    /// Headers that are trusted, and whose processes are kept. Others may import, open and set options, and cost a process each time.
    pub headers: Vec<String>,
    /// How it is seen what a proof rests on.
    pub axioms: Axioms,
    /// A kernel checker's command, with `{module}`, `{file}`, `{olean}` and `{dir}` for what it checks.
    pub checker: Vec<String>,
    /// What keeps Lean from the rest of the machine.
    pub jail: JailChoice,
    /// Files that a jail hides from Lean. No key: the service's token file, where it has one.
    #[serde(skip)]
    pub secrets: Vec<PathBuf>,
    /// Seconds for a proof.
    pub seconds: u64,
    /// Seconds for starting Lean and reading a header.
    pub start_seconds: u64,
    /// MiB of memory of a Lean process.
    pub memory_mib: u64,
    /// REPL processes at a time; as many as workers where 0.
    pub processes: usize,
    /// Proofs that a REPL process reads before another takes its place.
    pub uses: u32,
}

/// How proofs reach Lean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// The project's REPL where it has built one, else a process each.
    #[default]
    Auto,
    /// REPL processes that are kept.
    Repl,
    /// A process each.
    Plain,
    /// Proofs are not judged.
    None,
}

/// What keeps Lean from the rest of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JailChoice {
    /// Bubblewrap where it works.
    #[default]
    Auto,
    /// Bubblewrap, or no proofs are judged.
    Bubblewrap,
    /// Nothing.
    None,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            project: None,
            backend: Backend::Auto,
            command: Vec::new(),
            env: BTreeMap::new(),
            dir: None,
            revision: String::new(),
            headers: vec![MINIF2F.to_owned()],
            axioms: Axioms::Printed,
            checker: Vec::new(),
            jail: JailChoice::Auto,
            secrets: Vec::new(),
            seconds: 60,
            start_seconds: 300,
            memory_mib: 8_192,
            processes: 0,
            uses: 200,
        }
    }
}

impl LeanGrader {
    /// The grader of these settings; `workers` is how many proofs are judged at a time. Lean itself is not started.
    ///
    /// # Errors
    /// Why there is none, and what to do.
    pub fn open(settings: &Settings, workers: usize) -> Result<LeanGrader, String> {
        if settings.backend == Backend::None {
            return Err(
                "proofs are not judged here: the configuration says lean.backend = \"none\""
                    .to_owned(),
            );
        }
        let jail = jail(settings.jail)?;
        let program = Program {
            command: settings.command.clone(),
            env: settings.env.clone().into_iter().collect(),
            dir: settings.dir.clone(),
            jail,
            secrets: settings.secrets.clone(),
        };
        let (plain, repl, pins) = match &settings.project {
            None if settings.command.is_empty() => return Err(NO_LEAN.to_owned()),
            None if settings.backend == Backend::Repl => (None, Some(program), String::new()),
            None => (Some(program), None, String::new()),
            Some(dir) => {
                let project = Project::open(dir).map_err(|error| error.to_string())?;
                let hiding = |program: Program| Program {
                    secrets: settings.secrets.clone(),
                    ..program
                };
                let repl = project
                    .repl(jail)
                    .filter(|_| settings.backend != Backend::Plain);
                let lean = hiding(project.lean(jail));
                (Some(lean), repl.map(hiding), project.pins())
            }
        };
        if settings.backend == Backend::Repl && repl.is_none() {
            return Err("the Lean project has built no REPL: run `lake build repl` in it, or set lean.backend = \"plain\"".to_owned());
        }

        let bounds = Bounds {
            seconds: settings.seconds,
            start_seconds: settings.start_seconds,
            memory_mib: settings.memory_mib,
        };
        let replay = match (settings.checker.as_slice(), &plain) {
            ([], _) => None,
            (_, None) => return Err("lean.checker needs a Lean that compiles files: give lean.project, or lean.backend = \"plain\"".to_owned()),
            (command, Some(lean)) => Some(Replay {
                lean: lean.clone(),
                command: command.to_vec(),
                bounds,
            }),
        };
        let program = repl.as_ref().or(plain.as_ref()).cloned().ok_or(NO_LEAN)?;
        let identity = identity(settings, &program, repl.is_some(), &pins);
        let lean: Arc<dyn Lean> = if repl.is_some() {
            Arc::new(Pool::new(pool::Settings {
                program,
                bounds,
                processes: if settings.processes == 0 {
                    workers
                } else {
                    settings.processes
                },
                uses: settings.uses,
                headers: settings.headers.clone(),
            }))
        } else {
            Arc::new(Plain { program, bounds })
        };
        Ok(LeanGrader {
            lean,
            replay,
            axioms: settings.axioms,
            headers: settings.headers.clone(),
            identity,
        })
    }
}

fn jail(choice: JailChoice) -> Result<Jail, String> {
    match (choice, Jail::found()) {
        (JailChoice::None, _) => Ok(Jail::None),
        (JailChoice::Bubblewrap, Jail::None) => Err("lean.jail is \"bubblewrap\", and `bwrap` does not work here: install bubblewrap, and let this user make user namespaces (containers often forbid it)".to_owned()),
        (JailChoice::Auto, Jail::None) => {
            tracing::warn!("Lean runs without a jail, since bubblewrap (`bwrap`) does not work here: proofs are kept from running code by their words alone");
            Ok(Jail::None)
        }
        (_, found) => Ok(found),
    }
}

/// What verdicts depend on; for people, which Lean it is.
fn identity(settings: &Settings, program: &Program, repl: bool, pins: &str) -> Identity {
    let Settings {
        axioms,
        checker,
        seconds,
        start_seconds,
        memory_mib,
        revision,
        ..
    } = settings;
    let all = format!(
        "{:?}",
        (
            &program.command,
            &program.env,
            pins,
            axioms,
            checker,
            seconds,
            start_seconds,
            memory_mib,
            revision
        )
    );
    let toolchain = pins.lines().next().map(str::to_owned);
    let name = toolchain.unwrap_or_else(|| program.command.join(" "));
    let jail = match program.jail {
        Jail::None => String::new(),
        jail => format!(", in {}", jail.name()),
    };
    Identity {
        backend: if repl { "lean-repl" } else { "lean" }.to_owned(),
        interpreter: format!("{name}{jail}"),
        digest: blake3::hash(all.as_bytes()).to_hex().to_string(),
    }
}
