//! The time of a run, split into parts that add up to the total.

use super::run_data::RunData;
use super::stacked_bars::Stack;
use crate::record::StepTimings;

const PARTS: [&str; 6] = [
    "inference",
    "verify",
    "forward",
    "backward",
    "optimiser",
    "other",
];

/// Starts within this number of seconds of each other are the same start, since clocks are adjusted.
const SAME_START: f64 = 5.0;

/// The seconds of each part until the last update, with a bar for each run that has timings. The labels are the runs' titles.
pub(super) fn stack(titles: &[String], runs: &[RunData]) -> Option<Stack> {
    let bars: Vec<(String, Vec<f64>)> = titles
        .iter()
        .zip(runs)
        .filter(|(_, run)| !run.timings.is_empty())
        .map(|(title, run)| (title.clone(), seconds(&run.timings).to_vec()))
        .collect();
    (!bars.is_empty()).then(|| Stack {
        title: "Where the time went".into(),
        note: "from the start to the last update; judging runs beside inference, so only the wait for the last verdicts counts; other: evaluations, checkpoints and everything else".into(),
        parts: PARTS.map(String::from).to_vec(),
        bars,
    })
}

/// Seconds of each of [`PARTS`]. The last part is the time by the clock that no other part accounts for.
fn seconds(timings: &[StepTimings]) -> [f64; PARTS.len()] {
    let mut totals = [0.0; PARTS.len()];
    for session in timings.chunk_by(same_session) {
        let mut measured = 0.0;
        for step in session {
            let parts = [
                step.inference,
                step.verify,
                step.forward,
                step.backward,
                step.optimiser,
            ];
            for (total, part) in totals.iter_mut().zip(parts) {
                *total += part;
                measured += part;
            }
        }
        // A phase that was partly sampled before the run was resumed counts in full, so the parts may exceed the session.
        let clock = session.last().map_or(0.0, |step| step.elapsed);
        totals[PARTS.len() - 1] += (clock - measured).max(0.0);
    }
    totals
}

/// Whether two updates are of the same process, without a resumption between them: `elapsed` counts from the start of a process.
fn same_session(before: &StepTimings, after: &StepTimings) -> bool {
    let start = |step: &StepTimings| step.ended_at - step.elapsed;
    let has_dates = before.ended_at > 0.0 && after.ended_at > 0.0;
    before.elapsed <= after.elapsed
        && !(has_dates && (start(before) - start(after)).abs() > SAME_START)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(elapsed: f64, ended_at: f64) -> StepTimings {
        StepTimings {
            inference: 10.0,
            verify: 1.0,
            forward: 2.0,
            backward: 4.0,
            optimiser: 1.0,
            elapsed,
            ended_at,
            ..StepTimings::default()
        }
    }

    #[test]
    fn the_parts_add_up_to_the_clock() {
        let all = seconds(&[step(30.0, 0.0), step(60.0, 0.0)]);
        assert_eq!(all, [20.0, 2.0, 4.0, 8.0, 2.0, 24.0]);
        assert_eq!(all.iter().sum::<f64>(), 60.0);
    }

    #[test]
    fn each_session_of_a_resumed_run_counts() {
        // A new session is recognised by a shorter elapsed time, and by a later start.
        let shorter = seconds(&[step(60.0, 0.0), step(30.0, 0.0)]);
        let later = seconds(&[step(30.0, 1_030.0), step(60.0, 5_060.0)]);
        assert_eq!(shorter.iter().sum::<f64>(), 90.0);
        assert_eq!(later.iter().sum::<f64>(), 90.0);
        // An adjusted clock is not a resumption.
        let adjusted = seconds(&[step(30.0, 1_030.0), step(60.0, 1_061.0)]);
        assert_eq!(adjusted.iter().sum::<f64>(), 60.0);
    }

    #[test]
    fn a_phase_sampled_before_the_session_does_not_reduce_the_other_parts() {
        let all = seconds(&[step(12.0, 0.0)]);
        assert_eq!(all[5], 0.0);
        assert_eq!(all.iter().sum::<f64>(), 18.0);
    }
}
