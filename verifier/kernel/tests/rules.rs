//! The rules of Lean's type theory, one by one: what may be declared, and what follows from it. The tests write terms that Lean itself would never write.

use kernel::{
    Budget, ConstantInfo, Error, Expr, InductiveFamily, InductiveType, Kind, Level, LevelId,
    Library, ReducibilityHint, TypeChecker,
};

use crate::next;
use crate::terms::{self, term};

/// A checker with only the declarations of a test as its environment.
struct World<'a>(TypeChecker<'a>);

impl World<'_> {
    fn define(&mut self, name: &str, ty: &str, value: &str) -> Result<(), Error> {
        let store = self.0.store();
        let constant = ConstantInfo {
            name: store.name(name),
            params: Vec::new(),
            ty: term(store, ty),
            kind: Kind::Definition(term(store, value), ReducibilityHint::Regular(1)),
        };
        self.0.declare(constant)
    }

    /// Declares inductive types together: `1 A@u : its type | A.i : its constructor's; B : its type`, with the number of parameters, and the universe level `u`.
    fn inductive(&mut self, declaration: &str) -> Result<(), Error> {
        let (params, types) = declaration.split_once(' ').unwrap();
        let (mut levels, store) = (Vec::new(), self.0.store());
        let mut declared = |text: &str| {
            let (name, ty) = text.split_once(" : ").unwrap();
            let (name, own_levels) = name.split_once('@').unwrap_or((name, ""));
            let own_levels = own_levels.split(',').filter(|level| !level.is_empty());
            levels.extend(own_levels.map(|level| store.name(level)));
            (store.name(name), term(store, ty))
        };
        let member = |text: &str| {
            let mut parts = text.split(" | ").map(&mut declared);
            let (name, ty) = parts.next().unwrap();
            InductiveType {
                name,
                ty,
                constructors: parts.collect(),
            }
        };
        let types = types.split("; ").map(member).collect();
        self.0.declare_inductive(&InductiveFamily {
            levels,
            params: params.parse().unwrap(),
            types,
        })
    }

    /// Whether a type can be eliminated into any sort, and whether its recursor has K-like reduction.
    fn eliminates(&mut self, name: &str) -> (bool, bool) {
        let own = self.0.store().name(name);
        let levels = self.0.find(own).unwrap().unwrap().params.len();
        let name = self.0.store().name(&format!("{name}.rec"));
        let recursor = self.0.find(name).unwrap().unwrap();
        let Kind::Recursor(inner) = &recursor.kind else {
            panic!("no recursor")
        };
        (recursor.params.len() > levels, inner.k)
    }
}

