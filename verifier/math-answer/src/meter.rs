//! The budget of work of one comparison.

use std::cell::Cell;

use dashu_int::ops::BitTest;
use dashu_ratio::RBig;

/// Maximum number of steps of one comparison. A step takes about ten nanoseconds, all of them about twenty milliseconds.
const MAX_STEPS: u64 = 2_000_000;

/// The steps that one comparison has left. All work that grows with the answers is charged here. Once a charge exceeds the remaining steps, all later charges fail too.
/// So the remaining work ends, and the answers count as different.
#[derive(Debug)]
pub(crate) struct Meter {
    remaining: Cell<u64>,
    spent: Cell<bool>,
}

impl Meter {
    pub(crate) fn new() -> Self {
        Self {
            remaining: Cell::new(MAX_STEPS),
            spent: Cell::new(false),
        }
    }

    /// Charges `steps`. Returns `None` if fewer remain.
    pub(crate) fn spend(&self, steps: u64) -> Option<()> {
        if let Some(remaining) = self.remaining.get().checked_sub(steps)
            && !self.spent.get()
        {
            self.remaining.set(remaining);
            return Some(());
        }
        self.spent.set(true);
        None
    }

    /// Whether a charge has failed.
    pub(crate) fn is_spent(&self) -> bool {
        self.spent.get()
    }
}

/// The cost of arithmetic with two fractions: products of their parts and a greatest common divisor.
pub(crate) fn arithmetic_cost(a: &RBig, b: &RBig) -> u64 {
    let limbs = limb_count(a.numerator())
        + limb_count(a.denominator())
        + limb_count(b.numerator())
        + limb_count(b.denominator());
    8 + limbs * limbs / 8
}

/// The number of 64-bit limbs.
pub(crate) fn limb_count(value: &impl BitTest) -> u64 {
    value.bit_len() as u64 / 64 + 1
}
