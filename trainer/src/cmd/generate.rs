//! `rapid generate`: completions of prompts from a file, or of a data set's tasks.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use clap::ArgGroup;
use datasets::Task;
use datasets::jsonl::{Line, LineError, Lines};
use engine::text::Date;
use engine::{Completion, Engine, EngineError, Finish, GenerateRequest, Leader};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::UnboundedReceiver;
use trainer::config::{Eval, MAX_SAMPLES, MAX_TOKENS};
use trainer::data::PromptRenderer;
use trainer::interrupt::StopSignal;
use trainer::policy::{Policy, PromptEncoder as _};
use trainer::seed;
use trainer::stderr::say;

use super::args::{
    CutoffArgs, DeviceArgs, PromptArgs, check_completion_count, check_out_is_own, from_zero,
    model_path, open_dataset, open_model_on, positive, temperature, up_to,
};
use super::bar::bar;
use super::eval::{Split, create};
use super::prompts;
use super::{Interrupted, Usage, checkpoint_overrides, count};

/// Maximum tokens of a completion by default.
const DEFAULT_TOKENS: usize = 256;
/// Fields of every line of the output.
const FIELDS: [&str; 5] = ["id", "sample", "completion", "finish", "tokens"];

/// Complete prompts from a JSON Lines file, or the tasks of a data set
///
/// Each line of the input is {"id": …, "prompt": "text"}, which is completed as it stands, or {"id": …, "messages": [{"role": …, "content": …}, …]},
/// which is rendered with the model's chat template. Each line of the output is one sample, in the order of the input. With --dataset, its id is the task's,
/// and supervised fine-tuning reads the file as it is (`data.teacher`).
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("source").required(true).args(["prompts", "dataset"]))]
#[command(after_help = "\
Examples:
  rapid generate --model smollm2-135m-instruct --prompts prompts.jsonl --out completions.jsonl
  rapid generate --model runs/quickstart/checkpoints/step-10 --prompts prompts.jsonl -n 4 --temperature 0.9 --out samples.jsonl
  rapid generate --model teacher.gguf --dataset gsm8k --split train -n 5 --temperature 0.7 --top-p 0.95 --out teacher.jsonl")]
pub(crate) struct Args {
    /// A GGUF file, a folder with a Hugging Face checkpoint, or the name of a fetched model
    #[arg(long, value_name = "MODEL")]
    model: String,
    /// JSON Lines with "prompt" or "messages" on each line
    #[arg(long, value_name = "FILE", conflicts_with_all = ["split", "template", "chat", "data_dir"])]
    prompts: Option<PathBuf>,
    /// A data set's name, or a path to a .jsonl file of tasks
    #[arg(long, value_name = "NAME")]
    dataset: Option<String>,
    /// Which part of the data set
    #[arg(long, value_enum, default_value_t = Split::Train)]
    split: Split,
    #[command(flatten)]
    prompt: PromptArgs,
    /// A folder of data sets, as DIR/gsm8k/train.jsonl
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Complete only the first N
    #[arg(long, value_name = "N", value_parser = positive)]
    limit: Option<usize>,
    /// File for the completions; it appears when all of them are written
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Maximum tokens of a completion, including the end token [default: for a data set's tasks the checkpoint's, else 256]
    #[arg(long, value_name = "N", value_parser = up_to(MAX_TOKENS))]
    max_tokens: Option<usize>,
    /// Sampling temperature; 0 is greedy
    #[arg(long, value_name = "T", default_value_t = 0.0, value_parser = temperature)]
    temperature: f32,
    #[command(flatten)]
    cutoffs: CutoffArgs,
    /// Samples per prompt
    #[arg(short = 'n', value_name = "N", default_value_t = 1, value_parser = up_to(MAX_SAMPLES))]
    samples: usize,
    /// Write each token's id and log-probability too
    #[arg(long)]
    logprobs: bool,
    /// Seed of the sampling
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = from_zero::<u64>)]
    seed: u64,
    #[command(flatten)]
    device: DeviceArgs,
}

