//! The `[lean]` section of the configuration, and the grader that it creates.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use datasets::settings::{choice, settings, whole};
use kernel::Axioms;
use sandboxes::Identity;
use sandboxes::lean::{Bounds, Compiler, Jail, Program, Project, SecondChecker};

use super::grader::LeanGrader;
use super::kernel_runner::{KernelRunner, Kernels};
use super::statement::Statements;

/// Why no proof can be judged if no Lean is configured.
pub const NO_LEAN: &str = "there is no Lean here: build the project that sandboxes/lean/README.md describes (Lean 4 with Mathlib), and name its folder with `lean.project` in the verifier's configuration, or --set lean.project=DIR";

/// The header of MiniF2F's statements.
const MINIF2F: &str = "import Mathlib\nimport Aesop\n\nset_option maxHeartbeats 0\n\nopen BigOperators Real Nat Topology Rat";

/// The longest time limit, in seconds: a day. Sums and multiples of it are far below what a clock can represent.
const MAX_SECONDS: u64 = 86_400;
/// The largest memory limit, in MiB: 16 TiB. In bytes it is far below 2^64.
const MAX_MEMORY_MIB: u64 = 1 << 24;

settings! {
    /// How Lean is run.
    #[derive(Eq)]
    pub struct LeanSettings {
        /// Folder of a built Lake project, such as sandboxes/lean.
        pub project: Option<PathBuf>,
        /// Whether proofs are judged: auto (with the project or the command), or none.
        pub backend: Backend,
        /// Program and arguments of a Lean without a project, such as `["lean", "--json"]`. It cannot be combined with project.
        pub command: Vec<String>,
        /// Variables of Lean's environment, in addition to those that it inherits from the verifier: { NAME = "value" }.
        pub env: BTreeMap<String, String>,
        /// Folder in which `command` is started, such as /opt/lean. If it is not set, the folder in which the verifier was started.
        pub dir: Option<PathBuf>,
        /// Distinguishes versions of Lean with the same `command`. It is part of the verdicts' keys.
        pub revision: String,
        /// Headers that are trusted. Other headers may only import, open namespaces and set limits of a proof. The default is MiniF2F's header.
        pub headers: Vec<String> = vec![MINIF2F.to_owned()],
        /// How the axioms of a proof are determined: followed (through everything that is imported), or named (through the proof's own declarations only, for a library
        /// without its proofs).
        pub axioms: AxiomsChoice,
        /// Command of a kernel checker, which every proof has to pass in addition. {module}, {file}, {olean} and {dir} are replaced by those of the proof.
        pub checker: Vec<String>,
        /// How Lean is isolated from the machine: bubblewrap (if it is missing, no proofs are judged), or none (for proofs that you wrote yourself).
        pub jail: JailChoice,
        /// Time limit for a file, in seconds.
        pub seconds: u64 = 60 => whole(1, MAX_SECONDS),
        /// Additional time limit for starting Lean and reading a header, in seconds. Once starts with the same imports were measured, a file that keeps a processor busy
        /// gets twice the shortest of them instead.
        pub start_seconds: u64 = 300 => whole(1, MAX_SECONDS),
        /// Maximum memory of a Lean process and the processes that it starts, in MiB.
        pub memory_mib: u64 = 8_192 => whole(1, MAX_MEMORY_MIB),
        /// Maximum number of Lean processes at a time. 0: the number of workers.
        pub processes: usize,
    }
    beside {
        /// Files that a jail hides from Lean: the service's token file, if it has one.
        pub secrets: Vec<PathBuf>,
        /// The program that checks proofs in separate processes: `rapid-verifier`, which sets this to itself. Without it, proofs are checked in this process; this is
        /// for tests.
        pub kernel: Option<PathBuf>,
    }
}

choice! {
    /// Whether proofs are judged.
    pub enum Backend {
        /// With the project or the command.
        #[default]
        Auto = "auto",
        /// Proofs are not judged.
        None = "none",
    }
}

choice! {
    /// Whether axiom dependencies are checked transitively.
    pub enum AxiomsChoice {
        /// Through everything that is imported.
        #[default]
        Followed = "followed",
        /// Through the proof's own declarations: for a library without its proofs.
        Named = "named",
    }
}

choice! {
    /// What keeps Lean from the rest of the machine.
    pub enum JailChoice {
        /// Bubblewrap, or no proofs are judged.
        #[default]
        Bubblewrap = "bubblewrap",
        /// Nothing: for proofs that the operator has written.
        None = "none",
    }
}

