//! What the service's document says of a field, where the field's type cannot.

use utoipa::ToSchema;
use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};

/// A Python value. What JSON lacks is tagged: `{"$tuple":[…]}`, `{"$set":[…]}`, `{"$frozenset":[…]}`, `{"$bytes":"base64"}`, `{"$complex":[re,im]}`,
/// `{"$float":"nan"|"inf"|"-inf"}`, `{"$int":"digits"}`, `{"$dict":[[k,v],…]}`, `{"$opaque":"type"}` (an object that has no encoding; it equals nothing).
#[derive(ToSchema)]
#[schema(value_type = Value)]
pub(crate) struct PythonValue(());

pub(crate) fn id() -> ObjectBuilder {
    text_or_number("The client's own name for the item; the same in the answer.")
}

pub(crate) fn answer() -> ObjectBuilder {
    text_or_number("LaTeX or plain text. A number counts as the text that it is written as.")
        .min_length(Some(1))
}

fn text_or_number(description: &str) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::String, Type::Number]))
        .description(Some(description))
}
