//! What one comparison may cost.

use std::cell::Cell;

use dashu_int::ops::BitTest;
use dashu_ratio::RBig;

/// Steps of one comparison, at most: one takes some ten nanoseconds, all of them some ten milliseconds.
const MAX_STEPS: u64 = 1_000_000;

/// The steps that one comparison has left. Everything whose cost grows with the answers takes from them; once they are spent there is nothing more to take, so that whatever is
/// left to do ends, and the answers are held to be different.
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

    /// Takes steps from what is left; `None` where there are not as many.
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

    /// Whether steps were asked for that there were not.
    pub(crate) fn is_spent(&self) -> bool {
        self.spent.get()
    }
}

/// What arithmetic with two fractions costs: products of their parts, and a common divisor.
pub(crate) fn arithmetic_cost(a: &RBig, b: &RBig) -> u64 {
    let limbs = limb_count(a.numerator())
        + limb_count(a.denominator())
        + limb_count(b.numerator())
        + limb_count(b.denominator());
    8 + limbs * limbs / 8
}

/// Words of 64 bits.
pub(crate) fn limb_count(value: &impl BitTest) -> u64 {
    value.bit_len() as u64 / 64 + 1
}
