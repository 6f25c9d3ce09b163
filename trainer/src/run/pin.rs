//! Pins what a configuration leaves to the working directory and the date, so that a run resumes the same from any folder and on any day.

use std::path::{Path, PathBuf};

use engine::text::today;

use crate::config::Config;

/// The path from the root; as it is, where there is no such text.
#[must_use]
pub fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path)
        .ok()
        .filter(|full| full.to_str().is_some())
        .unwrap_or_else(|| path.to_owned())
}

/// The model's file or folder itself, whatever link led to it: `checkpoints/last` is another one later. Where a model is not there yet, the path in full.
fn itself(path: &Path) -> PathBuf {
    match path.canonicalize() {
        // A cache may keep a file under a name that does not say what it is.
        Ok(target) if target.is_dir() || target.extension() == path.extension() => {
            absolute(&target)
        }
        _ => absolute(path),
    }
}

/// A configuration with all its paths in full, and with the day that chat templates are told. Names of models, data sets and templates stay.
pub(super) fn pin(mut config: Config) -> Config {
    config.model.path = config.model.path.map(|path| itself(&path));
    config.data.teacher = config.data.teacher.map(|path| absolute(&path));
    let dataset = Path::new(&config.data.dataset);
    if dataset
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("jsonl"))
    {
        config.data.dataset = text(dataset);
    }
    if config.data.chat && config.data.chat_date.is_none() {
        config.data.chat_date = Some(today().to_string());
    }
    let template = Path::new(&config.data.template);
    // With a brace in it, it would be read as a template's own text.
    if template.is_file() && !text(template).contains('{') {
        config.data.template = text(template);
    }
    config
}

fn text(path: &Path) -> String {
    absolute(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    #[test]
    fn what_a_run_reads_is_saved_absolute_and_names_stay() {
        let here = std::env::current_dir().unwrap();
        let recipe = "[model]\npath = \"m.gguf\"\n[data]\ndataset = \"mine/tiny.jsonl\"\n";
        let pinned = pin(config::parse("test", recipe, &[]).unwrap());
        assert_eq!(pinned.model.path, Some(here.join("m.gguf")));
        assert_eq!(
            Path::new(&pinned.data.dataset),
            here.join("mine/tiny.jsonl")
        );
        assert_eq!(pin(pinned.clone()), pinned);

        let recipe = "[model]\nname = \"toy\"\n[data]\ndataset = \"gsm8k\"\ntemplate = \"plain\"\n";
        let named = config::parse("test", recipe, &[]).unwrap();
        assert_eq!(pin(named.clone()), named);
    }

    #[test]
    fn a_model_behind_a_link_is_saved_under_its_own_path() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let link = |target: &str, name: &str| {
            let link = home.join(name);
            std::os::unix::fs::symlink(target, &link).unwrap();
            link
        };
        std::fs::create_dir(home.join("step-8")).unwrap();
        std::fs::create_dir(home.join("v1.5")).unwrap();
        std::fs::write(home.join("two.gguf"), "").unwrap();
        std::fs::write(home.join("a1b2"), "").unwrap();
        assert_eq!(itself(&link("step-8", "last")), home.join("step-8"));
        assert_eq!(itself(&link("v1.5", "newest")), home.join("v1.5"));
        assert_eq!(itself(&link("two.gguf", "m.gguf")), home.join("two.gguf"));
        let cached = link("a1b2", "cached.gguf");
        assert_eq!(itself(&cached), cached);
    }

    #[test]
    fn a_run_that_chats_keeps_the_day_on_which_it_began() {
        let recipe = "[model]\nname = \"toy\"\n[data]\ndataset = \"toy\"\nchat = true\n";
        let of = |sets: &[String]| pin(config::parse("test", recipe, sets).unwrap());
        assert!(of(&[]).data.chat_day().is_some());
        let given = of(&["data.chat_date=2026-03-09".to_owned()]);
        assert_eq!(given.data.chat_date.as_deref(), Some("2026-03-09"));
        assert_eq!(pin(given.clone()), given);
    }

    #[test]
    fn a_templates_file_is_saved_absolute() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let file = folder.path().join("mine.txt");
        std::fs::write(&file, "{question}").unwrap();
        let name = folder.path().file_name().unwrap().to_str().unwrap();
        let set = format!("data.template={name}/mine.txt");
        let recipe = "[model]\nname = \"toy\"\n[data]\ndataset = \"toy\"\n";
        let pinned = pin(config::parse("test", recipe, &[set]).unwrap());
        let here = std::env::current_dir().unwrap();
        assert_eq!(
            Path::new(&pinned.data.template),
            here.join(name).join("mine.txt")
        );
    }
}
