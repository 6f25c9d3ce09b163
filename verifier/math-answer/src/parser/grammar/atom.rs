//! Factors and atoms: names, brackets, fractions, roots, and the constructs of the other files of this folder.

use super::number::{based_number, literal};
use super::{MAX_ATOMS, Parser};
use crate::expression::{Bracket, Constant, Expr, FullDebug, Function};
use crate::parser::contains_word;
use crate::parser::lexer::{Kind, Token};

/// Names that are read as functions if a bracket follows.
const APPLIED: [char; 6] = ['f', 'g', 'h', 'F', 'G', 'P'];

/// Commands that are operators between factors, or that end the enclosing construct.
const OPERATORS: &str = "cup cap backslash le ge ne in < > pm mp cdot div approx equiv and or vee \
    wedge end choose rangle rfloor rceil Vert to dots implies over circ prime";

/// Commands that print a letter, or a sign that stands for one.
const LETTERS: &str = "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota \
    kappa varkappa lambda mu nu xi omicron rho varrho sigma varsigma tau upsilon phi varphi chi \
    psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega ell hbar aleph Re Im wp \
    jmath star ast square bigstar heartsuit diamondsuit clubsuit spadesuit";

impl<'a> Parser<'a> {
    /// Whether a factor may begin with `next`.
    pub(super) fn begins_factor(&self, next: Kind<'a>) -> bool {
        match next {
            Kind::Number(_) | Kind::Open | Kind::SetOpen | Kind::Char('(' | '[') => true,
            // 5€
            Kind::Currency(_) => match self.kind_at(1) {
                Some(Kind::Number(_) | Kind::Open | Kind::Char('.')) => true,
                Some(Kind::Command(name)) => name == "frac",
                _ => false,
            },
            Kind::Letter(_) => {
                let word = self.word();
                self.noon().is_none()
                    && !(self.begins_word() && matches!(word.as_str(), "and" | "or"))
                    && self.unit().is_none()
            }
            Kind::Char('|') | Kind::Command("|") => self.bars == 0,
            Kind::Char('.') => matches!(self.kind_at(1), Some(Kind::Number(_))),
            Kind::Command(name) => !contains_word(OPERATORS, name),
            _ => false,
        }
    }

    pub(super) fn factor(&mut self) -> Option<Expr> {
        self.deeper(|parser| {
            let atom = parser.atom()?;
            parser.postfix(atom)
        })
    }

    fn postfix(&mut self, mut expr: Expr) -> Option<Expr> {
        loop {
            match self.peek() {
                Some(Kind::Char('!')) => {
                    self.at += 1;
                    expr = Expr::Call(Function::Factorial, vec![expr]);
                }
                Some(Kind::Percent) => {
                    self.at += 1;
                    expr = Expr::Percent(Box::new(expr));
                }
                Some(Kind::Command("circ")) => {
                    self.at += 1;
                    expr = Expr::Degrees(Box::new(expr));
                }
                Some(Kind::Char('\'') | Kind::Command("prime")) => {
                    self.at += 1;
                    expr = with_prime(expr)?;
                }
                Some(Kind::Char('^')) => {
                    self.at += 1;
                    if self.degree_sign() {
                        expr = Expr::Degrees(Box::new(expr));
                        continue;
                    }
                    if let Some(suffix) = self.ordinal(&expr) {
                        return Some(Expr::Quantity(Box::new(expr), suffix.into()));
                    }
                    if self.eat(Kind::Char('\'')) || self.eat(Kind::Command("prime")) {
                        expr = with_prime(expr)?;
                        continue;
                    }
                    let power = self.argument()?;
                    expr = Expr::Power(Box::new(expr), Box::new(power));
                }
                Some(Kind::Char('_')) => {
                    self.at += 1;
                    expr = self.subscript(expr)?;
                }
                Some(Kind::Letter(scale @ ('C' | 'F'))) if self.at + 1 == self.tokens.len() => {
                    let Expr::Degrees(inner) = expr else {
                        return Some(expr);
                    };
                    self.at += 1;
                    return Some(Expr::Quantity(inner, format!("degrees {scale}")));
                }
                _ => return Some(expr),
            }
        }
    }

