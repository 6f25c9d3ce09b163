//! Units and other measures after a number. Units have a size; words for what is counted have none.

use dashu_ratio::RBig;

use crate::parser::contains_word;

/// The measure of a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Measure {
    /// A unit: its size in base units, and its dimension.
    Unit(RBig, Dimension),
    /// An angle in degrees.
    Degrees,
    /// An angle in radians.
    Radians,
    /// Hundredths.
    Percent,
    /// A scale in words: million, dozen.
    Scale(RBig),
    /// a.m. (`false`) or p.m. (`true`). Noon counts as p.m., midnight as a.m.
    Noon(bool),
    /// "units", "square units", "cubic units": any unit. In power 2 or 3, any unit of length in that power.
    Generic(i32),
    /// Words for what is counted.
    Words,
}

/// Maximum number of words of a unit. Its size grows with each word.
const MAX_UNITS: usize = 12;

/// What a unit measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Dimension {
    /// The powers of length, time, mass and temperature.
    powers: [i32; 4],
    /// The sign of a currency.
    money: Option<char>,
    /// Units of their own, such as months or amperes. Degrees Fahrenheit and Celsius are such units too, since they are not multiples of each other.
    named: Option<char>,
}

impl Dimension {
    fn of_powers(powers: [i32; 4]) -> Self {
        Self {
            powers,
            ..Self::default()
        }
    }

    fn of_money(sign: char) -> Self {
        Self {
            money: Some(sign),
            ..Self::default()
        }
    }

    fn named(unit: char) -> Self {
        Self {
            named: Some(unit),
            ..Self::default()
        }
    }

    /// Whether "units" in this power may be this dimension. "Square units" are areas and "cubic units" volumes. "Units" may be anything else.
    pub(crate) fn may_be_units(self, power: i32) -> bool {
        let of = |length| self == Self::of_powers([length, 0, 0, 0]);
        match power {
            1 => !of(2) && !of(3),
            power => of(power),
        }
    }

    /// Whether this may be given where units of the other dimension are counted: miles per hour for "how many miles". What is left of hours per day may be either.
    pub(crate) fn may_be_per(self, other: Self) -> bool {
        let above = |of: Self| Self {
            powers: of.powers.map(|power| power.max(0)),
            ..of
        };
        self == Self::default() || above(self) == above(other)
    }

    pub(crate) fn is_money(self) -> bool {
        self.money.is_some()
    }

    /// Whether it is a temperature in degrees.
    pub(crate) fn is_temperature(self) -> bool {
        matches!(self.named, Some('F' | 'C'))
    }
}

/// Other words for measures that may follow a number without `\text`.
const UNITS_WITHOUT_SIZE: &str = "degrees radian radians percent percents percentage pct Percent \
    Percentage Pct deg mph units unit square cubic sq hundred thousand million billion trillion \
    dozen noon midnight";

/// Whether a word is a unit that may follow a number without `\text`.
pub(crate) fn is_unit_without_markup(word: &str) -> bool {
    word.len() > 1
        && (base_unit(&singular(word)).is_some() || contains_word(UNITS_WITHOUT_SIZE, word))
}

/// Whether a letter is a unit, if the context requires one. Otherwise 10 m may be ten times m.
pub(crate) fn is_letter_unit(word: &str) -> bool {
    matches!(word, "m" | "s" | "g" | "h" | "l" | "L")
}

/// Whether a capital letter in `\text`, after a space, is a unit: amperes, volts, watts, newtons, joules. K is not: 3 K may be thousands.
pub(crate) fn is_capital_unit(word: &str) -> bool {
    matches!(word, "A" | "V" | "W" | "N" | "J")
}

/// The measure that the words after a number name.
pub(crate) fn measure(words: &str) -> Measure {
    let unit_of_its_own = |name| Measure::Unit(RBig::ONE, Dimension::named(name));
    if let Some(letter) = words.trim().chars().next()
        && is_capital_unit(words.trim())
    {
        return unit_of_its_own(letter);
    }
    let lower = words.to_lowercase();
    let compact: String = lower
        .chars()
        .filter(|c| !c.is_whitespace() && *c != '.')
        .collect();
    match compact.as_str() {
        "am" | "midnight" => return Measure::Noon(false),
        "pm" | "noon" => return Measure::Noon(true),
        "degrees" | "degree" | "deg" | "°" => return Measure::Degrees,
        "rad" | "radian" | "radians" => return Measure::Radians,
        "in" => return unit_product("inch").unwrap_or(Measure::Words),
        "percent" | "percents" | "percentage" | "pct" | "%" => return Measure::Percent,
        "hundred" => return scale(100),
        "dozen" => return scale(12),
        "thousand" => return scale(1000),
        "million" => return scale(1_000_000),
        "billion" => return scale(1_000_000_000),
        "trillion" => return scale(1_000_000_000_000),
        "degreesfahrenheit" | "fahrenheit" | "degreesf" | "°f" => return unit_of_its_own('F'),
        "degreescelsius" | "celsius" | "degreesc" | "°c" => return unit_of_its_own('C'),
        _ => {}
    }
    unit_product(&lower).unwrap_or(Measure::Words)
}

