//! Progress on stderr: a bar if it is a terminal, lines if it is not.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use datasets::passk::{MIN_TASKS, no_interval, percent};
use indicatif::{ProgressBar, ProgressStyle};

use crate::data::{Phase, PromptSchedule};
use crate::record::{Alarm, EvalRecord, StepRecord, best};
use crate::rollout::RolloutProgress;
use crate::stderr::say;

/// Shortest time between two lines about the same piece of work.
const REMINDER: Duration = Duration::from_secs(30);
/// The bar of a known number of items, and the line of an update, which reports nothing until it is done.
const COUNTED: &str = "{spinner} {prefix} [{bar:12}] {pos}/{len} {wide_msg}";
const UNCOUNTED: &str = "{spinner} {prefix} {wide_msg}";

/// Reports the progress of a run.
#[derive(Debug)]
pub struct Progress {
    output: Output,
    /// Updates of the run, and phases if their number is known; 0 before the run begins.
    updates: usize,
    phases: Option<usize>,
    /// When this process began its first update, or the sampling for it, and the updates made since.
    began: Instant,
    made: usize,
    /// Seconds to the end of the run, as estimated at the end of the last phase; `None` before.
    left: Option<f64>,
    /// The newest mean reward, with what it is the mean of.
    reward: Option<String>,
    /// The best evaluation after at least one update: its step and its Pass@1.
    best: Option<(usize, f64)>,
    /// Seconds until the last completion of the phase under way was sampled; `None` before.
    sampling_time: Option<f64>,
    /// When the last line was printed.
    last_line: Instant,
}

#[derive(Debug)]
enum Output {
    Bar(ProgressBar),
    Lines,
    Silent,
}

impl Progress {
    /// A bar on a terminal, lines elsewhere.
    #[must_use]
    pub fn on_stderr() -> Self {
        if std::io::stderr().is_terminal() {
            return Self::new(Output::Bar(ProgressBar::new(0)));
        }
        Self::new(Output::Lines)
    }

    /// No output.
    #[must_use]
    pub fn silent() -> Self {
        Self::new(Output::Silent)
    }

    fn new(output: Output) -> Self {
        Self {
            output,
            updates: 0,
            phases: None,
            began: Instant::now(),
            made: 0,
            left: None,
            reward: None,
            best: None,
            sampling_time: None,
            last_line: Instant::now(),
        }
    }

    /// The run starts or resumes with these evaluations.
    pub(in crate::run) fn begin(&mut self, schedule: &PromptSchedule, evals: &[EvalRecord]) {
        (self.updates, self.phases) = (schedule.updates(), schedule.phases());
        self.began = Instant::now();
        self.best = best(evals);
        if let Output::Bar(bar) = &self.output {
            // An update reports nothing until it is done; the spinner shows that it is under way.
            bar.enable_steady_tick(Duration::from_millis(200));
        }
    }

    /// Prints a line.
    pub fn say(&self, text: &str) {
        match &self.output {
            Output::Bar(bar) => bar.suspend(|| say(text)),
            Output::Lines => say(text),
            Output::Silent => {}
        }
    }

    /// Lists the alarms of a resumed run that are raised and not cleared.
    pub(in crate::run) fn active_alarms(&self, alarms: impl Iterator<Item = Alarm>) {
        let names: Vec<String> = alarms.map(|alarm| alarm.to_string()).collect();
        if !names.is_empty() {
            self.say(&format!(
                "warning: these alarms are not cleared yet, see alarms.jsonl: {}",
                names.join(", ")
            ));
        }
    }

    /// Progress of a training phase.
    pub(in crate::run) fn sampling(&mut self, phase: &Phase, progress: &RolloutProgress) {
        let seconds = progress.elapsed.as_secs_f64();
        let place = self.place(phase);
        if let Some(reward) = mean_reward(progress) {
            self.reward = Some(format!("mean reward of phase {place} {reward:.3}"));
        }
        if progress.is_sampling() {
            self.sampling_time = None;
        } else {
            self.sampling_time.get_or_insert(seconds);
        }
        if progress.wanted > 0 && progress.judged == progress.wanted {
            let sampling_time = self.sampling_time.take().unwrap_or(seconds);
            self.last_line = Instant::now();
            self.say(&format!(
                "phase {place}: {} completions in {} ({}), judged {:.1} s later{}",
                progress.sampled,
                human_duration(sampling_time),
                rate(progress.tokens, sampling_time),
                seconds - sampling_time,
                outcome(progress)
            ));
        } else {
            self.show_rollout(("inference", "verify"), &place, progress);
        }
    }

