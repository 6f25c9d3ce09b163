//! Order and equality of universe levels.

use crate::term_store::{LEVEL, Level, LevelId, LevelsId, NameId, TermStore, ZERO};

impl TermStore {
    /// Simplifies a level: evaluates `imax` and `max` where that is possible.
    pub(crate) fn simplify(&mut self, id: LevelId) -> LevelId {
        if !self.charge(LEVEL) {
            return id;
        }
        match self.level_of(id) {
            Level::Zero | Level::Param(_) => id,
            Level::Succ(inner) => {
                let inner = self.simplify(inner);
                self.level(Level::Succ(inner))
            }
            Level::Max(one, other) => {
                let (one, other) = (self.simplify(one), self.simplify(other));
                self.max_of(one, other)
            }
            Level::IMax(one, other) => {
                let other = self.simplify(other);
                match self.level_of(other) {
                    Level::Zero => other,
                    Level::Succ(_) => {
                        let one = self.simplify(one);
                        self.max_of(one, other)
                    }
                    _ => {
                        let one = self.simplify(one);
                        self.level(Level::IMax(one, other))
                    }
                }
            }
        }
    }

    fn max_of(&mut self, one: LevelId, other: LevelId) -> LevelId {
        match (self.level_of(one), self.level_of(other)) {
            (Level::Zero, _) => other,
            (_, Level::Zero) => one,
            (Level::Succ(one), Level::Succ(other)) => {
                let larger = self.max_of(one, other);
                self.level(Level::Succ(larger))
            }
            _ if one == other => one,
            _ => self.level(Level::Max(one, other)),
        }
    }

    /// Whether two levels are equal for all values of their parameters.
    pub(crate) fn levels_equal(&mut self, one: LevelId, other: LevelId) -> bool {
        one == other || (self.at_most(one, other) && self.at_most(other, one))
    }

    /// Whether two lists of levels are equal.
    pub(crate) fn level_lists_equal(&mut self, one: LevelsId, other: LevelsId) -> bool {
        if one == other {
            return true;
        }
        let (one, other) = (self.levels_of(one).to_vec(), self.levels_of(other).to_vec());
        one.len() == other.len()
            && one
                .into_iter()
                .zip(other)
                .all(|(one, other)| self.levels_equal(one, other))
    }

    /// Whether a level is zero for all values of its parameters.
    pub(crate) fn is_zero(&mut self, id: LevelId) -> bool {
        self.at_most(id, ZERO)
    }

    pub(crate) fn is_never_zero(&mut self, id: LevelId) -> bool {
        let one = self.level(Level::Succ(ZERO));
        self.at_most(one, id)
    }

    /// Whether `one` ≤ `other` for all values of their parameters.
    pub(crate) fn at_most(&mut self, one: LevelId, other: LevelId) -> bool {
        let (one, other) = (self.simplify(one), self.simplify(other));
        self.at_most_plus(one, other, 0)
    }

    /// Whether `one` ≤ `other` + `by`.
    fn at_most_plus(&mut self, one: LevelId, other: LevelId, by: i64) -> bool {
        if !self.charge(LEVEL) {
            return false;
        }
        if one == other && by >= 0 {
            return true;
        }
        match (self.level_of(one), self.level_of(other)) {
            (Level::Zero, _) if by >= 0 => true,
            (_, Level::Zero) if by < 0 => false,
            (Level::Succ(one), _) => self.at_most_plus(one, other, by - 1),
            (_, Level::Succ(other)) => self.at_most_plus(one, other, by + 1),
            (Level::Max(a, b), _) => {
                self.at_most_plus(a, other, by) && self.at_most_plus(b, other, by)
            }
            (Level::Param(_) | Level::Zero, Level::Max(a, b)) => {
                self.at_most_plus(one, a, by) || self.at_most_plus(one, b, by)
            }
            (Level::Param(a), Level::Param(b)) => a == b && by >= 0,
            (Level::Param(_), Level::Zero) => false,
            (Level::Zero, Level::Param(_) | Level::Zero) => by >= 0,
            (Level::IMax(_, last), _) | (_, Level::IMax(_, last)) if self.is_param(last) => {
                self.at_most_plus_by_cases(last, one, other, by)
            }
            (Level::IMax(first, last), _) => {
                let one = self.distribute_imax(first, last);
                self.at_most_plus(one, other, by)
            }
            (_, Level::IMax(first, last)) => {
                let other = self.distribute_imax(first, last);
                self.at_most_plus(one, other, by)
            }
        }
    }

    fn is_param(&self, id: LevelId) -> bool {
        matches!(self.level_of(id), Level::Param(_))
    }

    /// Distinguishes two cases of a parameter: that it is zero, and that it is the successor of a level.
    fn at_most_plus_by_cases(
        &mut self,
        param: LevelId,
        one: LevelId,
        other: LevelId,
        by: i64,
    ) -> bool {
        let Level::Param(name) = self.level_of(param) else {
            return false;
        };
        let next = self.level(Level::Succ(param));
        [ZERO, next].into_iter().all(|value| {
            let one = self.substitute(one, name, value);
            let other = self.substitute(other, name, value);
            self.at_most_plus(one, other, by)
        })
    }

    fn substitute(&mut self, id: LevelId, name: NameId, value: LevelId) -> LevelId {
        let substituted = self.instantiate_level(id, &[name], &[value]);
        self.simplify(substituted)
    }

    /// Distributes `imax first last` over `last`, which is a `max` or an `imax`.
    fn distribute_imax(&mut self, first: LevelId, last: LevelId) -> LevelId {
        let distributed = match self.level_of(last) {
            Level::IMax(a, b) => {
                let one = self.level(Level::IMax(first, b));
                let other = self.level(Level::IMax(a, b));
                self.level(Level::Max(one, other))
            }
            Level::Max(a, b) => {
                let one = self.level(Level::IMax(first, a));
                let other = self.level(Level::IMax(first, b));
                self.level(Level::Max(one, other))
            }
            _ => last,
        };
        self.simplify(distributed)
    }
}