/// A line of the input.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PromptLine {
    id: serde_json::Value,
    prompt: Option<String>,
    messages: Option<Vec<Message>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    role: String,
    content: String,
}

/// A line of the output.
#[derive(Debug, Serialize)]
struct CompletionLine<'a> {
    id: &'a serde_json::Value,
    sample: usize,
    completion: &'a str,
    finish: Finish,
    tokens: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_ids: Option<&'a [u32]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<&'a [f32]>,
}

/// A tokenised prompt.
struct TokenPrompt {
    id: serde_json::Value,
    tokens: Arc<[u32]>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    super::on_ranks(args.device.threads, |ranks| generate(args, ranks))
}

fn generate(args: &Args, ranks: Option<&Leader>) -> anyhow::Result<()> {
    check_out_is_own(&args.out, "rapid generate", &FIELDS)?;
    let mut checkpoint = checkpoint_overrides::Settings::of(&model_path(&args.model)?)?;
    let source = Source::read(args, &mut checkpoint)?;
    check_completion_count(source.len(), args.samples)?;
    // The checkpoint's settings apply to tasks; a prompt from a file is completed as it stands.
    let max_tokens = match &args.dataset {
        Some(_) => {
            checkpoint.report();
            checkpoint.max_tokens(args.max_tokens, DEFAULT_TOKENS)
        }
        None => args.max_tokens.unwrap_or(DEFAULT_TOKENS),
    };
    // A folder that cannot be written to is reported before the model is loaded. The file is dropped, so that nothing is in the folder meanwhile.
    drop(create(&args.out)?);
    let engine = open_model_on(&args.model, &args.device, ranks)?;
    let (prompts, stop_strings) = source.prompts(&engine, args)?;
    let sampling = args.cutoffs.sampling(args.temperature, &Eval::default());
    let request = |prompt: &TokenPrompt| GenerateRequest {
        seeds: (0..args.samples)
            .map(|sample| seed::of_sample(args.seed, 0, &prompt.id.to_string(), sample))
            .collect(),
        prompt: Arc::clone(&prompt.tokens),
        sampling,
        min_tokens: 0,
        max_tokens,
        stop_tokens: engine.stop_tokens(),
        stop_strings: stop_strings.clone(),
    };
    let requests = prompts.iter().map(request).collect();
    super::block_on(async {
        let stop = StopSignal::on_ctrl_c();
        let completions = Policy::generate(&engine, requests);
        write(completions, &prompts, args, &stop).await
    })?;
    say(&format!(
        "{} written to {}",
        count(prompts.len() * args.samples, "completion"),
        args.out.display()
    ));
    Ok(())
}