    /// Progress of an evaluation.
    pub(in crate::run) fn evaluating(&mut self, progress: &RolloutProgress) {
        self.show_rollout(("evaluation", "evaluation, verify"), "", progress);
    }

    /// Progress of judging a teacher's completions.
    pub(in crate::run) fn judging_teacher(&mut self, progress: &RolloutProgress) {
        self.show_rollout(("teacher", "teacher, verify"), "", progress);
    }

    /// Shows the progress of a rollout. `names` are its names while completions are sampled, and while the last are judged.
    fn show_rollout(&mut self, names: (&str, &str), place: &str, progress: &RolloutProgress) {
        let (name, done) = if progress.is_sampling() {
            (names.0, progress.sampled)
        } else {
            (names.1, progress.judged)
        };
        let name = format!("{name} {place}");
        let name = name.trim_end();
        let state = format!("{}{}", sampling_state(progress), self.outlook());
        match &self.output {
            Output::Bar(bar) => {
                set_style(bar, COUNTED);
                bar.set_length(progress.wanted as u64);
                bar.set_position(done as u64);
                bar.set_prefix(name.to_owned());
                bar.set_message(state);
            }
            Output::Lines if self.last_line.elapsed() > REMINDER => {
                say(&format!(
                    "{name}: {done} of {} completions, {state}",
                    progress.wanted
                ));
                self.last_line = Instant::now();
            }
            Output::Lines | Output::Silent => {}
        }
    }

    /// An update begins.
    pub(in crate::run) fn updating(&mut self, phase: &Phase, update: usize) {
        if let Output::Bar(bar) = &self.output {
            let number = phase.first_update + update + 1;
            bar.set_prefix(format!("update {number}/{}", self.updates));
            set_style(bar, UNCOUNTED);
            let reward = self.reward.as_ref();
            bar.set_message(format!(
                "{} of {} in phase {}{}{}",
                update + 1,
                phase.updates.len(),
                self.place(phase),
                reward.map_or_else(String::new, |reward| format!(", {reward}")),
                self.outlook()
            ));
        }
    }

    /// An update is done.
    pub(in crate::run) fn updated(&mut self, record: &StepRecord) {
        self.last_line = Instant::now();
        let (step, reward) = (record.step, record.algo.reward);
        self.reward = Some(format!("mean reward of update {step} {reward:.3}"));
        self.made += 1;
        // Before a phase's last update, its sampling is spread over too few updates.
        if record.update + 1 == record.phase_updates {
            let each = self.began.elapsed().as_secs_f64() / self.made as f64;
            self.left = Some(each * self.updates.saturating_sub(step) as f64);
        }
        self.say(&update_line(record, self.updates, &self.outlook()));
    }

    /// An evaluation is done.
    pub(in crate::run) fn evaluated(&mut self, record: &EvalRecord) {
        self.last_line = Instant::now();
        if self.made == 0 {
            self.began = Instant::now();
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
        if let Output::Bar(bar) = &self.output {
            bar.finish_and_clear();
        }
    }

    /// The number of a phase, counted from 1, and of how many if that is known.
    fn place(&self, phase: &Phase) -> String {
        let number = phase.index + 1;
        match self.phases {
            Some(phases) => format!("{number}/{phases}"),
            None => number.to_string(),
        }
    }

    /// The time left, at the pace of this process so far, and the best evaluation so far.
    fn outlook(&self) -> String {
        let best = self
            .best
            .filter(|(_, pass)| *pass > 0.0)
            .map(|(_, pass)| format!(", best Pass@1 {}", percent(pass)))
            .unwrap_or_default();
        let left = self
            .left
            .filter(|seconds| *seconds > 0.0)
            .map(|seconds| format!(", run {} left", human_duration(seconds)))
            .unwrap_or_default();
        left + &best
    }
}

fn set_style(bar: &ProgressBar, template: &str) {
    // The template is a constant and parses; if it did not, the style before would do.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
}

/// A duration for people to read, such as `2 min`.
pub(in crate::run) fn human_duration(seconds: f64) -> String {
    let seconds = seconds.max(0.0).ceil() as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds.div_ceil(60)),
        3600..86400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86400, seconds % 86400 / 3600),
    }
}

