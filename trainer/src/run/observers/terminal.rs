//! Progress on stderr: a bar if it is a terminal, lines if it is not.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use datasets::passk::{MIN_TASKS, no_interval, percent};
use indicatif::{ProgressBar, ProgressStyle};

use super::time_left::{TimeLeft, spoken};
use crate::config::Config;
use crate::data::{Phase, Schedule};
use crate::record::{Alarm, EvalRecord, StepRecord, best};
use crate::rollout::RolloutProgress;
use crate::stderr::say;

/// Shortest time between two lines about one piece of work.
const REMINDER: Duration = Duration::from_secs(30);

/// Reports the progress of a run.
#[derive(Debug)]
pub struct Progress {
    shape: Shape,
    /// `None` before the run begins.
    time_left: Option<TimeLeft>,
    /// Training reward of the last update, or of the phase under way.
    reward: Option<f64>,
    /// The best evaluation after at least one update: its step and its Pass@1.
    best: Option<(usize, f64)>,
    /// Seconds until the last completion of the phase under way was drawn.
    drawn: Option<f64>,
    /// Since the update under way began.
    since: Instant,
    said: Instant,
}

#[derive(Debug)]
enum Shape {
    Bar(ProgressBar),
    Lines,
    Silent,
}

impl Progress {
    /// A bar on a terminal, lines elsewhere.
    #[must_use]
    pub fn on_stderr() -> Self {
        if std::io::stderr().is_terminal() {
            let bar = ProgressBar::new(0);
            // The template is a constant of this program; a bar of another look would do as well.
            if let Ok(style) =
                ProgressStyle::with_template("{spinner} {prefix} [{bar:12}] {pos}/{len} {wide_msg}")
            {
                bar.set_style(style.progress_chars("=> "));
            }
            return Self::new(Shape::Bar(bar));
        }
        Self::new(Shape::Lines)
    }

    /// Nothing at all.
    #[must_use]
    pub fn silent() -> Self {
        Self::new(Shape::Silent)
    }

    fn new(shape: Shape) -> Self {
        Self {
            shape,
            time_left: None,
            reward: None,
            best: None,
            drawn: None,
            since: Instant::now(),
            said: Instant::now(),
        }
    }

    /// The run starts or resumes at `step`.
    pub(in crate::run) fn begin(
        &mut self,
        config: &Config,
        schedule: Schedule,
        step: usize,
        evals: &[EvalRecord],
    ) {
        self.time_left = Some(TimeLeft::new(config, schedule, step, evals));
        self.best = best(evals);
        if let Shape::Bar(bar) = &self.shape {
            // An update says nothing until it is done; the spinner shows that it is under way.
            bar.enable_steady_tick(Duration::from_millis(200));
        }
    }

    /// A line of its own.
    pub fn say(&self, text: &str) {
        match &self.shape {
            Shape::Bar(bar) => bar.suspend(|| say(text)),
            Shape::Lines => say(text),
            Shape::Silent => {}
        }
    }

    /// The alarms of a resumed run that are not over.
    pub(in crate::run) fn standing(&self, alarms: impl Iterator<Item = Alarm>) {
        let names: Vec<String> = alarms.map(|alarm| alarm.to_string()).collect();
        if !names.is_empty() {
            self.say(&format!(
                "warning: not over yet, see alarms.jsonl: {}",
                names.join(", ")
            ));
        }
    }

    /// Progress of a training phase.
    pub(in crate::run) fn drawing(&mut self, phase: usize, tally: &RolloutProgress) {
        let seconds = tally.elapsed.as_secs_f64();
        let phases = self.time_left.as_ref().map_or(0, TimeLeft::phases);
        if let Some(time_left) = &mut self.time_left {
            time_left.drawing(seconds, tally.drawn);
        }
        self.reward = mean_reward(tally).or(self.reward);
        let place = format!("{}/{phases}", phase + 1);
        if tally.drawn < tally.wanted {
            self.drawn = None;
        } else {
            self.drawn.get_or_insert(seconds);
        }
        if tally.wanted > 0 && tally.judged == tally.wanted {
            if let Some(time_left) = &mut self.time_left {
                time_left.sampled(phase);
            }
            let drawn = self.drawn.take().unwrap_or(seconds);
            self.said = Instant::now();
            self.say(&format!(
                "phase {place}: {} completions in {} ({}), judged {:.1} s later{}",
                tally.drawn,
                spoken(drawn),
                rate(tally.tokens, drawn),
                seconds - drawn,
                outcome(tally)
            ));
        } else {
            self.sampling(("inference", "verify"), &place, tally);
        }
    }

