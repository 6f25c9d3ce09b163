//! The configuration of a run to resume.

use std::path::Path;

use crate::config::{self, Config};
use crate::run::TrainError;

/// The configuration of a run to resume, with the values of `--set`. Only keys that change no number of the updates made so far may be set.
///
/// # Errors
/// [`TrainError::NoRun`], [`TrainError::Fixed`], [`TrainError::Shorter`], [`TrainError::Config`].
pub fn resume_config(run: &Path, sets: &[String]) -> Result<Config, TrainError> {
    let path = run.join("config.toml");
    if !path.is_file() {
        return Err(TrainError::NoRun(run.to_owned()));
    }
    let text = std::fs::read_to_string(&path).map_err(|source| TrainError::io(&path, source))?;
    let origin = path.display().to_string();
    let previous = config::parse(&origin, &text, &[])?;
    let fixed = ["engine.dtype", "engine.kernel"];
    for set in sets {
        let (path, _) = config::parse_set(set)?;
        let free = path.starts_with("verifier.")
            || (path.starts_with("engine.") && !fixed.contains(&path.as_str()))
            || matches!(
                path.as_str(),
                "run.checkpoint_every" | "run.keep" | "run.alarms" | "run.updates" | "run.epochs"
            );
        if !free && config::parse(&origin, &text, std::slice::from_ref(set))? != previous {
            return Err(TrainError::Fixed(path));
        }
    }
    let config = config::parse(&origin, &text, sets)?;
    let (previous, requested) = (previous.run, &config.run);
    // A change from updates to epochs, or back, is checked later, when the tasks have been counted.
    for (unit, before, after) in [
        ("updates", previous.updates, requested.updates),
        ("epochs", previous.epochs, requested.epochs),
    ] {
        if let (Some(before), Some(after)) = (before, after)
            && after < before
        {
            let length = |count: usize| match count {
                1 => format!("1 {}", unit.trim_end_matches('s')),
                _ => format!("{count} {unit}"),
            };
            return Err(TrainError::Shorter {
                before: length(before),
                after: length(after),
            });
        }
    }
    Ok(config)
}
