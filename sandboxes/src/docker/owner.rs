//! The owner of a container. Each container is labelled with the process that created it, so that the containers of a dead verifier can be recognised.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::engine::{Engine, VerifierContainer, engine_failed};
use crate::SandboxError;

/// A process of this machine: boot, process id namespace, process id, and the clock ticks from boot to its start, which distinguish it from a later process
/// with the same id.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Owner {
    boot: String,
    namespace: String,
    process: u32,
    start: String,
}

impl Owner {
    fn of(process: u32) -> Option<Owner> {
        let status = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // The name of the program, in parentheses, may contain any characters. The 22nd field is the start.
        let (_, fields) = status.rsplit_once(')')?;
        Some(Owner {
            boot: fs::read_to_string("/proc/sys/kernel/random/boot_id")
                .ok()?
                .trim()
                .to_owned(),
            namespace: fs::read_link("/proc/self/ns/pid")
                .ok()?
                .to_string_lossy()
                .into_owned(),
            process,
            start: fields.split_whitespace().nth(19)?.to_owned(),
        })
    }

    fn parse(label: &str) -> Option<Owner> {
        let mut parts = label.split('/');
        let owner = Owner {
            boot: parts.next()?.to_owned(),
            namespace: parts.next()?.to_owned(),
            process: parts.next()?.parse().ok()?,
            start: parts.next()?.to_owned(),
        };
        parts.next().is_none().then_some(owner)
    }

    fn label(&self) -> String {
        let Owner {
            boot,
            namespace,
            process,
            start,
        } = self;
        format!("{boot}/{namespace}/{process}/{start}")
    }
}

/// This process, as a label.
pub(super) fn label() -> String {
    Owner::of(std::process::id()).map_or_else(
        || format!("unknown/unknown/{}/0", std::process::id()),
        |owner| owner.label(),
    )
}

/// A unique name for a container.
pub(super) fn name() -> String {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let owner = blake3::hash(label().as_bytes()).to_hex();
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("rapid-{}-{number}", &owner[..16])
}

/// Whether the process `here` may remove a container. It may if the owner was a process in the same namespace as `here` and has ended. It also may if the owner
/// cannot be seen from `here` and the container has stopped by itself, as a container does when its owner is gone.
fn abandoned(
    container: &VerifierContainer,
    here: &str,
    alive: impl Fn(u32) -> Option<String>,
) -> bool {
    if container.owner == here {
        return false;
    }
    let (Some(owner), Some(here)) = (Owner::parse(&container.owner), Owner::parse(here)) else {
        return !container.running;
    };
    if (&owner.boot, &owner.namespace) != (&here.boot, &here.namespace) {
        return !container.running;
    }
    alive(owner.process).as_deref() != Some(container.owner.as_str())
}

/// Removes the containers of verifiers that have ended, and returns how many it removed.
///
/// # Errors
/// [`SandboxError::Deferred`] if the engine does not list its containers.
pub(super) async fn remove_abandoned(engine: &Engine) -> Result<usize, SandboxError> {
    let here = label();
    let containers = engine
        .verifiers_containers()
        .await
        .map_err(|error| engine_failed("containers were listed", &error))?;
    let alive = |process| Owner::of(process).map(|owner| owner.label());
    let mut removed = 0;
    for container in containers
        .iter()
        .filter(|container| abandoned(container, &here, alive))
    {
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

    fn container(owner: &str, running: bool) -> VerifierContainer {
        VerifierContainer {
            id: "x".to_owned(),
            owner: owner.to_owned(),
            running,
        }
    }

    #[test]
    fn a_label_is_parsed_into_its_owner() {
        let owner = Owner::of(std::process::id()).unwrap();
        assert_eq!(Owner::parse(&owner.label()), Some(owner));
        for odd in ["", "a/b/c/d", "a/b/1", "a/b/1/2/3"] {
            assert_eq!(Owner::parse(odd), None, "{odd}");
        }
    }

    #[test]
    fn container_names_are_unique() {
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
            assert_eq!(
                abandoned(&container(owner, running), here, alive),
                expected,
                "{owner} {running}"
            );
        }
    }
}
