//! What supervised fine-tuning learns from: a teacher's completions, of which the verifier finds those that are right.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use engine::Finish;
use serde::{Deserialize, Serialize};
use verifier_api::Verdict;

use super::error::percent;
use super::folder::{self, RunFolder, write_aside};
use super::{Progress, TrainError};
use crate::config::Config;
use crate::data::{Asking, Prompt};
use crate::policy::Policy;
use crate::reward::{Ask, Judged, RewardClient};
use crate::rollout::{Sample, SampledGroup, Tally};

/// Completions judged between two words of progress.
const CHUNK: usize = 256;
/// The file in a run folder that has the teacher's completions that the verifier found right.
const CHOICE: &str = "teacher.jsonl";

/// A right completion of a prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct Lesson {
    /// The prompt.
    pub prompt: Arc<Prompt>,
    /// What the teacher wrote.
    pub text: String,
    /// Its token ids, and what ends it.
    pub tokens: Vec<u32>,
}

/// A line of a teacher's file. `rapid eval --out` and the samples of a run name the task `task`, `rapid generate` names it `id`; the rest is theirs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Line {
    #[serde(alias = "id")]
    task: String,
    completion: String,
    /// Why it ended: one that was cut off is no example of how to end.
    #[serde(default, skip_serializing)]
    finish: Option<Finish>,
}