    /// Progress of an evaluation.
    pub(in crate::run) fn evaluating(&mut self, tally: &RolloutProgress) {
        if let Some(time_left) = &mut self.time_left {
            time_left.evaluating(tally.elapsed.as_secs_f64(), tally.drawn, tally.wanted);
        }
        self.sampling(("evaluation", "evaluation, verify"), "", tally);
    }

    /// Progress of judging a teacher's completions.
    pub(in crate::run) fn checking(&mut self, tally: &RolloutProgress) {
        self.sampling(("teacher", "teacher, verify"), "", tally);
    }

    /// `names` of what is under way, while completions are drawn and while the last are judged.
    fn sampling(&mut self, names: (&str, &str), place: &str, tally: &RolloutProgress) {
        let (name, done) = if tally.drawn < tally.wanted {
            (names.0, tally.drawn)
        } else {
            (names.1, tally.judged)
        };
        let name = format!("{name} {place}");
        let name = name.trim_end();
        let state = format!("{}{}", sampling_state(tally), self.ahead());
        match &self.shape {
            Shape::Bar(bar) => {
                bar.set_length(tally.wanted as u64);
                bar.set_position(done as u64);
                bar.set_prefix(name.to_owned());
                bar.set_message(state);
            }
            Shape::Lines if self.said.elapsed() > REMINDER => {
                say(&format!(
                    "{name}: {done} of {} completions, {state}",
                    tally.wanted
                ));
                self.said = Instant::now();
            }
            Shape::Lines | Shape::Silent => {}
        }
    }

    /// An update begins.
    pub(in crate::run) fn updating(&mut self, phase: &Phase, update: usize) {
        self.since = Instant::now();
        let Some(time_left) = &mut self.time_left else {
            return;
        };
        time_left.sampled(phase.index);
        if let Shape::Bar(bar) = &self.shape {
            bar.set_prefix("update");
            bar.set_length(time_left.updates() as u64);
            bar.set_position((phase.first_update + update) as u64);
            let each = time_left
                .update()
                .map(|seconds| format!(", {} each", spoken(seconds)))
                .unwrap_or_default();
            bar.set_message(format!(
                "{} of {} in phase {}/{}{each}{}{}",
                update + 1,
                phase.updates.len(),
                phase.index + 1,
                time_left.phases(),
                self.reward
                    .map(|reward| format!(", reward {reward:.3}"))
                    .unwrap_or_default(),
                self.ahead()
            ));
        }
    }

    /// An update is done.
    pub(in crate::run) fn updated(&mut self, record: &StepRecord) {
        self.said = Instant::now();
        self.reward = Some(record.algo.reward);
        let updates = self.time_left.as_mut().map_or(0, |time_left| {
            time_left.updated(record.step, self.since.elapsed().as_secs_f64());
            time_left.updates()
        });
        self.say(&update_line(record, updates, &self.ahead()));
    }

    /// An evaluation is done.
    pub(in crate::run) fn evaluated(&mut self, record: &EvalRecord) {
        self.said = Instant::now();
        if let Some(time_left) = &mut self.time_left {
            time_left.evaluated(record.step);
        }
        if let Some(now) = best(std::slice::from_ref(record))
            && self.best.is_none_or(|before| now.1 > before.1)
        {
            self.best = Some(now);
        }
        self.say(&evaluation_line(record, self.best));
    }

    /// Removes the bar.
    pub(in crate::run) fn end(&self) {
        if let Shape::Bar(bar) = &self.shape {
            bar.finish_and_clear();
        }
    }

    /// The time left and the best evaluation so far.
    fn ahead(&self) -> String {
        let best = self
            .best
            .map(|(_, pass)| format!(", best Pass@1 {}", percent(pass)))
            .unwrap_or_default();
        let left = self
            .time_left
            .as_ref()
            .and_then(TimeLeft::left)
            .filter(|seconds| *seconds > 0.0)
            .map(|seconds| format!(", run {} left", spoken(seconds)))
            .unwrap_or_default();
        left + &best
    }
}

fn rate(tokens: usize, seconds: f64) -> String {
    format!("{:.0} tokens/s", tokens as f64 / seconds.max(1e-3))
}

fn mean_reward(tally: &RolloutProgress) -> Option<f64> {
    let judged = tally.judged - tally.masked;
    (judged > 0).then(|| tally.reward / judged as f64)
}

/// Reward and what has none.
fn outcome(tally: &RolloutProgress) -> String {
    let reward = mean_reward(tally)
        .map(|reward| format!(", reward {reward:.3}"))
        .unwrap_or_default();
    match tally.masked {
        0 => reward,
        masked => format!("{reward}, {masked} masked"),
    }
}

