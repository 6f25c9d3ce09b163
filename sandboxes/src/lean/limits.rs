//! What a process forbids itself before it reads what others have written.

use std::io;

use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};

/// Limits the private memory of this process to so many bytes, the stacks of its threads included and mapped files not; it may write no file and leaves no core, and
/// it ends when the thread that started it does. None of it can be undone by a process without privileges.
///
/// # Errors
/// What the system refuses.
pub fn confine(memory_bytes: u64) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    for (resource, most) in [
        (Resource::Core, 0),
        (Resource::Fsize, 0),
        (Resource::Data, memory_bytes),
    ] {
        let limit = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        setrlimit(resource, limit)?;
    }
    Ok(())
}