    /// `\circ` or `{\circ}`.
    fn degree_sign(&mut self) -> bool {
        if self.eat(Kind::Command("circ")) {
            return true;
        }
        let braced = self.peek() == Some(Kind::Open)
            && self.kind_at(1) == Some(Kind::Command("circ"))
            && self.kind_at(2) == Some(Kind::Close);
        self.at += if braced { 3 } else { 0 };
        braced
    }

    /// A subscript: the base of digits, or the index of a name.
    fn subscript(&mut self, expr: Expr) -> Option<Expr> {
        let start = self.at;
        let named = matches!(expr, Expr::Symbol(_)) && self.text_argument();
        let index = if named { None } else { Some(self.argument()?) };
        match expr {
            Expr::Symbol(name) => {
                let mut index = String::new();
                for token in &self.tokens[start..self.at] {
                    match token.kind {
                        Kind::Letter(c) | Kind::Char(c) => index.push(c),
                        Kind::Number(digits) => index.push_str(digits),
                        Kind::Command(name) | Kind::Text(name) => index.push_str(name),
                        _ => {}
                    }
                }
                Some(Expr::Symbol(format!("{name}_{index}")))
            }
            Expr::Number(FullDebug(number)) if number.is_int() => {
                based_number(&number.to_string(), &index?)
            }
            // 0.0011_2
            Expr::Number(_) => {
                let digits = self.literal_before(start)?;
                based_number(&digits, &index?)
            }
            _ => None,
        }
    }

    /// Skips an index that is text or the name of a function: `{\text{max}}`.
    fn text_argument(&mut self) -> bool {
        let braced = usize::from(self.peek() == Some(Kind::Open));
        let named = match self.kind_at(braced) {
            Some(Kind::Text(_)) => true,
            Some(Kind::Command(name)) => Function::named(name).is_some(),
            _ => false,
        };
        let closed = braced == 0 || self.kind_at(2) == Some(Kind::Close);
        if named && closed {
            self.at += 1 + 2 * braced;
        }
        named && closed
    }

    /// A command's argument: the content of braces, or one token. After ^ and _ consecutive digits belong together, since 2^10 is often written for 2^{10}.
    pub(super) fn argument(&mut self) -> Option<Expr> {
        self.deeper(|parser| {
            if parser.eat(Kind::Open) {
                return parser.group();
            }
            if parser.eat(Kind::Char('-')) {
                return Some(Expr::Negative(Box::new(parser.atom()?)));
            }
            parser.atom()
        })
    }

    /// The argument of `\frac` and `\sqrt`. Without braces it is a single digit: `\frac12`.
    fn single_digit_argument(&mut self) -> Option<Expr> {
        if let Some(Kind::Number(digits)) = self.peek()
            && digits.len() > 1
        {
            let (first, rest) = digits.split_at(1);
            self.tokens[self.at].kind = Kind::Number(first);
            let rest = Token {
                kind: Kind::Number(rest),
                spaced: false,
            };
            self.tokens.insert(self.at + 1, rest);
            self.at += 1;
            return literal(first, "", "").map(Expr::number);
        }
        self.argument()
    }

    /// The content of braces, after the opening one.
    fn group(&mut self) -> Option<Expr> {
        let inside = self.enclosed(|parser| {
            let above = parser.answer()?;
            if parser.eat(Kind::Command("choose")) {
                let below = parser.answer()?;
                return Some(Expr::Call(Function::Binomial, vec![above, below]));
            }
            if parser.eat(Kind::Command("over")) {
                let below = parser.answer()?;
                return Some(Expr::Quotient(Box::new(above), Box::new(below)));
            }
            Some(above)
        })?;
        self.eat(Kind::Close).then_some(inside)
    }