fn sampling_state(tally: &RolloutProgress) -> String {
    let seconds = tally.elapsed.as_secs_f64();
    if tally.drawn == 0 {
        return "none done yet".to_owned();
    }
    let left = (tally.drawn < tally.wanted)
        .then(|| seconds * (tally.wanted - tally.drawn) as f64 / tally.drawn as f64)
        .map(|seconds| format!(", {} left", spoken(seconds)))
        .unwrap_or_default();
    format!("{}{}{left}", rate(tally.tokens, seconds), outcome(tally))
}

fn update_line(record: &StepRecord, updates: usize, ahead: &str) -> String {
    let algo = &record.algo;
    format!(
        "update {}/{updates}: reward {:.3} ({} right, {} mixed, {} wrong), grad norm {:.3}, entropy {:.3}, mean |log w| {:.4}, length {:.1}{ahead}",
        record.step,
        algo.reward,
        record.groups.right,
        record.groups.mixed,
        record.groups.wrong,
        record.grad_norm,
        record.entropy,
        algo.stale_mean_abs_log,
        record.length_mean,
    )
}

fn evaluation_line(record: &EvalRecord, best: Option<(usize, f64)>) -> String {
    let mut figures: Vec<String> = record
        .pass_at
        .iter()
        .map(|(k, estimate)| {
            let interval = estimate.interval.map(|interval| {
                format!(
                    " (95% interval {} to {})",
                    percent(interval.low),
                    percent(interval.high)
                )
            });
            let interval = interval.unwrap_or_default();
            format!("Pass@{k} {}{interval}", percent(estimate.mean))
        })
        .collect();
    // The same for every k, but for masked samples.
    let fewest = record.pass_at.values().map(|estimate| estimate.tasks).min();
    if let Some(tasks) = fewest.filter(|tasks| *tasks < MIN_TASKS) {
        figures.push(no_interval(tasks));
    }
    if record.masked > 0 {
        figures.push(format!("{} masked", record.masked));
    }
    let best = match best {
        Some((step, _)) if step == record.step => "; the best so far".to_owned(),
        Some((step, pass)) => format!("; the best so far: Pass@1 {} after {step}", percent(pass)),
        None => String::new(),
    };
    let s = |number: usize| if number == 1 { "" } else { "s" };
    let tasks = record.tasks.len();
    format!(
        "evaluation after {} update{} on {tasks} task{}: {}{best}",
        record.step,
        s(record.step),
        s(tasks),
        figures.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use datasets::passk::{self, Counts};

    #[test]
    fn a_phase_under_way_says_how_fast_how_good_and_how_long() {
        let tally = RolloutProgress {
            wanted: 256,
            drawn: 64,
            tokens: 1200,
            judged: 40,
            reward: 9.0,
            masked: 4,
            elapsed: Duration::from_secs(20),
        };
        assert_eq!(
            sampling_state(&tally),
            "60 tokens/s, reward 0.250, 4 masked, 1 min left"
        );
        let first = RolloutProgress {
            wanted: 256,
            ..RolloutProgress::default()
        };
        assert_eq!(sampling_state(&first), "none done yet");
    }

    fn evaluated(step: usize, tasks: usize) -> EvalRecord {
        let counts = Counts {
            judged: 4,
            correct: 2,
        };
        let tasks: BTreeMap<String, Counts> =
            (0..tasks).map(|task| (task.to_string(), counts)).collect();
        let all: Vec<Counts> = tasks.values().copied().collect();
        EvalRecord {
            step,
            samples: 4,
            pass_at: [(1, passk::pass_at(&all, 1).unwrap())].into(),
            tasks,
            masked: 0,
            length_mean: 8.0,
            truncated: 0.0,
        }
    }

    #[test]
    fn an_evaluation_says_which_was_best() {
        let line = |step, best| evaluation_line(&evaluated(step, 24), best);
        let figures = "Pass@1 50.0% (95% interval 50.0% to 50.0%)";
        assert!(line(0, None).ends_with(&format!("on 24 tasks: {figures}")));
        assert!(line(8, Some((8, 0.5))).ends_with("; the best so far"));
        assert!(line(9, Some((8, 0.6))).ends_with("; the best so far: Pass@1 60.0% after 8"));
        let masked = EvalRecord {
            masked: 3,
            ..evaluated(8, 24)
        };
        assert!(
            evaluation_line(&masked, Some((8, 0.5)))
                .ends_with(&format!("{figures}, 3 masked; the best so far"))
        );
    }

    #[test]
    fn an_evaluation_on_few_tasks_has_no_interval() {
        assert_eq!(
            evaluation_line(&evaluated(1, 1), None),
            "evaluation after 1 update on 1 task: Pass@1 50.0%, no interval: 1 task, and it takes 20"
        );
    }
}
