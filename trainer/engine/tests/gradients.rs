//! The training step against candle's autograd, and against itself with other packs, budgets and threads.

use crate::support;

use std::collections::BTreeMap;

use engine::backend::{Bf16Kernel, Dtype};
use engine::batch::Group;
use engine::config::Family;
use engine::load::Weights;
use engine::model::{Model, TensorKind};
use engine::train::step;
use engine::{AdamW, EngineError, StepReport};
use support::reference::Reference;
use support::{ADAMW, Case, TEMPERATURE, distance, every_arithmetic, gather, model, update};

fn run(model: &mut Model, groups: &[Group], dlogp: &[Vec<f32>]) -> StepReport {
    update(model, groups, dlogp, &ADAMW).unwrap()
}

/// The elements of all tensors.
fn all(tensors: &BTreeMap<String, Vec<f32>>) -> Vec<f32> {
    tensors.values().flatten().copied().collect()
}

fn case(seed: u64, family: Family) -> Case {
    with_few_gradients(seed, Case::new(seed, family, 4))
}

fn with_few_gradients(seed: u64, mut case: Case) -> Case {
    if seed % 2 == 1 {
        // Few completions have a gradient, so the step packs them again.
        let gradient_from = case.dlogp.len() / 2;
        for (number, dlogp) in case.dlogp.iter_mut().enumerate() {
            if number != gradient_from && number != gradient_from + 1 {
                dlogp.fill(0.0);
            }
        }
    }
    case
}

#[test]
fn gradients_of_every_weight_match_candles_autograd() {
    for seed in 100..124 {
        let c = Case::new(seed, Family::ALL[seed as usize % 4], 4).begin_alike(seed);
        let c = with_few_gradients(seed, c);
        let reference = Reference::new(&c.config, &c.weights).unwrap();
        let expected = reference
            .gradients(&c.groups, f64::from(TEMPERATURE), &c.dlogp)
            .unwrap();
        let mut model = model(&c.config, &c.weights, 2);
        let report = run(&mut model, &c.groups, &c.dlogp);
        let log_probs = reference
            .log_probs(&c.groups, f64::from(TEMPERATURE))
            .unwrap();
        for (stats, expected) in report.stats.iter().zip(log_probs) {
            let expected: Vec<f32> = expected.to_vec1().unwrap();
            let difference = support::largest_difference(&stats.logp, &expected);
            assert!(
                difference < 1e-4,
                "seed {seed}: log-probabilities differ by {difference}"
            );
        }
        let mut squares = 0.0;
        for (name, gradient) in gather(&mut model, TensorKind::Gradient) {
            let distance = distance(&gradient, &expected[&name]);
            assert!(
                distance < 1e-4,
                "seed {seed}, {name}: {distance} ({:?})",
                c.config
            );
            squares += expected[&name]
                .iter()
                .map(|x| f64::from(*x).powi(2))
                .sum::<f64>();
        }
        assert!((report.grad_norm / squares.sqrt() - 1.0).abs() < 1e-5);
    }
}

/// The distance of a random model's gradient in bf16 from its gradient in f32 depends on the model. Rounding the weights alone, with all arithmetic in f32,
/// shows how large it is. The arithmetic of bf16 adds next to nothing to it.
#[test]
fn gradients_in_bf16_are_near_those_in_f32() {
    let models = (100..124).map(|seed| (seed, Family::ALL[seed as usize % 4]));
    for (seed, family) in models.chain((110..119).map(|seed| (seed, Family::Llama))) {
        let c = case(seed, family);
        let gradient_in = |arithmetic, weights: &Weights| {
            let mut model = support::model_of(&c.config, weights, 2, arithmetic);
            run(&mut model, &c.groups, &c.dlogp);
            gather(&mut model, TensorKind::Gradient)
        };
        let exact = gradient_in((Dtype::F32, None), &c.weights);
        let rounded = gradient_in((Dtype::F32, None), &support::rounded(&c.weights));
        let distance_from_exact =
            |gradient: &BTreeMap<String, Vec<f32>>| distance(&all(gradient), &all(&exact));
        let rounded_distance = distance_from_exact(&rounded);
        // Emulated tiles take minutes for all models.
        let emulated = |kernel| kernel == Some(Bf16Kernel::Amx) && seed >= 108;
        let bf16 = every_arithmetic()
            .into_iter()
            .filter(|(dtype, kernel)| *dtype == Dtype::Bf16 && !emulated(*kernel));
        for arithmetic in bf16 {
            let ours = gradient_in(arithmetic, &c.weights);
            let ours_distance = distance_from_exact(&ours);
            assert!(
                ours_distance > 1e-4,
                "seed {seed}, {arithmetic:?}: nothing was rounded"
            );
            assert!(
                ours_distance < 2.5e-2 || ours_distance < 1.25 * rounded_distance,
                "seed {seed}, {arithmetic:?}: {ours_distance}, and {rounded_distance} by the weights' rounding"
            );
            for (name, exact) in &exact {
                let [ours, rounded] =
                    [&ours, &rounded].map(|gradient| distance(&gradient[name], exact));
                assert!(
                    ours < 2e-2 + 1.5 * rounded,
                    "seed {seed}, {arithmetic:?}, {name}: {ours}, and {rounded} by the weights' rounding"
                );
            }
        }
    }
}

/// Everything that a step changes, as bits.
fn bits(model: &mut Model) -> Vec<(String, Vec<u32>)> {
    let kinds = [
        TensorKind::Gradient,
        TensorKind::Weight,
        TensorKind::Moment1,
        TensorKind::Moment2,
    ];
    let all = kinds.map(|kind| gather(model, kind));
    let all = all.into_iter().flatten();
    all.map(|(name, values)| (name, values.iter().map(|x| x.to_bits()).collect()))
        .collect()
}

