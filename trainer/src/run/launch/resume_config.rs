//! The configuration of a run to resume.

use std::path::Path;

use crate::config::{self, Config};
use crate::run::TrainError;
use crate::run::freeze_config::pin;

/// The configuration of a run to resume, with the values of `--set`. Only keys that change no number of the updates made so far may change. Others may be set as they
/// were when the run began, so that the command that started a run also resumes it.
///
/// # Errors
/// [`TrainError::Usage`], [`TrainError::Config`].
pub fn resume_config(run: &Path, sets: &[String]) -> Result<Config, TrainError> {
    let path = run.join("config.toml");
    if !path.is_file() {
        return Err(TrainError::no_run(run));
    }
    let text = std::fs::read_to_string(&path).map_err(|source| TrainError::io(&path, source))?;
    let origin = path.display().to_string();
    let previous = config::parse(&origin, &text, &[])?;
    let fixed = ["engine.dtype", "engine.kernel"];
    let mut changes = Vec::new();
    for set in sets {
        let (path, _) = config::KEYS.parse_set(set)?;
        let free = path.starts_with("verifier.")
            || (path.starts_with("engine.") && !fixed.contains(&path.as_str()))
            || matches!(
                path.as_str(),
                "run.checkpoint_every"
                    | "run.keep"
                    | "run.keep_state"
                    | "run.alarms"
                    | "run.metrics"
                    | "run.updates"
                    | "run.epochs"
            );
        if free {
            changes.push(set.clone());
            continue;
        }
        let requested = config::parse(&origin, &text, std::slice::from_ref(set))?;
        // A new run saves what `pin` makes of its values.
        if requested != previous && pin(requested) != previous {
            return Err(TrainError::Usage(format!(
                "`{path}` cannot change when a run is continued, since its updates so far depend on it; start a new run, or leave the setting out (the section \
                 [verifier], [engine] but for `dtype` and `kernel`, `run.checkpoint_every`, `run.keep`, `run.keep_state`, `run.metrics` and `run.alarms` can change, and \
                 `run.updates` or `run.epochs` can grow)"
            )));
        }
    }
    // Without the others: with a new device, `auto` could now stand for something else.
    Ok(config::parse(&origin, &text, &changes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run with these settings, and the configuration that it saved.
    fn started(home: &Path, sets: &[String]) -> Config {
        let recipe = "[model]\nname = \"toy\"\n[data]\ndataset = \"toy\"\nteacher = \"a.jsonl\"\n[algorithm]\npreset = \"sft\"\n[engine]\ndevice = \"cpu\"\n";
        let started = pin(config::parse("test", recipe, sets).unwrap());
        std::fs::write(home.join("config.toml"), started.to_toml()).unwrap();
        started
    }

    #[test]
    fn paths_are_saved_absolute_and_accepted_as_first_written() {
        let home = tempfile::tempdir_in(".").unwrap();
        let name = home.path().file_name().unwrap().to_str().unwrap();
        std::fs::create_dir(home.path().join("step-8")).unwrap();
        std::os::unix::fs::symlink("step-8", home.path().join("last")).unwrap();
        std::fs::write(home.path().join("mine.txt"), "{question}").unwrap();
        let sets = [
            format!("model.path={name}/last"),
            format!("data.dataset={name}/tasks.jsonl"),
            format!("data.teacher={name}/teacher.jsonl"),
            format!("data.template={name}/mine.txt"),
            format!("eval.sets.b.dataset={name}/held.jsonl"),
            "engine.dtype=auto".to_owned(),
            "engine.kernel=auto".to_owned(),
        ];
        let started = started(home.path(), &sets);
        let place = |file: &str| std::path::absolute(home.path()).unwrap().join(file);
        assert_eq!(started.model.path, Some(place("step-8")));
        assert_eq!(started.data.teacher, Some(place("teacher.jsonl")));
        let (dataset, template) = (&started.data.dataset, &started.data.template);
        assert_eq!(Path::new(dataset), place("tasks.jsonl"));
        assert_eq!(Path::new(template), place("mine.txt"));
        let held_out = &started.eval.sets["b"].dataset;
        assert_eq!(Path::new(held_out), place("held.jsonl"));
        assert_eq!(resume_config(home.path(), &sets).unwrap(), started);
        for (set, key) in [
            (format!("model.path={name}"), "model.path"),
            (format!("data.dataset={name}/others.jsonl"), "data.dataset"),
        ] {
            let error = resume_config(home.path(), &[set]).unwrap_err();
            let words = format!("`{key}` cannot change when a run is continued");
            assert!(error.to_string().starts_with(&words), "{error}");
        }
    }

    #[test]
    fn another_device_does_not_change_what_auto_stood_for() {
        let home = tempfile::tempdir().unwrap();
        let started = started(home.path(), &[]);
        let sets = ["engine.dtype=auto", "engine.device=cuda:7"].map(str::to_owned);
        let resumed = resume_config(home.path(), &sets).unwrap();
        assert_eq!(
            resumed.engine.device,
            config::Device(engine::Device::Cuda(7))
        );
        assert_eq!(resumed.engine.dtype, started.engine.dtype);
    }
}
