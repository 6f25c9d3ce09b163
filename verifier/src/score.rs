//! Judges a file of samples in this process, as the service does but without a socket.

mod audit;
mod figures;
mod results;
mod samples;
mod scorer;
mod task_lookup;

pub use audit::{Audit, WeakTask};
pub use figures::Score;
pub use results::{Results, ResultsError};
pub use samples::{Sample, ScoreError, read_samples};
pub use scorer::{SampleScorer, judge_samples};
