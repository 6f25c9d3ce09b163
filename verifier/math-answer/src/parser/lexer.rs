//! Splits an answer into tokens: LaTeX as people write it, mixed with plain text and Unicode.

use crate::expression::Function;
use crate::parser::{contains_word, unit};

mod symbols;
mod text_command;
mod text_fragments;

pub(crate) use symbols::with_ascii_forms;
use symbols::{command_of, fraction_of, plain, superscript_of, synonym};
pub(crate) use text_command::{counted_text, leading_text, whole_text};
use text_fragments::{Fragment, fragments};

/// Answers with more tokens than this are not parsed.
pub(crate) const MAX_TOKENS: usize = 2048;

/// A token, and whether a space precedes it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind<'a>,
    pub(crate) spaced: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind<'a> {
    /// Digits, without a sign, separators or a decimal point.
    Number(&'a str),
    /// One letter.
    Letter(char),
    /// `\name`, without the backslash. Unicode symbols are replaced by their commands.
    Command(&'a str),
    /// The content of `\text{…}` and similar commands.
    Text(&'a str),
    /// `{` and `}`. They group, and are not printed.
    Open,
    Close,
    /// `\{` and `\}`.
    SetOpen,
    SetClose,
    /// `\\`.
    Row,
    /// `\%` or `%`.
    Percent,
    /// `\$`, `€`, `£`: an amount of money, before or after its number.
    Currency(char),
    /// Any other character.
    Char(char),
}

/// Commands that affect only the appearance.
const DECORATION: &str = "left right middle big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr \
    displaystyle textstyle scriptstyle limits nolimits mathbf boldsymbol bm bf mathit it rm \
    mathsf mathopen mathclose mathrel mathbin ensuremath small large Large LARGE huge Huge strut";

/// Commands with text as their argument.
const TEXT: &str = "text textbf textit textrm textnormal textsf texttt mbox hbox mathrm \
    operatorname emph";

/// Commands with an argument that is not printed.
const INVISIBLE: &str = "phantom hphantom vphantom hspace label tag";

/// The tokens of `text`. `None` if there are too many.
pub(crate) fn tokens(text: &str) -> Option<Vec<Token<'_>>> {
    let mut lexer = Lexer {
        rest: text,
        spaced: false,
        tokens: Vec::new(),
    };
    while !lexer.rest.is_empty() {
        if lexer.tokens.len() >= MAX_TOKENS {
            return None;
        }
        lexer.next_token();
    }
    Some(lexer.tokens)
}

struct Lexer<'a> {
    rest: &'a str,
    spaced: bool,
    tokens: Vec<Token<'a>>,
}

