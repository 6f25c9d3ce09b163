//! Matrices and determinants.

use super::Parser;
use crate::expression::Expr;
use crate::parser::lexer::Kind;

impl Parser<'_> {
    /// After `\begin`.
    pub(super) fn environment(&mut self) -> Option<Expr> {
        let name = self.environment_name()?;
        if name.starts_with("array") && self.peek() == Some(Kind::Open) {
            while !self.eat(Kind::Close) {
                self.peek()?;
                self.at += 1;
            }
        }
        if name == "cases" {
            return self.deeper(Self::cases);
        }
        let determinant = match name.trim_end_matches('*') {
            "pmatrix" | "bmatrix" | "Bmatrix" | "matrix" | "smallmatrix" | "array" => false,
            "vmatrix" => true,
            _ => return None,
        };
        let rows = self.enclosed(Self::rows)?;
        if self.environment_name()? != name {
            return None;
        }
        let width = rows.first()?.len();
        rows.iter()
            .all(|row| row.len() == width)
            .then_some(Expr::Matrix(determinant, rows))
    }

    fn rows(&mut self) -> Option<Vec<Vec<Expr>>> {
        let mut rows = vec![Vec::new()];
        loop {
            rows.last_mut()?.push(self.statement()?);
            match self.peek()? {
                Kind::Char('&') => self.at += 1,
                Kind::Row => {
                    self.at += 1;
                    if self.eat(Kind::Command("end")) {
                        return Some(rows);
                    }
                    rows.push(Vec::new());
                }
                Kind::Command("end") => {
                    self.at += 1;
                    return Some(rows);
                }
                _ => return None,
            }
        }
    }

    /// Equations below each other, as a list. Cases with conditions are not parsed.
    fn cases(&mut self) -> Option<Expr> {
        let rows = self.rows()?;
        let equations: Vec<Expr> = rows
            .into_iter()
            .map(|mut row| row.pop().filter(|_| row.is_empty()))
            .collect::<Option<_>>()?;
        let named = self.environment_name()? == "cases";
        (named && equations.iter().all(|row| row.equation().is_some()))
            .then_some(Expr::List(equations))
    }

    fn environment_name(&mut self) -> Option<String> {
        if !self.eat(Kind::Open) {
            return None;
        }
        let mut name = String::new();
        loop {
            match self.peek()? {
                Kind::Letter(letter) => name.push(letter),
                Kind::Char('*') => name.push('*'),
                Kind::Close => {
                    self.at += 1;
                    return Some(name);
                }
                _ => return None,
            }
            self.at += 1;
        }
    }
}