    fn atom(&mut self) -> Option<Expr> {
        self.atoms += 1;
        if self.atoms > MAX_ATOMS {
            return None;
        }
        match self.peek()? {
            Kind::Number(_) | Kind::Char('.') => self.number(),
            Kind::Letter(letter) => self.name(letter),
            Kind::Open => {
                self.at += 1;
                self.group()
            }
            Kind::SetOpen => {
                self.at += 1;
                if let Some(built) = self.set_builder() {
                    return Some(built);
                }
                let items = self.closed_elements(Kind::SetClose)?;
                // In braces a colon before an equation means "such that": {x : f(x) = 0} has no ratio.
                let such_that = |item: &Expr| matches!(item, Expr::Relation(parts, _) if matches!(parts[0], Expr::Ratio(_)));
                (!items.iter().any(such_that)).then_some(Expr::Set(items))
            }
            Kind::Char(open @ ('(' | '[')) => {
                self.at += 1;
                self.bracketed(if open == '(' {
                    Bracket::Round
                } else {
                    Bracket::Square
                })
            }
            Kind::Char('|') | Kind::Command("|") => self.absolute_value(),
            Kind::Currency(sign) => {
                self.at += 1;
                let negative = self.eat(Kind::Char('-'));
                let amount = Expr::Money(sign, Box::new(self.factor()?));
                Some(amount.negated_if(negative))
            }
            Kind::Command(name) => self.command(name),
            Kind::Text(text) => {
                // The digits A5 in base 11.
                let digits = text
                    .chars()
                    .all(|c| c.is_ascii_digit() || c.is_ascii_uppercase());
                if digits && self.kind_at(1) == Some(Kind::Char('_')) {
                    self.at += 2;
                    let base = self.argument()?;
                    return based_number(text, &base);
                }
                None
            }
            _ => None,
        }
    }

    /// A letter, a function's name without a backslash, or a name of several capital letters.
    fn name(&mut self, letter: char) -> Option<Expr> {
        let word = self.word();
        if word.len() > 1
            && let Some(function) = Function::named(&word)
            && (self.begins_word() || self.is_applied(word.chars().count()))
        {
            self.at += word.chars().count();
            return self.call(function);
        }
        // The measure of an angle has the name of the angle.
        if letter == 'm' && self.kind_at(1) == Some(Kind::Command("angle")) {
            self.at += 2;
            return self.command_after_name("angle");
        }
        match word.as_str() {
            "pi" => {
                self.at += 2;
                return Some(Expr::Constant(Constant::Pi));
            }
            "sqrt" => {
                self.at += 4;
                return self.root(true);
            }
            "infinity" | "inf" | "oo" => {
                self.at += word.len();
                return Some(Expr::Constant(Constant::Infinity));
            }
            _ => {}
        }
        if letter.is_ascii_uppercase()
            && let Some(based) = self.letter_digits("")
        {
            return Some(based);
        }
        if word.len() > 1 && word.chars().all(char::is_uppercase) {
            self.at += word.chars().count();
            return Some(Expr::Symbol(word));
        }
        self.at += 1;
        let applied = APPLIED.contains(&letter) && self.peek() == Some(Kind::Char('('));
        if applied {
            self.at += 1;
            let arguments = self.closed_elements(Kind::Char(')'))?;
            return Some(Expr::Apply(letter.to_string(), arguments));
        }
        Some(match letter {
            'e' => Expr::Constant(Constant::E),
            'i' => Expr::Constant(Constant::I),
            _ => Expr::Symbol(letter.to_string()),
        })
    }

    /// Whether a bracket or a power follows in `ahead` tokens: xsin(x).
    fn is_applied(&self, ahead: usize) -> bool {
        matches!(self.kind_at(ahead), Some(Kind::Char('(' | '^')))
    }

    /// The statements, if any, up to a closing bracket, which is consumed.
    pub(super) fn closed_elements(&mut self, close: Kind<'_>) -> Option<Vec<Expr>> {
        let items = self.elements(close)?;
        self.eat(close).then_some(items)
    }

    /// The statements, if any, up to a closing bracket. The bracket is not consumed.
    fn elements(&mut self, close: Kind<'_>) -> Option<Vec<Expr>> {
        self.enclosed(|parser| {
            let mut items = Vec::new();
            if parser.peek() == Some(close) {
                return Some(items);
            }
            loop {
                match parser.statement()? {
                    Expr::List(more) => items.extend(more),
                    one => items.push(one),
                }
                if parser.join().is_none() {
                    return Some(items);
                }
            }
        })
    }

    /// After an opening bracket.
    fn bracketed(&mut self, open: Bracket) -> Option<Expr> {
        let mut items =
            self.elements(Kind::Char(if open == Bracket::Round { ')' } else { ']' }))?;
        let close = match self.peek()? {
            Kind::Char(')') => Bracket::Round,
            Kind::Char(']') => Bracket::Square,
            _ => return None,
        };
        self.at += 1;
        // (C) is a choice, and brackets around one expression only group.
        if items.len() == 1 && open == close {
            return items.pop();
        }
        if items.is_empty() {
            return None;
        }
        Some(Expr::Tuple(open, items, close))
    }

