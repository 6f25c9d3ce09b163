//! Which column of a record has which field of a task.

use serde::Deserialize;
use serde_json::value::RawValue;
use strsim::jaro_winkler;

use super::record;
use super::source::Source;
use crate::did_you_mean::{self, nearest};
use crate::fields::{FieldError, Fields, of_kind};
use crate::is_grader_name;

pub(super) const FIELDS: &str = "question prompt problem answer entry_point class_name tests asserts canonical prefix imports example atol compare time_limit statement header id split proof";

/// The columns that may have a task's question. The first one in a record counts.
pub(super) const QUESTIONS: [&str; 5] = ["question", "prompt", "problem", "instruction", "query"];

/// The column with a conversation. Its last question is the task's question if the task has no other.
const MESSAGES: &str = "messages";

/// The columns that may have the answer to a question, or a worked solution that ends in it. The first one in a record counts.
const ANSWERS: [&str; 6] = [
    "answer",
    "final_answer",
    "ground_truth",
    "solution",
    "label",
    "target",
];

/// Longest name of a column that is compared with others.
const MAX_NAME: usize = 64;

/// Gives the fields of a task the values of the columns that the source names for them.
pub(super) fn map(source: &Source, fields: &mut Fields<'_>) -> Result<(), FieldError> {
    let mut mapped = Vec::new();
    // A grader of the operator's own may read any field.
    let is_custom = source.grader.as_deref().is_some_and(is_grader_name);
    for (field, column) in &source.columns {
        if !is_custom && !FIELDS.split(' ').any(|known| known == field) {
            let near = did_you_mean::hint(nearest(field, FIELDS.split(' ')));
            let reason = format!("`{field}` in `data.columns` is no field of a task{near}");
            return Err(record::whole(reason));
        }
        let value = fields.all().get(column).copied();
        if value.is_none() && !fields.is_null(column) {
            return Err(record::whole(format!(
                "there is no column `{column}` for `{field}`; the record has {}{}",
                fields.listed(),
                hint(fields, field, &[column.as_str(), field.as_str()])
            )));
        }
        mapped.push((field, value));
    }
    for (field, value) in mapped {
        fields.set(field, value);
    }
    Ok(())
}

/// What to write into the recipe if a column of another name is the `field`. `names` are those that it is expected to have.
fn hint(fields: &Fields<'_>, field: &str, names: &[&str]) -> String {
    let likeness = |column: &str| {
        let all = names.iter().map(|name| jaro_winkler(column, name));
        all.fold(0.0, f64::max)
    };
    let others: &[&str] = if field == "answer" {
        &QUESTIONS
    } else {
        &ANSWERS
    };
    let columns = fields.all().keys();
    let columns =
        columns.filter(|column| column.len() <= MAX_NAME && !others.contains(&column.as_str()));
    match columns.max_by(|a, b| likeness(a).total_cmp(&likeness(b))) {
        Some(column) => format!(
            "; if the column `{column}` is the {field}, write `data.columns = {{ {field} = {column:?} }}` in the recipe"
        ),
        None => String::new(),
    }
}

/// [`hint`] for a record without an answer.
pub(super) fn answer_hint(fields: &Fields<'_>) -> String {
    hint(fields, "answer", &ANSWERS)
}

/// The text of a record's question, if it has one. In a conversation it is the user's last message, after the system message.
pub(super) fn question(fields: &mut Fields<'_>) -> Result<Option<String>, FieldError> {
    for name in QUESTIONS.into_iter().chain([MESSAGES]) {
        if let Some(json) = fields.optional(name) {
            let text = match json.get().starts_with('[') {
                true => conversation(json).map_err(|reason| fields.fault(name, reason)),
                false => fields.string(name),
            };
            return text.map(Some);
        }
    }
    Ok(None)
}

/// The error of a record without a question.
pub(super) fn no_question(fields: &Fields<'_>) -> FieldError {
    let reason = format!(
        "the field is missing (`prompt` and `problem` work too); the record has {}{}",
        fields.listed(),
        hint(fields, "question", &QUESTIONS)
    );
    fields.fault("question", reason)
}

#[derive(Deserialize)]
struct Message {
    role: String,
    content: String,
}

fn conversation(json: &RawValue) -> Result<String, &'static str> {
    let messages: Option<Vec<Message>> = of_kind(json);
    let messages = messages.ok_or(
        "a text, or a list of messages with `role` and `content`, both texts, is expected",
    )?;
    let last = |role: &str| {
        let message = messages.iter().rev().find(|message| message.role == role);
        message.map(|message| message.content.as_str())
    };
    let user = last("user").ok_or("no message has the role `user`")?;
    Ok(match last("system") {
        Some(system) => format!("{system}\n\n{user}"),
        None => user.to_owned(),
    })
}

/// Makes the first column that has an answer the field `answer`, and returns its name. verl's records have it in `reward_model`.
pub(super) fn find_answer(fields: &mut Fields<'_>) -> Option<&'static str> {
    if let Some(name) = ANSWERS.into_iter().find(|name| fields.has(name)) {
        let value = fields.all().get(name).copied();
        fields.set("answer", value);
        return Some(name);
    }
    let json = fields.all().get("reward_model").copied()?;
    let reward_model = fields.within("reward_model", json).ok()?;
    let value = reward_model.all().get("ground_truth").copied()?;
    fields.set("answer", Some(value));
    Some("reward_model.ground_truth")
}
