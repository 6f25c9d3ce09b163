//! The ranks of a launcher, as this process's environment tells them: `mpirun` and `mpiexec` of Open MPI and MPICH, and Slurm's `srun`.

use std::sync::Arc;
use std::time::Duration;

use engine::backend::ranks::ProcessGroup;
use engine::backend::ranks::mpi::{self, Mpi};
use engine::{EngineError, Leader, LocalDevice, follow};

use crate::interrupt::StopSignal;

/// How long a rank waits for the others, in seconds, unless `RAPID_RANK_TIMEOUT_S` has another number.
const DEFAULT_TIMEOUT_S: u64 = 600;

/// The variable that names the MPI library's file.
const LIBRARY: &str = "RAPID_MPI_LIBRARY";

/// This process among the ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct World {
    /// Number of ranks.
    pub size: usize,
    /// This process's number among those of its machine.
    pub local: usize,
}

/// Why the environment of a launcher cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// The launcher has to be called in another way, or a variable changed.
    #[error("{0}")]
    Launcher(String),
    /// MPI, or another rank.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

fn refused<T>(reason: String) -> Result<T, WorldError> {
    Err(WorldError::Launcher(reason))
}

/// The variables of a launcher: size, number on the machine.
const LAUNCHERS: [(&str, &str); 3] = [
    // Open MPI, and its mpirun in a Slurm job.
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    // MPICH, Intel MPI, and srun --mpi=pmi2.
    ("PMI_SIZE", "MPI_LOCALRANKID"),
    // A step of Slurm. The variables of an sbatch script alone have no STEP in their names.
    ("SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"),
];

/// Variables that say how ranks find each other; the last one, that somebody chose the MPI library. Only srun may set none of them.
const CONNECTED: [&str; 5] = [
    "OMPI_COMM_WORLD_SIZE",
    "PMI_SIZE",
    "PMIX_RANK",
    "SLURM_MPI_TYPE",
    LIBRARY,
];

impl World {
    /// The ranks of this process's environment; `None` if it was started alone.
    ///
    /// # Errors
    /// [`WorldError`] for ranks that cannot work together.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, WorldError> {
        let number = |name: &str| variable(name).and_then(|value| value.parse::<usize>().ok());
        // srun starts the ranks of any MPI, and not every MPI tells a rank its number on the machine.
        let local = |name: &str| number(name).or_else(|| number("SLURM_LOCALID"));
        let found = LAUNCHERS
            .iter()
            .find_map(|(size, name)| Some((number(size)?, local(name).unwrap_or(0))));
        if let Some((size, local)) = found {
            return match size {
                1 => Ok(None),
                _ if !size.is_power_of_two() => refused(format!(
                    "the launcher started {size} ranks; start a power of two (2, 4, 8, …)"
                )),
                // An MPI that is not told of the other ranks ends the process, or takes it for the only one.
                _ if !CONNECTED.iter().any(|name| variable(name).is_some()) => refused(format!(
                    "srun started {size} processes without telling them of each other; give it --mpi=pmix for Open MPI, or --mpi=pmi2 for MPICH and Intel MPI, or name an MPI library that needs neither in RAPID_MPI_LIBRARY"
                )),
                _ => Ok(Some(Self { size, local })),
            };
        }
        match (variable("TORCHELASTIC_RUN_ID"), number("WORLD_SIZE")) {
            (Some(_), Some(size)) if size > 1 => refused(format!(
                "torchrun started {size} processes, which cannot find each other, since it brings no MPI; start the ranks with `mpirun -n {size} rapid …` or `srun -n {size} rapid …`"
            )),
            _ => Ok(None),
        }
    }
}

/// What this process does.
pub enum Role {
    /// It computes alone.
    Alone,
    /// It is rank 0, and has the others compute with it.
    Leads(Leader),
    /// It has computed what rank 0 asked for, and rank 0 has ended.
    Followed,
}

