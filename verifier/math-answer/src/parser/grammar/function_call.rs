//! Functions with their powers, bases and arguments.

use super::Parser;
use crate::expression::{Expr, Function};
use crate::parser::lexer::Kind;

impl Parser<'_> {
    /// A function's power, base and argument.
    pub(super) fn call(&mut self, function: Function) -> Option<Expr> {
        self.deeper(|parser| parser.call_inner(function))
    }

    fn call_inner(&mut self, mut function: Function) -> Option<Expr> {
        let (mut power, mut base) = (None, None);
        loop {
            if power.is_none() && self.eat(Kind::Char('^')) {
                power = Some(self.argument()?);
            } else if base.is_none() && self.eat(Kind::Char('_')) {
                base = Some(self.argument()?);
            } else {
                break;
            }
        }
        if let Some(Expr::Negative(one)) = &power
            && **one == Expr::number(1)
            && let Some(inverse) = function.inverse()
        {
            function = inverse;
            power = None;
        }
        let mut arguments = match self.peek()? {
            Kind::Char('(') => {
                self.at += 1;
                self.closed_elements(Kind::Char(')'))?
            }
            _ => vec![self.function_argument()?],
        };
        if function == Function::Log {
            arguments.insert(0, base.unwrap_or_else(|| Expr::number(10)));
            if arguments.len() != 2 {
                return None;
            }
        } else if base.is_some() {
            return None;
        }
        let many = matches!(
            function,
            Function::Gcd | Function::Lcm | Function::Min | Function::Max
        );
        if arguments.is_empty() || (!many && function != Function::Log && arguments.len() != 1) {
            return None;
        }
        let call = Expr::Call(function, arguments);
        Some(match power {
            Some(power) => Expr::Power(Box::new(call), Box::new(power)),
            None => call,
        })
    }

    /// An argument without brackets: the factors up to the next sign, operator or function. `\sin 3x`, `\cos 2\theta`.
    fn function_argument(&mut self) -> Option<Expr> {
        let mut factors = vec![self.factor()?];
        while let Some(next) = self.peek() {
            let function = match next {
                Kind::Command(name) => Function::named(name).is_some(),
                Kind::Letter(_) => Function::named(&self.word()).is_some(),
                Kind::Char('(' | '[') => true,
                _ => false,
            };
            if function || !self.begins_factor(next) {
                break;
            }
            factors.push(self.factor()?);
        }
        Some(super::product(factors))
    }
}
