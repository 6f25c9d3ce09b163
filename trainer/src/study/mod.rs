//! The bias, direction, variance and effective sample size of off-policy estimators of ∇J, measured on the code that training uses.
//!
//! ```text
//! estimators ──settings──▶ toy ──────────────────────┐
//!     │                                              ├──▶ quality ──▶ Row ──▶ JSON, CSV, page
//!     └──settings──▶ sampled, a model ──▶ blocks ────┘
//! ```
//!
//! Every coefficient comes from [`crate::algo::gradient`], the function that training uses. For the estimate ĝ of ∇J from one group:
//!
//! - *bias*: |E ĝ − ∇J| / |∇J|; *scale*: ⟨E ĝ, ∇J⟩ / |∇J|², and *cosine* between the two. A step of AdamW forgives a scale and does not forgive an angle;
//! - *variance*: the trace of ĝ's variance over |∇J|², for one group;
//! - *error of an update*: √(bias² + variance / n) for the mean of n groups, [`UPDATE_COMPLETIONS`] completions in all: bias and variance together;
//! - *effective sample size*: (E f)² / E f² of the factor f that a completion's term is multiplied by, under the behaviour policy. It is 1 if all factors are equal.
//!
//! [`toy()`] computes expectations and variances exactly, since its policy's groups can be enumerated; [`sampled()`] estimates them, with standard errors.

mod blocks;
mod estimators;
mod page;
mod plan;
mod quality;
mod sampled;
mod shared_directions;
mod toy;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

pub use estimators::{Setting, estimators};
pub use plan::StudyPlan;
pub use quality::Quality;
pub use sampled::{Behaviour, ReferenceGradient, Sampled, StudyError, Watch, sampled};
pub use toy::{Toy, ToyResults, toy};

use crate::algo::{self, AlgoError, Baseline, Estimator, LengthNorm, gradient};
use crate::escape;
use crate::report::{WriteError, replace};
use quality::{number_text, six};

/// Completions of the update whose error is reported, as many as the paper's on MBPP+ and `MiniF2F`.
pub const UPDATE_COMPLETIONS: usize = 32;

/// The results of the study.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Study {
    /// On toy prompts, exactly.
    pub toy: ToyResults,
    /// On a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Sampled>,
}

/// The distance of a behaviour policy from the policy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Level {
    /// How the behaviour policy was made: `updates` or `drift` on the toy, else the behaviour model's name.
    pub course: String,
    /// Number of updates behind; if that is unknown, the behaviour model's position in the list, from 1.
    pub staleness: usize,
    /// KL(μ‖π) of a completion, in nats.
    #[serde(serialize_with = "six")]
    pub kl: f64,
    /// Mean |ℓ|.
    #[serde(serialize_with = "six")]
    pub abs_ell: f64,
    /// Effective sample size of the whole weights, as a fraction.
    #[serde(serialize_with = "six")]
    pub ess: f64,
}

/// One estimator at one staleness.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// `toy` or `model`.
    pub policy: &'static str,
    /// See [`Level::course`].
    pub course: String,
    /// See [`Level::staleness`].
    pub staleness: usize,
    /// Completions per group.
    pub group_size: usize,
    /// The estimator.
    #[serde(flatten)]
    pub setting: Setting,
    /// The measured quality.
    #[serde(flatten)]
    pub quality: Quality,
    /// Standard errors; absent for exact numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<Quality>,
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
    let text = text.replace("},{\"policy\"", "},\n{\"policy\"") + "\n";
    replace(&json, &text)?;
    let rows = study.toy.rows.iter();
    let all = rows.chain(study.model.iter().flat_map(|model| &model.rows));
    replace(&folder.join("estimator.csv"), &csv(all))?;
    let page = folder.join("index.html");
    replace(&page, &page::render(study))?;
    Ok(page)
}

/// All rows as CSV. A standard error is in the column `NAME_se`, which is empty for exact numbers.
fn csv<'a>(rows: impl Iterator<Item = &'a Row>) -> String {
    let mut out = String::from("policy,course,staleness,group_size,factor,baseline,eta,preset");
    for name in Quality::NAMES {
        let _ = write!(out, ",{name},{name}_se");
    }
    out.push('\n');
    for row in rows {
        let setting = &row.setting;
        let _ = write!(
            out,
            "{},{},{},{},{},{},{},{}",
            row.policy,
            escape::csv(&row.course),
            row.staleness,
            row.group_size,
            setting.factor,
            setting.baseline,
            setting.eta.map(|eta| eta.to_string()).unwrap_or_default(),
            setting.preset.unwrap_or_default()
        );
        let errors = row.errors.map(|errors| errors.0);
        for (index, number) in row.quality.0.into_iter().enumerate() {
            let error = errors.map(|errors| number_text(errors[index]));
            let _ = write!(
                out,
                ",{},{}",
                number_text(number),
                error.unwrap_or_default()
            );
        }
        out.push('\n');
    }
    out
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
    fn the_files_of_a_study_are_complete_and_valid() {
        let settings = Toy {
            values: vec![0.3],
            group_sizes: vec![2],
            staleness: vec![0, 2],
            ..Toy::default()
        };
        let mut study = Study {
            toy: toy(&settings).unwrap(),
            model: None,
        };
        for row in &mut study.toy.rows {
            row.course = format!("{}, \"b\"", row.course);
        }
        let rows = study.toy.rows.len();
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("new/study");
        let page = std::fs::read_to_string(write(&study, &out).unwrap()).unwrap();
        assert!(
            !page.contains("NaN") && !page.contains("://"),
            "the page is self-contained and contains no NaN"
        );
        assert_eq!(page.matches("<svg").count(), page::DRAWN.len());
        let json = std::fs::read_to_string(out.join("estimator.json")).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["toy"]["rows"].as_array().unwrap().len(), rows);
        assert!(json.get("model").is_none());
        let csv = std::fs::read_to_string(out.join("estimator.csv")).unwrap();
        assert_eq!(csv.lines().count(), 1 + rows);
        let columns = |line: &str| line.split(',').count();
        // The name of the course contains a comma.
        assert!(csv.lines().skip(1).all(|line| columns(line) == 8 + 14 + 1));
        assert_eq!(columns(csv.lines().next().unwrap()), 8 + 14);
    }
}
