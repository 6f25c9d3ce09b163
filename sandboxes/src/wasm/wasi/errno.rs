//! The error numbers of WASI preview 1 that this host returns.

/// An error number; 0 is success.
pub(super) type Errno = u16;

pub(super) const BADF: Errno = 8;
pub(super) const FAULT: Errno = 21;
pub(super) const FBIG: Errno = 22;
pub(super) const INVAL: Errno = 28;
pub(super) const ISDIR: Errno = 31;
pub(super) const MFILE: Errno = 33;
pub(super) const NOENT: Errno = 44;
pub(super) const NOTDIR: Errno = 54;
pub(super) const NOTSUP: Errno = 58;
pub(super) const ROFS: Errno = 69;
pub(super) const SPIPE: Errno = 70;

/// The number that a host function returns to the guest.
pub(super) fn code(result: Result<(), Errno>) -> i32 {
    result.err().map_or(0, i32::from)
}
