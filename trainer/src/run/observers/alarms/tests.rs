use super::*;
use crate::algo::Metrics;
use crate::config::{Algorithm, Baseline, Preset};
use crate::fakes;
use crate::record::{GroupCounts, Repeats};
use datasets::passk::Counts;

/// An update of a healthy run: 16 prompts × 8 completions, a third of them correct.
fn step(step: usize) -> StepRecord {
    let line = include_str!("quickstart.jsonl").lines().next().unwrap();
    StepRecord {
        step,
        phase: (step - 1) / 4,
        groups: GroupCounts {
            mixed: 8,
            wrong: 6,
            right: 2,
        },
        algo: Metrics {
            judged: 128,
            reward: 0.33,
            ess: 110.0,
            ..Metrics::default()
        },
        entropy: 0.6,
        length_mean: 20.0,
        length_max: 64,
        truncated: 0.05,
        repeats: Repeats {
            repeated: 0.3,
            commonest: 0.06,
        },
        ..serde_json::from_str(line).unwrap()
    }
}

/// Updates of a healthy run, each changed by `change`.
fn steps(updates: usize, change: impl Fn(&mut StepRecord)) -> Vec<StepRecord> {
    let mut steps: Vec<StepRecord> = (1..=updates).map(step).collect();
    steps.iter_mut().for_each(change);
    steps
}

/// An evaluation of 40 tasks × 8 completions; `right(task)` of each eight are correct.
fn eval(step: usize, right: impl Fn(usize) -> usize) -> EvalRecord {
    let counts = |task| Counts {
        judged: 8,
        correct: right(task).min(8),
    };
    fakes::evaluation(step, &(0..40).map(counts).collect::<Vec<_>>())
}

/// The alarms raised and cleared in a run of 8 good updates, then 8 changed ones, then 8 good ones.
fn alarms_of(change: impl Fn(&mut StepRecord)) -> Vec<(Alarm, AlarmState)> {
    let steps = steps(24, |record| {
        if (9..=16).contains(&record.step) {
            change(record);
        }
    });
    let records = AlarmMonitor::default().replay(&steps, &[]);
    records.iter().map(|it| (it.alarm, it.state)).collect()
}

#[test]
fn each_alarm_is_raised_once_and_cleared_once() {
    type Change = fn(&mut StepRecord);
    let cases: Vec<(Alarm, Change)> = vec![
        (Alarm::LengthCollapse, |r| r.length_mean = 4.5),
        (Alarm::LengthExplosion, |r| {
            (r.length_mean, r.length_max) = (150.0, 400);
        }),
        (Alarm::Repetition, |r| r.repeats.commonest = 0.8),
        (Alarm::EntropyCollapse, |r| r.entropy = 0.01),
        (Alarm::Truncation, |r| {
            (r.truncated, r.length_mean) = (0.8, 55.0);
        }),
        (Alarm::StaleSamples, |r| r.algo.ess = 20.0),
        (Alarm::Masked, |r| {
            (r.algo.judged, r.algo.masked) = (118, 10);
        }),
        (Alarm::AllWrong, |r| {
            r.groups.wrong += r.groups.mixed;
            r.groups.mixed = 0;
        }),
        (Alarm::AllRight, |r| {
            r.groups.right += r.groups.mixed + 6;
            (r.groups.mixed, r.groups.wrong) = (0, 0);
        }),
    ];
    for (alarm, change) in cases {
        let once = [(alarm, AlarmState::Raised), (alarm, AlarmState::Cleared)];
        assert_eq!(alarms_of(change), once, "{alarm}");
    }
}

#[test]
fn numbers_that_are_normal_for_the_task_raise_no_alarm() {
    let raises_none = |name: &str, change: &dyn Fn(&mut StepRecord)| {
        let steps = steps(60, change);
        assert_eq!(AlarmMonitor::default().replay(&steps, &[]), [], "{name}");
    };
    raises_none("a healthy run", &|_| {});
    raises_none("yes or no", &|r| r.repeats.commonest = 0.55);
    raises_none("a hard task: one group in 32 is mixed", &|r| {
        let mixed = usize::from(r.step % 2 == 0);
        (r.groups.mixed, r.groups.wrong, r.groups.right) = (mixed, 16 - mixed, 0);
    });
    raises_none("sure of right answers", &|r| {
        r.entropy = 0.6 / r.step as f64;
        r.algo.reward = (0.1 * r.step as f64).min(0.97);
    });
    raises_none("a model that learns to stop", &|r| {
        r.truncated = (0.95 - 0.1 * r.step as f64).max(0.0);
        r.length_mean = 64.0 * r.truncated + 18.0 * (1.0 - r.truncated);
    });
    raises_none("few prompts an update", &|r| {
        (r.prompts, r.repeats.commonest) = (2, 0.1 + 0.1 * r.step.min(8) as f64);
    });
}

