//! The value of an expression: exactly, modulo large primes, or to many digits.

pub(crate) mod complex;
pub(crate) mod exact;
pub(crate) mod modular;
pub(crate) mod numeric;
mod prime;
