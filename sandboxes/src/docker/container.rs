//! The rights of a container: only those that a program needs.

use std::collections::HashMap;

use bollard::models::{
    ContainerCreateBody, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig,
    ResourcesUlimits,
};

use super::Settings;
use super::engine::LABEL;

/// The system calls that a container may make.
pub(super) const SECCOMP: &str = include_str!("../../docker/seccomp.json");
/// The first process. It starts the interpreter, and reports how that ended. The interpreter reads the source that warms it from its standard input.
const START: &str = include_str!("../../docker/start.py");
/// Switches the randomisation of addresses off if the runtime allows it, since the order of a set of objects depends on their addresses.
const SHELL: &str = r#"setarch -R true 2>/dev/null && exec setarch -R "$@"; exec "$@""#;

/// `nobody`. This is not a user of the engine's machine.
const USER: &str = "65534:65534";
/// Processes and threads. Programs cannot start any; the runtime has some threads of its own before it becomes the interpreter.
const PROCESSES: i64 = 32;
/// The same for a runtime that the settings name. It may be a kernel of its own (`runsc`), and then its threads count here.
const PROCESSES_OF_ANOTHER_RUNTIME: i64 = 256;
/// Open files.
const FILES: i64 = 64;
/// Bytes of one file, and of all files together. They lie in memory and count there.
const FILE: i64 = 16 << 20;
/// Bytes of the interpreter's stack.
const STACK: i64 = 64 << 20;
/// Processors, in billionths.
const PROCESSORS: i64 = 1_000_000_000;

/// The variables of a container.
const ENVIRONMENT: [&str; 7] = [
    "PATH=/usr/local/bin:/usr/bin:/bin",
    "HOME=/tmp",
    "LANG=C.UTF-8",
    "PYTHONHASHSEED=0",
    "OPENBLAS_NUM_THREADS=1",
    "OMP_NUM_THREADS=1",
    "MKL_NUM_THREADS=1",
];

/// The container that one program runs in.
pub(super) fn container(settings: &Settings, image: &str, owner: &str) -> ContainerCreateBody {
    let memory = i64::try_from(settings.memory).unwrap_or(i64::MAX);
    let host = HostConfig {
        network_mode: Some("none".to_owned()),
        ipc_mode: Some("none".to_owned()),
        cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
        readonly_rootfs: Some(true),
        tmpfs: Some(HashMap::from([(
            "/tmp".to_owned(),
            format!("rw,noexec,nosuid,nodev,size={FILE},nr_inodes=1024,mode=1777"),
        )])),
        cap_drop: Some(vec!["ALL".to_owned()]),
        privileged: Some(false),
        security_opt: Some(vec![
            "no-new-privileges:true".to_owned(),
            format!("seccomp={SECCOMP}"),
        ]),
        pids_limit: Some(match settings.runtime {
            None => PROCESSES,
            Some(_) => PROCESSES_OF_ANOTHER_RUNTIME,
        }),
        memory: Some(memory),
        memory_swap: Some(memory),
        nano_cpus: Some(PROCESSORS),
        oom_kill_disable: Some(false),
        // If the machine itself is short of memory, a sandbox is killed before anything else.
        oom_score_adj: Some(1000),
        ulimits: Some(
            [
                ("core", 0),
                ("nofile", FILES),
                ("fsize", FILE),
                ("stack", STACK),
                ("memlock", 0),
                ("msgqueue", 0),
            ]
            .map(|(name, limit)| ResourcesUlimits {
                name: Some(name.to_owned()),
                soft: Some(limit),
                hard: Some(limit),
            })
            .to_vec(),
        ),
        log_config: Some(HostConfigLogConfig {
            typ: Some("none".to_owned()),
            config: None,
        }),
        // `start.py` is the first process.
        init: Some(false),
        auto_remove: Some(false),
        runtime: settings.runtime.clone(),
        ..HostConfig::default()
    };
    let command = ["-c", SHELL, "sh", "python3", "-s", "-P", "-B", "-c", START];
    ContainerCreateBody {
        image: Some(image.to_owned()),
        hostname: Some("sandbox".to_owned()),
        user: Some(USER.to_owned()),
        working_dir: Some("/tmp".to_owned()),
        entrypoint: Some(vec!["/bin/sh".to_owned()]),
        cmd: Some(command.map(str::to_owned).to_vec()),
        env: Some(ENVIRONMENT.map(str::to_owned).to_vec()),
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        open_stdin: Some(true),
        // When the host is gone, the container's input ends, and the waiting interpreter exits.
        stdin_once: Some(true),
        tty: Some(false),
        network_disabled: Some(true),
        labels: Some(HashMap::from([(LABEL.to_owned(), owner.to_owned())])),
        host_config: Some(host),
        ..ContainerCreateBody::default()
    }
}

/// Everything in this file that verdicts depend on.
pub(super) fn contents() -> Vec<String> {
    vec![
        START.to_owned(),
        SHELL.to_owned(),
        SECCOMP.to_owned(),
        format!("{PROCESSES} {PROCESSES_OF_ANOTHER_RUNTIME} {FILES} {FILE} {STACK} {PROCESSORS}"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_has_no_network_no_rights_and_no_room_to_write() {
        let settings = Settings {
            memory: 1 << 30,
            runtime: Some("runsc".to_owned()),
            ..Settings::default()
        };
        let body = container(&settings, "sha256:1", "me");
        let host = body.host_config.unwrap();
        assert_eq!(host.network_mode.as_deref(), Some("none"));
        assert_eq!(host.readonly_rootfs, Some(true));
        assert_eq!(host.cap_drop, Some(vec!["ALL".to_owned()]));
        assert_eq!(host.cap_add, None);
        assert_eq!(host.memory, Some(1 << 30));
        assert_eq!(host.memory_swap, Some(1 << 30));
        assert_eq!(host.runtime.as_deref(), Some("runsc"));
        assert!(host.tmpfs.unwrap()["/tmp"].contains("noexec,nosuid,nodev"));
        assert_eq!((host.binds, host.mounts, host.devices), (None, None, None));
        assert_eq!(body.user.as_deref(), Some("65534:65534"));
        assert_eq!(body.labels.unwrap()[LABEL], "me");
    }

    #[test]
    fn system_calls_outside_the_list_are_refused() {
        let profile: serde_json::Value = serde_json::from_str(SECCOMP).unwrap();
        assert_eq!(profile["defaultAction"], "SCMP_ACT_ERRNO");
        let names = profile["syscalls"][0]["names"].as_array().unwrap();
        let names = names.iter().filter_map(serde_json::Value::as_str);
        let allowed: Vec<&str> = names.collect();
        assert!(allowed.is_sorted() && allowed.contains(&"read"));
        let dangerous = "ptrace process_vm_writev mount unshare setns bpf keyctl socket io_uring_setup userfaultfd \
            perf_event_open kexec_load pivot_root chroot open_by_handle_at pidfd_getfd shmget mq_open";
        for dangerous in dangerous.split(' ') {
            assert!(!allowed.contains(&dangerous), "{dangerous}");
        }
    }
}
