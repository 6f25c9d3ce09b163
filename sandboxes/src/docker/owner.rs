//! The owner of a container. Each container is labelled with the process that created it. So the containers of a dead verifier can be recognised.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::engine::{Engine, VerifierContainer, engine_failed};
use crate::SandboxError;

/// A process of this machine, as a label: boot, process id namespace, process id, and the clock ticks from boot to its start. The ticks distinguish it from a later
/// process with the same id.
fn owner(process: u32) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program, in parentheses, may contain any characters. The 22nd field is the start.
    let (_, fields) = status.rsplit_once(')')?;
    let start = fields.split_whitespace().nth(19)?;
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    let (boot, namespace) = (boot.trim(), namespace.display());
    Some(format!("{boot}/{namespace}/{process}/{start}"))
}

/// Boot and namespace of a label's process, and the process's id.
fn namespace_and_process(label: &str) -> Option<(&str, u32)> {
    let (process, _start) = label.rsplit_once('/')?;
    let (place, process) = process.rsplit_once('/')?;
    Some((place, process.parse().ok()?))
}

/// This process, as a label.
pub(super) fn label() -> String {
    let own = std::process::id();
    owner(own).unwrap_or_else(|| format!("unknown/unknown/{own}/0"))
}

/// A unique name for a container.
pub(super) fn name() -> String {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let owner = blake3::hash(label().as_bytes()).to_hex();
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("rapid-{}-{number}", &owner[..16])
}

/// Whether the process `here` may remove a container. It may if the owner was in the same namespace as `here` and has ended. It also may if the owner cannot be seen
/// from `here` and the container has stopped by itself. A container does this when its owner is gone.
fn abandoned(
    container: &VerifierContainer,
    here: &str,
    alive: impl Fn(u32) -> Option<String>,
) -> bool {
    if container.owner == here {
        return false;
    }
    let [owner, own] = [container.owner.as_str(), here].map(namespace_and_process);
    match (owner, own) {
        (Some((place, process)), Some((own_place, _))) if place == own_place => {
            alive(process).as_deref() != Some(container.owner.as_str())
        }
        _ => !container.running,
    }
}

/// Removes the containers of verifiers that have ended, and returns how many it removed.
///
/// # Errors
/// [`SandboxError::Deferred`] if the engine does not list its containers.
pub(super) async fn remove_abandoned(engine: &Engine) -> Result<usize, SandboxError> {
    let here = label();
    let containers = engine.verifiers_containers().await;
    let containers = containers.map_err(|error| engine_failed("containers were listed", &error))?;
    let is_abandoned = |container: &&VerifierContainer| abandoned(container, &here, owner);
    let mut removed = 0;
    for container in containers.iter().filter(is_abandoned) {
        match engine.remove(&container.id).await {
            Ok(()) => removed += 1,
            Err(error) => tracing::warn!(
                "container {} of a verifier that is gone cannot be removed ({error})",
                container.id
            ),
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_its_own_owner_and_container_names_are_unique() {
        assert_eq!(owner(std::process::id()), Some(label()));
        let (_, process) = namespace_and_process(&label()).unwrap();
        assert_eq!(process, std::process::id());
        assert_ne!(name(), name());
    }

    #[test]
    fn only_containers_of_dead_verifiers_are_abandoned() {
        let here = "boot/pid:[1]/10/100";
        let alive = |process: u32| (process == 20).then(|| "boot/pid:[1]/20/200".to_owned());
        for (owner, running, expected) in [
            (here, true, false),
            ("boot/pid:[1]/20/200", true, false),
            ("boot/pid:[1]/20/150", true, true),
            ("boot/pid:[1]/30/300", true, true),
            ("boot/pid:[1]/30/300", false, true),
            ("boot/pid:[2]/30/300", true, false),
            ("boot/pid:[2]/30/300", false, true),
            ("other/pid:[1]/30/300", true, false),
            ("nonsense", true, false),
            ("nonsense", false, true),
        ] {
            let container = VerifierContainer {
                id: "x".to_owned(),
                owner: owner.to_owned(),
                running,
            };
            let found = abandoned(&container, here, alive);
            assert_eq!(found, expected, "{container:?}");
        }
    }
}
