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

fn of<'a>(
    found: &'a Counted,
    course: &str,
    staleness: usize,
    factor: &str,
    baseline: &str,
    eta: Option<f64>,
) -> &'a Row {
    let wanted = |row: &&Row| {
        (row.course.as_str(), row.staleness) == (course, staleness)
            && (row.names.factor, row.names.baseline, row.names.eta)
                == (factor, baseline, eta.map(Eta))
    };
    found.rows.iter().find(wanted).unwrap()
}

#[test]
fn the_study_finds_what_theory_says() {
    let found = small();
    assert_eq!(found.rows.len(), 3 * grid().len());
    for course in ["updates", "drift"] {
        for baseline in ["none", "loo"] {
            let bias = of(&found, course, 4, "w", baseline, None).quality.bias;
            assert!(bias < 1e-5, "{course} {baseline}: {bias}");
            let biases = ETAS_BELOW.map(|eta| {
                of(&found, course, 4, "w-capped", baseline, Some(eta))
                    .quality
                    .bias
            });
            assert!(
                biases[0] > 1e-3 && biases.is_sorted_by(|a, b| a >= b),
                "{course} {baseline}: {biases:?}"
            );
        }
        // A group of two: half of the gradient, in its direction, off policy too.
        let own = of(&found, course, 4, "w", "group", None).quality;
        assert!((own.scale - 0.5).abs() < 1e-5 && own.cosine > 1.0 - 1e-9);
        let weighted = of(&found, course, 4, "w", "weighted-group", Some(2.0)).quality;
        assert!(weighted.cosine < 1.0 - 1e-5, "{weighted:?}");
    }
    for row in found.rows.iter().filter(|row| row.staleness == 0) {
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
fn what_is_found_depends_on_the_seed_alone() {
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
    let found = counted(&toy, &|_, _| ()).unwrap();
    for course in ["updates", "drift"] {
        let ess: Vec<f64> = found
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
    let values = found.values.iter().zip(&toy.values);
    assert!(
        values
            .clone()
            .all(|(found, wanted)| found <= wanted && *found > 0.8 * wanted),
        "about as often right as asked for: {values:?}"
    );
}