#[test]
fn uniform_groups_raise_an_alarm_only_under_a_group_baseline() {
    let steps = steps(20, |record| {
        (record.groups.wrong, record.groups.mixed) = (14, 0);
    });
    let alarms = |algorithm: Algorithm| -> Vec<Alarm> {
        let records = AlarmMonitor::new(&algorithm).replay(&steps, &[]);
        records.into_iter().map(|record| record.alarm).collect()
    };
    let batch_baseline = Algorithm {
        baseline: Baseline::Batch,
        ..Algorithm::of(Preset::RapidPaper)
    };
    assert_eq!(alarms(Algorithm::of(Preset::RapidPaper)), [Alarm::AllWrong]);
    assert_eq!(alarms(batch_baseline), []);
    let divided_by_std = Algorithm {
        divide_by_std: true,
        ..batch_baseline
    };
    assert_eq!(alarms(divided_by_std), [Alarm::AllWrong]);
}

#[test]
fn alarms_of_the_first_phase_have_an_example_and_good_updates_clear_them() {
    let sample = |verdict: &str, finish: &str| -> SampleRecord {
        let reward = f64::from(u8::from(verdict == "correct"));
        serde_json::from_value(serde_json::json!({
            "task": "a", "sample": 0, "prompt": "é".repeat(300) + "\n", "completion": "\u{1b}[2J", "verdict": verdict, "detail": {},
            "reward": reward, "tokens": 1, "logp": -1.0, "finish": finish,
        }))
        .unwrap()
    };
    let end = "é".repeat(199) + "\\n";
    let example = format!("a prompt ends \"{end}\" and its completion begins \"\\u{{1b}}[2J\". ");
    for (others, first, finish, number, teach, expected) in [
        ("incorrect", "correct", "stop", 32, false, ""),
        ("incorrect", "incorrect", "stop", 32, true, "all-wrong"),
        ("correct", "correct", "stop", 32, false, "all-right"),
        ("correct", "correct", "stop", 32, true, ""),
        ("correct", "correct", "stop", 31, false, ""),
        ("malformed", "correct", "stop", 32, false, "no-answer"),
        ("malformed", "incorrect", "length", 2, false, "truncation"),
    ] {
        let mut samples = vec![sample(others, finish); number];
        samples[0] = sample(first, finish);
        let rewards: Vec<f64> = samples.iter().filter_map(|it| it.reward).collect();
        let mut monitor = AlarmMonitor {
            uniform_groups_teach: teach,
            ..AlarmMonitor::default()
        };
        let raised = monitor.first_phase(&samples, &rewards);
        let names: Vec<&str> = raised.iter().map(|it| it.alarm.name()).collect();
        assert_eq!(names.join(" "), expected);
        assert!(raised.iter().all(|it| it.text.contains(&example)));
        monitor.uniform_groups_teach = false;
        monitor.replay(&steps(20, |_| {}), &[]);
        assert!(monitor.active.is_empty());
        // Once there are updates, they say more.
        assert_eq!(monitor.first_phase(&samples, &rewards), []);
    }
}

#[test]
fn a_held_out_fall_is_reward_hacking_only_if_the_reward_rises() {
    let alarms = |reward: f64, right: fn(usize) -> usize| -> Vec<Alarm> {
        let steps = steps(20, |record| {
            if record.step > 10 {
                record.algo.reward = reward;
            }
        });
        let evals = [eval(0, |t| t % 4), eval(10, |t| t % 5 + 2), eval(20, right)];
        let mut monitor = AlarmMonitor::default();
        let records = monitor.replay(&steps, &evals);
        let raised = records.iter().map(|record| record.alarm);
        assert!(raised.eq(monitor.active));
        records.into_iter().map(|record| record.alarm).collect()
    };
    assert_eq!(alarms(0.6, |t| t % 5), [Alarm::RewardHacking]);
    assert_eq!(alarms(0.3, |t| t % 5), [Alarm::HeldOutFall]);
    // Some tasks rise and some fall, which chance explains.
    assert_eq!(alarms(0.6, |t| t % 5 + 4 - [0, 4, 3][t % 3]), []);
    assert_eq!(alarms(0.6, |t| t % 5 + 3), []);
}

/// `quickstart.jsonl` is the `metrics.jsonl` of `rapid quickstart` with seed 0 and one more update, from a machine with two cores.
#[test]
fn the_quickstart_raises_no_alarm() {
    let lines = include_str!("quickstart.jsonl").lines();
    let steps = lines.map(|line| serde_json::from_str(line).unwrap());
    let steps: Vec<StepRecord> = steps.collect();
    assert_eq!(steps.len(), 11);
    assert!(steps[10].algo.reward > 2.0 * steps[0].algo.reward);
    // The held-out tasks rise as in that run.
    let evals = [eval(0, |t| t % 4), eval(11, |t| t % 4 + 2)];
    assert_eq!(AlarmMonitor::default().replay(&steps, &evals), []);
}
