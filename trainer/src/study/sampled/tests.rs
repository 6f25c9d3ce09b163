use engine::{Finish, Sampling};
use verifier_api::Verdict;

use super::*;
use crate::data::Prompt;
use crate::fakes::{FakePolicy, dataset, prompt};
use crate::reward::Judged;
use crate::rollout::{RolloutRequest, Sample, SamplingParams};
use crate::study::Quality;

fn plan(groups: usize, reference: usize) -> StudyPlan {
    StudyPlan {
        groups,
        group_size: 4,
        reference,
        sampling: SamplingParams {
            sampling: Sampling {
                temperature: 0.9,
                ..Sampling::default()
            },
            min_tokens: 0,
            max_tokens: 4,
            stop_strings: Vec::new(),
        },
        seed: 1,
        sketch: 640,
    }
}

fn prompts() -> Vec<Arc<Prompt>> {
    let tasks = dataset(16, 0).train;
    tasks
        .iter()
        .map(|task| prompt(&FakePolicy::default(), task))
        .collect()
}

/// A policy's groups, with the rewards of `judge`.
fn sample_groups(
    policy: &FakePolicy,
    requests: &[RolloutRequest],
    plan: &StudyPlan,
    judge: &dyn Fn(&str) -> Option<f64>,
) -> Vec<SampledGroup> {
    let generate = requests.iter().map(|request| engine::GenerateRequest {
        prompt: request.prompt.tokens.clone(),
        seeds: request.seeds.clone(),
        sampling: plan.sampling.sampling,
        min_tokens: 0,
        max_tokens: plan.sampling.max_tokens,
        stop_tokens: policy.stop_tokens(),
        stop_strings: Vec::new(),
    });
    let mut all: Vec<_> = policy
        .generate(generate.collect())
        .into_iter()
        .map(Result::unwrap)
        .collect();
    all.sort_by_key(|completion| (completion.request, completion.sample));
    let mut all = all.into_iter().peekable();
    let group = |(number, request): (usize, &RolloutRequest)| SampledGroup {
        prompt: request.prompt.clone(),
        samples: std::iter::from_fn(|| all.next_if(|completion| completion.request == number))
            .map(|completion| Sample {
                judged: Judged {
                    reward: judge(&completion.text),
                    verdict: Verdict::Correct,
                    detail: serde_json::Value::Null,
                    passed: None,
                    total: None,
                },
                tokens: completion.tokens,
                logp: completion.logp,
                text: completion.text,
                reference: Vec::new(),
                padding: None,
                finish: Finish::Stop,
            })
            .collect(),
    };
    requests.iter().enumerate().map(group).collect()
}

fn rewards_b(text: &str) -> Option<f64> {
    Some(f64::from(u8::from(
        text.starts_with('b') || text.ends_with('c'),
    )))
}

fn study(
    plan: &StudyPlan,
    behaviours: &[FakePolicy],
    judge: &dyn Fn(&str) -> Option<f64>,
) -> Result<Sampled, StudyError> {
    let policy = FakePolicy::default();
    let prompts = plan.prompts(&prompts());
    let reference = sample_groups(&policy, &plan.on_policy(&prompts), plan, judge);
    let behaviours: Vec<Behaviour> = behaviours
        .iter()
        .enumerate()
        .map(|(number, toy)| Behaviour {
            name: format!("behaviour {number}"),
            staleness: number,
            groups: sample_groups(toy, &plan.off_policy(&prompts, number), plan, judge),
        })
        .collect();
    sampled(
        &policy,
        ("toy", "letters"),
        plan,
        &reference,
        &behaviours,
        &|_, _, _| true,
    )
}

