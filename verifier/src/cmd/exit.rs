//! Exit codes of errors. Code 2: the command line, the configuration or a path in them has to be changed. Code 1: any other error. For example, something has to be
//! fetched or a file repaired.

use std::error::Error;
use std::io::ErrorKind;

use datasets::DatasetError;
use datasets::fetch::FetchError;
use verifier::config::ConfigError;
use verifier::score::{ResultsError, ScoreError};
use verifier::setup::SetupError;

/// An error in the command line: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

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
    if let Some(error) = error.downcast_ref::<DatasetError>() {
        return error.is_misnamed();
    }
    if let Some(error) = error.downcast_ref::<FetchError>() {
        return matches!(error, FetchError::Unknown(_));
    }
    match error.downcast_ref::<SetupError>() {
        Some(SetupError::Dataset(error)) => return error.is_misnamed(),
        Some(SetupError::Refused { .. }) => return true,
        _ => {}
    }
    match error.downcast_ref::<ScoreError>() {
        Some(ScoreError::Io { source, .. }) => return source.kind() == ErrorKind::NotFound,
        Some(ScoreError::NoPrograms(_)) => return true,
        _ => {}
    }
    let results = error.downcast_ref::<ResultsError>();
    matches!(results, Some(ResultsError::Misnamed { .. }))
        || error.is::<ConfigError>()
        || error.is::<Usage>()
}