impl Lesson {
    /// As an update takes it: a group of one, whose reward is 1.
    pub(super) fn group(&self) -> SampledGroup {
        SampledGroup {
            prompt: Arc::clone(&self.prompt),
            samples: vec![Sample {
                tokens: self.tokens.clone(),
                // There is no behaviour policy: the weight is 1.
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

/// A teacher's completions as they were read, before a model is.
#[derive(Debug)]
pub(super) struct Given {
    /// The teacher's file.
    path: PathBuf,
    lines: Vec<Line>,
    /// Whether they are those that the verifier found right when the run began.
    chosen: bool,
}

/// Lessons that nothing was written of yet.
#[derive(Debug)]
pub(super) struct Taught {
    lessons: Vec<Lesson>,
    /// Content of the file that keeps their choice, where the run has none.
    choice: Option<Vec<u8>>,
}

impl Given {
    /// What a recipe's teacher wrote, or what the run to continue, in the folder `begun`, chose of it. `None` where there is no teacher.
    pub(super) fn read(config: &Config, begun: Option<&Path>) -> Result<Option<Self>, TrainError> {
        let Some(path) = &config.data.teacher else {
            return Ok(None);
        };
        let kept = begun
            .map(|root| root.join(CHOICE))
            .filter(|kept| kept.exists());
        Ok(Some(Self {
            path: path.clone(),
            lines: read(config, kept.as_ref().unwrap_or(path))?,
            chosen: kept.is_some(),
        }))
    }

    /// The lessons among them.
    pub(super) async fn lessons(
        self,
        config: &Config,
        policy: &dyn Policy,
        rewards: &RewardClient,
        prompts: &[Arc<Prompt>],
        progress: &mut Progress,
    ) -> Result<Taught, TrainError> {
        let Self {
            path,
            lines,
            chosen,
        } = self;
        let refused = |reason: String| TrainError::Teacher {
            path: path.clone(),
            reason,
        };
        let by_id: HashMap<&str, &Arc<Prompt>> = prompts
            .iter()
            .map(|prompt| (prompt.task.id.as_str(), prompt))
            .collect();
        let right = if chosen {
            lines
        } else {
            let limit = config.verifier.max_masked;
            let (right, told, unjudged) = judged(rewards, &by_id, lines, limit, progress).await?;
            progress.say(&told);
            if let Some(reason) = unjudged {
                return Err(refused(format!(
                    "more of its completions have no verdict than the {} % that `verifier.max_masked` allows ({told}); the last reason was: {reason}. Mend the verifier, then give the same command again",
                    percent(limit)
                )));
            }
            if right.is_empty() {
                return Err(refused(format!(
                    "none of its completions can be learnt from ({told}); each line is {{\"task\": ID, \"completion\": TEXT}}, with an ID of the training split of {}, such as {}",
                    config.data.dataset,
                    prompts.first().map_or("none", |prompt| &prompt.task.id),
                )));
            }
            right
        };
        let choice = if chosen {
            None
        } else {
            Some(folder::lines(Path::new(CHOICE), &right)?)
        };
        let ending = Ending::of(config, policy)?;
        let all = right.len();
        let lessons: Vec<Lesson> = right
            .into_iter()
            .filter_map(|line| {
                let prompt = Arc::clone(by_id.get(line.task.as_str())?);
                Some(
                    ending
                        .tokens(policy, &line.completion)
                        .map(|tokens| Lesson {
                            prompt,
                            text: line.completion,
                            tokens,
                        }),
                )
            })
            .collect::<Result<_, _>>()?;
        let short: Vec<Lesson> = lessons
            .into_iter()
            .filter(|lesson| lesson.tokens.len() <= config.sampling.max_tokens)
            .collect();
        if short.len() < all {
            progress.say(&format!(
                "warning: {} right completions of the teacher are left out, since they have more than {} tokens (`sampling.max_tokens`)",
                all - short.len(),
                config.sampling.max_tokens
            ));
        }
        if short.is_empty() {
            return Err(refused(format!(
                "all of its right completions have more than {} tokens; raise `sampling.max_tokens`",
                config.sampling.max_tokens
            )));
        }
        Ok(Taught {
            lessons: short,
            choice,
        })
    }
}

impl Taught {
    /// The lessons, once their choice is kept in the run folder: a run that is taken up again learns from the same.
    pub(super) fn keep(self, folder: &RunFolder) -> Result<Vec<Lesson>, TrainError> {
        if let Some(choice) = &self.choice {
            write_aside(&folder.root().join(CHOICE), choice)?;
        }
        Ok(self.lessons)
    }
}

fn read(config: &Config, path: &Path) -> Result<Vec<Line>, TrainError> {
    let refused = |reason: String| TrainError::Teacher {
        path: path.to_owned(),
        reason,
    };
    let unreadable = |error: io::Error| TrainError::unread_teacher(config, path, &error);
    let file = File::open(path).map_err(unreadable)?;
    let mut lines = Vec::new();
    for (number, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(unreadable)?;
        if line.trim().is_empty() {
            continue;
        }
        lines.push(serde_json::from_str(&line).map_err(|error| {
            refused(format!(
                "line {} is no {{\"task\": ID, \"completion\": TEXT}} ({error})",
                number + 1
            ))
        })?);
    }
    Ok(lines)
}

/// The lines whose completions are right, what became of the others, and why the last of those without a verdict has none, where they are more than the share `max_masked`:
/// a verifier that fails is no reason to learn from less.
async fn judged(
    rewards: &RewardClient,
    prompts: &HashMap<&str, &Arc<Prompt>>,
    lines: Vec<Line>,
    max_masked: f64,
    progress: &mut Progress,
) -> Result<(Vec<Line>, String, Option<String>), TrainError> {
    let all = lines.len();
    let known: Vec<Line> = lines
        .into_iter()
        .filter(|line| prompts.contains_key(line.task.as_str()))
        .collect();
    let unknown = all - known.len();
    let whole: Vec<Line> = known
        .iter()
        .filter(|line| line.finish != Some(Finish::Length))
        .cloned()
        .collect();
    let cut_off = known.len() - whole.len();
    let started = Instant::now();
    let mut tally = Tally {
        wanted: whole.len(),
        ..Tally::default()
    };
    let (mut right, mut reason) = (Vec::new(), None);
    for chunk in whole.chunks(CHUNK) {
        let asks = chunk
            .iter()
            .filter_map(|line| {
                let prompt = prompts.get(line.task.as_str())?;
                Some(Ask {
                    task: prompt.task.clone(),
                    prompt: prompt.text.clone(),
                    completion: line.completion.clone(),
                })
            })
            .collect();
        for (line, judged) in chunk.iter().zip(rewards.judge(asks).await?) {
            match judged.reward {
                None => {
                    tally.masked += 1;
                    reason = Some(judged.detail.to_string());
                }
                Some(reward) if reward >= 1.0 => right.push(line.clone()),
                Some(_) => {}
            }
        }
        tally.drawn += chunk.len();
        tally.judged = tally.drawn;
        tally.reward = right.len() as f64;
        tally.elapsed = started.elapsed();
        progress.checking(&tally);
    }
    let told = format!(
        "the teacher's {all} completions: {} right, {} wrong, {cut_off} cut off, {} without a verdict, {unknown} of tasks that are not trained on",
        right.len(),
        whole.len() - right.len() - tally.masked,
        tally.masked,
    );
    let too_many = tally.masked as f64 > max_masked * whole.len() as f64;
    Ok((right, told, reason.filter(|_| too_many)))
}

/// What a completion ends with: what ends one that is sampled.
enum Ending {
    Text(String),
    Token(u32),
}

impl Ending {
    fn of(config: &Config, policy: &dyn Policy) -> Result<Self, TrainError> {
        let asking = Asking::new(&config.data)?;
        let stop_tokens = policy.stop_tokens();
        let token = match asking.turn_end(policy, &stop_tokens)? {
            None => stop_tokens.first().copied(),
            turn_end => turn_end,
        };
        match (asking.stop_strings().first(), token) {
            (Some(text), _) => Ok(Ending::Text(text.clone())),
            (None, Some(token)) => Ok(Ending::Token(token)),
            (None, None) => Err(engine::EngineError::Request(
                "the model has no end-of-text token, so it cannot be taught to end; set `data.stop`"
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
