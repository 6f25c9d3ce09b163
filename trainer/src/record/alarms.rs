//! The lines of `alarms.jsonl`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A kind of alarm.
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
    /// Most prompts get the same completion.
    Repetition,
    /// The policy's completions hardly vary, although it has much left to learn.
    EntropyCollapse,
    /// Most completions are truncated, and their share does not fall.
    Truncation,
    /// In each group, all completions are correct or all are wrong, and most groups are wrong: nothing is learnt.
    AllWrong,
    /// In each group, all completions are correct or all are wrong, and at least half of the groups are correct: nothing is learnt.
    AllRight,
    /// By the importance weights, few samples count.
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

/// Whether an alarm is raised or cleared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AlarmState {
    /// The numbers have passed the limit that raises it.
    Raised,
    /// The numbers are normal again.
    Cleared,
}

/// A line of `alarms.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AlarmRecord {
    /// Updates done.
    pub step: usize,
    /// Which alarm.
    pub alarm: Alarm,
    /// Raised or cleared.
    pub state: AlarmState,
    /// The numbers in words, and what to do.
    pub text: String,
}

impl fmt::Display for AlarmRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let over = match self.state {
            AlarmState::Raised => "",
            AlarmState::Cleared => " is over",
        };
        write!(
            f,
            "{}{over} after update {}: {}",
            self.alarm, self.step, self.text
        )
    }
}
