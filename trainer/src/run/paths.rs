//! What a run's configuration leaves to the place and the day it begins on, put down, so that it goes on the same from whatever folder and on whatever day it is taken up.

use std::path::{Path, PathBuf};

use engine::text::today;

use crate::config::Config;

/// The path from the root; as it is, where there is no such text.
#[must_use]
pub fn in_full(path: &Path) -> PathBuf {
    std::path::absolute(path)
        .ok()
        .filter(|full| full.to_str().is_some())
        .unwrap_or_else(|| path.to_owned())
}

/// A configuration with all its paths in full, and with the day that chat templates are told. Names of models, data sets and templates stay.
pub(super) fn settle(mut config: Config) -> Config {
    for path in [&mut config.model.path, &mut config.data.teacher] {
        *path = path.take().map(|path| in_full(&path));
    }
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
    in_full(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    #[test]
    fn what_a_run_reads_is_saved_in_full_and_names_stay() {
        let here = std::env::current_dir().unwrap();
        let recipe = "[model]\npath = \"m.gguf\"\n[data]\ndataset = \"mine/tiny.jsonl\"\n";
        let settled = settle(config::parse("test", recipe, &[]).unwrap());
        assert_eq!(settled.model.path, Some(here.join("m.gguf")));
        assert_eq!(
            Path::new(&settled.data.dataset),
            here.join("mine/tiny.jsonl")
        );
        assert_eq!(settle(settled.clone()), settled);

        let recipe = "[model]\nname = \"toy\"\n[data]\ndataset = \"gsm8k\"\ntemplate = \"plain\"\n";
        let named = config::parse("test", recipe, &[]).unwrap();
        assert_eq!(settle(named.clone()), named);
    }

    #[test]
    fn a_run_that_chats_keeps_the_day_on_which_it_began() {
        let recipe = "[model]\nname = \"toy\"\n[data]\ndataset = \"toy\"\nchat = true\n";
        let of = |sets: &[String]| settle(config::parse("test", recipe, sets).unwrap());
        assert!(of(&[]).data.chat_day().is_some());
        let given = of(&["data.chat_date=2026-03-09".to_owned()]);
        assert_eq!(given.data.chat_date.as_deref(), Some("2026-03-09"));
        assert_eq!(settle(given.clone()), given);
    }

    #[test]
    fn a_templates_file_is_saved_in_full() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let file = folder.path().join("mine.txt");
        std::fs::write(&file, "{question}").unwrap();
        let name = folder.path().file_name().unwrap().to_str().unwrap();
        let set = format!("data.template={name}/mine.txt");
        let recipe = "[model]\nname = \"toy\"\n[data]\ndataset = \"toy\"\n";
        let settled = settle(config::parse("test", recipe, &[set]).unwrap());
        let here = std::env::current_dir().unwrap();
        assert_eq!(
            Path::new(&settled.data.template),
            here.join(name).join("mine.txt")
        );
    }
}
