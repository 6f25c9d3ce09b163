//! Errors as RFC 9457 problem documents.

use serde::{Deserialize, Serialize};

/// Body of every answer with an error status, `application/problem+json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Problem {
    /// The kind of problem, as a URI reference such as `/problems/queue-full`.
    #[serde(rename = "type", default = "Problem::about_blank")]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub kind: String,
    /// The kind in a few words.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub title: String,
    /// The HTTP status, repeated.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub status: u16,
    /// What happened, to what, and what to do.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub detail: String,
    /// Index of the item at fault, if the fault is in an item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub item: Option<usize>,
    /// Path of the field at fault inside the item or the body, such as `task.tests[0].args`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub field: Option<String>,
}

impl Problem {
    /// The media type of a problem document.
    pub const MEDIA_TYPE: &str = "application/problem+json";

    fn about_blank() -> String {
        "about:blank".to_owned()
    }
}
