//! Synonyms of commands, and Unicode symbols that stand for commands.

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
        '（' => '(',
        '）' => ')',
        '，' | '、' => ',',
        '：' => ':',
        '＝' => '=',
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