fn quality_of(
    results: &Sampled,
    staleness: usize,
    factor: &str,
    baseline: &str,
    eta: Option<f64>,
) -> (Quality, Quality) {
    let row = results.rows.iter().find(|row| {
        let setting = &row.setting;
        row.staleness == staleness
            && !setting.estimator.divide_by_std
            && (setting.factor, setting.baseline, setting.eta) == (factor, baseline, eta)
    });
    let row = row.unwrap();
    (row.quality, row.errors.unwrap())
}

#[test]
fn estimates_agree_with_theory_within_their_standard_errors() {
    let results = study(
        &plan(2000, 8192),
        &[FakePolicy::default(), FakePolicy::moved(0.6)],
        &rewards_b,
    )
    .unwrap();
    assert!(results.reference.noise < 0.2, "{:?}", results.reference);
    assert_eq!(
        (
            results.prompts,
            results.groups,
            results.blocks,
            results.reference.completions
        ),
        (16, 2000, 16, 8192)
    );
    assert!((results.levels[0].ess - 1.0).abs() < 1e-6 && results.levels[0].kl.abs() < 1e-6);
    assert!(
        results.levels[1].ess < 0.9 && results.levels[1].kl > 0.05,
        "{:?}",
        results.levels
    );
    for staleness in 0..2 {
        for baseline in ["none", "loo"] {
            let (quality, error) = quality_of(&results, staleness, "w", baseline, None);
            assert!(
                quality.get("bias_squared").abs() < 4.0 * error.get("bias_squared") + 1e-3,
                "{staleness} {baseline}: {quality:?} ± {error:?}"
            );
            assert!(quality.get("cosine") > 0.98, "{quality:?}");
        }
        let (own, error) = quality_of(&results, staleness, "w", "group", None);
        assert!(
            (own.get("scale") - 0.75).abs() < 4.0 * error.get("scale"),
            "{own:?} ± {error:?}"
        );
        let whole = quality_of(&results, staleness, "w", "loo", None).0;
        assert_eq!(
            quality_of(&results, staleness, "w-capped", "loo", Some(f64::INFINITY)).0,
            whole
        );
    }
    // On policy every factor is 1. Off policy a factor of 1 is biased.
    assert_eq!(
        quality_of(&results, 0, "one", "loo", None).0,
        quality_of(&results, 0, "w", "loo", None).0
    );
    let (stale, error) = quality_of(&results, 1, "one", "loo", None);
    assert!(
        stale.get("bias_squared") > 4.0 * error.get("bias_squared"),
        "{stale:?} ± {error:?}"
    );
    let (capped, whole) = (
        quality_of(&results, 1, "w-capped", "loo", Some(1.0)).0,
        quality_of(&results, 1, "w", "loo", None).0,
    );
    assert!(capped.get("ess") > whole.get("ess") && capped.get("variance") < whole.get("variance"));
}

#[test]
fn completions_without_a_verdict_are_left_out_and_counted() {
    let judge = |text: &str| rewards_b(text).filter(|_| text.len().is_multiple_of(2));
    let results = study(&plan(256, 512), &[FakePolicy::moved(0.3)], &judge).unwrap();
    assert!(
        results.masked[0] > 64 && results.masked[0] < 960,
        "{:?}",
        results.masked
    );
    assert!(results.reference.masked > 20);
    let numbers = results.rows.iter().flat_map(|row| row.quality.0);
    assert!(numbers.clone().all(f64::is_finite));
    assert!(
        results
            .rows
            .iter()
            .flat_map(|row| row.errors.unwrap().0)
            .all(f64::is_finite)
    );
    assert_eq!(
        results,
        study(&plan(256, 512), &[FakePolicy::moved(0.3)], &judge).unwrap(),
        "the results depend on the seed alone"
    );
}

#[test]
fn a_model_without_correct_completions_is_an_error() {
    let error = study(&plan(16, 64), &[FakePolicy::default()], &|_| Some(0.0)).unwrap_err();
    assert!(
        matches!(
            error,
            StudyError::NoSignal {
                completions: 64,
                judged: 64
            }
        ),
        "{error}"
    );
}
