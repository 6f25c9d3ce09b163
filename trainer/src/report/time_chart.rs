//! Times as stacked bars: the activities of a run add up to its total.

use super::axis::{ValueFormat, format_value};
use super::row_chart::{Mark, Row, RowChart, Shape};
use super::run_data::RunData;
use crate::record::{Activity, RunTimes};

/// A bar: its label, its total in words, and the seconds of each part with what its tooltip says in brackets.
pub(crate) type Bar = (String, String, Vec<(f64, Option<String>)>);

/// Stacked bars of these parts.
pub(crate) fn stacked(title: &str, note: String, parts: &[Activity], bars: Vec<Bar>) -> RowChart {
    let row = |(label, total, values): Bar| {
        let (mut end, mut marks) = (0.0, Vec::new());
        for (number, (seconds, remark)) in values.into_iter().enumerate() {
            let time = format_value(seconds, ValueFormat::Seconds);
            let remark = remark.map_or_else(String::new, |it| format!(" ({it})"));
            let tooltip = format!("{} {time}{remark}", parts[number].name());
            marks.push(Mark(number, 0, Shape::Bar(end, end + seconds, tooltip)));
            end += seconds;
        }
        Row {
            label,
            total,
            marks,
        }
    };
    RowChart {
        title: title.to_owned(),
        note,
        unit: ValueFormat::Seconds,
        names: parts.iter().map(|part| part.name().to_owned()).collect(),
        margin: None,
        rows: bars.into_iter().map(row).collect(),
    }
}

/// The seconds of each activity that any of the runs has, with a bar for each run that has times. The labels are the runs' titles.
pub(super) fn of_runs(titles: &[String], runs: &[RunData]) -> RowChart {
    let times = titles.iter().zip(runs.iter().map(RunData::times));
    let times = times.filter(|(_, times)| !times.seconds.is_empty());
    let times: Vec<(&String, RunTimes)> = times.collect();
    let has = |part: &Activity| times.iter().any(|(_, it)| it.seconds.contains_key(part));
    let parts: Vec<Activity> = Activity::ALL.into_iter().filter(has).collect();
    let bars = times.iter().map(|(title, times)| bar(title, times, &parts));
    stacked(
        "Where the time went",
        "training is the time without start, evaluation and lost work, as in the paper's runtimes; judging runs beside inference, so only the wait for the last verdicts counts; \
         with the peak of memory of each activity in its tooltip"
            .into(),
        &parts,
        bars.collect(),
    )
}

fn bar(title: &str, times: &RunTimes, parts: &[Activity]) -> Bar {
    let seconds = |value| format_value(value, ValueFormat::Seconds);
    let all = format!("{} in all", seconds(times.wall()));
    // Without a clock, evaluations are not distinguished.
    let total = match times.seconds.contains_key(&Activity::Start) {
        true => format!("{} training, {all}", seconds(times.training())),
        false => all,
    };
    let parts = parts.iter();
    let values = parts.map(|part| (times.of_activity(*part), memory(times, *part)));
    (title.to_owned(), total, values.collect())
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
        let rows = stacked("t", "n".into(), &parts, vec![bar("a", &times, &parts)]);
        assert_eq!(rows.rows[0].total, "40 s training, 60 s in all");
        let tooltip = "forward 40 s (1.5 GiB, GPU 5.0 GiB)".to_owned();
        assert_eq!(rows.rows[0].marks[1].2, Shape::Bar(5.0, 45.0, tooltip));
    }
}
