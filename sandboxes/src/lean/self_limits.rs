//! The limits that a process sets for itself before it reads untrusted data.

use std::io;

use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};

/// Limits the private memory of this process to `memory_bytes`, including the stacks of its threads but not mapped files. Afterwards the process can write no file and
/// leaves no core. It ends when the thread that started it ends. A process without privileges cannot undo any of this.
///
/// # Errors
/// The error of the system if it refuses a limit.
pub fn confine(memory_bytes: u64) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    for (resource, limit) in [
        (Resource::Core, 0),
        (Resource::Fsize, 0),
        (Resource::Data, memory_bytes),
    ] {
        let limit = Rlimit {
            current: Some(limit),
            maximum: Some(limit),
        };
        setrlimit(resource, limit)?;
    }
    Ok(())
}