fn rate(tokens: usize, seconds: f64) -> String {
    format!("{:.0} tokens/s", tokens as f64 / seconds.max(1e-3))
}

fn mean_reward(progress: &RolloutProgress) -> Option<f64> {
    let judged = progress.judged - progress.masked;
    (judged > 0).then(|| progress.reward / judged as f64)
}

/// The mean reward of all judged samples, and the number of masked ones.
fn outcome(progress: &RolloutProgress) -> String {
    let judged = progress.judged - progress.masked;
    let reward = mean_reward(progress)
        .map(|reward| format!(", mean reward of {judged} completions {reward:.3}"))
        .unwrap_or_default();
    match progress.masked {
        0 => reward,
        masked => format!("{reward}, {masked} masked"),
    }
}

/// The speed, the outcome and the time left of sampling.
fn sampling_state(progress: &RolloutProgress) -> String {
    let seconds = progress.elapsed.as_secs_f64();
    if progress.sampled == 0 {
        return "none done yet".to_owned();
    }
    let left = (progress.sampled < progress.wanted)
        .then(|| seconds * (progress.wanted - progress.sampled) as f64 / progress.sampled as f64)
        .map(|seconds| format!(", {} left", human_duration(seconds)))
        .unwrap_or_default();
    format!(
        "{}{}{left}",
        rate(progress.tokens, seconds),
        outcome(progress)
    )
}

fn update_line(record: &StepRecord, updates: usize, outlook: &str) -> String {
    let algo = &record.algo;
    format!(
        "update {}/{updates}: mean reward of its {} completions {:.3} (groups: {} right, {} mixed, {} wrong), grad norm {:.3}, entropy {:.3}, mean |log w| {:.4}, mean length {:.1}{outlook}",
        record.step,
        algo.judged,
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
    // The number of tasks is the same for every k, except for masked samples.
    let fewest = record.pass_at.values().map(|estimate| estimate.tasks).min();
    if let Some(tasks) = fewest.filter(|tasks| *tasks < MIN_TASKS) {
        figures.push(no_interval(tasks));
    }
    if record.masked > 0 {
        figures.push(format!("{} masked", record.masked));
    }
    let best = match best {
        Some((_, pass)) if pass <= 0.0 => String::new(),
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
    fn the_state_of_a_phase_has_its_speed_its_reward_and_the_time_left() {
        let progress = RolloutProgress {
            wanted: 256,
            sampled: 64,
            tokens: 1200,
            judged: 40,
            reward: 9.0,
            masked: 4,
            elapsed: Duration::from_secs(20),
        };
        assert_eq!(
            sampling_state(&progress),
            "60 tokens/s, mean reward of 36 completions 0.250, 4 masked, 1 min left"
        );
        let first = RolloutProgress {
            wanted: 256,
            ..RolloutProgress::default()
        };
        assert_eq!(sampling_state(&first), "none done yet");
    }

    #[test]
    fn durations_have_units_for_people() {
        for (seconds, text) in [
            (0.2, "1 s"),
            (59.0, "59 s"),
            (61.0, "2 min"),
            (3700.0, "1 h 1 min"),
            (100_000.0, "1 d 3 h"),
        ] {
            assert_eq!(human_duration(seconds), text);
        }
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
    fn an_evaluation_names_the_best_so_far() {
        let line = |step, best| evaluation_line(&evaluated(step, 24), best);
        let figures = "Pass@1 50.0% (95% interval 43.1% to 56.9%)";
        assert!(line(0, None).ends_with(&format!("on 24 tasks: {figures}")));
        assert!(line(8, Some((8, 0.5))).ends_with("; the best so far"));
        assert!(line(9, Some((8, 0.6))).ends_with("; the best so far: Pass@1 60.0% after 8"));
        assert!(line(8, Some((8, 0.0))).ends_with(figures), "0% is no best");
    }

    #[test]
    fn an_evaluation_on_few_tasks_has_no_interval() {
        assert_eq!(
            evaluation_line(&evaluated(1, 1), None),
            "evaluation after 1 update on 1 task: Pass@1 50.0%, no interval: 1 task, and it takes 20"
        );
    }
}
