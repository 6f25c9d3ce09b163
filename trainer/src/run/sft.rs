//! The data of supervised fine-tuning: the completions of a teacher's file that the verifier finds correct.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use datasets::jsonl::{Line, LineError, Lines};
use datasets::loose_json;
use engine::Finish;
use serde::{Deserialize, Serialize};
use verifier_api::Verdict;

use super::TrainError;
use super::error::percent;
use super::folder::{self, RunFolder, write_whole};
use super::observers::Progress;
use crate::config::Config;
use crate::data::{Prompt, PromptRenderer};
use crate::policy::Policy;
use crate::reward::{JudgeRequest, Judged, RewardClient};
use crate::rollout::{RolloutProgress, Sample, SampledGroup};

/// Completions judged between two reports of progress.
const CHUNK: usize = 256;
/// The file in a run folder with the teacher's completions that the verifier found correct.
const FILE: &str = "teacher.jsonl";

/// A correct completion of a prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct Demonstration {
    /// The prompt.
    pub prompt: Arc<Prompt>,
    /// What the teacher wrote.
    pub text: String,
    /// Its token ids, with those that end it.
    pub tokens: Vec<u32>,
}

/// A line of a teacher's file. `rapid eval --out` and the samples of a run name the task `task`, `rapid generate` names it `id`. Other keys are ignored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct TeacherLine {
    #[serde(alias = "id")]
    task: String,
    completion: String,
    /// Why it ended. A truncated completion is not an example of how to end.
    #[serde(default, skip_serializing)]
    finish: Option<Finish>,
}

impl Demonstration {
    /// The demonstration as an update uses it: a group of one, whose reward is 1.
    pub(super) fn group(&self) -> SampledGroup {
        SampledGroup {
            prompt: Arc::clone(&self.prompt),
            samples: vec![Sample {
                tokens: self.tokens.clone(),
                // Without a behaviour policy, the importance weight is 1.
                logp: Vec::new(),
                reference: Vec::new(),
                padding: None,
                text: self.text.clone(),
                finish: Finish::Stop,
                judged: Judged {
                    reward: Some(1.0),
                    verdict: Verdict::Correct,
                    detail: serde_json::Value::Null,
                    passed: None,
                    total: None,
                },
            }],
        }
    }
}

/// A teacher's file, read before the model is.
#[derive(Debug)]
pub(super) struct TeacherFile {
    path: PathBuf,
    lines: Vec<TeacherLine>,
    /// Whether these are the lines that the verifier found correct when the run began.
    judged: bool,
}

/// Demonstrations that are not saved in the run folder yet.
#[derive(Debug)]
pub(super) struct SftData {
    demonstrations: Vec<Demonstration>,
    /// The content of [`FILE`], unless the run has it already.
    file: Option<Vec<u8>>,
}

impl TeacherFile {
    /// Reads the recipe's teacher. If `run` is a run to resume, it reads the correct lines that the run stored. `None` if the recipe has no teacher.
    pub(super) fn read(config: &Config, run: Option<&Path>) -> Result<Option<Self>, TrainError> {
        let Some(path) = &config.data.teacher else {
            return Ok(None);
        };
        let stored = run
            .map(|root| root.join(FILE))
            .filter(|stored| stored.exists());
        Ok(Some(Self {
            path: path.clone(),
            lines: read(config, stored.as_ref().unwrap_or(path))?,
            judged: stored.is_some(),
        }))
    }

