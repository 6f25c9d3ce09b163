//! Synonyms of commands, Unicode symbols that stand for commands, and other forms of ASCII characters.

use std::borrow::Cow;

/// The small forms of ASCII characters, from U+FE50 on.
const SMALL_FORMS: &str = ",,. ;:?!-(){}()#&*+-<>= \\$%@";

/// The text with ASCII characters in place of their full-width, small or mathematical forms (NFKC), and with digits below the line as indices. Characters with a
/// meaning of their own stay: x², ½, ①, ℝ, 𝔽, and `～` between the ends of a range.
pub(crate) fn with_ascii_forms(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut in_index = false;
    for c in text.chars() {
        let digit = char::from_digit(u32::from(c).wrapping_sub(0x2080), 10);
        if digit.is_some() != in_index {
            plain.push_str(if in_index { "}" } else { "_{" });
            in_index = digit.is_some();
        }
        plain.push(digit.unwrap_or_else(|| ascii_form(c)));
    }
    if in_index {
        plain.push('}');
    }
    Cow::Owned(plain)
}

fn ascii_form(symbol: char) -> char {
    let code = u32::from(symbol);
    let ascii = match code {
        0xff01..=0xff5d => code - 0xfee0,
        0x3002 | 0xff61 => u32::from('.'),
        0xffe0 => u32::from('¢'),
        0xffe1 => u32::from('£'),
        0xffe5 => u32::from('¥'),
        0xffe6 => u32::from('₩'),
        0xfe50..=0xfe6b => SMALL_FORMS.as_bytes()[code as usize - 0xfe50].into(),
        0x1d7ce..=0x1d7ff => u32::from('0') + (code - 0x1d7ce) % 10,
        // Letters in italics, bold and so on, but not the double-struck ones.
        0x1d400..=0x1d537 | 0x1d56c..=0x1d6a3 => match (code - 0x1d400) % 52 {
            capital @ ..26 => u32::from('A') + capital,
            small => u32::from('a') + small - 26,
        },
        _ => code,
    };
    char::from_u32(ascii).unwrap_or(symbol)
}

/// The common name of commands with the same meaning.
pub(super) fn synonym(name: &str) -> &str {
    match name {
        "dfrac" | "tfrac" | "cfrac" | "sfrac" | "nicefrac" => "frac",
        "dbinom" | "tbinom" => "binom",
        "times" | "ast" | "star" | "bullet" => "cdot",
        "leq" | "leqslant" | "leqq" => "le",
        "geq" | "geqslant" | "geqq" => "ge",
        "neq" => "ne",
        "lt" => "<",
        "gt" => ">",
        "degree" | "textdegree" => "circ",
        "lvert" | "rvert" | "vert" | "mid" => "|",
        "lVert" | "rVert" => "Vert",
        "bigcup" => "cup",
        "bigcap" => "cap",
        "setminus" | "smallsetminus" => "backslash",
        "varnothing" => "emptyset",
        "isin" => "in",
        "ldots" | "cdots" | "dotsc" | "dotsb" => "dots",
        "varphi" => "phi",
        "varepsilon" => "epsilon",
        "vartheta" => "theta",
        "overrightarrow" => "vec",
        "widehat" => "hat",
        "arccosine" => "arccos",
        "lg" => "log",
        "land" => "and",
        "lor" => "or",
        "R" => "Reals",
        other => other,
    }
}

/// The command that a Unicode symbol stands for.
pub(super) fn command_of(symbol: char) -> Option<&'static str> {
    Some(match symbol {
        '°' => "circ",
        'π' => "pi",
        '∞' => "infty",
        '×' | '·' | '⋅' | '∗' => "cdot",
        '÷' => "div",
        '√' => "√",
        '±' => "pm",
        '∓' => "mp",
        '∪' => "cup",
        '∩' => "cap",
        '∖' => "backslash",
        '≤' | '⩽' => "le",
        '≥' | '⩾' => "ge",
        '≠' => "ne",
        '≈' => "approx",
        '∈' => "in",
        '∅' => "emptyset",
        'ℝ' => "Reals",
        'ℤ' => "Integers",
        'ℚ' => "Rationals",
        'ℕ' => "Naturals",
        'ℂ' => "Complexes",
        'α' => "alpha",
        'β' => "beta",
        'γ' => "gamma",
        'δ' => "delta",
        'θ' => "theta",
        'λ' => "lambda",
        'μ' => "mu",
        'ϕ' | 'φ' => "phi",
        'ω' => "omega",
        '⌊' => "lfloor",
        '⌋' => "rfloor",
        '⌈' => "lceil",
        '⌉' => "rceil",
        '⟨' => "langle",
        '⟩' => "rangle",
        '→' => "to",
        '△' => "triangle",
        '∠' => "angle",
        '…' => "dots",
        _ => return None,
    })
}

/// The fraction that one character stands for.
pub(super) fn fraction_of(symbol: char) -> Option<(&'static str, &'static str)> {
    Some(match symbol {
        '½' => ("1", "2"),
        '⅓' => ("1", "3"),
        '⅔' => ("2", "3"),
        '¼' => ("1", "4"),
        '¾' => ("3", "4"),
        '⅕' => ("1", "5"),
        '⅖' => ("2", "5"),
        '⅗' => ("3", "5"),
        '⅘' => ("4", "5"),
        '⅙' => ("1", "6"),
        '⅚' => ("5", "6"),
        '⅛' => ("1", "8"),
        '⅜' => ("3", "8"),
        '⅝' => ("5", "8"),
        '⅞' => ("7", "8"),
        _ => return None,
    })
}

/// The plain form of typographic characters.
pub(super) fn plain(symbol: char) -> char {
    match symbol {
        '−' | '–' | '—' | '‐' => '-',
        '’' | '′' => '\'',
        '、' => ',',
        other => other,
    }
}

/// The digit of a superscript character.
pub(super) fn superscript_of(symbol: char) -> Option<&'static str> {
    Some(match symbol {
        '⁰' => "0",
        '¹' => "1",
        '²' => "2",
        '³' => "3",
        '⁴' => "4",
        '⁵' => "5",
        '⁶' => "6",
        '⁷' => "7",
        '⁸' => "8",
        '⁹' => "9",
        _ => return None,
    })
}
