//! The thread that starts Lean's processes, and lives as long as this process does.
//!
//! A jail dies with its parent (`bwrap --die-with-parent`), and that is, for the system, the thread that started it: a REPL that was started by a thread which has
//! ended since would be dead before its next proof.

use std::io;
use std::process::{Child, Command};
use std::sync::LazyLock;
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::thread::Builder;

/// What to start, and who waits for it.
type Order = (Command, SyncSender<io::Result<Child>>);

static ORDERS: LazyLock<Sender<Order>> = LazyLock::new(|| {
    let (sender, orders) = channel::<Order>();
    let spawner = move || {
        for (mut command, child) in orders {
            let _ = child.send(command.spawn());
        }
    };
    if let Err(error) = Builder::new()
        .name("lean-spawner".to_owned())
        .spawn(spawner)
    {
        tracing::error!("the system gives no thread to start Lean from: {error}");
    }
    sender
});

/// Starts `command` from the thread that does not end.
///
/// # Errors
/// As [`Command::spawn`]; and where the system gave no such thread.
pub(super) fn spawn(command: Command) -> io::Result<Child> {
    let (sender, child) = sync_channel(1);
    let nobody = || {
        io::Error::other(
            "there is no thread to start it from; allow this user more threads, and start again",
        )
    };
    ORDERS.send((command, sender)).map_err(|_| nobody())?;
    child.recv().map_err(|_| nobody())?
}
