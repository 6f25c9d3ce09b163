//! The time of a run, split into activities that add up to the total.

use super::axis::{ValueFormat, format_value};
use super::run_data::RunData;
use super::stacked_bars::{Bar, Stack};
use crate::record::{Activity, RunTimes};

/// The seconds of each activity that any of the runs has, with a bar for each run that has times. The labels are the runs' titles.
pub(super) fn stack(titles: &[String], runs: &[RunData]) -> Option<Stack> {
    let all: Vec<(&String, RunTimes)> = titles
        .iter()
        .zip(runs.iter().map(RunData::times))
        .filter(|(_, times)| !times.seconds.is_empty())
        .collect();
    let parts: Vec<Activity> = Activity::ALL
        .into_iter()
        .filter(|part| {
            all.iter()
                .any(|(_, times)| times.seconds.contains_key(part))
        })
        .collect();
    let bars = all.iter().map(|(title, times)| bar(title, times, &parts));
    (!all.is_empty()).then(|| Stack {
        title: "Where the time went".into(),
        note: "training is the time without start, evaluation and lost work, as in the paper's runtimes; judging runs beside inference, so only the wait for the last \
               verdicts counts; in brackets: the peak of memory"
            .into(),
        parts: parts.iter().map(|part| part.name().to_owned()).collect(),
        bars: bars.collect(),
    })
}

fn bar(title: &str, times: &RunTimes, parts: &[Activity]) -> Bar {
    let seconds = |value| format_value(value, ValueFormat::Seconds);
    let total = if times.seconds.contains_key(&Activity::Start) {
        format!(
            "{} training, {} in all",
            seconds(times.training()),
            seconds(times.wall())
        )
    } else {
        // Without a clock, evaluations are not distinguished.
        format!("{} in all", seconds(times.wall()))
    };
    Bar {
        label: title.to_owned(),
        total,
        values: parts.iter().map(|part| times.of_activity(*part)).collect(),
        remarks: parts.iter().map(|part| memory(times, *part)).collect(),
    }
}

/// The peaks of an activity's memory, for people to read.
fn memory(times: &RunTimes, part: Activity) -> Option<String> {
    let gib = |bytes: &u64| format!("{:.1} GiB", *bytes as f64 / f64::from(1 << 30));
    let gpu = times.device_memory.get(&part);
    let gpu = gpu.map_or_else(String::new, |bytes| format!(", GPU {}", gib(bytes)));
    let resident = times.memory.get(&part);
    resident.map(|bytes| format!("{}{gpu}", gib(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_has_the_time_of_training_and_the_memory_of_each_part() {
        let parts = [Activity::Start, Activity::Forward, Activity::Evaluation];
        let times = RunTimes {
            seconds: [
                (Activity::Start, 5.0),
                (Activity::Forward, 40.0),
                (Activity::Evaluation, 15.0),
            ]
            .into(),
            memory: [(Activity::Forward, 3 << 29), (Activity::Start, 1 << 30)].into(),
            device_memory: [(Activity::Forward, 5 << 30)].into(),
        };
        let bar = bar("a", &times, &parts);
        assert_eq!(bar.total, "40 s training, 60 s in all");
        assert_eq!(bar.values, [5.0, 40.0, 15.0]);
        let remarks: Vec<&str> = bar.remarks.iter().flatten().map(String::as_str).collect();
        assert_eq!(remarks, ["1.0 GiB", "1.5 GiB, GPU 5.0 GiB"]);
        assert_eq!(bar.remarks[2], None);
    }
}
