//! A notation for the terms of tests. Binders are `fun (x : A) => b` and `(x : A) -> B`; several may follow each other. `f@u,1` is a constant with its universe levels.
//! `S#0 x` is the first field of `x`, a value of the structure `S`.

use kernel::{ConstantInfo, Expr, ExprId, Kind, Level, LevelId, TermStore};

/// The term that a text writes.
pub(crate) fn term(store: &mut TermStore, text: &str) -> ExprId {
    let spaced = text.replace('(', " ( ").replace(')', " ) ");
    let mut parser = Parser {
        store,
        tokens: spaced.split_whitespace().collect(),
        at: 0,
        bound: Vec::new(),
    };
    let term = parser.term();
    assert_eq!(parser.at, parser.tokens.len(), "{text}");
    term
}

/// `left = right`, both of the type `ty`, with a proof by computing.
pub(crate) fn equation(
    store: &mut TermStore,
    ty: &str,
    left: ExprId,
    right: ExprId,
) -> ConstantInfo {
    let [ty, eq, refl] = [ty, "Eq@1", "Eq.refl@1"].map(|text| term(store, text));
    ConstantInfo {
        name: store.name("t"),
        params: Vec::new(),
        ty: store.apps(eq, &[ty, left, right]),
        kind: Kind::Theorem(store.apps(refl, &[ty, right])),
    }
}

struct Parser<'a> {
    store: &'a mut TermStore,
    tokens: Vec<&'a str>,
    at: usize,
    /// Names of the variables bound here; the variable of an arrow has an empty name.
    bound: Vec<&'a str>,
}

impl<'a> Parser<'a> {
    fn next(&mut self) -> &'a str {
        self.at += 1;
        self.tokens[self.at - 1]
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.tokens.get(self.at) == Some(&token);
        self.at += usize::from(found);
        found
    }

    fn term(&mut self) -> ExprId {
        if self.take("fun") {
            return self.binder("=>", Expr::Lam);
        }
        if self.tokens.get(self.at + 2) == Some(&":") {
            return self.binder("->", Expr::Pi);
        }
        let function = self.atom();
        let mut arguments = Vec::new();
        while !matches!(self.tokens.get(self.at), None | Some(&(")" | "->"))) {
            arguments.push(self.atom());
        }
        let from = self.store.apps(function, &arguments);
        if !self.take("->") {
            return from;
        }
        self.bound.push("");
        let to = self.term();
        self.bound.pop();
        self.store.expr(Expr::Pi(from, to))
    }

    /// `(x : A)`, other binders, `before`, and what they bind.
    fn binder(&mut self, before: &str, expr: fn(ExprId, ExprId) -> Expr) -> ExprId {
        assert!(self.take("("), "{:?}", self.tokens);
        let name = self.next();
        assert!(self.take(":"), "{:?}", self.tokens);
        let ty = self.term();
        assert!(self.take(")"), "{:?}", self.tokens);
        self.bound.push(name);
        let body = if self.take(before) {
            self.term()
        } else {
            self.binder(before, expr)
        };
        self.bound.pop();
        self.store.expr(expr(ty, body))
    }

    fn atom(&mut self) -> ExprId {
        let token = self.next();
        if token == "(" {
            let inner = self.term();
            assert!(self.take(")"), "{:?}", self.tokens);
            return inner;
        }
        if let Some(distance) = self.bound.iter().rev().position(|name| *name == token) {
            return self.store.expr(Expr::BVar(distance as u32));
        }
        if let Some((structure, field)) = token.split_once('#') {
            let (name, value) = (self.store.name(structure), self.atom());
            let field = field.parse().unwrap();
            return self.store.expr(Expr::Proj(name, field, value));
        }
        if let Ok(number) = token.parse() {
            return self.store.nat(number);
        }
        let sort = match token {
            "Prop" => "0",
            "Type" => "1",
            "Sort" => self.next(),
            _ => {
                let (name, levels) = token.split_once('@').unwrap_or((token, ""));
                let levels = levels.split(',').filter(|level| !level.is_empty());
                let levels: Vec<_> = levels.map(|text| level(self.store, text)).collect();
                let (name, levels) = (self.store.name(name), self.store.levels(&levels));
                return self.store.constant(name, levels);
            }
        };
        let sort = level(self.store, sort);
        self.store.expr(Expr::Sort(sort))
    }
}

/// `u`, `u+1` or `1`.
pub(crate) fn level(store: &mut TermStore, text: &str) -> LevelId {
    let is_number = text.starts_with(|c: char| c.is_ascii_digit());
    let (param, more) = match text.split_once('+') {
        None if is_number => ("", text),
        None => (text, "0"),
        Some(parts) => parts,
    };
    let param = match param {
        "" => Level::Zero,
        name => Level::Param(store.name(name)),
    };
    let base = store.level(param);
    (0..more.parse().unwrap()).fold(base, |level, _: u32| store.level(Level::Succ(level)))
}
