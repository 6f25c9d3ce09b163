//! The HTTP side: its routes as a function from its state to a router. What it receives, [`crate::judging`] judges.

mod auth;
mod backoff;
mod body;
mod body_memory;
mod compat;
mod connections;
mod openapi;
mod origin_guard;
mod pace;
mod problem;
mod request;
mod request_context;
mod router;
mod routes;
mod sockets;
mod state;
mod token;

pub use connections::serve;
pub use problem::ProblemResponse;
pub use router::app;
pub use state::{Service, ServiceSettings};
pub use token::Token;

#[cfg(test)]
pub(crate) mod tests;
