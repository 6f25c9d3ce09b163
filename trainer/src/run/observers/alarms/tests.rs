use std::collections::BTreeMap;

use super::*;
use crate::algo::{Baseline, Metrics, Preset};
use crate::record::GroupCounts;
use crate::record::Repeats;
use datasets::passk::{self, Counts};

/// An update of a run in good order: 16 prompts × 8, a third right.
fn step(step: usize) -> StepRecord {
    StepRecord {
        step,
        phase: (step - 1) / 4,
        update: (step - 1) % 4,
        phase_updates: 4,
        epoch: 0,
        prompts: 16,
        groups: GroupCounts {
            mixed: 8,
            wrong: 6,
            right: 2,
        },
        dropped: 0,
        drawn_reward: None,
        terms: BTreeMap::new(),
        algo: Metrics {
            judged: 128,
            reward: 0.33,
            ess: 110.0,
            ..Metrics::default()
        },
        pass_at: BTreeMap::new(),
        grad_norm: 1.0,
        entropy: 0.6,
        length_mean: 20.0,
        length_max: 64,
        truncated: 0.05,
        repeats: Repeats {
            repeated: 0.3,
            commonest: 0.06,
        },
        lr: 1e-6,
    }
}

/// 40 tasks × 8, of which `right` of each eight.
fn eval(step: usize, right: impl Fn(usize) -> usize) -> EvalRecord {
    let tasks: BTreeMap<String, Counts> = (0..40)
        .map(|task| {
            let counts = Counts {
                judged: 8,
                correct: right(task).min(8),
            };
            (format!("t/{task}"), counts)
        })
        .collect();
    let counts: Vec<Counts> = tasks.values().copied().collect();
    EvalRecord {
        step,
        samples: 8,
        pass_at: [(1, passk::pass_at(&counts, 1).unwrap())].into(),
        tasks,
        masked: 0,
        length_mean: 20.0,
        truncated: 0.0,
    }
}

/// 8 good updates, then 8 changed ones, then 8 good ones: what began and what was over.
fn told(change: impl Fn(&mut StepRecord)) -> Vec<(Alarm, AlarmState)> {
    let steps: Vec<StepRecord> = (1..=24)
        .map(|n| {
            let mut record = step(n);
            if (9..=16).contains(&n) {
                change(&mut record);
            }
            record
        })
        .collect();
    AlarmMonitor::default()
        .replay(&steps, &[])
        .iter()
        .map(|record| (record.alarm, record.state))
        .collect()
}

fn comes_and_goes(alarm: Alarm) -> Vec<(Alarm, AlarmState)> {
    vec![(alarm, AlarmState::Raised), (alarm, AlarmState::Cleared)]
}

#[test]
fn a_run_in_good_order_rings_nothing() {
    assert_eq!(told(|_| {}), []);
}

#[test]
fn each_way_to_go_wrong_rings_once_and_is_over_once() {
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
        assert_eq!(told(change), comes_and_goes(alarm), "{alarm}");
    }
}

#[test]
fn what_is_normal_for_the_task_rings_nothing() {
    let silent = |name: &str, change: &dyn Fn(&mut StepRecord)| {
        let steps: Vec<StepRecord> = (1..=60)
            .map(|n| {
                let mut record = step(n);
                change(&mut record);
                record
            })
            .collect();
        assert_eq!(AlarmMonitor::default().replay(&steps, &[]), [], "{name}");
    };
    silent("yes or no", &|r| r.repeats.commonest = 0.55);
    silent("a hard task: one group in 32 is mixed", &|r| {
        let mixed = usize::from(r.step % 2 == 0);
        (r.groups.mixed, r.groups.wrong, r.groups.right) = (mixed, 16 - mixed, 0);
    });
    silent("sure of right answers", &|r| {
        r.entropy = 0.6 / r.step as f64;
        r.algo.reward = (0.1 * r.step as f64).min(0.97);
    });
    silent("a model that learns to stop", &|r| {
        r.truncated = (0.95 - 0.1 * r.step as f64).max(0.0);
        r.length_mean = 64.0 * r.truncated + 18.0 * (1.0 - r.truncated);
    });
    silent("few prompts an update", &|r| {
        (r.prompts, r.repeats.commonest) = (2, 0.1 + 0.1 * r.step.min(8) as f64);
    });
}

