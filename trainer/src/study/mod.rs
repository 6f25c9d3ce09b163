//! The bias, direction and variance of off-policy estimators of ∇J, measured on the code that training uses: exactly on a toy ([`toy()`]), and on a model ([`sampled()`]).

mod estimators;
mod page;
mod sampled;
mod toy;

use std::path::{Path, PathBuf};

use serde::Serialize;

pub use sampled::{Behaviour, Sampled, StudyError, StudyPlan, sampled};
pub use toy::toy;

use crate::algo;
use crate::config::{Algorithm, Preset};
use crate::report::{WriteError, replace};

/// Completions per update in the reported error: as many as the paper has on MBPP+ and `MiniF2F`.
const UPDATE_COMPLETIONS: usize = 32;

/// The results of the study.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Study {
    /// On toy prompts, exactly.
    pub toy: Vec<Row>,
    /// On a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Sampled>,
}

/// What one estimator does at one staleness: its estimates ĝ of ∇J from one group each. Numbers that are undefined, since ∇J is 0, are 0.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// How the behaviour policy was made: `updates` or `drift` on the toy, else the behaviour model's name.
    pub course: String,
    /// Number of updates behind; if that is unknown, the behaviour model's position in the list, from 1.
    pub staleness: usize,
    /// The factor, as a recipe names it.
    pub factor: &'static str,
    /// The baseline, as a recipe names it.
    pub baseline: &'static str,
    /// The cap, or `inf`; `None` where neither factor nor baseline has one.
    pub eta: Option<String>,
    /// The preset with this estimator, if any.
    pub preset: Option<&'static str>,
    /// |E ĝ − ∇J| / |∇J|.
    pub bias: f64,
    /// The cosine of E ĝ and ∇J. A step of AdamW forgives a wrong length and does not forgive an angle.
    pub cosine: f64,
    /// The length of E ĝ along ∇J: ⟨E ĝ, ∇J⟩ / |∇J|².
    pub scale: f64,
    /// The trace of ĝ's variance over |∇J|².
    pub variance: f64,
    /// √(bias² + variance / n) for the mean of n groups, 32 completions in all.
    pub update_error: f64,
    /// Effective sample size of the whole importance weights under the behaviour policy, as a share: (E w)² / E w². It is the same for every estimator.
    pub ess: f64,
    /// The noise left in the mean of the estimates and in the ∇J beside it, over |∇J|: a smaller bias cannot be told from it. 0 on the toy.
    pub noise: f64,
}

/// Inner products of E ĝ = m with ∇J = g, and the trace of ĝ's variance. They are exact, or estimates; an estimated square may be negative.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Products {
    /// |g|².
    gradient: f64,
    /// |m|².
    mean: f64,
    /// ⟨m, g⟩.
    cross: f64,
    /// Trace of the variance.
    variance: f64,
    /// Square of the noise in m and g.
    noise: f64,
}

impl Row {
    /// The row of an estimator with groups of this size.
    fn new(
        (course, staleness): (&str, usize),
        (estimator, preset): (Algorithm, Option<Preset>),
        group_size: usize,
        products: &Products,
        ess: f64,
    ) -> Self {
        let relative = |square| ratio(square, products.gradient);
        let (factor, baseline) = (estimator.factor, estimator.baseline);
        let has_cap = factor.has_cap() || baseline.has_cap();
        let groups = UPDATE_COMPLETIONS as f64 / group_size as f64;
        let bias = products.mean + products.gradient - 2.0 * products.cross;
        let (bias, variance) = (relative(bias).max(0.0), relative(products.variance));
        let lengths = (products.mean * products.gradient).max(0.0).sqrt();
        Self {
            course: course.to_owned(),
            staleness,
            factor: factor.name(),
            baseline: baseline.name(),
            eta: has_cap.then(|| estimator.eta.to_string()),
            preset: preset.map(Preset::name),
            bias: bias.sqrt(),
            cosine: ratio(products.cross, lengths).clamp(-1.0, 1.0),
            scale: relative(products.cross),
            variance,
            update_error: (bias + variance / groups).max(0.0).sqrt(),
            ess,
            noise: relative(products.noise).sqrt(),
        }
    }
}

/// a / b, or 0 if b is not positive.
fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// a + scale · b.
fn plus(a: &[f64], scale: f64, b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + scale * b).collect()
}

/// A completion in the form that the algorithms take.
fn sample<'a>(new: &'a [f32], behaviour: &'a [f32], reward: Option<f64>) -> algo::Sample<'a> {
    algo::Sample {
        new,
        behaviour,
        reference: None,
        reward,
        padding: 0.0,
    }
}

/// Writes `estimator.json`, `estimator.csv` and `index.html` into a folder, which is created if it does not exist; returns the page's path.
///
/// # Errors
/// [`WriteError`]; each file is either written whole or left as it was.
pub fn write(study: &Study, folder: &Path) -> Result<PathBuf, WriteError> {
    std::fs::create_dir_all(folder).map_err(|source| WriteError::new(folder, source))?;
    let json = serde_json::to_string(study).expect("a study consists of numbers and names");
    // One row per line, so that a line-based diff compares two studies.
    let json = json.replace("},{\"course\"", "},\n{\"course\"") + "\n";
    replace(&folder.join("estimator.json"), &json)?;
    replace(&folder.join("estimator.csv"), &page::csv(study))?;
    let page = folder.join("index.html");
    replace(&page, &page::render(study))?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shorter_mean_in_the_right_direction_has_a_bias_and_a_cosine_of_one() {
        let row = |products: &Products| {
            let pg = (Algorithm::of(Preset::Pg), Some(Preset::Pg));
            let row = Row::new(("updates", 1), pg, 4, products, 1.0);
            let lengths = [row.bias, row.cosine, row.scale];
            (lengths, row.variance, row.update_error)
        };
        // g = (2, 0), m = (1.5, 0).
        let products = Products {
            gradient: 4.0,
            mean: 2.25,
            cross: 3.0,
            variance: 16.0,
            noise: 0.0,
        };
        assert_eq!(row(&products), ([0.25, 1.0, 0.75], 4.0, 0.75));
        assert_eq!(row(&Products::default()), ([0.0; 3], 0.0, 0.0));
    }

    #[test]
    fn the_files_of_a_study_are_complete_and_the_page_loads_nothing() {
        let study = Study {
            toy: toy(0, 2, &[0, 2]).unwrap(),
            model: None,
        };
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("new/study");
        let page = std::fs::read_to_string(write(&study, &out).unwrap()).unwrap();
        assert!(page.contains("<svg") && !page.contains("NaN") && !page.contains("://"));
        let json = std::fs::read_to_string(out.join("estimator.json")).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let rows = json["toy"].as_array().unwrap().len();
        assert!(rows == study.toy.len() && json.get("model").is_none());
        let csv = std::fs::read_to_string(out.join("estimator.csv")).unwrap();
        assert_eq!(csv.lines().count(), 1 + rows);
    }
}
