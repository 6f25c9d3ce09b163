use super::*;
use crate::study::Eta;

fn small() -> Counted {
    let toy = Toy {
        group_sizes: vec![2],
        staleness: vec![0, 4],
        ..Toy::default()
    };
    counted(&toy, &|_, _| ()).unwrap()
}

fn row<'a>(
    results: &'a Counted,
    course: &str,
    staleness: usize,
    factor: &str,
    baseline: &str,
    eta: Option<f64>,
) -> &'a Row {
    let matches = |row: &&Row| {
        (row.course.as_str(), row.staleness) == (course, staleness)
            && (row.names.factor, row.names.baseline, row.names.eta)
                == (factor, baseline, eta.map(Eta))
    };
    results.rows.iter().find(matches).unwrap()
}

#[test]
fn exact_results_agree_with_theory() {
    let results = small();
    assert_eq!(results.rows.len(), 3 * grid().len());
    for course in ["updates", "drift"] {
        for baseline in ["none", "loo"] {
            let bias = row(&results, course, 4, "w", baseline, None).quality.bias;
            assert!(bias < 1e-5, "{course} {baseline}: {bias}");
            let biases = ETAS_BELOW.map(|eta| {
                row(&results, course, 4, "w-capped", baseline, Some(eta))
                    .quality
                    .bias
            });
            assert!(
                biases[0] > 1e-3 && biases.is_sorted_by(|a, b| a >= b),
                "{course} {baseline}: {biases:?}"
            );
        }
        // A group of two gives half of the gradient in its direction, also off policy.
        let own = row(&results, course, 4, "w", "group", None).quality;
        assert!((own.scale - 0.5).abs() < 1e-5 && own.cosine > 1.0 - 1e-9);
        let weighted = row(&results, course, 4, "w", "weighted-group", Some(2.0)).quality;
        assert!(weighted.cosine < 1.0 - 1e-5, "{weighted:?}");
    }
    for row in results.rows.iter().filter(|row| row.staleness == 0) {
        let expected = if row.names.baseline.ends_with("group") {
            0.5
        } else {
            1.0
        };
        assert!(
            row.names.preset.is_some() || (row.quality.scale - expected).abs() < 1e-5,
            "{row:?}"
        );
        assert!((row.quality.ess - 1.0).abs() < 1e-6);
    }
}

const ETAS_BELOW: [f64; 4] = [1.0, 1.5, 2.0, 4.0];

#[test]
fn results_depend_on_the_seed_alone() {
    let (a, b) = (small(), small());
    assert_eq!(a, b);
    assert!(
        a.rows
            .iter()
            .all(|row| row.quality.numbers().iter().all(|x| x.is_finite()))
    );
}

#[test]
fn a_policy_further_away_has_a_smaller_effective_sample_size() {
    let toy = Toy {
        group_sizes: vec![1],
        ..Toy::default()
    };
    let results = counted(&toy, &|_, _| ()).unwrap();
    for course in ["updates", "drift"] {
        let ess: Vec<f64> = results
            .levels
            .iter()
            .filter(|l| l.course == course)
            .map(|l| l.ess)
            .collect();
        assert!(
            ess.is_sorted_by(|a, b| a > b) && ess[0] < 1.0 + 1e-12,
            "{course}: {ess:?}"
        );
    }
    let values = results.values.iter().zip(&toy.values);
    assert!(
        values
            .clone()
            .all(|(value, max)| value <= max && *value > 0.8 * max),
        "the probabilities of correct completions are near their maximum: {values:?}"
    );
}