#[test]
fn the_budget_for_saved_activations_changes_no_bit() {
    let packs = [10_000, 90, 90, 10_000].into_iter().cycle();
    for (seed, pack_tokens) in (130..138).zip(packs) {
        let c = case(seed, [Family::Llama, Family::Gemma3][seed as usize / 134]);
        let mut results = Vec::new();
        // Budgets that save nothing, some activations, and all of them.
        for budget in [0, 300_000, u64::MAX] {
            let mut model = model(&c.config, &c.weights, 2);
            model.set_saved_bytes(Some(budget));
            model.set_pack_tokens(pack_tokens);
            run(&mut model, &c.groups, &c.dlogp);
            let report = run(&mut model, &c.groups, &c.dlogp);
            results.push((report.stats, report.grad_norm.to_bits(), bits(&mut model)));
        }
        assert!(
            results[0] == results[1] && results[1] == results[2],
            "seed {seed}"
        );
    }
}

#[test]
fn packs_order_and_threads_change_gradients_by_less_than_a_millionth() {
    for seed in 150..156 {
        let c = case(seed, [Family::Llama, Family::Gemma3][seed as usize / 153]);
        let mut one_pack = model(&c.config, &c.weights, 2);
        run(&mut one_pack, &c.groups, &c.dlogp);
        let one_pack = gather(&mut one_pack, TensorKind::Gradient);
        let one_pack = all(&one_pack);
        for (pack_tokens, threads, reversed) in [
            (1, 2, false),
            (60, 2, false),
            (10_000, 1, false),
            (10_000, 2, true),
            (100, 2, true),
        ] {
            let mut model = model(&c.config, &c.weights, threads);
            model.set_pack_tokens(pack_tokens);
            let (mut groups, mut dlogp) = (c.groups.clone(), c.dlogp.clone());
            if reversed {
                groups.reverse();
                for group in &mut groups {
                    group.completions.reverse();
                }
                dlogp.reverse();
            }
            run(&mut model, &groups, &dlogp);
            let gradient = all(&gather(&mut model, TensorKind::Gradient));
            let distance = distance(&gradient, &one_pack);
            // A prompt that is computed once for each completion is rounded as often.
            let bound = if pack_tokens == 1 { 2e-6 } else { 1e-6 };
            assert!(
                distance < bound,
                "seed {seed}, {pack_tokens} tokens, {threads} threads: {distance}"
            );
        }
    }
}

#[test]
fn a_failed_step_changes_nothing() {
    let c = case(180, Family::Llama);
    let mut model = model(&c.config, &c.weights, 2);
    let before = gather(&mut model, TensorKind::Weight);
    let mut attempt = |temperature, dlogp: Result<Vec<Vec<f32>>, &str>| {
        let dlogp = dlogp.map_err(str::to_owned);
        let objective = Box::new(move |_: &[_]| dlogp);
        step(&mut model, &c.groups, temperature, objective, &ADAMW).unwrap_err()
    };
    let with = |value: f32| {
        let mut dlogp = c.dlogp.clone();
        dlogp[0][0] = value;
        Ok(dlogp)
    };
    for value in [f32::NAN, f32::INFINITY] {
        let error = attempt(TEMPERATURE, with(value));
        assert!(matches!(error, EngineError::Numeric(_)));
    }
    // A norm beyond f32's squares.
    attempt(TEMPERATURE, with(1e38));
    let rejected = attempt(TEMPERATURE, Err("no"));
    assert!(matches!(rejected, EngineError::Objective(reason) if reason == "no"));
    let short = attempt(TEMPERATURE, Ok(Vec::new()));
    assert!(matches!(short, EngineError::Objective(_)));
    for temperature in [0.0, 1e-7, f32::NAN] {
        let error = attempt(temperature, Ok(Vec::new())).to_string();
        assert!(error.contains("at least 1e-6"), "{error}");
    }
    assert_eq!(model.updates(), 0);
    assert!(before == gather(&mut model, TensorKind::Weight));
}

#[test]
fn updates_match_adamw_after_clipping() {
    let c = case(190, Family::Llama);
    let mut model = model(&c.config, &c.weights, 2);
    let adamw = AdamW {
        clip_norm: 0.5,
        ..ADAMW
    };
    let mut expected: Vec<(f64, f64, f64)> = Vec::new();
    for t in 1..=3 {
        let before = all(&gather(&mut model, TensorKind::Weight));
        let report = update(&mut model, &c.groups, &c.dlogp, &adamw).unwrap();
        let gradients = all(&gather(&mut model, TensorKind::Gradient));
        let scale = (0.5 / (report.grad_norm + 1e-6)).min(1.0);
        if expected.is_empty() {
            expected = before.iter().map(|w| (f64::from(*w), 0.0, 0.0)).collect();
        }
        for ((w, m, v), g) in expected.iter_mut().zip(gradients) {
            let g = f64::from(g) * scale;
            *m = 0.9 * *m + 0.1 * g;
            *v = 0.999 * *v + 0.001 * g * g;
            let (m_hat, v_hat) = (*m / (1.0 - 0.9f64.powi(t)), *v / (1.0 - 0.999f64.powi(t)));
            *w -= 1e-3 * 0.01 * *w;
            *w -= 1e-3 * m_hat / (v_hat.sqrt() + 1e-8);
        }
        let after = all(&gather(&mut model, TensorKind::Weight));
        let expected_weights: Vec<f32> = expected.iter().map(|(w, _, _)| *w as f32).collect();
        let difference = support::largest_difference(&after, &expected_weights);
        assert!(difference < 1e-5, "update {t}: {difference}");
    }
    assert_eq!(model.updates(), 3);
}