impl<'a> Lexer<'a> {
    fn push(&mut self, kind: Kind<'a>) {
        let spaced = std::mem::take(&mut self.spaced);
        self.tokens.push(Token { kind, spaced });
    }

    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    fn take_while(&mut self, is: impl Fn(char) -> bool) -> &'a str {
        self.take(count(self.rest, is))
    }

    fn last_kind(&self) -> Option<Kind<'a>> {
        self.tokens.last().map(|token| token.kind)
    }

    fn next_token(&mut self) {
        let Some(first) = self.rest.chars().next() else {
            return;
        };
        if first == '\\' {
            return self.backslash();
        }
        if first.is_ascii_digit() {
            let digits = self.take_while(|c| c.is_ascii_digit());
            return self.push(Kind::Number(digits));
        }
        self.take(first.len_utf8());
        if let Some((above, below)) = fraction_of(first) {
            self.push(Kind::Command("frac"));
            self.push(Kind::Number(above));
            return self.push(Kind::Number(below));
        }
        if let Some(digit) = superscript_of(first)
            && self.rest.chars().next().and_then(superscript_of).is_none()
        {
            self.push(Kind::Char('^'));
            return self.push(Kind::Number(digit));
        }
        if first.is_whitespace() || matches!(first, '~' | '\u{200b}' | '\u{feff}') {
            self.spaced = true;
            return;
        }
        // 4! = 24 and 5!=120 are factorials, n != 5 and n!=5 are not.
        if first == '!' && self.rest.starts_with('=') && (self.spaced || self.follows_name()) {
            self.take(1);
            return self.push(Kind::Command("ne"));
        }
        let kind = match first {
            // Dollars around an answer only set it as mathematics.
            '$' => {
                if self.rest.starts_with(|c: char| c.is_ascii_digit())
                    && !self.rest.contains('$')
                    && self.tokens.is_empty()
                {
                    Kind::Currency('$')
                } else {
                    return;
                }
            }
            // 2{:}3 and {-}5 mean 2:3 and -5.
            '{' if matches!(self.rest.as_bytes(), [b':' | b'-' | b'+' | b'=', b'}', ..]) => {
                let operator = self.take(2);
                Kind::Char(plain(operator.chars().next().unwrap_or(' ')))
            }
            '{' => Kind::Open,
            '}' => Kind::Close,
            '%' => Kind::Percent,
            '€' | '£' | '¥' | '元' | '\u{20a0}'..='\u{20c0}' => Kind::Currency(first),
            '円' => Kind::Currency('¥'),
            '¢' => Kind::Text("cents"),
            letter if letter.is_alphabetic() => match command_of(letter) {
                Some(name) => Kind::Command(name),
                None => Kind::Letter(letter),
            },
            other => match command_of(other) {
                Some(name) => Kind::Command(name),
                None => Kind::Char(plain(other)),
            },
        };
        self.push(kind);
    }

    fn backslash(&mut self) {
        self.take(1);
        let Some(next) = self.rest.chars().next() else {
            return;
        };
        if !next.is_ascii_alphabetic() {
            self.take(next.len_utf8());
            match next {
                // `\!` removes a thin space. Between digits it separates groups, as a space does: 15\!000.
                '!' => {
                    self.take_while(char::is_whitespace);
                    self.spaced = matches!(self.last_kind(), Some(Kind::Number(_)))
                        && self.rest.starts_with(|c: char| c.is_ascii_digit());
                }
                ',' | ';' | ':' | ' ' | '>' | '/' => self.spaced = true,
                '(' | ')' | '[' | ']' => {}
                '{' => self.push(Kind::SetOpen),
                '}' => self.push(Kind::SetClose),
                '\\' => {
                    // `\\[2pt]` adds space between rows.
                    if self.rest.starts_with('[')
                        && let Some(end) = self.rest.bytes().take(9).position(|c| c == b']')
                    {
                        let inside = &self.rest[1..end];
                        if inside.ends_with(|c: char| c.is_ascii_alphabetic()) {
                            self.take(end + 1);
                        }
                    }
                    self.push(Kind::Row);
                }
                '%' => self.push(Kind::Percent),
                '$' => self.push(Kind::Currency('$')),
                '|' => self.push(Kind::Command("Vert")),
                other => self.push(Kind::Char(other)),
            }
            return;
        }
        let name = self.take_while(|c| c.is_ascii_alphabetic());
        self.command(name);
    }

    fn command(&mut self, name: &'a str) {
        // `\operatorname*{…}`, `\hspace*{…}`.
        if self.rest.starts_with('*')
            && [TEXT, INVISIBLE]
                .iter()
                .any(|list| contains_word(list, name))
        {
            self.take(1);
        }
        if name == "mathbf" && self.rest.starts_with("{R}") {
            self.take(3);
            self.push(Kind::Command("Reals"));
        } else if contains_word(DECORATION, name) {
            // `\left.` prints no bracket.
            if matches!(name, "left" | "right") {
                let spaces = count(self.rest, char::is_whitespace);
                if self.rest[spaces..].starts_with('.') {
                    self.take(spaces + 1);
                }
            }
        } else if contains_word(TEXT, name) {
            let text = self.argument();
            self.text(text);
        } else if contains_word(INVISIBLE, name) {
            self.argument();
            self.spaced = true;
        } else {
            match name {
                "quad" | "qquad" | "enspace" | "thinspace" | "medspace" | "thickspace"
                | "space" => {
                    self.spaced = true;
                }
                "dollar" | "textdollar" => self.push(Kind::Currency('$')),
                "euro" | "texteuro" => self.push(Kind::Currency('€')),
                "pounds" | "textsterling" => self.push(Kind::Currency('£')),
                "yen" | "textyen" => self.push(Kind::Currency('¥')),
                "lbrace" => self.push(Kind::SetOpen),
                "rbrace" => self.push(Kind::SetClose),
                "lbrack" => self.push(Kind::Char('[')),
                "rbrack" => self.push(Kind::Char(']')),
                "lparen" => self.push(Kind::Char('(')),
                "rparen" => self.push(Kind::Char(')')),
                "colon" => self.push(Kind::Char(':')),
                "percent" => self.push(Kind::Percent),
                "color" | "textcolor" => {
                    self.argument();
                }
                "boxed" | "fbox" | "displaylimits" => {}
                "not" if self.rest.trim_start().starts_with('=') => {
                    let spaces = count(self.rest, char::is_whitespace);
                    self.take(spaces + 1);
                    self.push(Kind::Command("ne"));
                }
                _ => self.push(Kind::Command(synonym(name))),
            }
        }
    }

    /// The content of a command's braces, or the one character after it.
    fn argument(&mut self) -> &'a str {
        self.take_while(char::is_whitespace);
        if !self.rest.starts_with('{') {
            let length = match self.rest.strip_prefix('\\') {
                Some(name) => 1 + count(name, |c| c.is_ascii_alphabetic()),
                None => self.rest.chars().next().map_or(0, char::len_utf8),
            };
            return self.take(length);
        }
        let mut depth = 0_usize;
        for (at, byte) in self.rest.bytes().enumerate() {
            match byte {
                b'{' => depth += 1,
                b'}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                let inside = &self.rest[1..at];
                self.take(at + 1);
                return inside;
            }
        }
        self.take(1);
        self.take(self.rest.len())
    }

    /// Adds the tokens of text. Text without letters is the same as outside of `\text`. So is a single letter of mathematics, unless it is a unit after a
    /// number.
    fn text(&mut self, text: &'a str) {
        // A tie (`~`) and these commands are spaces.
        let is_space = |c: char| c.is_whitespace() || c == '~';
        let mut bare = text.trim_matches(is_space);
        for space in ["\\,", "\\;", "\\:", "\\ "] {
            if let Some(rest) = text.trim().strip_prefix(space) {
                bare = rest.trim_matches(is_space);
                self.spaced = true;
            }
        }
        let mut chars = bare.chars();
        let single = match (chars.next(), chars.next()) {
            (Some(one), None) => one.is_ascii_alphabetic(),
            _ => false,
        };
        self.spaced |= text.starts_with(is_space);
        if bare.is_empty() {
            self.spaced = true;
        } else if single {
            self.single_letter(bare);
        } else if self.is_function(bare) {
            self.push(Kind::Command(bare));
        } else if !bare.contains(char::is_alphabetic) {
            self.push_math(bare);
        } else if self.follows_value()
            && let Some(pieces) = fragments(bare)
        {
            for piece in pieces {
                match piece {
                    Fragment::Separator(one) => self.push(Kind::Text(one)),
                    Fragment::Comma => self.push(Kind::Char(',')),
                    Fragment::Formula(formula) => self.push_math(formula),
                    Fragment::Words(words) => self.push(Kind::Text(words)),
                }
                self.spaced = true;
            }
        } else {
            self.push(Kind::Text(bare));
        }
    }

    /// Adds a letter in text: a unit, if it is the name of one and follows a number; otherwise the same as outside of text.
    fn single_letter(&mut self, letter: &'a str) {
        let capital = letter.starts_with(|c: char| c.is_ascii_uppercase());
        let follows_number = self.follows_number();
        let degrees =
            self.last_kind() == Some(Kind::Command("circ")) || self.follows_degree_group();
        let is_text = if capital {
            let added = matches!(self.last_kind(), Some(Kind::Char('+' | '-')));
            !(follows_number || added)
                || degrees
                || (self.spaced && unit::is_capital_unit(letter))
                || letter == "L"
        } else {
            follows_number && unit::is_letter_unit(letter)
        };
        if is_text {
            self.push(Kind::Text(letter));
        } else {
            self.push_math(letter);
        }
    }

    /// Whether the last tokens are `^{\circ}`.
    fn follows_degree_group(&self) -> bool {
        let [.., circ, close] = self.tokens.as_slice() else {
            return false;
        };
        circ.kind == Kind::Command("circ") && close.kind == Kind::Close
    }

    /// Whether the name is a function. After a number, "min" and "sec" are minutes and seconds.
    fn is_function(&self, name: &str) -> bool {
        Function::named(name).is_some() && !(self.follows_number() && matches!(name, "min" | "sec"))
    }

    /// Adds the tokens of text that is mathematics.
    fn push_math(&mut self, text: &'a str) {
        let Some(mut inner) = tokens(text) else {
            return;
        };
        if let Some(first) = inner.first_mut() {
            first.spaced |= std::mem::take(&mut self.spaced);
        }
        self.tokens.extend(inner);
    }

    /// Whether the next token follows a number.
    fn follows_number(&self) -> bool {
        matches!(
            self.last_kind(),
            Some(Kind::Number(_) | Kind::Close | Kind::Command("pi" | "circ"))
        )
    }

    fn follows_name(&self) -> bool {
        matches!(self.last_kind(), Some(Kind::Letter(_) | Kind::Command(_)))
    }

    /// Whether the next token follows a value of any kind.
    fn follows_value(&self) -> bool {
        matches!(
            self.last_kind(),
            Some(
                Kind::Number(_)
                    | Kind::Letter(_)
                    | Kind::Close
                    | Kind::SetClose
                    | Kind::Percent
                    | Kind::Char(')' | ']' | '|' | '!' | '\'' | '.')
                    | Kind::Command(_)
            )
        )
    }
}

