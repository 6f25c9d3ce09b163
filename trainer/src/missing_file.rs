//! Files that need not exist.

use std::io;

/// The result of reading, syncing or removing a file or a folder; the default, such as no bytes, if it does not exist.
pub(crate) fn default_if_missing<T: Default>(result: io::Result<T>) -> io::Result<T> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(T::default()),
        other => other,
    }
}
