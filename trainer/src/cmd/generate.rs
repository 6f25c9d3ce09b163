//! `rapid generate`: completions of prompts from the command line, a file or stdin, or of a data set's tasks.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal as _, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use clap::ArgGroup;
use datasets::Task;
use datasets::jsonl::{Line, LineError, Lines, MAX_LINE};
use engine::text::Date;
use engine::{Completion, Engine, EngineError, Finish, GenerateRequest, Leader};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::mpsc::UnboundedReceiver;
use trainer::config::{Eval, MAX_SAMPLES, MAX_TOKENS};
use trainer::data::PromptRenderer;
use trainer::interrupt::StopSignal;
use trainer::policy::{Policy, PromptEncoder as _};
use trainer::seed;
use trainer::stderr::say;

use super::args::{
    CutoffArgs, DeviceArgs, PromptArgs, check_completion_count, check_out_is_own, from_zero,
    model_path, open_dataset, open_model, positive, temperature, up_to,
};
use super::checkpoint_defaults::CheckpointDefaults;
use super::eval::{Split, create};
use super::progress_bar::progress_bar;
use super::prompts;
use super::{Interrupted, Usage, count};

/// Maximum tokens of a completion by default.
const DEFAULT_TOKENS: usize = 256;
/// Fields of the output. Every line has the first five.
const FIELDS: [&str; 7] = [
    "id",
    "sample",
    "completion",
    "finish",
    "tokens",
    "token_ids",
    "logprobs",
];

/// Complete prompts from the command line, a file or stdin, or the tasks of a data set
///
/// --prompt is one prompt, also of several lines, and `--prompt -` is all of stdin. A file of --prompts has a JSON object on each line if its first line is one, and
/// else a prompt of plain text on each line: {"prompt": "text"} is completed as it stands (with --chat it is the user's message), and
/// {"messages": [{"role": …, "content": …}, …]} is rendered with the model's chat template. Each line of the output is one sample, in the order of the input, with the
/// line's "id", or else its number, and the line's other keys. With --dataset, the id is the task's, and supervised fine-tuning reads the file as it is
/// (`data.teacher`).
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("source").required(true).args(["prompt_text", "prompts", "dataset"]))]
#[command(after_help = "\
Examples:
  rapid generate --model runs/quickstart/checkpoints/best --chat --prompt \"What is the capital of France?\"
  echo '{\"prompt\": \"1, 2, 3,\"}' | rapid generate --model smollm2-135m-instruct --prompts - | jq .completion
  rapid generate --model smollm2-135m-instruct --prompts prompts.jsonl --out completions.jsonl
  rapid generate --model runs/quickstart/checkpoints/step-10 --prompts prompts.jsonl -n 4 --temperature 0.9 --out samples.jsonl
  rapid generate --model teacher.gguf --dataset gsm8k --split train -n 5 --temperature 0.7 --top-p 0.95 --out teacher.jsonl")]
pub(crate) struct Args {
    /// A GGUF file, a folder with a Hugging Face checkpoint, or the name of a fetched model
    #[arg(long, value_name = "MODEL")]
    model: String,
    /// A prompt; may be repeated; - is all of stdin
    #[arg(id = "prompt_text", long = "prompt", value_name = "TEXT", allow_hyphen_values = true, conflicts_with_all = ["split", "template", "data_dir"])]
    prompt_text: Vec<String>,
    /// JSON Lines with "prompt" or "messages" on each line, or a prompt of plain text on each line; - is stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["split", "template", "data_dir"])]
    prompts: Option<PathBuf>,
    /// A data set's name, or a path to a file of tasks
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
    /// File for the completions; it appears when all of them are written [default: stdout, as they arrive]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// JSON Lines for --prompt on a terminal too, where it is the text alone
    #[arg(long)]
    json: bool,
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

#[derive(Debug, Default, Deserialize)]
struct PromptLine {
    id: Option<Value>,
    prompt: Option<String>,
    messages: Option<Vec<Message>>,
    /// Its other keys.
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    role: String,
    content: String,
}

#[derive(Debug, Serialize)]
struct CompletionLine<'a> {
    id: &'a Value,
    sample: usize,
    completion: &'a str,
    finish: Finish,
    tokens: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_ids: Option<&'a [u32]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<&'a [f32]>,
    #[serde(flatten)]
    others: &'a Map<String, Value>,
}

struct TokenPrompt {
    id: Value,
    tokens: Arc<[u32]>,
    others: Map<String, Value>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    super::on_ranks(args.device.threads, |ranks| generate(args, ranks))
}

