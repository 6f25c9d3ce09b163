//! Everyone who watches a run. The training loop reports each event to the [`Journal`], which passes it on.

pub mod alarms;
mod journal;
mod tensorboard;
mod terminal;
mod time_left;

pub use journal::Journal;
pub use terminal::Progress;
