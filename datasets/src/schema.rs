//! Descriptions of fields in the verifier's OpenAPI document that their types cannot give.

use utoipa::ToSchema;
use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};

/// A Python value as JSON. Values that JSON lacks are tagged: `{"$tuple":[…]}`, `{"$set":[…]}`, `{"$frozenset":[…]}`, `{"$bytes":"base64"}`, `{"$complex":[re,im]}`,
/// `{"$float":"nan"|"inf"|"-inf"}`, `{"$int":"digits"}`, `{"$dict":[[k,v],…]}`, `{"$opaque":"type"}` (an object without an encoding, which equals nothing).
#[derive(ToSchema)]
#[schema(value_type = Value)]
pub(crate) struct PythonValue(());

pub(crate) fn answer() -> ObjectBuilder {
    text_or_number(
        "LaTeX or plain text. Of a worked solution, what follows the last `####`, or the only box at its end, counts. A number counts as its text in the request.",
    )
    .min_length(Some(1))
}

/// A field that is a text or a number.
#[must_use]
pub fn text_or_number(description: &str) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::String, Type::Number]))
        .description(Some(description))
}
