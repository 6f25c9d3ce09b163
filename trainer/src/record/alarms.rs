//! The lines of `alarms.jsonl`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What may be going wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Alarm {
    /// The training reward rises while held-out Pass@1 falls.
    RewardHacking,
    /// Held-out Pass@1 falls, and the training reward does not rise.
    HeldOutFall,
    /// Completions have become far shorter.
    LengthCollapse,
    /// Completions have become far longer.
    LengthExplosion,
    /// One completion is given to most prompts.
    Repetition,
    /// The policy hardly varies what it says, with much left to learn.
    EntropyCollapse,
    /// Most completions are cut off at the limit, and it gets no better.
    Truncation,
    /// All completions of all groups are wrong: nothing is learnt.
    AllWrong,
    /// All completions of all groups are right: nothing is learnt.
    AllRight,
    /// The importance weights leave few samples that count.
    StaleSamples,
    /// Many completions have no verdict.
    Masked,
}

impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Alarm::RewardHacking => "reward hacking",
            Alarm::HeldOutFall => "held-out fall",
            Alarm::LengthCollapse => "length collapse",
            Alarm::LengthExplosion => "length explosion",
            Alarm::Repetition => "repetition",
            Alarm::EntropyCollapse => "entropy collapse",
            Alarm::Truncation => "truncation",
            Alarm::AllWrong => "all wrong",
            Alarm::AllRight => "all right",
            Alarm::StaleSamples => "stale samples",
            Alarm::Masked => "masked samples",
        })
    }
}

/// Whether an alarm begins or is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AlarmState {
    /// It begins.
    Raised,
    /// It is over.
    Cleared,
}

/// A line of `alarms.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AlarmRecord {
    /// Updates done.
    pub step: usize,
    /// Which alarm.
    pub alarm: Alarm,
    /// Begins, or is over.
    pub state: AlarmState,
    /// The numbers in words, and what to do.
    pub text: String,
}

impl fmt::Display for AlarmRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.state {
            AlarmState::Raised => write!(
                f,
                "{} after update {}: {}",
                self.alarm, self.step, self.text
            ),
            AlarmState::Cleared => write!(
                f,
                "{} is over after update {}: {}",
                self.alarm, self.step, self.text
            ),
        }
    }
}
