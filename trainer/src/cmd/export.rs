//! `rapid export`: a run's model in files for other programs.

use std::fs;
use std::path::PathBuf;

use anyhow::bail;
use engine::{EngineError, WeightType, export};
use trainer::checkpoint_settings::CheckpointSettings;
use trainer::report::{RunData, model_card};
use trainer::stderr::say;

use super::Usage;

/// Export a run's model as a Hugging Face folder with a model card, or as a GGUF file
///
/// A Hugging Face folder loads in transformers, vLLM and every `--model` here. A GGUF file loads in llama.cpp and here. If such a file cannot describe the model or its
/// tokenizer exactly, none is written.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  rapid export runs/quickstart --to hf --dtype bf16
  rapid export runs/quickstart --to gguf --dtype q8_0 --out model.gguf")]
pub(crate) struct Args {
    /// The run's folder
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// hf is a Hugging Face folder, gguf a file
    #[arg(long, value_name = "FORM", value_parser = ["hf", "gguf"])]
    to: String,
    /// best, last, or the number of updates after which it was saved [default: best, or last if none was evaluated]
    #[arg(long, value_name = "WHICH")]
    checkpoint: Option<String>,
    /// Number type of the matrices; f32 is the checkpoint's own, and only gguf has q8_0
    #[arg(long, value_name = "TYPE", default_value = "f32", value_parser = WeightType::ALL.map(|it| it.name))]
    dtype: String,
    /// The folder or the file, which must not exist [default: exports/RUN-step-N, and -TYPE.gguf after it for a file]
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let run = RunData::read_without_samples(&args.run)?;
    let checkpoints = args.run.join("checkpoints");
    let named = match args.checkpoint.as_deref() {
        None if checkpoints.join("best").exists() => "best".to_owned(),
        None => "last".to_owned(),
        Some(word @ ("best" | "last")) => word.to_owned(),
        Some(number) => format!("step-{number}"),
    };
    // The links `best` and `last` lead to a folder with the number.
    let found = fs::canonicalize(checkpoints.join(&named)).ok();
    let step = found.as_ref().and_then(|folder| {
        let name = folder.file_name()?.to_str()?;
        name.strip_prefix("step-")?.parse::<usize>().ok()
    });
    let (Some(checkpoint), Some(step)) = (found, step) else {
        bail!(Usage(format!(
            "{} has no {named}; give --checkpoint best, last, or the N of a folder step-N there",
            checkpoints.display()
        )));
    };
    let types = WeightType::ALL;
    let dtype = types.into_iter().find(|it| it.name == args.dtype);
    let dtype = dtype.unwrap_or(types[0]);
    let name = format!("{}-step-{step}", run.name);
    let is_folder = args.to == "hf";
    let default = match is_folder {
        true => format!("exports/{name}"),
        false => format!("exports/{name}-{}.gguf", dtype.name),
    };
    let out = args.out.clone().unwrap_or_else(|| default.into());
    if out.symlink_metadata().is_ok() {
        bail!(Usage(format!(
            "{} exists already; delete it, or give another path with --out",
            out.display()
        )));
    }
    let shown = out.display();
    let settings = CheckpointSettings::of(&checkpoint)?;
    let (exported, next) = if is_folder {
        let card = model_card(run, step, settings.as_ref());
        let next = format!("complete its README.md, and upload it: hf upload OWNER/NAME {shown}");
        (export::to_folder(&checkpoint, &out, dtype, card), next)
    } else {
        let next = llama_command(&shown.to_string(), settings.as_ref());
        (export::to_gguf(&checkpoint, &out, dtype, &name), next)
    };
    exported.map_err(|error| match error {
        EngineError::Request(reason) => Usage(reason).into(),
        other => anyhow::Error::new(other),
    })?;
    super::print(&format!("{shown}\n"))?;
    say(&next);
    Ok(())
}

/// The command that runs the model in llama.cpp, with the form that its prompts had in training.
fn llama_command(file: &str, settings: Option<&CheckpointSettings>) -> String {
    let (command, became) = match settings {
        Some(settings) if !settings.data.chat => (
            format!("llama-completion -m {file} -no-cnv -f prompt.txt"),
            "this prompt",
        ),
        _ => (format!("llama-cli -m {file}"), "this message"),
    };
    let form = settings.map(|settings| {
        let template = settings.template.text();
        format!("\nin training, a question became {became}:\n{template}")
    });
    format!(
        "run it with llama.cpp: {command}{}",
        form.unwrap_or_default()
    )
}