fn scale(size: i64) -> Measure {
    Measure::Scale(RBig::from(size))
}

/// The product of units and their powers. `None` if a word is not a unit.
fn unit_product(words: &str) -> Option<Measure> {
    let mut size = RBig::ONE;
    let mut dimension = Dimension::default();
    let mut generic = None;
    let (mut below, mut next_power, mut has_unit) = (false, 1, false);
    let spaced = words
        .replace('/', " per ")
        .replace('²', "^2")
        .replace('³', "^3");
    let parts: Vec<&str> = spaced.split_whitespace().collect();
    if parts.len() > MAX_UNITS {
        return None;
    }
    let power_after = |index: usize| match parts.get(index + 1) {
        Some(&"squared") => 2,
        Some(&"cubed") => 3,
        _ => 1,
    };
    for (index, word) in parts.iter().enumerate() {
        let word = word.trim_matches(|c: char| matches!(c, '.' | ',' | '(' | ')'));
        let (word, power) = match word.split_once('^') {
            Some((word, power)) => (
                word,
                power
                    .trim_matches(['{', '}'])
                    .parse::<i32>()
                    .ok()
                    .filter(|p| p.abs() <= 9)?,
            ),
            None => (word, 1),
        };
        match word {
            // Miles an hour.
            "a" | "an" | "each" if has_unit => {
                below = true;
                continue;
            }
            "per" => {
                below = true;
                continue;
            }
            "" | "long" | "wide" | "tall" | "high" | "old" | "away" | "of" | "the" | "a" | "an"
            | "about" | "approximately" | "total" | "each" => {
                continue;
            }
            "in" if power == 1 && index + 1 < parts.len() => continue,
            // They belong to the unit before them.
            "squared" | "cubed" if has_unit => continue,
            "square" | "sq" => {
                next_power = 2;
                continue;
            }
            "cubic" | "cu" => {
                next_power = 3;
                continue;
            }
            "unit" | "units" => {
                let power = power * next_power * power_after(index);
                generic = generic.or(Some(power));
                has_unit = true;
                next_power = 1;
                continue;
            }
            "mph" => {
                let (mile, hour) = (base_unit("mile")?, base_unit("hour")?);
                size = size * mile.0 / hour.0;
                // A length per time.
                dimension.powers[0] += 1;
                dimension.powers[1] -= 1;
                has_unit = true;
                continue;
            }
            _ => {}
        }
        let (unit, of) = base_unit(&singular(word))?;
        let power = power * next_power * power_after(index) * if below { -1 } else { 1 };
        next_power = 1;
        has_unit = true;
        for _ in 0..power.abs() {
            size = if power > 0 {
                size * &unit
            } else {
                size / &unit
            };
        }
        for (sum, own) in dimension.powers.iter_mut().zip(of.powers) {
            *sum += power * own;
        }
        dimension.money = dimension.money.or(of.money);
        if of.named.is_some() && power != 1 {
            return None;
        }
        dimension.named = dimension.named.or(of.named);
    }
    match (has_unit, generic) {
        (false, _) => None,
        (true, Some(power)) => Some(Measure::Generic(power)),
        (true, None) => Some(Measure::Unit(size, dimension)),
    }
}

