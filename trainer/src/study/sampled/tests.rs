use super::*;
use crate::fakes::{FakePolicy, dataset, prompt};
use crate::rollout::Sample;

/// A policy's groups of four in a stream of random numbers, with the rewards of `judge`.
fn groups(
    policy: &FakePolicy,
    prompts: &[Arc<Prompt>],
    stream: usize,
    plan: &StudyPlan,
    judge: &dyn Fn(&str) -> Option<f64>,
) -> Vec<SampledGroup> {
    let params = plan.sampling(prompts.len());
    let group = |prompt: &Arc<Prompt>| {
        let generate = engine::GenerateRequest {
            prompt: prompt.tokens.clone(),
            seeds: params.seeds(prompt, stream).collect(),
            sampling: params.sampling,
            max_tokens: params.max_tokens,
            ..engine::GenerateRequest::default()
        };
        let mut receiver = policy.generate(vec![generate]);
        let completions = std::iter::from_fn(|| receiver.blocking_recv());
        let mut completions: Vec<_> = completions.map(Result::unwrap).collect();
        completions.sort_by_key(|completion| completion.sample);
        let samples = completions.into_iter().map(|completion| {
            let mut sample = Sample::unjudged(completion);
            sample.judged.reward = judge(&sample.text);
            sample
        });
        SampledGroup {
            prompt: prompt.clone(),
            samples: samples.collect(),
        }
    };
    prompts.iter().map(group).collect()
}

fn rewards(text: &str) -> Option<f64> {
    let is_right = text.starts_with('b') || text.ends_with('c');
    Some(f64::from(u8::from(is_right)))
}

/// The study of the default policy with this number of groups. The behaviour policies differ by these distances.
fn study(
    groups_of_each: usize,
    distances: &[f32],
    judge: &dyn Fn(&str) -> Option<f64>,
) -> Result<Sampled, StudyError> {
    let plan = StudyPlan {
        groups: groups_of_each,
        group_size: 4,
        temperature: 0.9,
        max_tokens: 4,
        seed: 1,
    };
    let tasks = dataset(16, 0).train;
    let policy = FakePolicy::default();
    let all: Vec<_> = tasks.iter().map(|task| prompt(&policy, task)).collect();
    let prompts = plan.prompts(&all);
    let mut seeds = std::collections::HashSet::new();
    let models = [0.0].iter().chain(distances).enumerate();
    let models = models.map(|(stream, distance): (usize, &f32)| {
        let params = plan.sampling(prompts.len());
        let mut of_model = prompts.iter().flat_map(|it| params.seeds(it, stream));
        assert!(of_model.all(|seed| seeds.insert(seed)));
        let moved = FakePolicy::moved(*distance);
        Behaviour {
            name: format!("{distance}"),
            staleness: stream,
            groups: groups(&moved, &prompts, stream, &plan, judge),
        }
    });
    let models: Vec<Behaviour> = models.collect();
    sampled(&policy, &plan, &models, &|_, _, _| ())
}

#[test]
fn estimates_agree_with_theory_within_their_noise() {
    let results = study(2000, &[0.0, 0.6], &rewards).unwrap();
    assert_eq!((results.prompts, results.masked), (16, 0));
    let row = |staleness: usize, factor: &str, baseline: &str| {
        let wanted = (staleness, factor, baseline);
        let is_it = |row: &&Row| (row.staleness, row.factor, row.baseline) == wanted;
        results.rows.iter().find(is_it).unwrap()
    };
    for staleness in [1, 2] {
        let whole = row(staleness, "w", "loo");
        assert!(whole.bias < whole.noise && whole.noise < 0.6, "{whole:?}");
        assert!(whole.cosine > 0.95, "{whole:?}");
    }
    // On policy every factor is 1, and a baseline with the completion gives 1 − 1/G of the gradient. Off policy a factor of 1 is biased.
    let [one, whole] = ["one", "w"].map(|factor| row(1, factor, "loo"));
    let own = row(1, "one", "group");
    assert!((one.bias - whole.bias).abs() < 1e-4 && (one.ess - 1.0).abs() < 1e-6);
    assert!((own.scale / one.scale - 0.75).abs() < 1e-3, "{own:?}");
    let [stale, capped, whole] = ["one", "w-capped", "w"].map(|factor| row(2, factor, "loo"));
    let is_biased = stale.bias > stale.noise.max(whole.bias);
    assert!(is_biased && stale.ess < 0.9, "{stale:?}");
    assert!(capped.variance < whole.variance);
}

#[test]
fn unjudged_completions_are_left_out_and_no_signal_is_no_result() {
    let judge = |text: &str| rewards(text).filter(|_| text.len().is_multiple_of(2));
    let results = study(256, &[0.3], &judge).unwrap();
    // Of 1,024 completions of each of the two.
    assert!((128..1920).contains(&results.masked), "{}", results.masked);
    let mut rows = results.rows.iter();
    assert!(rows.all(|row| row.update_error.is_finite() && row.noise > 0.0));
    let again = study(256, &[0.3], &judge).unwrap();
    assert_eq!(results, again, "the results depend on the seed alone");
    let error = study(16, &[], &|_| Some(0.0)).unwrap_err();
    assert!(matches!(error, StudyError::NoSignal), "{error}");
}