impl LeanSettings {
    /// Whether proofs are judged with nothing that keeps their code from this machine.
    pub fn runs_without_jail(&self) -> bool {
        self.judges_proofs() && self.jail == JailChoice::None
    }

    fn judges_proofs(&self) -> bool {
        self.backend != Backend::None && (self.project.is_some() || !self.command.is_empty())
    }
}

impl LeanGrader {
    /// Creates the grader; `workers` is the number of proofs that are judged at a time. Lean itself is not started.
    ///
    /// # Errors
    /// Why proofs cannot be judged, and what to do.
    pub fn open(settings: &LeanSettings, workers: usize) -> Result<LeanGrader, String> {
        if settings.backend == Backend::None {
            return Err(
                "proofs are not judged here: the configuration says lean.backend = \"none\""
                    .to_owned(),
            );
        }
        if !settings.judges_proofs() {
            return Err(NO_LEAN.to_owned());
        }
        let jail = jail(settings.jail)?;
        let (mut program, pins) = match &settings.project {
            None => {
                let program = Program {
                    command: settings.command.clone(),
                    env: settings.env.clone().into_iter().collect(),
                    dir: settings.dir.clone(),
                    jail,
                    secrets: Vec::new(),
                };
                (program, String::new())
            }
            Some(dir) => {
                let project = Project::open(dir).map_err(|error| error.to_string())?;
                (project.lean(jail), project.pins())
            }
        };
        program.secrets.clone_from(&settings.secrets);
        let bounds = Bounds {
            seconds: settings.seconds,
            start_seconds: settings.start_seconds,
            memory_mib: settings.memory_mib,
        };
        let second_checker = (!settings.checker.is_empty()).then(|| SecondChecker {
            lean: program.clone(),
            command: settings.checker.clone(),
            bounds,
        });
        let folders = program.libraries();
        let identity = identity(settings, &program, &pins, &folders, &program.inherited());
        let axioms = match settings.axioms {
            AxiomsChoice::Followed => Axioms::Followed,
            AxiomsChoice::Named => Axioms::Named,
        };
        let processes = match settings.processes {
            0 => workers,
            given => given,
        };
        let kernel_runner = match &settings.kernel {
            None => KernelRunner::in_process(folders),
            Some(kernel) => KernelRunner::Subprocess(Box::new(Kernels::new(
                kernel,
                folders,
                jail,
                settings.secrets.clone(),
                settings.memory_mib,
                settings.start_seconds,
                processes,
            ))),
        };
        let lean = Arc::new(Compiler::new(program, bounds, processes));
        Ok(LeanGrader {
            lean,
            second_checker,
            axioms,
            headers: settings.headers.clone(),
            kernel_runner,
            statements: Statements::default(),
            jailed: jail != Jail::None,
            identity,
        })
    }
}

fn jail(choice: JailChoice) -> Result<Jail, String> {
    match (choice, Jail::detect()) {
        (JailChoice::None, _) => {
            tracing::warn!("Lean runs without a jail (lean.jail = \"none\"): a proof may run code as this user");
            Ok(Jail::None)
        }
        (JailChoice::Bubblewrap, Jail::None) => Err("a proof may run code while Lean checks it, and bubblewrap (`bwrap`), which keeps it from this machine, does not work here: install bubblewrap, and let this user create user namespaces (containers often forbid it). For proofs that you wrote yourself, set lean.jail = \"none\"".to_owned()),
        (JailChoice::Bubblewrap, found) => Ok(found),
    }
}

/// The identity of a Lean: a digest of everything that the verdicts on all proofs depend on, and a name for people. `libraries` are the program's folders of compiled
/// modules. `inherited` are its variables that are not in `program`. Trusted headers are not part of it: each key has whether its own header is trusted.
pub(super) fn identity(
    settings: &LeanSettings,
    program: &Program,
    pins: &str,
    libraries: &[PathBuf],
    inherited: &[(OsString, OsString)],
) -> Identity {
    let all = format!(
        "{:?}",
        (
            &program.command,
            &program.env,
            &program.dir,
            libraries,
            inherited,
            pins,
            settings.axioms,
            &settings.checker,
            settings.seconds,
            settings.start_seconds,
            settings.memory_mib,
            &settings.revision
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