    /// Has the verifier judge the completions, and makes demonstrations of those that are correct and short enough.
    pub(super) async fn judge(
        self,
        config: &Config,
        policy: &dyn Policy,
        rewards: &RewardClient,
        prompts: &[Arc<Prompt>],
        progress: &mut Progress,
    ) -> Result<SftData, TrainError> {
        let by_id: HashMap<&str, &Arc<Prompt>> = prompts
            .iter()
            .map(|prompt| (prompt.task.id.as_str(), prompt))
            .collect();
        let refused = |reason: String| refused(&self.path, &reason);
        let (correct, file) = if self.judged {
            (self.lines, None)
        } else {
            let limit = config.verifier.max_masked;
            let verdicts = judge(rewards, &by_id, self.lines, progress).await?;
            progress.say(&verdicts.summary);
            // A run does not train on fewer demonstrations because the verifier fails.
            if verdicts.masked as f64 > limit * verdicts.requested as f64 {
                return Err(refused(format!(
                    "more of its completions have no verdict than the {} % that `verifier.max_masked` allows ({}); the last reason was: {}. Fix the verifier, then run the same command again",
                    percent(limit),
                    verdicts.summary,
                    verdicts.reason
                )));
            }
            if verdicts.correct.is_empty() {
                return Err(refused(format!(
                    "none of its completions can be used ({}); each line is {{\"task\": ID, \"completion\": TEXT}}, with an ID of the training split of {}, such as {}",
                    verdicts.summary,
                    config.data.dataset,
                    prompts.first().map_or("none", |prompt| &prompt.task.id),
                )));
            }
            let file = folder::lines(Path::new(FILE), &verdicts.correct)?;
            (verdicts.correct, Some(file))
        };
        let ending = Ending::of(config, policy)?;
        let all = correct.len();
        let mut demonstrations = Vec::with_capacity(all);
        for line in correct {
            let Some(prompt) = by_id.get(line.task.as_str()) else {
                continue;
            };
            let tokens = ending.tokens(policy, &line.completion)?;
            if tokens.len() <= config.sampling.max_tokens {
                demonstrations.push(Demonstration {
                    prompt: Arc::clone(prompt),
                    text: line.completion,
                    tokens,
                });
            }
        }
        if demonstrations.len() < all {
            progress.say(&format!(
                "warning: {} correct completions of the teacher are left out, because they have more than {} tokens (`sampling.max_tokens`)",
                all - demonstrations.len(),
                config.sampling.max_tokens
            ));
        }
        if demonstrations.is_empty() {
            return Err(refused(format!(
                "all of its correct completions have more than {} tokens; raise `sampling.max_tokens`",
                config.sampling.max_tokens
            )));
        }
        Ok(SftData {
            demonstrations,
            file,
        })
    }
}

impl SftData {
    /// Saves the correct lines in the run folder, so that a resumed run trains on the same ones, and returns the demonstrations.
    pub(super) fn save(self, folder: &RunFolder) -> Result<Vec<Demonstration>, TrainError> {
        if let Some(file) = &self.file {
            write_whole(&folder.root().join(FILE), file)?;
        }
        Ok(self.demonstrations)
    }
}

/// The number of a teacher's completions.
///
/// # Errors
/// If the file cannot be read.
pub fn count_teacher_lines(config: &Config, path: &Path) -> Result<usize, TrainError> {
    read(config, path).map(|lines| lines.len())
}

/// The error for a teacher's completions that cannot be used: what is wrong, and the remedy.
fn refused(path: &Path, reason: &str) -> TrainError {
    TrainError::Refused(format!("the teacher's file {}: {reason}", path.display()))
}

fn read(config: &Config, path: &Path) -> Result<Vec<TeacherLine>, TrainError> {
    let refused = |reason: String| refused(path, &reason);
    let unreadable = |error: io::Error| {
        let reason = format!(
            "it cannot be read ({error}); write it with `rapid generate --model TEACHER --dataset {} --split train -n 5 --temperature 0.7 --out {}`, with this \
             recipe's template and limit of tokens (--template, --max-tokens), or give another as `data.teacher`",
            config.data.dataset,
            path.display()
        );
        let refusal = refused(reason);
        if path.exists() {
            refusal
        } else {
            TrainError::Usage(refusal.to_string())
        }
    };
    let file = File::open(path).map_err(unreadable)?;
    let mut lines = Vec::new();
    let mut source = Lines::new(file).map_err(unreadable)?;
    let next = |error| match error {
        LineError::Io(error) => unreadable(error),
        LineError::Line { .. } => refused(error.to_string()),
    };
    while let Some(Line { number, text }) = source.next_line().map_err(next)? {
        lines.push(serde_json::from_str(text).map_err(|error| {
            refused(format!(
                "line {number} is not {{\"task\": ID, \"completion\": TEXT}} ({})",
                loose_json::reason(text.as_bytes(), &error)
            ))
        })?);
    }
    Ok(lines)
}