    fn absolute_value(&mut self) -> Option<Expr> {
        self.at += 1;
        self.bars += 1;
        let inside = self.deeper(Self::sum);
        self.bars -= 1;
        let inside = inside?;
        (self.eat(Kind::Char('|')) || self.eat(Kind::Command("|")))
            .then(|| Expr::Call(Function::Abs, vec![inside]))
    }

    fn delimited(&mut self, close: &'static str, function: Function) -> Option<Expr> {
        let inside = self.sum()?;
        self.eat(Kind::Command(close))
            .then(|| Expr::Call(function, vec![inside]))
    }

    fn command(&mut self, name: &'a str) -> Option<Expr> {
        self.at += 1;
        self.command_after_name(name)
    }

    /// The expression of a command, after its name.
    fn command_after_name(&mut self, name: &'a str) -> Option<Expr> {
        if let Some(function) = Function::named(name) {
            return self.call(function);
        }
        let constant = |constant| Some(Expr::Constant(constant));
        match name {
            "frac" | "binom" => {
                let above = self.single_digit_argument()?;
                let below = self.single_digit_argument()?;
                Some(match name {
                    "frac" => Expr::Quotient(Box::new(above), Box::new(below)),
                    _ => Expr::Call(Function::Binomial, vec![above, below]),
                })
            }
            "sqrt" => self.root(false),
            "√" => self.root(true),
            "pi" => constant(Constant::Pi),
            "infty" => constant(Constant::Infinity),
            "imath" => constant(Constant::I),
            "Reals" | "Integers" | "Rationals" | "Naturals" | "Complexes" => {
                Some(Expr::Symbol(name.to_owned()))
            }
            "emptyset" => Some(Expr::Set(Vec::new())),
            "lfloor" => self.delimited("rfloor", Function::Floor),
            "lceil" => self.delimited("rceil", Function::Ceiling),
            "langle" => {
                let items = self.closed_elements(Kind::Command("rangle"))?;
                Some(Expr::Tuple(Bracket::Angle, items, Bracket::Angle))
            }
            "begin" => self.environment(),
            "overline" | "vec" | "hat" | "bar" | "widetilde" | "tilde" | "underline" | "mathbb"
            | "mathcal" | "triangle" | "angle" => {
                let start = self.at;
                if matches!(name, "triangle" | "angle") {
                    let word = self.word();
                    self.at += word.chars().count();
                } else {
                    self.argument()?;
                }
                let mut inside = String::new();
                for token in &self.tokens[start..self.at] {
                    match token.kind {
                        Kind::Letter(sign) | Kind::Char(sign) => inside.push(sign),
                        Kind::Number(digits) => inside.push_str(digits),
                        Kind::Command(name) => inside.push_str(name),
                        Kind::Open | Kind::Close => {}
                        // What the name would not show.
                        _ => return None,
                    }
                }
                Some(Expr::Symbol(match (name, inside.as_str()) {
                    ("mathbb", "R") => "Reals".into(),
                    ("mathbb", "Z") => "Integers".into(),
                    ("mathbb", "Q") => "Rationals".into(),
                    ("mathbb", "N") => "Naturals".into(),
                    ("mathbb", "C") => "Complexes".into(),
                    _ => format!("{name} {inside}"),
                }))
            }
            "|" => {
                self.at -= 1;
                self.absolute_value()
            }
            other if contains_word(LETTERS, other) => Some(Expr::Symbol(format!("\\{other}"))),
            // Others are operators and relations without a meaning here. As a factor among others, in any order, one would be the same on either side.
            _ => None,
        }
    }

    /// After a root's sign. In plain text a whole number is the radicand: √13.
    fn root(&mut self, plain: bool) -> Option<Expr> {
        let index = if self.peek() == Some(Kind::Char('[')) {
            self.at += 1;
            let index = self.sum()?;
            if !self.eat(Kind::Char(']')) {
                return None;
            }
            index
        } else {
            Expr::number(2)
        };
        let radicand = if plain && !matches!(self.peek(), Some(Kind::Char('-'))) {
            self.argument()?
        } else {
            self.single_digit_argument()?
        };
        Some(Expr::Root(Box::new(index), Box::new(radicand)))
    }
}

/// f' for f.
fn with_prime(expr: Expr) -> Option<Expr> {
    match expr {
        Expr::Symbol(name) => Some(Expr::Symbol(name + "'")),
        _ => None,
    }
}
