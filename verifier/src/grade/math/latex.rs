//! One spelling for the many that LaTeX allows: spacing, `\left`/`\right`, `\dfrac`, optional braces, `\text`.
//!
//! Not a grammar: the result is a text to compare and to read numbers from.

use super::unit::take_unit;

/// Answers longer than this are compared as they stand.
pub(super) const MAX_LENGTH: usize = 4096;
/// Braces deeper than this are left as they stand.
const MAX_DEPTH: usize = 32;

/// The normal form of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Normal {
    /// The answer without spacing, units and decoration.
    pub text: String,
    /// The unit that was dropped from its end, where it had one: `degree`, `%`, `$`, `cm^{2}`.
    pub unit: Option<String>,
}

/// The normal form of `answer`.
pub(super) fn normalise(answer: &str) -> Normal {
    let answer = undelimited(answer);
    if answer.len() > MAX_LENGTH {
        return Normal {
            text: answer.to_owned(),
            unit: None,
        };
    }
    let tokens = tokens(answer);
    let mut writer = Writer {
        tokens: &tokens,
        at: 0,
        out: String::new(),
        depth: 0,
    };
    writer.rest();
    let mut text = writer.out;
    let unit = take_unit(&mut text);
    let text = text.replace([TEXT_OPEN, TEXT_CLOSE], "");
    let text = text.trim_end_matches('.').trim();
    Normal {
        text: without_name(choice(text)).to_owned(),
        unit,
    }
}

/// Without the dollar signs or brackets that set it as mathematics.
fn undelimited(answer: &str) -> &str {
    let mut answer = answer.trim().trim_end_matches('.').trim_end();
    for (open, close) in [("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]")] {
        if answer.len() >= open.len() + close.len()
            && let Some(inner) = answer
                .strip_prefix(open)
                .and_then(|rest| rest.strip_suffix(close))
            && !inner.ends_with('\\')
        {
            answer = inner.trim().trim_end_matches('.').trim_end();
        }
    }
    answer
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    /// `\name`, without the backslash.
    Command(&'a str),
    /// `\%`, `\{`, `\,`.
    Escaped(char),
    Char(char),
    Space,
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let mut length = first.len_utf8();
        let token = match first {
            '\\' => {
                let letters = rest[1..]
                    .bytes()
                    .take_while(u8::is_ascii_alphabetic)
                    .count();
                if letters > 0 {
                    length = 1 + letters;
                    Token::Command(&rest[1..length])
                } else if let Some(escaped) = rest[1..].chars().next() {
                    length = 1 + escaped.len_utf8();
                    Token::Escaped(escaped)
                } else {
                    Token::Space
                }
            }
            '~' => Token::Space,
            '−' | '–' => Token::Char('-'),
            '°' => Token::Command("circ"),
            'π' => Token::Command("pi"),
            '∞' => Token::Command("infty"),
            '×' | '·' => Token::Command("cdot"),
            '√' => Token::Command("sqrt"),
            '±' => Token::Command("pm"),
            '∪' => Token::Command("cup"),
            '≤' => Token::Command("le"),
            '≥' => Token::Command("ge"),
            white if white.is_whitespace() => Token::Space,
            other => Token::Char(other),
        };
        tokens.push(token);
        rest = &rest[length..];
    }
    tokens
}

/// Private-use characters that mark where text stood, until units are taken.
pub(super) const TEXT_OPEN: char = '\u{e000}';
pub(super) const TEXT_CLOSE: char = '\u{e001}';

struct Writer<'a> {
    tokens: &'a [Token<'a>],
    at: usize,
    out: String,
    depth: usize,
}