/// A unit's size in metres, seconds, kilograms or main units of a currency.
fn base_unit(word: &str) -> Option<(RBig, Dimension)> {
    let of = |above: u64, below: u64| RBig::from_parts(above.into(), below.into());
    let [length, time, mass, temperature] =
        [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]].map(Dimension::of_powers);
    let [area, volume] = [[2, 0, 0, 0], [3, 0, 0, 0]].map(Dimension::of_powers);
    let (money, own) = (Dimension::of_money, Dimension::named);
    Some(match word {
        "m" | "meter" | "metre" => (of(1, 1), length),
        "km" | "kilometer" | "kilometre" => (of(1000, 1), length),
        "decimeter" | "decimetre" => (of(1, 10), length),
        "micrometer" | "micrometre" => (of(1, 1_000_000), length),
        "nanometer" | "nanometre" => (of(1, 1_000_000_000), length),
        "cm" | "centimeter" | "centimetre" => (of(1, 100), length),
        "mm" | "millimeter" | "millimetre" => (of(1, 1000), length),
        "inch" | "in" => (of(254, 10_000), length),
        "foot" | "ft" => (of(3048, 10_000), length),
        "yard" | "yd" => (of(9144, 10_000), length),
        "mile" | "mi" => (of(1_609_344, 1000), length),
        "acre" => (of(40_468_564_224, 10_000_000), area),
        "s" | "sec" | "second" => (of(1, 1), time),
        "min" | "minute" => (of(60, 1), time),
        "h" | "hr" | "hour" => (of(3600, 1), time),
        "day" => (of(86_400, 1), time),
        "week" => (of(604_800, 1), time),
        "fortnight" => (of(14 * 86_400, 1), time),
        // Months and years have no fixed length, but a year has twelve months.
        "month" => (of(1, 1), own('M')),
        "year" => (of(12, 1), own('M')),
        "decade" => (of(120, 1), own('M')),
        "century" => (of(1200, 1), own('M')),
        "millisecond" => (of(1, 1000), time),
        "g" | "gm" | "gram" => (of(1, 1000), mass),
        "kg" | "kilogram" => (of(1, 1), mass),
        "mg" | "milligram" => (of(1, 1_000_000), mass),
        "pound" | "lb" => (of(45_359_237, 100_000_000), mass),
        "ounce" | "oz" => (of(45_359_237, 1_600_000_000), mass),
        "ton" => (of(45_359_237, 50_000), mass),
        "l" | "liter" | "litre" => (of(1, 1000), volume),
        "ml" | "milliliter" | "millilitre" => (of(1, 1_000_000), volume),
        "gallon" | "gal" => (of(231 * 16_387_064, 1_000_000_000_000), volume),
        "quart" => (of(231 * 16_387_064, 4_000_000_000_000), volume),
        "pint" => (of(231 * 16_387_064, 8_000_000_000_000), volume),
        "cup" => (of(231 * 16_387_064, 16_000_000_000_000), volume),
        "tablespoon" | "tbsp" => (of(231 * 16_387_064, 256_000_000_000_000), volume),
        "teaspoon" | "tsp" => (of(231 * 16_387_064, 768_000_000_000_000), volume),
        "dollar" | "usd" => (of(1, 1), money('$')),
        "cent" => (of(1, 100), money('$')),
        "dime" => (of(1, 10), money('$')),
        "nickel" => (of(1, 20), money('$')),
        "euro" | "eur" => (of(1, 1), money('€')),
        "gbp" => (of(1, 1), money('£')),
        "pence" | "penny" => (of(1, 100), money('£')),
        "yen" | "jpy" | "円" => (of(1, 1), money('¥')),
        "yuan" | "rmb" => (of(1, 1), money('元')),
        "rupee" => (of(1, 1), money('₹')),
        "ruble" | "rouble" => (of(1, 1), money('₽')),
        "bit" => (of(1, 1), own('B')),
        "byte" => (of(8, 1), own('B')),
        "kelvin" => (of(1, 1), temperature),
        "ampere" | "amp" => (of(1, 1), own('A')),
        "volt" => (of(1, 1), own('V')),
        "watt" => (of(1, 1), own('W')),
        "newton" => (of(1, 1), own('N')),
        "joule" => (of(1, 1), own('J')),
        "hertz" | "hz" => (of(1, 1), own('H')),
        _ => {
            let mut signs = word.chars();
            let (Some(sign @ ('$' | '£' | '¥' | '元' | '\u{20a0}'..='\u{20c0}')), None) =
                (signs.next(), signs.next())
            else {
                return None;
            };
            (of(1, 1), money(sign))
        }
    })
}

/// The dimension of an amount of money.
pub(crate) fn money(sign: char) -> Measure {
    Measure::Unit(RBig::ONE, Dimension::of_money(sign))
}

fn singular(word: &str) -> String {
    let word = word.to_lowercase();
    match word.as_str() {
        "feet" => "foot".into(),
        "inches" => "inch".into(),
        "centuries" => "century".into(),
        "gallons" => "gallon".into(),
        "lbs" => "lb".into(),
        "hrs" => "hr".into(),
        "mins" => "min".into(),
        "secs" => "sec".into(),
        "s" => word,
        other => match other.strip_suffix('s') {
            Some(one) if one.len() > 2 => one.to_owned(),
            _ => other.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_have_a_size_and_a_dimension() {
        let same = |a: &str, b: &str| measure(a) == measure(b);
        assert!(same("square feet", "ft^2") && same("sq ft", "feet^{2}"));
        assert!(same("miles per hour", "mph") && same("mi/h", "mph"));
        assert!(same("cubic inches", "inches^3") && same("km/h", "kilometers per hour"));
        assert!(same("miles an hour", "mph") && same("dollars a day", "dollars per day"));
        assert!(!same("cm", "mm") && !same("cm^2", "cm^3") && !same("m", "s"));
        assert_eq!(measure("square units"), Measure::Generic(2));
        assert_eq!(measure("units^2"), Measure::Generic(2));
        assert_eq!(measure("units squared"), Measure::Generic(2));
        assert_eq!(measure("cubic units"), Measure::Generic(3));
        assert_eq!(measure("units"), Measure::Generic(1));
        assert_eq!(measure("right triangles"), Measure::Words);
        assert_eq!(measure("p.m."), Measure::Noon(true));
        assert_eq!(measure(" noon"), Measure::Noon(true));
        for letter in ["m", "s", "g", "h", "l", "L"] {
            assert!(is_letter_unit(letter) && matches!(measure(letter), Measure::Unit(..)));
        }
    }

    #[test]
    fn a_unit_of_several_letters_needs_no_text() {
        for word in ["cm", "inches", "dollars"] {
            assert!(is_unit_without_markup(word), "{word}");
        }
        for word in ["m", "ab", "xyz"] {
            assert!(!is_unit_without_markup(word), "{word}");
        }
    }
}
