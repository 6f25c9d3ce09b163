use engine::{Finish, Sampling};
use verifier_api::Verdict;

use super::*;
use crate::data::Prompt;
use crate::reward::Judged;
use crate::rollout::{RolloutRequest, Sample, SamplingParams};
use crate::scripted::{Toy, dataset, prompt};
use crate::study::{Eta, Quality};

fn plan(groups: usize, reference: usize) -> StudyPlan {
    StudyPlan {
        groups,
        group_size: 4,
        reference,
        drawing: SamplingParams {
            sampling: Sampling {
                temperature: 0.9,
                ..Sampling::default()
            },
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
        .map(|task| prompt(&Toy::default(), task))
        .collect()
}

/// What a policy answers, as a verifier judges it that likes some letters.
fn draw(
    policy: &Toy,
    queries: &[RolloutRequest],
    plan: &StudyPlan,
    judge: &dyn Fn(&str) -> Option<f64>,
) -> Vec<SampledGroup> {
    let requests = queries.iter().map(|query| engine::GenerateRequest {
        prompt: query.prompt.tokens.clone(),
        seeds: query.seeds.clone(),
        sampling: plan.drawing.sampling,
        max_tokens: plan.max_tokens(),
        stop_tokens: policy.stop_tokens(),
        stop_strings: Vec::new(),
    });
    let mut all: Vec<_> = policy
        .generate(requests.collect())
        .into_iter()
        .map(Result::unwrap)
        .collect();
    all.sort_by_key(|one| (one.request, one.sample));
    let mut all = all.into_iter().peekable();
    let group = |(number, query): (usize, &RolloutRequest)| SampledGroup {
        prompt: query.prompt.clone(),
        samples: std::iter::from_fn(|| all.next_if(|one| one.request == number))
            .map(|one| Sample {
                judged: Judged {
                    reward: judge(&one.text),
                    verdict: Verdict::Correct,
                    detail: serde_json::Value::Null,
                    passed: None,
                    total: None,
                },
                tokens: one.tokens,
                logp: one.logp,
                text: one.text,
                reference: Vec::new(),
                padding: None,
                finish: Finish::Stop,
            })
            .collect(),
    };
    queries.iter().enumerate().map(group).collect()
}

fn likes_b(text: &str) -> Option<f64> {
    Some(f64::from(u8::from(
        text.starts_with('b') || text.ends_with('c'),
    )))
}

fn study(
    plan: &StudyPlan,
    behaviours: &[Toy],
    judge: &dyn Fn(&str) -> Option<f64>,
) -> Result<Sampled, StudyError> {
    let policy = Toy::default();
    let asked = plan.prompts(&prompts());
    let reference = draw(&policy, &plan.on_policy(&asked), plan, judge);
    let behaviours: Vec<Behaviour> = behaviours
        .iter()
        .enumerate()
        .map(|(number, toy)| Behaviour {
            name: format!("behaviour {number}"),
            staleness: number,
            answers: draw(toy, &plan.off_policy(&asked, number), plan, judge),
        })
        .collect();
    let stop = Stop::default();
    sampled(
        &policy,
        ("toy", "letters"),
        plan,
        &reference,
        &behaviours,
        &stop,
        &mut |_, _, _| (),
    )
}

fn of(
    found: &Sampled,
    staleness: usize,
    factor: &str,
    baseline: &str,
    eta: Option<f64>,
) -> (Quality, Quality) {
    let row = found.rows.iter().find(|row| {
        row.staleness == staleness
            && row
                .names
                .preset
                .is_none_or(|p| !p.starts_with("dapo") && !p.starts_with("grpo"))
            && (row.names.factor, row.names.baseline, row.names.eta)
                == (factor, baseline, eta.map(Eta))
    });
    let row = row.unwrap();
    (row.quality, row.errors.unwrap())
}

#[test]
fn samples_show_what_theory_says_within_their_standard_errors() {
    let found = study(
        &plan(2000, 8192),
        &[Toy::default(), Toy::moved(0.6)],
        &likes_b,
    )
    .unwrap();
    assert!(found.reference.noise < 0.2, "{:?}", found.reference);
    assert_eq!(
        (
            found.prompts,
            found.groups,
            found.blocks,
            found.reference.completions
        ),
        (16, 2000, 16, 8192)
    );
    assert!((found.levels[0].ess - 1.0).abs() < 1e-6 && found.levels[0].kl.abs() < 1e-6);
    assert!(
        found.levels[1].ess < 0.9 && found.levels[1].kl > 0.05,
        "{:?}",
        found.levels
    );
    for staleness in 0..2 {
        for baseline in ["none", "loo"] {
            let (quality, error) = of(&found, staleness, "w", baseline, None);
            assert!(
                quality.bias_squared.abs() < 4.0 * error.bias_squared + 1e-3,
                "{staleness} {baseline}: {quality:?} ± {error:?}"
            );
            assert!(quality.cosine > 0.98, "{quality:?}");
        }
        let (own, error) = of(&found, staleness, "w", "group", None);
        assert!(
            (own.scale - 0.75).abs() < 4.0 * error.scale,
            "{own:?} ± {error:?}"
        );
        let whole = of(&found, staleness, "w", "loo", None).0;
        assert_eq!(
            of(&found, staleness, "w-capped", "loo", Some(f64::INFINITY)).0,
            whole
        );
    }
    // On policy every factor is 1; off policy that is wrong.
    assert_eq!(
        of(&found, 0, "one", "loo", None).0,
        of(&found, 0, "w", "loo", None).0
    );
    let (stale, error) = of(&found, 1, "one", "loo", None);
    assert!(
        stale.bias_squared > 4.0 * error.bias_squared,
        "{stale:?} ± {error:?}"
    );
    let (capped, whole) = (
        of(&found, 1, "w-capped", "loo", Some(1.0)).0,
        of(&found, 1, "w", "loo", None).0,
    );
    assert!(capped.ess > whole.ess && capped.variance < whole.variance);
}

#[test]
fn what_has_no_verdict_is_left_out_and_counted() {
    let judge = |text: &str| likes_b(text).filter(|_| text.len().is_multiple_of(2));
    let found = study(&plan(256, 512), &[Toy::moved(0.3)], &judge).unwrap();
    assert!(
        found.masked[0] > 64 && found.masked[0] < 960,
        "{:?}",
        found.masked
    );
    assert!(found.reference.masked > 20);
    let numbers = found.rows.iter().flat_map(|row| row.quality.numbers());
    assert!(numbers.clone().all(f64::is_finite));
    assert!(
        found
            .rows
            .iter()
            .flat_map(|row| row.errors.unwrap().numbers())
            .all(f64::is_finite)
    );
    assert_eq!(
        found,
        study(&plan(256, 512), &[Toy::moved(0.3)], &judge).unwrap(),
        "of one seed"
    );
}

#[test]
fn no_right_answer_is_no_gradient_and_is_said_so() {
    let error = study(&plan(16, 64), &[Toy::default()], &|_| Some(0.0)).unwrap_err();
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
