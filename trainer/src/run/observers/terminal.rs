//! Progress on stderr: a bar if it is a terminal, lines if it is not.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use datasets::passk::{MIN_TASKS, no_interval, percent};
use indicatif::{ProgressBar, ProgressStyle};

use crate::data::{Phase, PromptSchedule};
use crate::record::{EvalRecord, StepRecord};
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
    /// When this process began, and the updates made since.
    began: Instant,
    made: usize,
    /// The evaluations that the run has yet to make; those made by this process, and their time.
    evaluations: usize,
    evaluated: usize,
    evaluating: Duration,
    /// When the last update or evaluation ended.
    ended: Instant,
    /// Seconds to the end of the run, as estimated at the end of the last phase; 0 before.
    left: f64,
    /// The best evaluation, also before the first update: its step and its Pass@1, the earliest among equals.
    best: Option<(usize, f64)>,
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
            evaluations: 0,
            evaluated: 0,
            evaluating: Duration::ZERO,
            ended: Instant::now(),
            left: 0.0,
            best: None,
            last_line: Instant::now(),
        }
    }

    /// The run starts or resumes with these evaluations.
    pub(in crate::run) fn begin(&mut self, schedule: &PromptSchedule, evals: &[EvalRecord]) {
        (self.updates, self.phases) = (schedule.updates(), schedule.phases());
        self.evaluations = schedule.evaluations().saturating_sub(evals.len());
        self.began = Instant::now();
        self.ended = self.began;
        self.best = evals.iter().fold(None, better);
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

    /// Progress of a training phase.
    pub(in crate::run) fn sampling(&mut self, phase: &Phase, progress: &RolloutProgress) {
        let place = self.place(phase);
        if progress.wanted > 0 && progress.judged == progress.wanted {
            self.last_line = Instant::now();
            self.say(&format!(
                "phase {place}: {} completions in {}: {}",
                progress.sampled,
                human_duration(progress.elapsed.as_secs_f64()),
                sampling_state(progress)
            ));
        } else {
            self.rollout(&format!("inference {place}"), progress);
        }
    }

    /// Progress of a phase, an evaluation, or judging a teacher's completions.
    pub(in crate::run) fn rollout(&mut self, name: &str, progress: &RolloutProgress) {
        let (name, done) = if progress.is_sampling() {
            (name.to_owned(), progress.sampled)
        } else {
            (format!("{name}, verify"), progress.judged)
        };
        let state = format!("{}{}", sampling_state(progress), self.outlook());
        match &self.output {
            Output::Bar(bar) => {
                set_style(bar, COUNTED);
                bar.set_length(progress.wanted as u64);
                bar.set_position(done as u64);
                bar.set_prefix(name);
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

    pub(in crate::run) fn updating(&mut self, phase: &Phase, update: usize) {
        if let Output::Bar(bar) = &self.output {
            let number = phase.first_update + update + 1;
            set_style(bar, UNCOUNTED);
            bar.set_prefix(format!("update {number}/{}", self.updates));
            bar.set_message(format!("in phase {}{}", self.place(phase), self.outlook()));
        }
    }

    pub(in crate::run) fn updated(&mut self, record: &StepRecord) {
        self.last_line = Instant::now();
        self.made += 1;
        self.ended = Instant::now();
        // Before a phase's last update, its sampling is spread over too few updates.
        if record.update + 1 == record.phase_updates {
            self.left = self.time_left(record.step);
        }
        self.say(&update_line(record, self.updates, &self.outlook()));
    }

    pub(in crate::run) fn evaluated(&mut self, record: &EvalRecord) {
        self.last_line = Instant::now();
        self.evaluations = self.evaluations.saturating_sub(1);
        self.evaluated += 1;
        self.evaluating += self.ended.elapsed();
        self.ended = Instant::now();
        self.say(&evaluation_line(record, self.best));
        self.best = better(self.best, record);
    }

    /// The seconds of what follows the first `done` updates, if updates and evaluations take as long as those of this process so far.
    fn time_left(&self, done: usize) -> f64 {
        let updating = self.began.elapsed().saturating_sub(self.evaluating);
        let each = |all: Duration, number: usize| all.as_secs_f64() / number.max(1) as f64;
        each(updating, self.made) * self.updates.saturating_sub(done) as f64
            + each(self.evaluating, self.evaluated) * self.evaluations as f64
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

    /// The time left, at the pace of this process so far, and the best evaluation so far, if it is after an update.
    fn outlook(&self) -> String {
        let mut outlook = String::new();
        if self.left > 0.0 {
            outlook += &format!(", run {} left", human_duration(self.left));
        }
        if let Some((1.., pass)) = self.best.filter(|(_, pass)| *pass > 0.0) {
            outlook += &format!(", best Pass@1 {}", percent(pass));
        }
        outlook
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

/// The better of the best evaluation so far and another.
fn better(best: Option<(usize, f64)>, record: &EvalRecord) -> Option<(usize, f64)> {
    let now = record.pass_at_1().map(|pass| (record.step, pass));
    match (best, now) {
        (Some((_, before)), Some((_, pass))) if pass <= before => best,
        _ => now.or(best),
    }
}

/// The speed, the mean reward and the time left of sampling.
fn sampling_state(progress: &RolloutProgress) -> String {
    if progress.sampled == 0 {
        return "none done yet".to_owned();
    }
    let seconds = progress.elapsed.as_secs_f64();
    let mut state = format!("{:.0} tokens/s", progress.tokens as f64 / seconds.max(1e-3));
    let judged = progress.judged - progress.masked;
    if judged > 0 {
        let reward = progress.reward / judged as f64;
        state += &format!(", mean reward of {judged} completions {reward:.3}");
    }
    if progress.masked > 0 {
        state += &format!(", {} masked", progress.masked);
    }
    // The first completions to end say little about the others, which are sampled beside them.
    if progress.is_sampling() && progress.sampled * 8 >= progress.wanted {
        let each = seconds / progress.sampled as f64;
        let left = each * (progress.wanted - progress.sampled) as f64;
        state += &format!(", {} left", human_duration(left));
    }
    state
}

fn update_line(record: &StepRecord, updates: usize, outlook: &str) -> String {
    let algo = &record.algo;
    let terms = record.terms.iter().filter(|(name, _)| *name != "correct");
    let terms: String = terms
        .map(|(name, mean)| format!(", {name} {mean:.3}"))
        .collect();
    format!(
        "update {}/{updates}: mean reward of its {} completions {:.3}{terms} (groups: {} right, {} mixed, {} wrong), grad norm {:.3}, entropy {:.3}, mean |log w| {}, mean length {:.1}{outlook}",
        record.step,
        algo.judged,
        algo.reward,
        record.groups.right,
        record.groups.mixed,
        record.groups.wrong,
        record.grad_norm,
        record.entropy,
        algo.of_measured(|it| it.stale_mean_abs_log)
            .map_or("unknown".into(), |stale| format!("{stale:.4}")),
        record.length_mean,
    )
}

/// The line of an evaluation, with the best one before it.
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
    for (name, set) in &record.sets {
        let pass = set.pass_at.get(&1).map(|pass| percent(pass.mean));
        figures.extend(pass.map(|pass| format!("{name} Pass@1 {pass}")));
    }
    let best = match (best, record.pass_at_1()) {
        (Some((_, before)), Some(now)) if now > before => "; the best so far".to_owned(),
        (Some((step, before)), Some(now)) if before > 0.0 => {
            let when = match step {
                0 => "before training".to_owned(),
                step => format!("after {step}"),
            };
            match now < before {
                true => format!("; the best so far: Pass@1 {} {when}", percent(before)),
                false => format!("; as good as the best so far, {when}"),
            }
        }
        _ => String::new(),
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
    use crate::fakes;
    use datasets::passk::Counts;

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
        let none = sampling_state(&RolloutProgress::default());
        assert_eq!(none, "none done yet");
    }

    #[test]
    fn durations_have_units_for_people() {
        let texts = [0.2, 59.0, 61.0, 3700.0, 100_000.0].map(human_duration);
        assert_eq!(texts, ["1 s", "59 s", "2 min", "1 h 1 min", "1 d 3 h"]);
    }

    #[test]
    fn an_evaluation_names_the_best_so_far_and_has_no_interval_on_few_tasks() {
        let line = |step: usize, tasks: usize, best| {
            let half = Counts {
                judged: 4,
                correct: 2,
            };
            let record = fakes::evaluation(step, &vec![half; tasks]);
            evaluation_line(&record, best)
        };
        let figures = "Pass@1 50.0% (95% interval 43.1% to 56.9%)";
        assert!(line(0, 24, None).ends_with(&format!("on 24 tasks: {figures}")));
        for (before, pass, end) in [
            (0, 0.4, "; the best so far"),
            (4, 0.0, "; the best so far"),
            (0, 0.5, "; as good as the best so far, before training"),
            (4, 0.5, "; as good as the best so far, after 4"),
            (4, 0.6, "; the best so far: Pass@1 60.0% after 4"),
        ] {
            let line = line(8, 24, Some((before, pass)));
            assert!(line.ends_with(end), "{line}");
        }
        assert_eq!(
            line(1, 1, None),
            "evaluation after 1 update on 1 task: Pass@1 50.0%, no interval: 1 task, and it takes 20"
        );
    }
}