fn generate(args: &Args, ranks: Option<&Leader>) -> anyhow::Result<()> {
    if let Some(out) = &args.out {
        check_out_is_own(out, "rapid generate", &FIELDS[..5])?;
    }
    let mut checkpoint = CheckpointDefaults::of(&model_path(&args.model)?)?;
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
    args.out.as_deref().map(create).transpose()?;
    let engine = open_model(&args.model, &args.device, ranks)?;
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
    if let Some(out) = &args.out {
        let written = count(prompts.len() * args.samples, "completion");
        say(&format!("{written} written to {}", out.display()));
    }
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
    let out = args.out.as_deref();
    let place = out.unwrap_or(Path::new("stdout")).display();
    let failed = || format!("{place} cannot be written");
    let mut file = out.map(create).transpose()?;
    let is_prompt = !args.prompt_text.is_empty() && io::stdout().is_terminal();
    let is_text = is_prompt && out.is_none() && !args.json && !args.logprobs;
    // Lines that wait for an earlier one, by position.
    let mut waiting = BTreeMap::new();
    let mut written = 0;
    let bar = progress_bar(total as u64, "samples");
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
            others: &prompts[completion.request].others,
        };
        let position = completion.request * args.samples + completion.sample;
        let line = match is_text {
            true => completion.text.clone(),
            false => serde_json::to_string(&line)?,
        };
        waiting.insert(position, line + "\n");
        while let Some(line) = waiting.remove(&written) {
            match &mut file {
                Some(file) => file.write_all(line.as_bytes()).with_context(failed)?,
                None => match bar.suspend(|| super::write_stdout(&line)) {
                    Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                        bar.finish_and_clear();
                        return Ok(());
                    }
                    other => other.with_context(failed)?,
                },
            }
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
    file.map_or(Ok(()), |file| file.finish().with_context(failed))
}

enum Source {
    /// What precedes a line's number in errors, the lines with their numbers from 1, and the date that a chat template writes.
    Lines(String, Vec<(usize, PromptLine)>, Date),
    Tasks(PromptRenderer, Vec<Task>),
}

impl Source {
    fn read(args: &Args, checkpoint: &mut CheckpointDefaults) -> anyhow::Result<Self> {
        if let Some(name) = &args.dataset {
            let dataset = open_dataset(name, args.data_dir.as_deref())?;
            let tasks = args.split.tasks(&dataset, args.limit);
            let renderer = checkpoint.renderer(&args.prompt, name, &tasks)?;
            return Ok(Source::Tasks(renderer, tasks));
        }
        let (place, mut lines) = match &args.prompts {
            Some(path) => (format!("{}, line ", name(path)), read(path)?),
            None => ("--prompt ".to_owned(), given(&args.prompt_text)?),
        };
        lines.truncate(args.limit.unwrap_or(usize::MAX));
        Ok(Source::Lines(place, lines, checkpoint.day()))
    }

    fn len(&self) -> usize {
        match self {
            Source::Lines(_, lines, _) => lines.len(),
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
            Source::Lines(place, lines, day) => {
                let prompts = lines.into_iter().map(|(number, line)| {
                    let tokens = tokens(engine, &line, args.prompt.chat, day);
                    let tokens = tokens.with_context(|| format!("{place}{number}"))?;
                    anyhow::Ok(TokenPrompt {
                        id: line.id.unwrap_or(number.into()),
                        tokens: tokens.into(),
                        others: line.others,
                    })
                });
                let prompts = prompts.collect::<Result<_, _>>()?;
                Ok((prompts, args.prompt.stop.clone()))
            }
            Source::Tasks(renderer, tasks) => {
                let prompts = prompts::of_tasks(&renderer, engine, tasks)?.into_iter();
                let prompts = prompts.map(|prompt| TokenPrompt {
                    id: prompt.task.id.clone().into(),
                    tokens: Arc::clone(&prompt.tokens),
                    others: Map::new(),
                });
                Ok((prompts.collect(), renderer.stop_strings().to_vec()))
            }
        }
    }
}