/// Joins the ranks that a launcher started. On all but rank 0, computes what rank 0 asks for and returns when it ends. `threads` are those of the CPU backend.
///
/// # Errors
/// [`WorldError`]. If the ranks lose each other, the launcher is told to end all of them.
pub fn join(threads: Option<usize>) -> Result<Role, WorldError> {
    let variable = |name: &str| std::env::var(name).ok();
    let Some(world) = World::of(variable)? else {
        return Ok(Role::Alone);
    };
    let deadline = timeout(variable("RAPID_RANK_TIMEOUT_S"))?;
    let mpi = Mpi::join(variable(LIBRARY).as_deref(), deadline)?;
    if mpi.size() != world.size {
        return refused(format!(
            "the launcher started {} ranks, but {} knows of {}, so the two do not belong together; name the launcher's own library in RAPID_MPI_LIBRARY, or give srun --mpi=pmix for Open MPI, --mpi=pmi2 for MPICH",
            world.size,
            mpi.name(),
            mpi.size()
        ));
    }
    let ranks: Arc<dyn ProcessGroup> = Arc::new(mpi);
    if ranks.rank() == 0 {
        return Ok(Role::Leads(Leader::new(ranks)?));
    }
    let local = LocalDevice {
        gpu: world.local,
        threads,
    };
    let runtime = tokio::runtime::Runtime::new().map_err(|error| {
        EngineError::Ranks(format!(
            "the asynchronous runtime could not be started: {error}"
        ))
    })?;
    {
        // Rank 0 stops at the next safe point, and until then it needs this rank.
        let _entered = runtime.enter();
        StopSignal::ignored();
    }
    match follow(&ranks, local) {
        Ok(()) => Ok(Role::Followed),
        Err(error) => {
            crate::stderr::say(&format!("error: {error}"));
            ranks.abort(1);
            Err(error.into())
        }
    }
}

/// The MPI library that ranks would load, for people; `None` if there is none.
///
/// # Errors
/// If the library that `RAPID_MPI_LIBRARY` names cannot be used.
pub fn mpi_library() -> Result<Option<String>, WorldError> {
    Ok(mpi::find(std::env::var(LIBRARY).ok().as_deref())?)
}

fn timeout(set: Option<String>) -> Result<Duration, WorldError> {
    let Some(value) = set else {
        return Ok(Duration::from_secs(DEFAULT_TIMEOUT_S));
    };
    match value.parse::<u64>() {
        Ok(seconds @ 1..) => Ok(Duration::from_secs(seconds)),
        _ => refused(format!(
            "RAPID_RANK_TIMEOUT_S is `{value}`; give a whole number of seconds, at least 1"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ranks of an environment, given as `NAME=value NAME=value`.
    fn world(variables: &str) -> Result<Option<World>, WorldError> {
        World::of(|name| {
            let mut variables = variables.split_whitespace();
            variables.find_map(|it| Some(it.strip_prefix(name)?.strip_prefix('=')?.to_owned()))
        })
    }

    #[test]
    fn the_ranks_are_those_of_the_launcher_and_a_process_without_one_is_alone() {
        const OPEN_MPI: &str = "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1";
        let two = |local| Some(World { size: 2, local });
        for (variables, found) in [
            (OPEN_MPI, two(1)),
            ("PMI_SIZE=2 MPI_LOCALRANKID=0", two(0)),
            (
                "SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=1 SLURM_NTASKS=2 PMIX_RANK=1",
                two(1),
            ),
            // srun --mpi=pmi2.
            ("PMI_SIZE=2 SLURM_LOCALID=1", two(1)),
            // mpirun in a Slurm step of one task.
            (&*format!("SLURM_STEP_NUM_TASKS=1 {OPEN_MPI}"), two(1)),
            ("", None),
            ("OMPI_COMM_WORLD_SIZE=1", None),
            // A script that sbatch started, with the resources of four tasks.
            ("SLURM_NTASKS=4 SLURM_LOCALID=0", None),
            ("TORCHELASTIC_RUN_ID=none WORLD_SIZE=1", None),
            // Set by hand for another program.
            ("WORLD_SIZE=8", None),
        ] {
            assert_eq!(world(variables).unwrap(), found, "{variables}");
        }
    }

    #[test]
    fn ranks_that_cannot_work_together_are_refused_with_the_remedy() {
        for (variables, remedy) in [
            ("TORCHELASTIC_RUN_ID=none WORLD_SIZE=2", "mpirun -n 2 rapid"),
            ("PMI_SIZE=3", "power of two"),
            ("SLURM_STEP_NUM_TASKS=2", "--mpi=pmix"),
        ] {
            let error = world(variables).unwrap_err().to_string();
            assert!(error.contains(remedy), "{error}");
        }
        for wrong in ["0", "soon", "-1"] {
            let error = timeout(Some(wrong.to_owned())).unwrap_err().to_string();
            assert!(error.contains("RAPID_RANK_TIMEOUT_S"), "{error}");
        }
        let seconds = timeout(Some("30".to_owned())).unwrap();
        assert_eq!(seconds, Duration::from_secs(30));
    }
}
