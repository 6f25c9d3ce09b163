//! Exit codes of errors: 2 where the remedy is to type something else, since what was typed names what is not there or cannot be used; 1 where it is not, as where
//! something has to be fetched or a file mended.

use std::error::Error;

use datasets::DatasetError;
use datasets::fetch::FetchError;
use verifier::config::ConfigError;
use verifier::score::{ResultsError, ScoreError};
use verifier::setup::SetupError;

use super::Usage;

/// The code for a command that ended in this error.
pub(crate) fn code(error: &anyhow::Error) -> u8 {
    if error.chain().any(is_typed) { 2 } else { 1 }
}

/// Whether what was typed is at fault, the configuration's file included.
fn is_typed(error: &(dyn Error + 'static)) -> bool {
    let dataset = error.downcast_ref::<DatasetError>();
    let samples = error.downcast_ref::<ScoreError>();
    let results = error.downcast_ref::<ResultsError>();
    let fetched = error.downcast_ref::<FetchError>();
    error.is::<Usage>()
        || error.is::<ConfigError>()
        || error.downcast_ref::<SetupError>().is_some_and(setup)
        || samples.is_some_and(ScoreError::is_misnamed)
        || results.is_some_and(ResultsError::is_misnamed)
        || dataset.is_some_and(DatasetError::is_misnamed)
        || fetched.is_some_and(FetchError::is_misnamed)
}

fn setup(error: &SetupError) -> bool {
    match error {
        SetupError::Token { .. } | SetupError::Unguarded { .. } | SetupError::Unresolved { .. } => {
            true
        }
        SetupError::Dataset(error) => error.is_misnamed(),
        SetupError::Threads(_) => false,
    }
}