/// The verdicts on a teacher's completions.
struct TeacherVerdicts {
    correct: Vec<TeacherLine>,
    /// How many are correct, and why the others are not used.
    summary: String,
    /// How many were to be judged, how many have no verdict, and the verifier's last reason.
    requested: usize,
    masked: usize,
    reason: String,
}

async fn judge(
    rewards: &RewardClient,
    prompts: &HashMap<&str, &Arc<Prompt>>,
    lines: Vec<TeacherLine>,
    progress: &mut Progress,
) -> Result<TeacherVerdicts, TrainError> {
    let all = lines.len();
    let mut whole = lines;
    whole.retain(|line| prompts.contains_key(line.task.as_str()));
    let known = whole.len();
    whole.retain(|line| line.finish != Some(Finish::Length));
    let (unknown, cut_off) = (all - known, known - whole.len());
    let started = Instant::now();
    let mut counts = RolloutProgress {
        wanted: whole.len(),
        ..RolloutProgress::default()
    };
    let (mut correct, mut reason) = (Vec::new(), String::new());
    for chunk in whole.chunks(CHUNK) {
        let requests = chunk
            .iter()
            .filter_map(|line| {
                let prompt = prompts.get(line.task.as_str())?;
                Some(JudgeRequest {
                    task: prompt.task.clone(),
                    prompt: prompt.text.clone(),
                    completion: line.completion.clone(),
                })
            })
            .collect();
        for (line, judged) in chunk.iter().zip(rewards.judge(requests).await?) {
            match judged.reward {
                None => {
                    counts.masked += 1;
                    reason = judged.detail.to_string();
                }
                Some(reward) if reward >= 1.0 => correct.push(line.clone()),
                Some(_) => {}
            }
        }
        counts.sampled += chunk.len();
        counts.judged = counts.sampled;
        counts.reward = correct.len() as f64;
        counts.elapsed = started.elapsed();
        progress.judging_teacher(&counts);
    }
    let summary = format!(
        "the teacher's {all} completions: {} right, {} wrong, {cut_off} cut off, {} without a verdict, {unknown} of tasks that are not trained on",
        correct.len(),
        whole.len() - correct.len() - counts.masked,
        counts.masked,
    );
    Ok(TeacherVerdicts {
        correct,
        summary,
        requested: whole.len(),
        masked: counts.masked,
        reason,
    })
}

/// The end of a demonstration: the stop string or token that also ends a sampled completion.
enum Ending {
    Text(String),
    Token(u32),
}

impl Ending {
    fn of(config: &Config, policy: &dyn Policy) -> Result<Self, TrainError> {
        let renderer = PromptRenderer::new(&config.data)?;
        let stop_tokens = policy.stop_tokens();
        let token = match renderer.turn_end(policy, &stop_tokens)? {
            None => stop_tokens.first().copied(),
            turn_end => turn_end,
        };
        match (renderer.stop_strings().first(), token) {
            (Some(text), _) => Ok(Ending::Text(text.clone())),
            (None, Some(token)) => Ok(Ending::Token(token)),
            (None, None) => Err(engine::EngineError::Request(
                "the model has no end-of-text token, so it cannot learn to end a completion; set `data.stop`"
                    .into(),
            )
            .into()),
        }
    }

    fn tokens(&self, policy: &dyn Policy, text: &str) -> Result<Vec<u32>, TrainError> {
        Ok(match self {
            Ending::Text(end) => policy.encode(&format!("{text}{end}"), false)?,
            Ending::Token(end) => {
                let mut tokens = policy.encode(text, false)?;
                tokens.push(*end);
                tokens
            }
        })
    }
}