fn with<T>(work: impl FnOnce(&mut World<'_>) -> T) -> T {
    let library = Library::open(&[], &[]).unwrap();
    let budget = Budget {
        steps: 200_000,
        terms: 200_000,
    };
    work(&mut World(TypeChecker::new(&library, budget)))
}

/// `N`, with `z` and `s`; `F : Prop`, without a proof; `T : Prop`, with one; and `Box A`, with an `A` in it.
fn basics(world: &mut World<'_>) {
    for declaration in [
        "0 N : Type | N.z : N | N.s : N -> N",
        "0 F : Prop",
        "0 T : Prop | T.i : T",
        "1 Box : Type -> Type | Box.i : (A : Type) -> A -> Box A",
    ] {
        world.inductive(declaration).unwrap();
    }
}

/// A random level, and its value in each of the [`CASES`].
fn level(world: &mut World<'_>, seed: &mut u64, depth: u32) -> (LevelId, [u32; CASES]) {
    let leaf = depth == 0 || next(seed).is_multiple_of(4);
    match (leaf, next(seed) % 4) {
        (true, 0) => (terms::level(world.0.store(), "0"), [0; CASES]),
        (true, param) => {
            let param = param - 1;
            let id = terms::level(world.0.store(), ["u", "v", "w"][param]);
            (id, std::array::from_fn(|case| digit(case, param)))
        }
        (false, 0 | 1) => {
            let (inner, values) = level(world, seed, depth - 1);
            (
                world.0.store().level(Level::Succ(inner)),
                values.map(|value| value + 1),
            )
        }
        (false, which) => {
            let (one, first) = level(world, seed, depth - 1);
            let (other, second) = level(world, seed, depth - 1);
            let greater = |case: usize| first[case].max(second[case]);
            if which == 2 {
                let id = world.0.store().level(Level::Max(one, other));
                (id, std::array::from_fn(greater))
            } else {
                let id = world.0.store().level(Level::IMax(one, other));
                let value = |case| if second[case] == 0 { 0 } else { greater(case) };
                (id, std::array::from_fn(value))
            }
        }
    }
}

/// Number of assignments of values from 0 to 7 to three parameters.
const CASES: usize = 512;

fn digit(case: usize, param: usize) -> u32 {
    (case >> (3 * param) & 7) as u32
}

#[test]
fn levels_are_compared_for_all_values_of_their_parameters() {
    let mut seed = 1;
    let (mut counts, mut missed) = ([0; 2], [0; 2]);
    for _ in 0..10_000 {
        with(|world| {
            let (one, first) = level(world, &mut seed, 4);
            let (other, second) = level(world, &mut seed, 4);
            let store = world.0.store();
            let [field, ty] = [one, other].map(|level| store.expr(Expr::Sort(level)));
            let constants = [field, ty].map(|ty| ConstantInfo {
                name: store.name("c"),
                params: Vec::new(),
                ty,
                kind: Kind::Axiom,
            });
            let equal = world.0.same_type(&constants[0], &constants[1]).unwrap();
            // `I (A : Sort one) : Sort other`, with a constructor that takes an `A`.
            let store = world.0.store();
            let own = term(store, "I@u,v,w");
            let [near, far] = [0, 1].map(|at| store.expr(Expr::BVar(at)));
            let made = store.app(own, far);
            let made = store.expr(Expr::Pi(near, made));
            let family = InductiveFamily {
                levels: ["u", "v", "w"].map(|name| store.name(name)).to_vec(),
                params: 1,
                types: vec![InductiveType {
                    name: store.name("I"),
                    ty: store.expr(Expr::Pi(field, ty)),
                    constructors: vec![(store.name("I.i"), store.expr(Expr::Pi(field, made)))],
                }],
            };
            let small = world.0.declare_inductive(&family);
            let at_most = first.iter().zip(&second).all(|(one, other)| one <= other);
            let wanted = [
                first == second,
                at_most || second.iter().all(|value| *value == 0),
            ];
            for (at, judged) in [equal, small.is_ok()].into_iter().enumerate() {
                assert!(wanted[at] || !judged, "{at}: {first:?} {second:?}");
                counts[at] += u32::from(wanted[at]);
                missed[at] += u32::from(wanted[at] && !judged);
            }
        });
    }
    println!("{counts:?} equal, at most; not seen: {missed:?}");
    assert!(counts[0] > 200 && counts[1] > 1_000, "{counts:?}");
}

/// Types `B` that are refused over [`basics`]: what is wrong, the declaration, and a part of the reason.
const INVALID: &str = "
left of an arrow = 0 B : Type | B.i : (B -> F) -> B = left of an arrow in a field
left of an arrow, twice = 0 B : Type | B.i : ((B -> F) -> F) -> B = left of an arrow in a field
left of an arrow, seen only by reducing = 0 B : Type | B.i : (fun (A : Type) => A -> F) B -> B = left of an arrow in a field
in another type = 0 B : Type | B.i : Box B -> B = within another one
a universe that it lives in = 0 B : Type | B.i : Type -> B = larger universe than its type
a value of another type = 0 B : Type | B.i : N = does not return a value of its type
a value at another parameter = 1 B : Type -> Type | B.i : Type -> B N = does not return a value of its type
a field at another parameter = 1 B : Type -> Type | B.i : (A : Type) -> B N -> B A = within another one
a parameter of another type = 1 B : N -> Type | B.i : (n : Prop) -> B n = another type than it should
the type in an index of its own = 0 B : Type -> Type | B.i : B (B N) = does not return a value of its type
a field at another level = 0 B@u : Sort u+1 | B.i : B@0 -> B@u = within another one
an undeclared universe level = 0 B : Sort u = `u` is not one of its own
a universe level twice = 0 B@u,u : Sort u = universe levels have one name
more parameters than arguments = 2 B : N -> Type = fewer parameters than it says
a value for a type = 0 B : N.z = is not a type
a constructor twice = 0 B : Type | B.i : B | B.i : B = `B.i` is declared already
a constructor with its recursor's name = 0 B : Type | B.rec : B = `B.rec` is declared already
a name that is taken = 0 B : Type | N.z : B = `N.z` is declared already
a name that the kernel treats specially = 0 B : Type | Bool.true : B = `Bool.true` is declared already
itself in its own type = 0 B : B -> Type = `B` is not declared
its recursor in a field = 0 B : Type | B.i : B.rec@1 -> B = `B.rec` is not declared
its constructor in its constructor = 0 B : Type | B.i : B#0 B.i -> B = `B.i` is not declared
two universes = 0 B : Type; C : Prop = live in different universes
";

#[test]
fn invalid_inductive_types_are_rejected() {
    for line in INVALID.trim().lines() {
        let [_, declaration, reason] = line.split(" = ").collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let judged = with(|world| {
            basics(world);
            world.inductive(declaration)
        });
        let Err(Error::Rejected(why)) = judged else {
            panic!("{line}: {judged:?}")
        };
        assert!(why.contains(reason), "{line}: {why}");
    }
}

/// Propositions, after whether they can be eliminated into any sort, and whether their recursors have K-like reduction. `Or` has two constructors, and a proof of `Some`
/// contains a number. The number in that of `Is` is an index of the type, and in that of `After` only part of an index. The fields of `Both` are proofs. `Any` is a
/// proposition at one universe level only, and `One` and `Two` are declared together.
const PROPOSITIONS: &str = "
(false, false) = 0 Or : Prop | Or.l : Or | Or.r : Or
(false, false) = 0 Some : Prop | Some.i : N -> Some
(true, false) = 0 Is : N -> Prop | Is.i : (n : N) -> Is n
(false, false) = 0 After : N -> Prop | After.i : (n : N) -> After (N.s n)
(true, true) = 0 Zero : N -> Prop | Zero.i : Zero N.z
(true, false) = 0 Both : Prop | Both.i : T -> T -> Both
(false, false) = 1 Any@u : Sort u -> Sort u | Any.i : (A : Sort u) -> A -> Any@u A
(false, false) = 0 One : Prop; Two : Prop
";

/// A proof can be eliminated into data only if the proposition determines the proof's content.
#[test]
fn a_proposition_eliminates_into_data_only_if_it_determines_its_proof() {
    with(|world| {
        basics(world);
        assert_eq!(world.eliminates("N"), (true, false));
        assert_eq!(world.eliminates("F"), (true, false));
        assert_eq!(world.eliminates("T"), (true, true));
        for line in PROPOSITIONS.trim().lines() {
            let (expected, declaration) = line.split_once(" = ").unwrap();
            world.inductive(declaration).unwrap();
            let name = declaration.split([' ', '@']).nth(1).unwrap();
            assert_eq!(format!("{:?}", world.eliminates(name)), expected, "{line}");
        }
    });
}

/// A value of a structure equals its constructor applied to its projections, unless the type is recursive, even if the recursion is hidden.
#[test]
fn a_recursive_type_is_not_a_structure() {
    let hidden = |of: &str| format!("(fun (X : Prop -> Type) => (p : Prop) -> X p -> S p) {of}");
    let shown = |of: &str| format!("(p : Prop) -> {of} p -> S p");
    let other = "(fun (p : Prop) => N)";
    for (constructor, is_structure) in [
        (shown(other), true),
        (hidden(other), true),
        (shown("S"), false),
        (hidden("S"), false),
    ] {
        let judged = with(|world| {
            basics(world);
            let declaration = format!("1 S : Prop -> Type | S.i : {constructor}");
            world.inductive(&declaration).unwrap();
            let given = "(P : S T -> Prop) (x : S T) (h : P x)";
            let ty = format!("{given} -> P (S.i T (S#0 x))");
            world.define("eta", &ty, &format!("fun {given} => h"))
        });
        let is_right = match &judged {
            Ok(()) => is_structure,
            Err(error) => !is_structure && matches!(error, Error::Rejected(_)),
        };
        assert!(is_right, "{constructor}: {judged:?}");
    }
}

/// A projection of a proof must be a proof, and a value without fields has no projections.
#[test]
fn projections_of_missing_fields_are_rejected() {
    with(|world| {
        basics(world);
        for declaration in [
            "0 Some : Prop | Some.i : N -> Some",
            "0 Both : Prop | Both.i : T -> Both",
            "0 Pack : Type | Pack.i : N -> Pack",
            "0 Index : N -> Type | Index.i : N -> Index N.z",
        ] {
            world.inductive(declaration).unwrap();
        }
        for (number, (of, projection, field, wanted)) in [
            ("Both", "Both#0", "T", true),
            ("Pack", "Pack#0", "N", true),
            ("Some", "Some#0", "N", false),
            ("Pack", "Pack#1", "N", false),
            ("Pack", "Pack#4294967295", "N", false),
            ("Pack", "Both#0", "T", false),
            ("N", "N#0", "N", false),
            ("T", "T#0", "T", false),
            ("F", "F#0", "T", false),
            ("Index N.z", "Index#0", "N", false),
            ("Pack", "Nothing#0", "N", false),
        ]
        .into_iter()
        .enumerate()
        {
            let value = format!("fun (x : {of}) => {projection} x");
            let judged = world.define(&format!("d{number}"), &format!("{of} -> {field}"), &value);
            assert_eq!(judged.is_ok(), wanted, "{value}: {judged:?}");
        }
    });
}
