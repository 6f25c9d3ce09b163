//! Descriptions of fields in the OpenAPI document that their types cannot give.

use datasets::schema::text_or_number;
use utoipa::openapi::schema::ObjectBuilder;

pub(crate) fn id() -> ObjectBuilder {
    text_or_number("The client's name for the item, which the answer repeats.")
}
