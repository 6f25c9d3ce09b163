//! The lines of `alarms.jsonl`.

use std::fmt;

use serde::{Deserialize, Serialize};

datasets::choice! {
    /// A kind of alarm.
    #[derive(PartialOrd, Ord)]
    pub enum Alarm {
        /// The training reward rises while held-out Pass@1 falls.
        #[default]
        RewardHacking = "reward-hacking",
        /// Held-out Pass@1 falls, and the training reward does not rise.
        HeldOutFall = "held-out-fall",
        /// Completions have become far shorter.
        LengthCollapse = "length-collapse",
        /// Completions have become far longer.
        LengthExplosion = "length-explosion",
        /// Most prompts get the same completion.
        Repetition = "repetition",
        /// The policy's completions hardly vary, although it has much left to learn.
        EntropyCollapse = "entropy-collapse",
        /// Most completions are truncated, and their share does not fall.
        Truncation = "truncation",
        /// In each group, all completions are correct or all are wrong, and most groups are wrong: nothing is learnt.
        AllWrong = "all-wrong",
        /// In each group, all completions are correct or all are wrong, and at least half of the groups are correct: nothing is learnt.
        AllRight = "all-right",
        /// By the importance weights, few samples count.
        StaleSamples = "stale-samples",
        /// Many completions have no verdict.
        Masked = "masked",
        /// Nearly all completions of the first phase have no answer in the form that is graded.
        NoAnswer = "no-answer",
    }
}

impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name().replace('-', " "))
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
    /// Updates done; 0 for an alarm of the first phase's samples.
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
        let (alarm, step, text) = (self.alarm, self.step, &self.text);
        write!(f, "{alarm}{over} after update {step}: {text}")
    }
}
