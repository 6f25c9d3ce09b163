//! Model, text, inference and training step of the trainer; backends cpu and cuda.
//!
//! Knows neither HTTP nor rewards. [`Engine`] is the whole of it for its users: a handle on the one thread that owns the device.

pub mod batch;
pub mod error;
pub mod sample;
pub mod worker;

pub use batch::{Group, TokenStats};
pub use error::EngineError;
pub use sample::Sampling;
pub use worker::{AdamW, Completion, Device, Engine, EngineOptions, Finish, GenerateRequest, Objective, StepReport};
