//! What is concluded from runs with several seeds, as pure functions of numbers.
//!
//! [`Outcomes`] has the Pass@k of every task in every run. [`Outcomes::distribution`] resamples a statistic by the hierarchical bootstrap over seeds and tasks. With
//! few seeds its intervals may be too narrow, so [`Comparison`] and [`Slope`] have the t interval over seeds ([`student`]) beside them, and conclude nothing unless
//! both agree.
//!
//! Sources: hierarchical bootstrap with crossed factors, Owen 2007, "The pigeonhole bootstrap"; step-down correction, Holm 1979; two one-sided tests, Schuirmann 1987.

mod bootstrap;
mod comparison;
mod contrast;
mod correlation;
mod holm;
mod ratio;
mod slope;
mod spread;
pub(crate) mod student;

pub(crate) use bootstrap::{Distribution, Outcomes};
pub(crate) use comparison::{Comparison, Corrected, verdicts};
pub(crate) use contrast::Contrast;
pub(crate) use correlation::{Correlation, pearson};
pub(crate) use holm::holm;
pub(crate) use ratio::{Ratio, paired_ratio};
pub(crate) use slope::{Slope, least_squares};
pub(crate) use spread::Spread;

/// With fewer seeds, or pairs, there is no interval over them: two values, or values that are equal by chance, say little about their spread.
pub(crate) const MIN_SEEDS: usize = 3;

/// The level at which a hypothesis is refused.
pub(crate) const ALPHA: f64 = 0.05;
