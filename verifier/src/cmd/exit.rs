//! Exit codes of errors: 2 if the command line, the configuration or a path that it names has to be changed; 1 for any other error, for example if something has to be
//! fetched or a file repaired.

use std::error::Error;

use datasets::DatasetError;
use datasets::fetch::FetchError;
use verifier::config::ConfigError;
use verifier::score::{ResultsError, ScoreError};
use verifier::setup::SetupError;

use super::Usage;

/// The exit code for this error.
pub(crate) fn code(error: &anyhow::Error) -> u8 {
    if error.chain().any(is_input_error) {
        2
    } else {
        1
    }
}

/// Whether the error is in the command line, in the configuration, or in a path that they name.
fn is_input_error(error: &(dyn Error + 'static)) -> bool {
    let dataset = error.downcast_ref::<DatasetError>();
    let samples = error.downcast_ref::<ScoreError>();
    let results = error.downcast_ref::<ResultsError>();
    let fetched = error.downcast_ref::<FetchError>();
    error.is::<Usage>()
        || error.is::<ConfigError>()
        || error
            .downcast_ref::<SetupError>()
            .is_some_and(is_setup_input_error)
        || samples.is_some_and(ScoreError::is_misnamed)
        || results.is_some_and(ResultsError::is_misnamed)
        || dataset.is_some_and(DatasetError::is_misnamed)
        || fetched.is_some_and(FetchError::is_misnamed)
}

fn is_setup_input_error(error: &SetupError) -> bool {
    match error {
        SetupError::Token { .. }
        | SetupError::Unguarded { .. }
        | SetupError::Unjailed { .. }
        | SetupError::Unresolved { .. } => true,
        SetupError::Dataset(error) => error.is_misnamed(),
        SetupError::Threads(_) => false,
    }
}
