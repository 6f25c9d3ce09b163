//! Declarations, as Lean's `ConstantInfo` has them.

use crate::term_store::{ExprId, NameId};

/// A declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConstantInfo {
    /// Its name.
    pub name: NameId,
    /// The names of its universe parameters.
    pub params: Vec<NameId>,
    /// Its type.
    pub ty: ExprId,
    /// Its kind.
    pub kind: Kind,
}

impl ConstantInfo {
    /// The terms of the declaration: its type, and its value or its rules.
    pub(crate) fn terms(&self) -> Vec<ExprId> {
        let mut terms = vec![self.ty];
        match &self.kind {
            Kind::Definition(value, _) | Kind::Theorem(value) | Kind::Opaque(value) => {
                terms.push(*value);
            }
            Kind::Recursor(recursor) => terms.extend(recursor.rules.iter().map(|rule| rule.value)),
            _ => {}
        }
        terms
    }
}

/// The kind of a declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// An axiom.
    Axiom,
    /// A definition: its value and its reducibility hint.
    Definition(ExprId, ReducibilityHint),
    /// A theorem, with its proof.
    Theorem(ExprId),
    /// An opaque constant with its value. It is never unfolded.
    Opaque(ExprId),
    /// Part of Lean's quotients.
    Quotient,
    /// An inductive type.
    Inductive(InductiveVal),
    /// A constructor.
    Constructor(ConstructorVal),
    /// A recursor.
    Recursor(RecursorVal),
    /// Not for proofs: `unsafe` or `partial`.
    Unsafe,
}

/// A reducibility hint: how early a definition is unfolded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReducibilityHint {
    /// After all others.
    Opaque,
    /// Before definitions of less height.
    Regular(u32),
    /// Before all others.
    Abbreviation,
}

/// An inductive type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InductiveVal {
    /// Number of parameters: arguments that are the same in all constructors.
    pub params: u32,
    /// Number of indices: the arguments after the parameters.
    pub indices: u32,
    /// The names of all types that are declared together with it.
    pub all: Vec<NameId>,
    /// The names of its constructors, in order.
    pub constructors: Vec<NameId>,
    /// Whether a constructor has a recursive field.
    pub recursive: bool,
}

/// A constructor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConstructorVal {
    /// Its inductive type.
    pub of: NameId,
    /// Number of arguments that are the type's parameters.
    pub params: u32,
    /// Number of fields: the arguments after the parameters.
    pub fields: u32,
}

/// A recursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecursorVal {
    /// Number of the type's parameters.
    pub params: u32,
    /// Number of the type's indices.
    pub indices: u32,
    /// Number of motives: one for each type of the family.
    pub motives: u32,
    /// Number of minor premises: one for each constructor of the family.
    pub minors: u32,
    /// The reduction rules: one for each constructor of the type.
    pub rules: Vec<RecursorRule>,
    /// Whether it has K-like reduction: it reduces at any proof of a proposition with one constructor without fields.
    pub k: bool,
}

/// The reduction rule of a recursor for a constructor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecursorRule {
    /// The constructor.
    pub constructor: NameId,
    /// Number of its fields.
    pub fields: u32,
    /// The right-hand side: a function of parameters, motives, minor premises and fields.
    pub value: ExprId,
}
