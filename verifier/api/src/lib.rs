//! Wire types and async client of the verifier's HTTP interface, version 1.
//!
//! No logic and no server dependency: the verifier serialises these types, trainers and other clients parse them.

#![forbid(unsafe_code)]

mod types;

pub use types::{CodeTest, InlineTask, Item, Judgement, TaskRef, Verdict, VerifyRequest, VerifyResponse};