fn tokens(engine: &Engine, line: &PromptLine, chat: bool, day: Date) -> anyhow::Result<Vec<u32>> {
    let pair = |it: &Message| (it.role.clone(), it.content.clone());
    // `None` for a prompt that is continued as it stands.
    let messages: Option<Vec<_>> = match (&line.prompt, &line.messages) {
        (Some(prompt), None) => chat.then(|| vec![("user".to_owned(), prompt.clone())]),
        (None, Some(messages)) => Some(messages.iter().map(pair).collect()),
        _ => bail!("give either \"prompt\" or \"messages\""),
    };
    let tokens = match messages {
        Some(messages) => engine.encode_chat(&engine.chat_prompt(&messages, day)?)?,
        None => engine.encode(line.prompt.as_deref().unwrap_or_default(), true)?,
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

/// The prompts of `--prompt`, numbered from 1. A last line break of stdin is left out.
fn given(texts: &[String]) -> anyhow::Result<Vec<(usize, PromptLine)>> {
    let mut prompts = Vec::new();
    for (number, text) in (1..).zip(texts) {
        let mut text = text.clone();
        if text == "-" {
            // More than this fits in no context.
            text = io::read_to_string(io::stdin().take(MAX_LINE as u64 + 1))
                .context("the prompt on stdin cannot be read")?;
            if text.len() > MAX_LINE {
                bail!("the prompt on stdin is longer than {MAX_LINE} bytes");
            }
            text.truncate(text.strip_suffix('\n').unwrap_or(&text).len());
        }
        prompts.push((number, plain(text)));
    }
    Ok(prompts)
}

fn plain(text: String) -> PromptLine {
    PromptLine {
        prompt: Some(text),
        ..PromptLine::default()
    }
}

/// How errors name a file of prompts.
fn name(path: &Path) -> String {
    match path.to_str() {
        Some("-") => "stdin".to_owned(),
        _ => path.display().to_string(),
    }
}

/// The prompts of a file, or of stdin, with the numbers of their lines.
fn read(path: &Path) -> anyhow::Result<Vec<(usize, PromptLine)>> {
    let name = name(path);
    let problem = || format!("the prompts in {name} cannot be read");
    let opened = match path.to_str() {
        Some("-") => Ok(Box::new(io::stdin()) as Box<dyn Read>),
        _ => File::open(path).map(|file| Box::new(file) as _),
    };
    let file = match opened {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let problem = problem();
            bail!(Usage(format!(
                "{problem}: {error}; give another file with --prompts"
            )));
        }
        other => other.with_context(problem)?,
    };
    let mut source = Lines::new(file).with_context(problem)?;
    let mut lines = Vec::new();
    let failed = |error| match error {
        LineError::Io(error) => anyhow::Error::new(error).context(problem()),
        LineError::Line { line, reason } => anyhow!("{name}, line {line}: {reason}"),
    };
    let mut has_objects = None;
    while let Some(Line { number, text }) = source.next_line().map_err(failed)? {
        if !*has_objects.get_or_insert(text.starts_with('{')) {
            lines.push((number, plain(text.to_owned())));
            continue;
        }
        let mut line: PromptLine = serde_json::from_str(text).map_err(|error| {
            let reason = datasets::loose_json::reason(text.as_bytes(), &error);
            anyhow!(
                "{name}, line {number} is not {{\"prompt\": …}} or {{\"messages\": […]}}: {reason}"
            )
        })?;
        if line.prompt.is_some() == line.messages.is_some() {
            let keys: Vec<&str> = line.others.keys().map(String::as_str).collect();
            bail!("{name}, line {number}: give either \"prompt\" or \"messages\", beside {keys:?}");
        }
        line.others.retain(|key, _| !FIELDS.contains(&key.as_str()));
        lines.push((number, line));
    }
    if lines.is_empty() {
        bail!("{name} contains no prompts");
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
    async fn completions_are_in_order_and_an_unfinished_file_keeps_the_old() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out.jsonl");
        fs::write(&out, "old").unwrap();
        let line = ["generate", "--model=m", "--prompts=p", "-n2", "--out"];
        let line = line.map(OsStr::new).into_iter().chain([out.as_os_str()]);
        let args = Cli::parse_from(line).args;
        let prompts = ["a", "b"].map(|id| TokenPrompt {
            id: id.into(),
            tokens: [1].into(),
            others: Map::from_iter([("source".to_owned(), id.into())]),
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
        let going = StopSignal::default();
        let error = arrived(&[0, 2, 3], &going).await.unwrap_err();
        assert!(error.to_string().contains("after 1 of 4"), "{error}");
        assert_eq!(fs::read_to_string(&out).unwrap(), "old");

        arrived(&[2, 0, 3, 1], &going).await.unwrap();
        let text = fs::read_to_string(&out).unwrap();
        for (position, line) in text.lines().enumerate() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(line["completion"], format!("text {position}"));
            assert!(FIELDS[..5].iter().all(|it| line.get(it).is_some()));
            assert_eq!(line["source"], line["id"]);
        }
        assert_eq!(text.lines().count(), 4);
    }

    #[test]
    fn a_wrong_prompt_is_reported_with_its_line() {
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
            (b"plain text\n", "is not {\"prompt\""),
            (b"{\"id\": 3, \"prompt\": \"caf\xe9\"}\n", "not UTF-8"),
        ] {
            let error = read_text(&[with_mark.as_bytes(), line].concat()).unwrap_err();
            let place = "prompts.jsonl, line 5";
            assert!(error.contains(place) && error.contains(reason), "{error}");
        }
        fs::write(&path, "{\"prompt\": \"a\", \"level\": 2, \"tokens\": 9}").unwrap();
        let (number, line) = read(&path).unwrap().remove(0);
        assert_eq!((number, line.id), (1, None));
        assert_eq!(Value::from(line.others), serde_json::json!({"level": 2}));
        // Without objects, each line is a prompt.
        fs::write(&path, "a b\n\n{\"prompt\": 1}\n").unwrap();
        let lines = read(&path).unwrap().into_iter();
        let lines = lines.map(|(number, line)| (number, line.prompt.unwrap()));
        let expected = [(1, "a b"), (3, "{\"prompt\": 1}")];
        assert!(lines.eq(expected.map(|(number, text)| (number, text.to_owned()))));
        let error = read(&folder.path().join("nothere.jsonl")).unwrap_err();
        assert!(error.is::<Usage>() && error.to_string().contains("nothere.jsonl"));
    }
}