impl<'a> Writer<'a> {
    fn next(&mut self) -> Option<Token<'a>> {
        let token = self.tokens.get(self.at).copied();
        self.at += usize::from(token.is_some());
        token
    }

    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.at).copied()
    }

    fn skip_spaces(&mut self) {
        while self.peek() == Some(Token::Space) {
            self.at += 1;
        }
    }

    fn rest(&mut self) {
        while let Some(token) = self.next() {
            self.one(token);
        }
    }

    /// Writes one token with its arguments. A closing brace that closes nothing vanishes.
    fn one(&mut self, token: Token<'a>) {
        match token {
            Token::Space => self.space(),
            Token::Escaped('!') => self.skip_spaces(),
            Token::Escaped(',' | ';' | ':' | ' ') => self.space(),
            Token::Escaped('\\') => self.out.push_str("\\\\"),
            Token::Escaped('(' | ')' | '[' | ']') | Token::Char('$' | '}') => {}
            Token::Escaped('$') => self.out.push('$'),
            Token::Escaped('%') => self.out.push('%'),
            Token::Escaped(symbol) => {
                self.out.push('\\');
                self.out.push(symbol);
            }
            Token::Char('{') => self.group(),
            Token::Char(script @ ('^' | '_')) => {
                self.out.push(script);
                self.argument();
            }
            Token::Char(TEXT_OPEN | TEXT_CLOSE) => {}
            Token::Char(other) => self.out.push(other),
            Token::Command(name) => self.command(name),
        }
    }

    fn command(&mut self, name: &str) {
        match name {
            "left" | "right" | "big" | "Big" | "bigl" | "bigr" | "Bigl" | "Bigr" | "bigg"
            | "Bigg" | "displaystyle" | "textstyle" | "limits" => {
                // `\left.` has no bracket to show.
                if matches!(name, "left" | "right") && self.peek() == Some(Token::Char('.')) {
                    self.at += 1;
                }
            }
            "quad" | "qquad" | "enspace" | "thinspace" => self.space(),
            "frac" | "dfrac" | "tfrac" | "cfrac" => {
                self.out.push_str("\\frac");
                self.argument();
                self.argument();
            }
            "sqrt" => {
                self.out.push_str("\\sqrt");
                self.skip_spaces();
                if self.peek() == Some(Token::Char('[')) {
                    while let Some(token) = self.next() {
                        self.one(token);
                        if token == Token::Char(']') {
                            break;
                        }
                    }
                }
                self.argument();
            }
            "text" | "textbf" | "textit" | "textrm" | "mbox" | "hbox" | "mathrm" | "mathbf"
            | "operatorname" | "mathit" | "rm" => {
                self.out.push(TEXT_OPEN);
                self.skip_spaces();
                if let Some(token) = self.next() {
                    self.one(token);
                }
                self.trim_space();
                self.out.push(TEXT_CLOSE);
            }
            "circ" | "degree" => {
                // The script sign before it has been written already: 90^\circ.
                self.out.push_str("\\circ");
            }
            "dollar" => self.out.push('$'),
            "cdot" | "times" | "ast" => self.out.push('*'),
            "div" => self.out.push('/'),
            "leq" | "leqslant" => self.out.push_str("\\le"),
            "geq" | "geqslant" => self.out.push_str("\\ge"),
            "ne" => self.out.push_str("\\neq"),
            "lbrace" => self.out.push_str("\\{"),
            "rbrace" => self.out.push_str("\\}"),
            other => {
                self.out.push('\\');
                self.out.push_str(other);
                // A space ends a command's name where a letter follows: `\cot x` is not `\cotx`.
                if matches!(self.peek(), Some(Token::Space)) {
                    self.skip_spaces();
                }
                if matches!(self.peek(), Some(Token::Char(next)) if next.is_ascii_alphabetic()) {
                    self.out.push(' ');
                }
            }
        }
    }

    /// A space is kept only between two digits or two letters, where dropping it would join them.
    fn space(&mut self) {
        self.skip_spaces();
        let next = match self.peek() {
            Some(Token::Char(next)) => next,
            _ => return,
        };
        let joins = |last: char| {
            (last.is_ascii_digit() && (next.is_ascii_digit() || next == '.'))
                || (last.is_alphabetic() && next.is_alphabetic())
        };
        if self.out.chars().next_back().is_some_and(joins) {
            self.out.push(' ');
        }
    }

    fn trim_space(&mut self) {
        while self.out.ends_with(' ') {
            self.out.pop();
        }
    }

    /// The content of braces that are no command's argument, without them: `10{,}080`.
    fn group(&mut self) {
        if self.depth >= MAX_DEPTH {
            self.out.push('{');
            return;
        }
        self.depth += 1;
        while let Some(token) = self.next() {
            if token == Token::Char('}') {
                break;
            }
            self.one(token);
        }
        self.depth -= 1;
    }

    /// A command's argument, braced whether it was or not: `\frac12`, `x^2`.
    fn argument(&mut self) {
        self.skip_spaces();
        self.out.push('{');
        if self.depth < MAX_DEPTH
            && let Some(token) = self.next()
        {
            self.depth += 1;
            self.one(token);
            self.depth -= 1;
        }
        self.trim_space();
        self.out.push('}');
    }
}

/// `(C)` and `C` are the same choice.
fn choice(text: &str) -> &str {
    match text.as_bytes() {
        [b'(', letter, b')'] if letter.is_ascii_uppercase() => &text[1..2],
        _ => text,
    }
}

/// `x=5` answers with 5, `x\in[0,1]` with the interval.
fn without_name(text: &str) -> &str {
    let name = |name: &str| matches!(name.as_bytes(), [letter] if letter.is_ascii_alphabetic());
    if let Some((left, right)) = text.split_once('=')
        && name(left.trim())
        && !right.contains('=')
        && !right.is_empty()
    {
        return right.trim();
    }
    if let Some((left, right)) = text.split_once("\\in")
        && name(left.trim())
        && right.starts_with(['[', '(', '\\'])
    {
        return right;
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(answer: &str) -> String {
        normalise(answer).text
    }

    #[test]
    fn spellings_of_one_answer_share_a_normal_form() {
        for (a, b) in [
            (r"\frac12", r"\dfrac{1}{2}"),
            (r"\frac 34", r"\tfrac{3}{4}"),
            (r"\left( 3, \frac{\pi}{2} \right)", r"(3,\frac{\pi}{2})"),
            (r"11\sqrt2", r"11 \sqrt{2}"),
            (r"\text{even}", "even"),
            (r"4210_{5}", "4210_5"),
            (r"\text{(C)}", "C"),
            (r"x \in [-2,7]", "[-2,7]"),
            (r"10,\!080", "10,080"),
            (r"$x^2$", "x^{2}"),
            ("2\\pi", "2π"),
        ] {
            assert_eq!(text(a), text(b), "{a} and {b}");
        }
    }

    #[test]
    fn what_a_space_parts_stays_apart() {
        assert_ne!(text("1 4/5"), text("14/5"));
        assert_eq!(text(r"\cot x"), r"\cot x");
    }

    proptest! {
        #[test]
        fn normalising_never_panics_and_never_grows_without_bound(answer in r"(?s)(\\[a-z]{1,6}|\\.|[{}^_$%\[\]=,. 0-9a-zé]|.){0,80}") {
            let normal = normalise(&answer);
            prop_assert!(normal.text.len() <= 8 * answer.len() + 8);
        }
    }
}
