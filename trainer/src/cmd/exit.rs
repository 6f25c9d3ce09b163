//! Exit codes. 2: the command line or the recipe has to be changed, since it names something that does not exist or cannot be used. 130: Ctrl-C. 1: any other error,
//! such as a model that has to be fetched, a verifier that has to be started or a damaged file.

use std::error::Error;

use datasets::DatasetError;
use datasets::fetch::FetchError;
use trainer::config::ConfigError;
use trainer::data::DataError;
use trainer::eval::PartialEvaluationError;
use trainer::plan::Misfit;
use trainer::report::RunError;
use trainer::reward::RewardError;
use trainer::run::TrainError;
use trainer::sweep::SweepError;
use verifier_api::ClientError;

use super::{Interrupted, Usage};

/// The exit code of a command that ended with this error.
pub(crate) fn code(error: &anyhow::Error) -> u8 {
    if error.is::<Interrupted>() {
        130
    } else if error.chain().any(is_usage) {
        2
    } else {
        1
    }
}

/// Whether the command line or the recipe is at fault.
fn is_usage(error: &(dyn Error + 'static)) -> bool {
    error.is::<Usage>()
        || error.is::<ConfigError>()
        || is(error, |it| matches!(it, Misfit::Memory { .. }))
        || is(error, train)
        || is(error, data)
        || is(error, reward)
        || is(error, DatasetError::is_misnamed)
        || is(error, |it| matches!(it, SweepError::Usage(_)))
        || is(error, |it| matches!(it, PartialEvaluationError::Other(_)))
        || is(error, |it| matches!(it, FetchError::Unknown(_)))
        || is(error, |it| matches!(it, RunError::Given(_)))
}

/// Whether an error is of this type and of this kind.
fn is<E: Error + 'static>(error: &(dyn Error + 'static), kind: impl Fn(&E) -> bool) -> bool {
    error.downcast_ref().is_some_and(kind)
}

fn train(error: &TrainError) -> bool {
    match error {
        TrainError::Config(_)
        | TrainError::Misfit(Misfit::Memory { .. })
        | TrainError::Usage(_) => true,
        TrainError::Data(error) => data(error),
        TrainError::Reward(error) => reward(error),
        _ => false,
    }
}

fn data(error: &DataError) -> bool {
    match error {
        DataError::Dataset(error) => error.is_misnamed(),
        DataError::Tokens { .. } => false,
        DataError::Template(_) | DataError::System(_) | DataError::Nothing(_) => true,
    }
}

fn reward(error: &RewardError) -> bool {
    matches!(
        error,
        RewardError::NoUrl | RewardError::Client(ClientError::Address { .. })
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use anyhow::anyhow;
    use trainer::config;
    use trainer::report::RunData;
    use trainer::run;
    use trainer::sweep_report;

    use super::*;

    #[test]
    fn names_that_do_not_exist_or_cannot_be_used_exit_with_2() {
        let nowhere = Path::new("nowhere");
        let runs = [nowhere.to_owned(), nowhere.to_owned()];
        let page = sweep_report::write(nowhere, nowhere, true);
        let errors: [anyhow::Error; 8] = [
            Usage("--out".to_owned()).into(),
            config::load("nowhere", &[]).unwrap_err().into(),
            run::resume_config(nowhere, &[]).unwrap_err().into(),
            RunData::read_all(&runs).unwrap_err().into(),
            datasets::open("nowhere.jsonl", None).unwrap_err().into(),
            TrainError::from(DataError::Template("nowhere".to_owned())).into(),
            TrainError::from(RewardError::NoUrl).into(),
            page.unwrap_err().into(),
        ];
        for error in errors {
            assert_eq!(code(&error), 2, "{error}");
            // Context around the error does not change the code.
            assert_eq!(code(&error.context("the run did not finish")), 2);
        }
    }

    #[test]
    fn other_errors_exit_with_1_and_ctrl_c_with_130() {
        let damaged = tempfile::Builder::new().suffix(".jsonl").tempfile();
        let damaged = damaged.unwrap();
        std::fs::write(&damaged, "{").unwrap();
        let damaged = damaged.path().to_str().unwrap();
        for error in [
            anyhow!("the disk is full"),
            datasets::open(damaged, None).unwrap_err().into(),
            TrainError::NoModel("fetched/never".to_owned()).into(),
            TrainError::Refused("it is locked".into()).into(),
        ] {
            assert_eq!(code(&error), 1, "{error}");
        }
        assert_eq!(code(&Interrupted.into()), 130);
    }
}
