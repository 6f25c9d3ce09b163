//! Sketches of gradients against the gradients themselves.

use crate::support;

use engine::CountSketch;
use engine::batch::Group;
use engine::config::Family;
use engine::model::{Model, TensorKind};
use engine::train::sketch;
use support::{ADAMW, Case, Random, TEMPERATURE, distance, gather, model, update};

const SKETCH: CountSketch = CountSketch {
    size: 1000,
    seed: 7,
};

type Dlogp = Vec<Vec<f32>>;

fn dlogp(seed: u64, groups: &[Group]) -> Dlogp {
    support::dlogp(&mut Random(seed), groups)
}

/// A gradient of only one completion.
fn gradient_of_one(number: usize, groups: &[Group]) -> Dlogp {
    let mut dlogp = dlogp(number as u64, groups);
    for (other, dlogp) in dlogp.iter_mut().enumerate() {
        if other != number {
            dlogp.fill(0.0);
        }
    }
    dlogp
}

fn sketches(model: &mut Model, groups: &[Group], sets: Vec<Dlogp>) -> Vec<Vec<f32>> {
    let objectives = Box::new(move |_: &[_]| Ok(sets));
    sketch(model, groups, TEMPERATURE, objectives, SKETCH).unwrap()
}

/// The sketch of the gradient of a step, computed weight by weight.
fn sketch_of_step(case: &Case, dlogp: &Dlogp) -> Vec<f32> {
    let mut model = model(&case.config, &case.weights, 2);
    update(&mut model, &case.groups, dlogp, &ADAMW).unwrap();
    let mut all = Vec::new();
    for (name, _) in case.config.tensor_shapes() {
        all.extend(model.tensor(&name, TensorKind::Gradient).unwrap());
    }
    let mut buckets = vec![0.0; SKETCH.size];
    SKETCH.add(&mut buckets, 0, &all);
    buckets
}

#[test]
fn a_sketch_matches_the_gradient_of_a_step() {
    for (seed, family) in [(300, Family::Llama), (301, Family::Qwen2)] {
        let case = Case::new(seed, family, 4);
        // A whole gradient, one completion alone (packed again), and a whole gradient again after the saved activations have been overwritten.
        let sets = vec![
            dlogp(1, &case.groups),
            gradient_of_one(2, &case.groups),
            dlogp(3, &case.groups),
        ];
        for (pack_tokens, activation_bytes) in
            [(10_000, None), (60, None), (10_000, Some(0)), (60, Some(0))]
        {
            let mut model = model(&case.config, &case.weights, 2);
            model.set_pack_tokens(pack_tokens);
            model.set_saved_bytes(activation_bytes);
            let actual = sketches(&mut model, &case.groups, sets.clone());
            for (number, (actual, set)) in actual.iter().zip(&sets).enumerate() {
                let difference = distance(actual, &sketch_of_step(&case, set));
                assert!(
                    difference < 1e-5,
                    "seed {seed}, {pack_tokens}, {activation_bytes:?}, set {number}: {difference}"
                );
            }
        }
    }
}

#[test]
fn a_repeated_sketch_has_the_same_bits_and_changes_no_weight() {
    let case = Case::new(320, Family::Llama, 4);
    let mut model = model(&case.config, &case.weights, 2);
    let before = gather(&mut model, TensorKind::Weight);
    let set = dlogp(1, &case.groups);
    let first = sketches(&mut model, &case.groups, vec![set.clone()]);
    let other = gradient_of_one(0, &case.groups);
    let repeated = sketches(&mut model, &case.groups, vec![other, set.clone(), set]);
    assert_eq!(first[0], repeated[1]);
    assert_eq!(first[0], repeated[2]);
    assert_eq!(before, gather(&mut model, TensorKind::Weight));
    assert!(model.updates() == 0 && !model.has_moments());
}

#[test]
fn invalid_requests_for_sketches_are_rejected() {
    let case = Case::new(330, Family::Llama, 4);
    let mut model = model(&case.config, &case.weights, 2);
    let mut rejection = |sets: Result<Vec<Dlogp>, String>, size: usize| {
        let projection = CountSketch { size, seed: 0 };
        let objectives = Box::new(move |_: &[_]| sets);
        let groups = &case.groups;
        let result = sketch(&mut model, groups, TEMPERATURE, objectives, projection);
        result.unwrap_err().to_string()
    };
    assert!(rejection(Err("no".into()), 64).contains("no"));
    assert!(rejection(Ok(vec![Vec::new()]), 64).contains("does not have the shape"));
    assert!(rejection(Ok(Vec::new()), 10).contains("at least 64"));
    let mut bad = dlogp(1, &case.groups);
    bad[0][0] = f32::NAN;
    assert!(rejection(Ok(vec![bad]), 64).contains("not finite"));
}
