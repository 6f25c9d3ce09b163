//! The bias, direction, variance and effective sample size of off-policy estimators of ∇J, measured on the code that training uses.
//!
//! ```text
//! grid ──settings──▶ toy_study: toy, enumerate ─────────────────────────┐
//!   │                                                                    ├──▶ quality ──▶ rows ──▶ JSON, CSV, page
//!   └──settings──▶ sampled: plan, a model, shared_directions ──▶ blocks ──┘
//! ```
//!
//! Every coefficient comes from [`crate::algo::gradient`], the function that training uses. For the estimate ĝ of ∇J from one group:
//!
//! - *bias*: |E ĝ − ∇J| / |∇J|; *scale*: ⟨E ĝ, ∇J⟩ / |∇J|², and *cosine* between the two. A step of AdamW forgives a scale and does not forgive an angle;
//! - *variance*: the trace of ĝ's variance over |∇J|², for one group;
//! - *error of an update*: √(bias² + variance / n) for the mean of n groups, [`UPDATE_COMPLETIONS`] completions in all: bias and variance together;
//! - *effective sample size*: (E f)² / E f² of the factor f that a completion's term is multiplied by, under the behaviour policy. It is 1 if all factors are equal.
//!
//! [`counted()`] computes expectations and variances exactly, since its policy's groups can be enumerated; [`sampled()`] estimates them, with standard errors.

mod blocks;
mod enumerate;
mod grid;
mod page;
mod plan;
mod quality;
mod questions;
mod rows;
mod sampled;
mod shared_directions;
mod toy;
mod toy_study;

use std::path::{Path, PathBuf};

use serde::Serialize;

pub use grid::{ETAS, Eta, Names, Setting, grid};
pub use plan::StudyPlan;
pub use quality::Quality;
pub use rows::{Level, Row};
pub use sampled::{Behaviour, ReferenceGradient, Sampled, StudyError, sampled};
pub use toy_study::{Counted, Toy, counted};

use crate::algo::{self, AlgoError, Baseline, Estimator, LengthNorm, Sample, gradient};
use crate::report::{WriteError, replace};

/// Completions of the update whose error is reported, as many as the paper's on MBPP+ and `MiniF2F`.
pub const UPDATE_COMPLETIONS: usize = 32;

/// The results of the study.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Study {
    /// On toy prompts, exactly.
    pub toy: Counted,
    /// On a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Sampled>,
}

/// Writes `estimator.json`, `estimator.csv` and `index.html` into a folder, which is created if it does not exist; returns the page's path.
///
/// # Errors
/// [`WriteError`]; each file is either written whole or left as it was.
pub fn write(study: &Study, folder: &Path) -> Result<PathBuf, WriteError> {
    let failed = |path: &Path, source: std::io::Error| WriteError::new(path, source);
    std::fs::create_dir_all(folder).map_err(|source| failed(folder, source))?;
    let json = folder.join("estimator.json");
    let text = serde_json::to_string(study).map_err(|error| failed(&json, error.into()))?;
    // One row per line, so that a line-based diff compares two studies.
    replace(
        &json,
        &(text.replace("},{\"policy\"", "},\n{\"policy\"") + "\n"),
    )?;
    let rows = study.toy.rows.iter();
    let all = rows.chain(study.model.iter().flat_map(|model| &model.rows));
    replace(&folder.join("estimator.csv"), &rows::csv(all))?;
    let page = folder.join("index.html");
    replace(
        &page,
        &page::render(study, &["estimator.csv", "estimator.json"]),
    )?;
    Ok(page)
}

/// A completion in the form that the algorithms take.
fn sample<'a>(new: &'a [f32], behaviour: &'a [f32], reward: Option<f64>) -> Sample<'a> {
    algo::Sample {
        new,
        behaviour,
        reference: None,
        reward,
        padding: 0.0,
    }
}

/// The factor that an estimator gives a completion, or the mean over its tokens if each has its own. `sign` is that of the advantage, 1 or −1.
///
/// It is derived from [`gradient`] of this completion alone, without a baseline and without normalisation.
fn mean_factor(
    estimator: &Estimator,
    new: &[f32],
    behaviour: &[f32],
    sign: f64,
    max_tokens: usize,
) -> Result<f64, AlgoError> {
    let alone = Estimator {
        baseline: Baseline::None,
        length_norm: LengthNorm::None,
        divide_by_std: false,
        ..*estimator
    };
    let group = vec![sample(new, behaviour, Some(sign))];
    let result = gradient(&alone, &[group], max_tokens)?;
    let total: f64 = result.dlogp[0].iter().map(|d| -sign * f64::from(*d)).sum();
    Ok(total / new.len().max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_study_are_complete_and_valid_and_contain_no_nan() {
        let toy = Toy {
            values: vec![0.3],
            group_sizes: vec![2],
            staleness: vec![0, 2],
            ..Toy::default()
        };
        let study = Study {
            toy: counted(&toy, &|_, _| ()).unwrap(),
            model: None,
        };
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("new/study");
        let page = std::fs::read_to_string(write(&study, &out).unwrap()).unwrap();
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
        assert!(
            !page.contains("NaN") && !page.contains("://"),
            "the page is self-contained and contains no NaN"
        );
        assert!(page.matches("<svg").count() > 30);
        let json = std::fs::read_to_string(out.join("estimator.json")).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(
            json["toy"]["rows"].as_array().unwrap().len(),
            study.toy.rows.len()
        );
        assert!(json.get("model").is_none());
        let csv = std::fs::read_to_string(out.join("estimator.csv")).unwrap();
        assert_eq!(csv.lines().count(), 1 + study.toy.rows.len());
    }
}
