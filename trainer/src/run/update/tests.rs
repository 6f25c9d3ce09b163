use super::*;
use crate::config;
use crate::fakes;

/// The gradient of the preset pg on completions of one token each, with these rewards by prompt; `None` for those that are not computed.
fn gradient(rewards: &[&[f64]], baseline_groups: Vec<Vec<usize>>) -> Vec<Option<Vec<f32>>> {
    let recipe =
        "[model]\nname = \"m\"\n[data]\ndataset = \"starter-math\"\n[algorithm]\npreset = \"pg\"\n";
    let config = config::parse("test", recipe, &[]).unwrap();
    let samples = |rewards: &[f64]| rewards.iter().map(|it| fakes::sample("a", *it)).collect();
    let numbered = rewards.iter().enumerate();
    let groups = numbered.map(|(number, rewards)| fakes::group(number, samples(rewards)));
    let groups: Vec<SampledGroup> = groups.collect();
    let batch = MiniBatch {
        groups: groups.into(),
        baseline_groups,
    };
    let (send, _metrics) = mpsc::channel();
    let settings = UpdateSettings::of(&config);
    let computed = settings.computed(&batch);
    let own = batch.samples().zip(&computed).filter(|it| *it.1);
    let stats = own.map(|(sample, _)| TokenStats {
        logp: sample.logp.clone(),
        entropy: vec![0.0],
    });
    let stats: Vec<TokenStats> = stats.collect();
    let objective = objective(&settings, &batch, &computed, send, Clock::start());
    let dlogp = objective(&stats).unwrap();
    let mut dlogp = dlogp.into_iter();
    let of_all = computed
        .iter()
        .map(|computed| computed.then(|| dlogp.next().unwrap()));
    of_all.collect()
}

#[test]
fn a_baseline_is_over_the_completions_that_are_compared() {
    let rewards: [&[f64]; 3] = [&[1.0], &[1.0, 0.0], &[0.0]];
    // −(R − b) / N. The means of the groups are 1/2 and 1/2, then 1 and 0.
    let crossed = gradient(&rewards, vec![vec![3, 0], vec![1, 2]]);
    let expected = [-0.125, -0.125, 0.125, 0.125].map(|d| Some(vec![d]));
    assert_eq!(crossed, expected);
    let equal = gradient(&rewards, vec![vec![1, 0], vec![3, 2]]);
    assert_eq!(equal, [const { None }; 4]);
    let uneven = gradient(&rewards, vec![vec![2, 3, 0], vec![1]]);
    // The mean of 0, 0 and 1 is 1/3; a group of one gives no gradient.
    let third = 1.0 / 12.0;
    assert_eq!(uneven[1], None);
    for (own, expected) in uneven.iter().flatten().zip([-2.0 * third, third, third]) {
        assert!((own[0] - expected).abs() < 1e-6, "{uneven:?}");
    }
}
