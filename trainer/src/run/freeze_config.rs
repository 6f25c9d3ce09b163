//! Replaces values of a configuration that depend on the working directory, the date or the processor. So a run can be resumed from any folder and on any day, and
//! computes the same on any processor.

use std::path::{Path, PathBuf};

use engine::text::today;

use crate::config::Config;

/// The absolute path; the path unchanged if its absolute path is not valid UTF-8.
pub fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path)
        .ok()
        .filter(|full| full.to_str().is_some())
        .unwrap_or_else(|| path.to_owned())
}

/// The model's file or folder with links resolved, because `checkpoints/last` will point at another one later. For a path that does not exist, its absolute path.
fn resolved(path: &Path) -> PathBuf {
    match path.canonicalize() {
        // In a cache, the target may have a name without the extension; then the link's own name is used.
        Ok(target) if target.is_dir() || target.extension() == path.extension() => {
            absolute(&target)
        }
        _ => absolute(path),
    }
}

/// Makes all paths of a configuration absolute, and sets the date for chat templates. Sets the number type and the kernel of matrix
/// products to what this machine takes for auto. Names of models, data sets and templates are unchanged.
pub(crate) fn pin(mut config: Config) -> Config {
    config.model.path = config.model.path.map(|path| resolved(&path));
    config.data.teacher = config.data.teacher.map(|path| absolute(&path));
    config.verifier.config = config.verifier.config.map(|path| absolute(&path));
    let data = &mut config.data;
    let sets = data.sets.values_mut().chain(config.eval.sets.values_mut());
    let sets = sets.map(|set| (&mut set.dataset, &mut set.template));
    for (dataset, template) in sets.chain([(&mut data.dataset, &mut data.template)]) {
        if datasets::is_user_file(dataset) {
            *dataset = text(Path::new(dataset));
        }
        let path = Path::new(template);
        // A path with a brace in it would be read as a template's text.
        if path.is_file() && !text(path).contains('{') {
            *template = text(path);
        }
    }
    if config.data.chat && config.data.chat_date.is_none() {
        config.data.chat_date = Some(today().to_string());
    }
    config.engine = config.engine.resolved();
    config
}

fn text(path: &Path) -> String {
    absolute(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use engine::backend::Bf16Kernel;

    use super::*;
    use crate::config;

    const RECIPE: &str =
        "[model]\nname = \"toy\"\n[data]\ndataset = \"toy\"\n[engine]\ndevice = \"cpu\"\n";

    /// What a run with these settings saves, which it saves again when it is resumed.
    fn saved(sets: &[&str]) -> Config {
        let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
        let saved = pin(config::parse("test", RECIPE, &sets).unwrap());
        assert_eq!(pin(saved.clone()), saved);
        saved
    }

    #[test]
    fn names_are_saved_unchanged_and_a_run_with_chat_prompts_saves_its_day() {
        let named = saved(&["data.dataset=gsm8k", "data.template=plain"]).data;
        assert_eq!([named.dataset, named.template], ["gsm8k", "plain"]);
        assert!(saved(&["data.chat=true"]).data.chat_day().is_some());
        let given = saved(&["data.chat=true", "data.chat_date=2026-03-09"]);
        assert_eq!(given.data.chat_date.as_deref(), Some("2026-03-09"));
    }

    #[test]
    fn a_run_saves_the_number_type_and_the_kernel_of_its_products() {
        let saved = |sets: &[&str]| {
            let engine = saved(sets).engine;
            (engine.dtype, engine.kernel)
        };
        let names = |dtype: &str, kernel: &str| (dtype.to_owned(), kernel.to_owned());
        let fastest = Bf16Kernel::detect();
        let auto = match fastest {
            Bf16Kernel::Amx => names("bf16", "amx"),
            Bf16Kernel::Avx512Bf16 | Bf16Kernel::Fma => names("f32", "auto"),
        };
        assert_eq!(saved(&[]), auto);
        assert_eq!(saved(&["engine.dtype=f32"]), names("f32", "auto"));
        let bf16 = "engine.dtype=bf16";
        assert_eq!(saved(&[bf16]), names("bf16", fastest.name()));
        assert_eq!(saved(&[bf16, "engine.kernel=fma"]), names("bf16", "fma"));
    }

    #[test]
    fn a_model_behind_a_link_is_saved_with_the_path_of_its_target() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        std::fs::create_dir(home.join("v1.5")).unwrap();
        std::fs::write(home.join("two.gguf"), "").unwrap();
        std::fs::write(home.join("a1b2"), "").unwrap();
        for (target, name, saved) in [
            ("v1.5", "newest", "v1.5"),
            ("two.gguf", "m.gguf", "two.gguf"),
            ("a1b2", "cached.gguf", "cached.gguf"),
        ] {
            let link = home.join(name);
            std::os::unix::fs::symlink(target, &link).unwrap();
            assert_eq!(resolved(&link), home.join(saved));
        }
    }
}
