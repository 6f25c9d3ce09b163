//! The `[lean]` section of the configuration, and the grader that follows from it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use kernel::Axioms;
use sandboxes::Identity;
use sandboxes::lean::{Bounds, Compiler, Jail, Program, Project, Replay};
use serde::{Deserialize, Serialize};

use super::checker::{Checker, Kernels};
use super::statement::Statements;
use super::{LeanGrader, NO_LEAN};

/// The header of MiniF2F's statements.
const MINIF2F: &str = "import Mathlib\nimport Aesop\n\nset_option maxHeartbeats 0\n\nopen BigOperators Real Nat Topology Rat";

/// How Lean is run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Folder of a built Lake project, such as `sandboxes/lean` describes.
    pub project: Option<PathBuf>,
    /// Whether proofs are judged.
    pub backend: Backend,
    /// Program and arguments of a Lean that is no project's, such as `lean --json`.
    pub command: Vec<String>,
    /// Variables of its environment.
    pub env: BTreeMap<String, String>,
    /// Where it is started; where the verifier was started if not given.
    pub dir: Option<PathBuf>,
    /// What tells one Lean from another where `command` does not: part of what verdicts are cached under.
    pub revision: String,
    /// Headers that are trusted. Others may import, open and set options.
    pub headers: Vec<String>,
    /// How far it is followed what a proof rests on.
    pub axioms: AxiomsChoice,
    /// A kernel checker's command, with `{module}`, `{file}`, `{olean}` and `{dir}` for what it checks.
    pub checker: Vec<String>,
    /// What keeps Lean from the rest of the machine.
    pub jail: JailChoice,
    /// Files that a jail hides from Lean. No key: the service's token file, where it has one.
    #[serde(skip)]
    pub secrets: Vec<PathBuf>,
    /// The program that checks proofs in processes of their own: this project's `rapid-verifier`. No key: the program names itself. Where it is not given they are checked
    /// in this process, which is for tests.
    #[serde(skip)]
    pub kernel: Option<PathBuf>,
    /// Seconds for a file, besides those for starting Lean and reading its header.
    pub seconds: u64,
    /// Seconds for starting Lean and reading a header.
    pub start_seconds: u64,
    /// MiB of memory of a Lean process.
    pub memory_mib: u64,
    /// Lean processes at a time; as many as workers where 0.
    pub processes: usize,
}

/// Whether proofs are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// With the project or the command.
    #[default]
    Auto,
    /// Proofs are not judged.
    None,
}

/// How far it is followed what a proof rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AxiomsChoice {
    /// Through everything that is imported.
    #[default]
    Followed,
    /// Through the proof's own declarations: for a Lean whose library comes without its proofs.
    Named,
}

/// What keeps Lean from the rest of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JailChoice {
    /// Bubblewrap, or no proofs are judged.
    #[default]
    Bubblewrap,
    /// Nothing: for proofs that the operator has written.
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
            axioms: AxiomsChoice::Followed,
            checker: Vec::new(),
            jail: JailChoice::Bubblewrap,
            secrets: Vec::new(),
            kernel: None,
            seconds: 60,
            start_seconds: 300,
            memory_mib: 8_192,
            processes: 0,
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
        if settings.project.is_none() && settings.command.is_empty() {
            return Err(NO_LEAN.to_owned());
        }
        let jail = jail(settings.jail)?;
        let (program, pins) = match &settings.project {
            None => {
                let program = Program {
                    command: settings.command.clone(),
                    env: settings.env.clone().into_iter().collect(),
                    dir: settings.dir.clone(),
                    jail,
                    secrets: settings.secrets.clone(),
                };
                (program, String::new())
            }
            Some(dir) => {
                let project = Project::open(dir).map_err(|error| error.to_string())?;
                let program = Program {
                    secrets: settings.secrets.clone(),
                    ..project.lean(jail)
                };
                (program, project.pins())
            }
        };
        let bounds = Bounds {
            seconds: settings.seconds,
            start_seconds: settings.start_seconds,
            memory_mib: settings.memory_mib,
        };
        let replay = (!settings.checker.is_empty()).then(|| Replay {
            lean: program.clone(),
            command: settings.checker.clone(),
            bounds,
        });
        let identity = identity(settings, &program, &pins);
        let axioms = match settings.axioms {
            AxiomsChoice::Followed => Axioms::Followed,
            AxiomsChoice::Named => Axioms::Named,
        };
        let folders = program.libraries();
        let processes = match settings.processes {
            0 => workers,
            given => given,
        };
        let checker = match &settings.kernel {
            None => Checker::here(folders),
            Some(kernel) => Checker::Apart(Kernels::new(
                kernel,
                folders,
                jail,
                settings.secrets.clone(),
                settings.memory_mib,
                settings.start_seconds,
                processes,
            )),
        };
        let lean = Arc::new(Compiler::new(program, bounds, processes));
        Ok(LeanGrader {
            lean,
            replay,
            axioms,
            headers: settings.headers.clone(),
            checker,
            statements: Statements::default(),
            identity,
        })
    }
}

fn jail(choice: JailChoice) -> Result<Jail, String> {
    match (choice, Jail::found()) {
        (JailChoice::None, _) => {
            tracing::warn!("Lean runs without a jail (lean.jail = \"none\"): a proof may run code as this user");
            Ok(Jail::None)
        }
        (JailChoice::Bubblewrap, Jail::None) => Err("a proof may run code while Lean checks it, and bubblewrap (`bwrap`), which keeps it from this machine, does not work here: install bubblewrap, and let this user make user namespaces (containers often forbid it). For proofs that you wrote yourself, set lean.jail = \"none\"".to_owned()),
        (JailChoice::Bubblewrap, found) => Ok(found),
    }
}

/// What verdicts depend on; for people, which Lean it is.
fn identity(settings: &Settings, program: &Program, pins: &str) -> Identity {
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
        backend: "lean".to_owned(),
        interpreter: format!("{name}{jail}"),
        digest: blake3::hash(all.as_bytes()).to_hex().to_string(),
    }
}