#[test]
fn groups_all_right_or_all_wrong_ring_only_where_they_are_compared_within() {
    let steps: Vec<StepRecord> = (1..=20)
        .map(|n| {
            let mut record = step(n);
            (record.groups.wrong, record.groups.mixed) = (14, 0);
            record
        })
        .collect();
    let alarms = |estimator: Estimator| -> Vec<Alarm> {
        let records = AlarmMonitor::new(&estimator).replay(&steps, &[]);
        records.into_iter().map(|record| record.alarm).collect()
    };
    let of_the_batch = Estimator {
        baseline: Baseline::Batch,
        ..Preset::RapidPaper.estimator()
    };
    assert_eq!(alarms(Preset::RapidPaper.estimator()), [Alarm::AllWrong]);
    assert_eq!(alarms(of_the_batch), []);
    let over_its_std = Estimator {
        divide_by_std: true,
        ..of_the_batch
    };
    assert_eq!(alarms(over_its_std), [Alarm::AllWrong]);
}

#[test]
fn reward_up_and_held_out_down_is_hacking_and_else_a_fall() {
    let alarms = |reward: f64, right: fn(usize) -> usize| -> Vec<Alarm> {
        let steps: Vec<StepRecord> = (1..=20)
            .map(|n| {
                let mut record = step(n);
                if n > 10 {
                    record.algo.reward = reward;
                }
                record
            })
            .collect();
        let evals = [eval(0, |t| t % 4), eval(10, |t| t % 5 + 2), eval(20, right)];
        let mut watch = AlarmMonitor::default();
        let records = watch.replay(&steps, &evals);
        assert_eq!(
            records.iter().map(|r| r.alarm).collect::<Vec<_>>(),
            watch.standing().collect::<Vec<_>>()
        );
        records.into_iter().map(|record| record.alarm).collect()
    };
    assert_eq!(alarms(0.6, |t| t % 5), [Alarm::RewardHacking]);
    assert_eq!(alarms(0.3, |t| t % 5), [Alarm::HeldOutFall]);
    // Some up, some down: within what luck does.
    assert_eq!(alarms(0.6, |t| t % 5 + 4 - [0, 4, 3][t % 3]), []);
    assert_eq!(alarms(0.6, |t| t % 5 + 3), []);
}

#[test]
fn a_warning_names_the_numbers_and_a_remedy() {
    let mut watch = AlarmMonitor::default();
    let mut texts = Vec::new();
    for n in 1..=16 {
        let mut record = step(n);
        if n > 8 {
            (record.length_mean, record.entropy) = (4.5, 0.01);
        }
        texts.extend(watch.update(&record).iter().map(ToString::to_string));
    }
    texts.extend(
        watch
            .evaluation(&eval(16, |t| t % 5 + 3))
            .iter()
            .chain(&watch.evaluation(&eval(20, |t| t % 5)))
            .map(ToString::to_string),
    );
    insta::assert_snapshot!(texts.join("\n"));
}

#[test]
fn a_line_reads_back() {
    let mut watch = AlarmMonitor::default();
    let steps: Vec<StepRecord> = (1..=12)
        .map(|n| {
            let mut record = step(n);
            record.algo.ess = 10.0;
            record
        })
        .collect();
    let records = watch.replay(&steps, &[]);
    assert_eq!((records.len(), records[0].step), (1, 5));
    let line = serde_json::to_string(&records[0]).unwrap();
    assert!(
        line.starts_with(
            "{\"step\":5,\"alarm\":\"stale-samples\",\"state\":\"raised\",\"text\":\"the effective"
        ),
        "{line}"
    );
    assert_eq!(
        serde_json::from_str::<AlarmRecord>(&line).unwrap(),
        records[0]
    );
}

/// `metrics.jsonl` of `rapid quickstart` with seed 0, and one update more, as they were on two cores.
#[test]
fn the_quickstart_rings_nothing() {
    let steps: Vec<StepRecord> = include_str!("quickstart.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(steps.len(), 11);
    assert!(steps[10].algo.reward > 2.0 * steps[0].algo.reward);
    // Held-out tasks that rise as its own did.
    let evals = [eval(0, |t| t % 4), eval(11, |t| t % 4 + 2)];
    assert_eq!(AlarmMonitor::default().replay(&steps, &evals), []);
}
