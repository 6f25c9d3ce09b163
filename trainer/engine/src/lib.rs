//! The trainer's engine: models, text, inference and training steps, on the `cpu` and `cuda` backends.
//!
//! The crate knows neither HTTP nor rewards. Its users need only [`Engine`], a handle on the one thread that owns the device.

pub mod api;
pub mod backend;
pub mod batch;
pub mod config;
pub mod error;
pub mod export;
mod file;
pub mod footprint;
mod infer;
pub mod load;
pub mod machine_memory;
pub mod model;
pub mod parity;
pub mod random;
pub mod sample;
pub mod text;
pub mod train;
pub mod worker;

pub use api::{
    AdamW, Completion, Device, EngineOptions, Finish, GenerateRequest, ModelInfo, Objective,
    Objectives, StepReport,
};
pub use backend::ranks::{Leader, check_slices};
pub use backend::{Dtype, MemoryMeter};
pub use batch::{Group, TokenStats};
pub use error::EngineError;
pub use file::WeightType;
pub use footprint::{Demand, Footprint, trained_elements};
pub use infer::blocks::shared_prompt_tokens;
pub use model::Lora;
pub use sample::Sampling;
pub use train::CountSketch;
pub use worker::{Engine, LocalDevice, follow};
