//! The observers of a run. The training loop reports each event to the [`Journal`], which passes it to the others.

pub mod alarms;
mod journal;
mod tensorboard;
mod terminal;

pub use journal::Journal;
pub use terminal::Progress;
pub(in crate::run) use terminal::human_duration;