/// Writes completions, which arrive in any order, in that of the prompts. If a stop is requested before the last one, no file is left.
async fn write(
    mut completions: UnboundedReceiver<Result<Completion, EngineError>>,
    prompts: &[TokenPrompt],
    args: &Args,
    stop: &StopSignal,
) -> anyhow::Result<()> {
    let total = prompts.len() * args.samples;
    let failed = || format!("{} cannot be written", args.out.display());
    let mut file = create(&args.out)?;
    // Lines that wait for an earlier one, by position.
    let mut waiting = BTreeMap::new();
    let mut written = 0;
    let bar = bar(total as u64, "samples");
    let mut next = async || {
        tokio::select! {
            biased;
            () = stop.wait() => Err(anyhow::Error::new(Interrupted)),
            completion = completions.recv() => completion.transpose().map_err(anyhow::Error::from),
        }
    };
    while let Some(completion) = next().await.inspect_err(|_| bar.finish_and_clear())? {
        let line = CompletionLine {
            id: &prompts[completion.request].id,
            sample: completion.sample,
            completion: &completion.text,
            finish: completion.finish,
            tokens: completion.tokens.len(),
            token_ids: args.logprobs.then_some(&completion.tokens[..]),
            logprobs: args.logprobs.then_some(&completion.logp[..]),
        };
        let position = completion.request * args.samples + completion.sample;
        waiting.insert(position, serde_json::to_string(&line)?);
        while let Some(line) = waiting.remove(&written) {
            writeln!(file, "{line}").with_context(failed)?;
            written += 1;
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    if written != total {
        bail!(
            "the engine ended after {written} of {total} completions without an error; this is a fault of the program"
        );
    }
    file.finish().with_context(failed)
}

/// The prompts to complete.
enum Source<'a> {
    /// A file's path, its lines with their numbers from 1, and the date that a chat template writes.
    File(&'a Path, Vec<(usize, PromptLine)>, Date),
    Tasks(PromptRenderer, Vec<Task>),
}

impl<'a> Source<'a> {
    fn read(
        args: &'a Args,
        checkpoint: &mut checkpoint_overrides::Settings,
    ) -> anyhow::Result<Self> {
        if let Some(name) = &args.dataset {
            let dataset = open_dataset(name, args.data_dir.as_deref())?;
            let tasks = args.split.tasks(&dataset, args.limit);
            let renderer = checkpoint.renderer(&args.prompt, name, &tasks)?;
            return Ok(Source::Tasks(renderer, tasks));
        }
        // clap requires one of the two.
        let path = args.prompts.as_deref().unwrap_or(Path::new(""));
        let mut lines = read(path)?;
        lines.truncate(args.limit.unwrap_or(usize::MAX));
        Ok(Source::File(path, lines, checkpoint.day()))
    }

    /// Number of prompts.
    fn len(&self) -> usize {
        match self {
            Source::File(_, lines, _) => lines.len(),
            Source::Tasks(_, tasks) => tasks.len(),
        }
    }

    /// The tokenised prompts, and the stop strings.
    fn prompts(
        self,
        engine: &Engine,
        args: &Args,
    ) -> anyhow::Result<(Vec<TokenPrompt>, Vec<String>)> {
        match self {
            Source::File(path, lines, day) => {
                let prompts = lines.into_iter().map(|(number, line)| {
                    let tokens = tokens(engine, &line, day)
                        .with_context(|| format!("{}, line {number}", path.display()))?;
                    Ok(TokenPrompt {
                        id: line.id,
                        tokens: tokens.into(),
                    })
                });
                Ok((
                    prompts.collect::<anyhow::Result<_>>()?,
                    args.prompt.stop.clone(),
                ))
            }
            Source::Tasks(renderer, tasks) => {
                let prompts = prompts::of_tasks(&renderer, engine, tasks)?.into_iter();
                let prompts = prompts.map(|prompt| TokenPrompt {
                    id: prompt.task.id.clone().into(),
                    tokens: Arc::clone(&prompt.tokens),
                });
                Ok((prompts.collect(), renderer.stop_strings().to_vec()))
            }
        }
    }
}

fn tokens(engine: &Engine, line: &PromptLine, day: Date) -> anyhow::Result<Vec<u32>> {
    let tokens = match (&line.prompt, &line.messages) {
        (Some(prompt), None) => engine.encode(prompt, true)?,
        (None, Some(messages)) => {
            let messages: Vec<_> = messages
                .iter()
                .map(|m| (m.role.clone(), m.content.clone()))
                .collect();
            engine.encode_chat(&engine.chat_prompt(&messages, day)?)?
        }
        _ => bail!("give either \"prompt\" or \"messages\""),
    };
    if tokens.is_empty() {
        bail!("the prompt is empty, so there is nothing to continue");
    }
    let context = engine.info().context;
    if tokens.len() >= context {
        bail!(
            "the prompt's {} tokens leave no room for a completion in the model's context of {context}; shorten it",
            tokens.len()
        );
    }
    Ok(tokens)
}

/// The prompts of a file, with the numbers of their lines.
fn read(path: &Path) -> anyhow::Result<Vec<(usize, PromptLine)>> {
    let problem = || format!("the prompts in {} cannot be read", path.display());
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let problem = problem();
            return Err(Usage(format!(
                "{problem}: {error}; give another file with --prompts"
            ))
            .into());
        }
        other => other.with_context(problem)?,
    };
    let mut source = Lines::new(file).with_context(problem)?;
    let mut lines = Vec::new();
    let failed = |error| match error {
        LineError::Io(error) => anyhow::Error::new(error).context(problem()),
        LineError::Line { line, reason } => anyhow!("{}, line {line}: {reason}", path.display()),
    };
    while let Some(Line { number, text }) = source.next_line().map_err(failed)? {
        let line: PromptLine = serde_json::from_str(text).map_err(|error| {
            let reason = datasets::loose_json::reason(text.as_bytes(), &error);
            anyhow!("{}, line {number} is not {{\"id\": …, \"prompt\": …}} or {{\"id\": …, \"messages\": […]}}: {reason}", path.display())
        })?;
        lines.push((number, line));
    }
    if lines.is_empty() {
        bail!("{} contains no prompts", path.display());
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    #[tokio::test]
    async fn completions_are_written_in_order_and_an_unfinished_file_leaves_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out.jsonl");
        fs::write(&out, "old").unwrap();
        let line = ["generate", "--model=m", "--prompts=p", "-n2", "--out"];
        let line = line.map(OsStr::new).into_iter().chain([out.as_os_str()]);
        let args = Cli::parse_from(line).args;
        let prompts = ["a", "b"].map(|id| TokenPrompt {
            id: id.into(),
            tokens: [1].into(),
        });
        let arrived = async |positions: &[usize], stop: &StopSignal| {
            let (sender, completions) = tokio::sync::mpsc::unbounded_channel();
            for position in positions {
                let completion = Completion {
                    request: position / 2,
                    sample: position % 2,
                    tokens: vec![1],
                    logp: vec![0.0],
                    text: format!("text {position}"),
                    finish: Finish::Stop,
                };
                sender.send(Ok(completion)).unwrap();
            }
            // While a completion is missing, the engine still works if a stop is requested.
            let sender = stop.requested().then_some(sender);
            let outcome = write(completions, &prompts, &args, stop).await;
            drop(sender);
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
            outcome
        };
        let stopped = StopSignal::default();
        stopped.request();
        let error = arrived(&[0], &stopped).await.unwrap_err();
        assert!(error.is::<Interrupted>());
        let error = arrived(&[0, 2, 3], &StopSignal::default())
            .await
            .unwrap_err();
        assert!(error.to_string().contains("after 1 of 4"), "{error}");
        assert_eq!(fs::read_to_string(&out).unwrap(), "old");

        arrived(&[2, 0, 3, 1], &StopSignal::default())
            .await
            .unwrap();
        let text = fs::read_to_string(&out).unwrap();
        for (position, line) in text.lines().enumerate() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(line["completion"], format!("text {position}"));
            assert!(FIELDS.iter().all(|field| line.get(field).is_some()));
        }
        assert_eq!(text.lines().count(), 4);
    }

    #[test]
    fn prompts_keep_the_numbers_of_their_lines_and_a_wrong_line_is_reported_with_its_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prompts.jsonl");
        let read_text = |text: &[u8]| {
            fs::write(&path, text).unwrap();
            let lines = read(&path).map_err(|error| format!("{error:#}"));
            lines.map(|lines| lines.iter().map(|line| line.0).collect::<Vec<_>>())
        };
        let with_mark =
            "\u{feff}{\"id\": 1, \"prompt\": \"a\"}\r\n\n\n{\"id\": 2, \"prompt\": \"b\"}\n";
        assert_eq!(read_text(with_mark.as_bytes()), Ok(vec![1, 4]));
        for (line, reason) in [
            (&b"{\"id\": 3, \"promt\": \"b\"}\n"[..], "promt"),
            (b"{\"id\": 3, \"prompt\": \"caf\xe9\"}\n", "not UTF-8"),
        ] {
            let error = read_text(&[with_mark.as_bytes(), line].concat()).unwrap_err();
            let place = "prompts.jsonl, line 5";
            assert!(error.contains(place) && error.contains(reason), "{error}");
        }
        let error = read(&folder.path().join("nothere.jsonl")).unwrap_err();
        assert!(error.is::<Usage>() && error.to_string().contains("nothere.jsonl"));
    }
}
