//! The data of supervised fine-tuning: the completions of a teacher's file that the verifier finds correct.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use datasets::Template;
use datasets::jsonl::{Line, LineError, Lines};
use datasets::loose_json;
use engine::Finish;
use serde::{Deserialize, Serialize};
use verifier_api::Verdict;

use super::TrainError;
use super::folder;
use super::masked::MaskedCount;
use super::observers::Progress;
use crate::config::Config;
use crate::data::{Prompt, PromptRenderer};
use crate::policy::Policy;
use crate::reward::{Judged, RewardClient};
use crate::rollout::{RolloutProgress, Sample, SampledGroup};

/// Completions judged between two reports of progress.
const CHUNK: usize = 256;
/// The file in a run folder with the teacher's completions that the verifier found correct.
pub(super) const FILE: &str = "teacher.jsonl";

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

/// A correct completion of a prompt, with the tokens that end it, as an update uses it: a group of one with the reward 1.
pub(super) fn demonstration(prompt: &Arc<Prompt>, text: String, tokens: Vec<u32>) -> SampledGroup {
    SampledGroup {
        prompt: Arc::clone(prompt),
        samples: vec![Sample {
            tokens,
            // Without a behaviour policy, the importance weight is 1.
            logp: Vec::new(),
            reference: Vec::new(),
            padding: None,
            text,
            finish: Finish::Stop,
            judged: Judged {
                reward: Some(1.0),
                verdict: Verdict::Correct,
                ..Judged::default()
            },
        }],
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

    /// Has the verifier judge the completions, and makes demonstrations of those that are correct and short enough. Also returns the content of [`FILE`], unless the
    /// run has it already: a resumed run trains on the same completions.
    pub(super) async fn judge(
        self,
        config: &Config,
        policy: &dyn Policy,
        rewards: &RewardClient,
        prompts: &[Arc<Prompt>],
        progress: &mut Progress,
    ) -> Result<(Vec<SampledGroup>, Option<Vec<u8>>), TrainError> {
        let by_id: HashMap<&str, &Arc<Prompt>> = prompts
            .iter()
            .map(|prompt| (prompt.task.id.as_str(), prompt))
            .collect();
        let refused = |reason: String| refused(&self.path, &reason);
        let correct = if self.judged {
            self.lines
        } else {
            let limit = config.verifier.max_masked;
            let (correct, masked, summary) = judge(rewards, &by_id, self.lines, progress).await?;
            // A run does not train on fewer demonstrations because the verifier fails.
            masked
                .check(limit, "this file")
                .map_err(|error| refused(error.to_string()))?;
            if correct.is_empty() {
                return Err(refused(format!(
                    "none of its completions can be used ({summary}); each line is {{\"task\": ID, \"completion\": TEXT}}, with an ID of the training split of {}, such as {}",
                    config.data.name(),
                    prompts.first().map_or("none", |prompt| &prompt.task.id),
                )));
            }
            correct
        };
        let file = match self.judged {
            true => None,
            false => Some(folder::lines(Path::new(FILE), &correct)?),
        };
        let stop_tokens = policy.stop_tokens();
        // The token that ends a turn does not depend on the template.
        let renderer = PromptRenderer::with_template(Template::for_dataset(""), &config.data);
        let turn_end = renderer.turn_end(policy, &stop_tokens)?;
        let turn_end = turn_end.or(stop_tokens.first().copied());
        let all = correct.len();
        let mut demonstrations = Vec::with_capacity(all);
        for line in correct {
            let Some(prompt) = by_id.get(line.task.as_str()) else {
                continue;
            };
            // What ends a sampled completion: the stop string, or a token.
            let mut text = line.completion.clone();
            text.extend(prompt.stop.first().cloned());
            let mut tokens = policy.encode(&text, false)?;
            if prompt.stop.is_empty() {
                tokens.push(turn_end.ok_or_else(|| {
                    let reason = "the model has no end-of-text token, so it cannot learn to end a completion; set `data.stop`";
                    engine::EngineError::Request(reason.into())
                })?);
            }
            if tokens.len() <= config.sampling.max_tokens {
                demonstrations.push(demonstration(prompt, line.completion, tokens));
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
        Ok((demonstrations, file))
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
            config.data.name(),
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

/// The lines that the verifier finds correct, the count of those without a verdict, and in words how many are correct, and why the others are not used.
async fn judge(
    rewards: &RewardClient,
    prompts: &HashMap<&str, &Arc<Prompt>>,
    mut lines: Vec<TeacherLine>,
    progress: &mut Progress,
) -> Result<(Vec<TeacherLine>, MaskedCount, String), TrainError> {
    let all = lines.len();
    lines.retain(|line| prompts.contains_key(line.task.as_str()));
    let known = lines.len();
    lines.retain(|line| line.finish != Some(Finish::Length));
    let wanted = lines.len();
    let (unknown, cut_off) = (all - known, known - wanted);
    let started = Instant::now();
    let mut counts = RolloutProgress {
        wanted,
        ..RolloutProgress::default()
    };
    let (mut correct, mut masked) = (Vec::new(), MaskedCount::default());
    for chunk in lines.chunks(CHUNK) {
        let completions: Vec<(&Prompt, &str)> = chunk
            .iter()
            .map(|line| (&**prompts[line.task.as_str()], line.completion.as_str()))
            .collect();
        let judged = rewards.judge(&completions).await?;
        masked.add(judged.iter().map(|it| (it.reward, &it.detail)));
        for (line, judged) in chunk.iter().zip(judged) {
            match judged.reward {
                None => counts.masked += 1,
                Some(reward) if reward >= 1.0 => correct.push(line.clone()),
                Some(_) => {}
            }
        }
        counts.sampled += chunk.len();
        counts.judged = counts.sampled;
        counts.reward = correct.len() as f64;
        counts.elapsed = started.elapsed();
        progress.rollout("teacher", &counts);
    }
    let summary = format!(
        "the teacher's {all} completions: {} right, {} wrong, {cut_off} cut off, {} without a verdict, {unknown} of tasks that are not trained on",
        correct.len(),
        wanted - correct.len() - counts.masked,
        counts.masked,
    );
    progress.say(&summary);
    Ok((correct, masked, summary))
}