fn count(text: &str, is: impl Fn(char) -> bool) -> usize {
    text.find(|c| !is(c)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind<'_>> {
        let tokens = tokens(text).unwrap();
        tokens.into_iter().map(|token| token.kind).collect()
    }

    #[test]
    fn decoration_and_phantoms_leave_no_token() {
        for (a, b) in [
            (r"\left( 3, \frac{\pi}{2} \right)", r"(3,\frac{\pi}{2})"),
            (r"$\dfrac12$", r"\frac12"),
            (r"\[ x \]", "x"),
            (r"\mathbf{2340}", r"{2340}"),
            (r"10,\!080", "10,080"),
            (r"\text{13}", "13"),
            ("2π", r"2\pi"),
            (r"x − 1", "x-1"),
            (
                r"\begin{pmatrix}1\\[2pt]2\end{pmatrix}",
                r"\begin{pmatrix}1\\2\end{pmatrix}",
            ),
        ] {
            assert_eq!(kinds(a), kinds(b), "{a} and {b}");
        }
    }

    #[test]
    fn a_dollar_sign_before_a_number_is_money_unless_it_sets_mathematics() {
        assert_eq!(kinds("$36")[0], Kind::Currency('$'));
        assert_eq!(kinds("$36$")[0], Kind::Number("36"));
        assert_eq!(kinds(r"\$36")[0], Kind::Currency('$'));
    }

    #[test]
    fn a_token_knows_whether_a_space_precedes_it() {
        let spaced = |text: &str| -> Vec<bool> {
            let tokens = tokens(text).unwrap();
            tokens.iter().map(|token| token.spaced).collect()
        };
        assert_eq!(spaced(r"1 4\,5x"), [false, true, true, false]);
        // `\!` is none, except that it separates the digits of a number.
        assert_eq!(spaced(r"x\!y\!6\!7"), [false, false, false, true]);
    }
}
