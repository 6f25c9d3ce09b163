//! Compares a result with the expected value.
//!
//! Values pass if they are equal in Python, except that floats in them may differ by a tolerance, at any depth (`equality`). The task says whether values are compared
//! as sets, as "not None", or by a special rule. A few of EvalPlus's tasks have such rules (`evalplus_special_rules`).
//!
//! EvalPlus compares in the same way, with these differences:
//!
//! - If a record sets no tolerance, EvalPlus uses one only if the expected value is a float, or a list or tuple of floats alone. Then it stays for all later tests of
//!   the task. numpy compares with it: `allclose` takes lists for tuples, `[[1.0], [2.0]]` for `[[1.0, 1.0], [2.0, 2.0]]`, and no sets or dicts. It takes integers for
//!   close if they differ by less than 1e-7 of their size. Here one rule holds for all values.
//! - There a numpy scalar and a Python number have different types. Here a numpy scalar is the number that it contains.
//! - There no program passes if the expected value is or contains a NaN, since a NaN neither equals itself nor is close to itself. Here a NaN passes for a NaN
//!   (`allclose`'s `equal_nan`), and for nothing else: a test that no program can pass teaches nothing.

use datasets::{CodeTask, Compare, Value};

use super::equality::Equality;
use super::evalplus_special_rules;

/// The tolerance of floats if the task sets none.
const FLOAT_TOLERANCE: f64 = 1e-6;

/// How a task's results are compared with its expected values.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule {
    pub compare: Compare,
    pub atol: f64,
    /// Whether the expected values are JSON. JSON has no tuples, so a list then stands for a tuple too.
    pub from_json: bool,
}

impl From<&CodeTask> for Rule {
    fn from(task: &CodeTask) -> Rule {
        Rule {
            compare: task.compare,
            atol: task.atol,
            from_json: task.canonical.is_none(),
        }
    }
}

impl Rule {
    /// Whether `got`, returned for `args`, passes for `expected`.
    pub(super) fn passes(self, args: &[Value], expected: &Value, got: &Value) -> bool {
        let equality = Equality {
            floats: if self.atol == 0.0 {
                FLOAT_TOLERANCE
            } else {
                self.atol
            },
            integers: self.atol,
            lists_for_tuples: self.from_json,
        };
        let same = || equality.holds(expected, got);
        match self.compare {
            Compare::Equal => same(),
            Compare::PyramidSurface => {
                same() || evalplus_special_rules::pyramid_surface(args, got, self.atol)
            }
            Compare::DigitDistance => same() || evalplus_special_rules::digit_distance(args, got),
            Compare::Root => evalplus_special_rules::root(args, got, self.atol),
            Compare::Set => match (elements(expected), elements(got)) {
                (Some(expected), Some(got)) => equality.holds_for_sets(&expected, &got),
                _ => false,
            },
            Compare::NotNone => {
                let truth = |value: &Value| match value {
                    Value::Bool(b) => *b,
                    other => *other != Value::None,
                };
                truth(expected) == truth(got)
            }
        }
    }
}

/// The elements that iterating over a value yields; `None` if Python raises `TypeError`.
fn elements(value: &Value) -> Option<Vec<Value>> {
    Some(match value {
        Value::List(items) | Value::Tuple(items) | Value::Set(items) | Value::FrozenSet(items) => {
            items.clone()
        }
        Value::Dict(pairs) => pairs.iter().map(|(key, _)| key.clone()).collect(),
        Value::Str(text) => text.chars().map(|c| Value::Str(c.to_string())).collect(),
        Value::Bytes(bytes) => bytes
            .iter()
            .map(|byte| Value::from(i64::from(*byte)))
            .collect(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn python(text: &str) -> Value {
        Value::parse_python(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn results_pass_as_the_table_of_cases_says() {
        let lines = include_str!("compare_cases.txt").lines();
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let [passes, atol, how, expected, got] = Vec::from_iter(line.split(" | "))[..] else {
                panic!("{line}")
            };
            let rule = Rule {
                compare: match how {
                    "set" => Compare::Set,
                    "not-none" => Compare::NotNone,
                    _ => Compare::Equal,
                },
                atol: atol.parse().unwrap(),
                from_json: how == "json",
            };
            let is = rule.passes(&[], &python(expected), &python(got));
            assert_eq!(is, passes == "yes", "{line}");
        }
    }

    #[test]
    fn an_object_equals_nothing_and_a_list_in_a_set_of_json_may_be_a_tuple() {
        let object = Value::Opaque("Match".to_owned());
        let pairs = Value::parse_json(r#"{"$set": [[1, 2], [3, 4]]}"#).unwrap();
        let (set, list) = ("{(3, 4), (1, 2)}", "[[3, 4], (1, 2), [3, 4]]");
        for (compare, expected, got, passes) in [
            (Compare::NotNone, &Value::Bool(true), &object, true),
            (Compare::Equal, &object, &object, false),
            (Compare::Equal, &pairs, &python(set), true),
            (Compare::Set, &pairs, &python(list), true),
        ] {
            let rule = Rule {
                compare,
                atol: 0.0,
                from_json: true,
            };
            let is = rule.passes(&[], expected, got);
            assert_eq!(is, passes, "{expected:?} and {got:?}");
        }
    }
}
