//! The starter sets, which this project wrote itself and which are part of the program.

use super::{own, record};
use crate::{Dataset, DatasetError};

pub(super) fn open(name: &str) -> Result<Dataset, DatasetError> {
    let text = match name {
        "starter-code" => include_str!("../../starter/starter-code.jsonl"),
        "starter-lean" => include_str!("../../starter/starter-lean.jsonl"),
        _ => include_str!("../../starter/starter-math.jsonl"),
    };
    own::from_records(
        name.to_owned(),
        &record::parse(&format!("{name}.jsonl"), text)?,
    )
}
