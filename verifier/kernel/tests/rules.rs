//! The rules of Lean's type theory, one by one: what may be declared, and what follows from it. The tests build terms that Lean itself would never write.

use kernel::{
    Budget, Checker, Constant, Error, Expr, ExprId, Family, Kind, Level, LevelId, Library, Member,
    NameId,
};

/// A checker whose environment contains only the declarations of a test.
struct World<'a>(Checker<'a>);

impl World<'_> {
    fn name(&mut self, dotted: &str) -> NameId {
        self.0.store().name(dotted)
    }

    fn param(&mut self, name: &str) -> LevelId {
        let name = self.name(name);
        self.0.store().level(Level::Param(name))
    }

    fn next(&mut self, level: LevelId) -> LevelId {
        self.0.store().level(Level::Succ(level))
    }

    fn zero(&mut self) -> LevelId {
        self.0.store().level(Level::Zero)
    }

    fn sort(&mut self, level: LevelId) -> ExprId {
        self.0.store().expr(Expr::Sort(level))
    }

    fn prop(&mut self) -> ExprId {
        let zero = self.zero();
        self.sort(zero)
    }

    fn ty(&mut self) -> ExprId {
        let zero = self.zero();
        let one = self.next(zero);
        self.sort(one)
    }

    fn at(&mut self, name: &str, levels: &[LevelId]) -> ExprId {
        let name = self.name(name);
        let levels = self.0.store().levels(levels);
        self.0.store().constant(name, levels)
    }

    fn var(&mut self, at: u32) -> ExprId {
        self.0.store().expr(Expr::Bound(at))
    }

    /// `f a b …`, where `f` has no universe levels.
    fn call(&mut self, name: &str, arguments: &[ExprId]) -> ExprId {
        let head = self.at(name, &[]);
        self.0.store().apps(head, arguments)
    }

    /// `∀ domains, body`.
    fn pi(&mut self, domains: &[ExprId], body: ExprId) -> ExprId {
        let store = self.0.store();
        domains
            .iter()
            .rev()
            .fold(body, |body, domain| store.expr(Expr::Pi(*domain, body)))
    }

    fn fun(&mut self, domains: &[ExprId], body: ExprId) -> ExprId {
        let store = self.0.store();
        domains
            .iter()
            .rev()
            .fold(body, |body, domain| store.expr(Expr::Lam(*domain, body)))
    }

    fn proj(&mut self, name: &str, at: u32, value: ExprId) -> ExprId {
        let name = self.name(name);
        self.0.store().expr(Expr::Proj(name, at, value))
    }

    fn define(&mut self, name: &str, ty: ExprId, value: ExprId) -> Result<(), Error> {
        let constant = Constant {
            name: self.name(name),
            params: Vec::new(),
            ty,
            kind: Kind::Definition(value, kernel::Hint::Regular(1)),
        };
        self.0.declare(constant)
    }

    /// Declares one inductive type.
    fn inductive(
        &mut self,
        levels: &[&str],
        params: u32,
        name: &str,
        ty: ExprId,
        constructors: &[(&str, ExprId)],
    ) -> Result<(), Error> {
        let member = self.member(name, ty, constructors);
        let levels = levels.iter().map(|level| self.name(level)).collect();
        self.0.declare_inductive(&Family {
            levels,
            params,
            types: vec![member],
        })
    }

    fn member(&mut self, name: &str, ty: ExprId, constructors: &[(&str, ExprId)]) -> Member {
        Member {
            name: self.name(name),
            ty,
            constructors: constructors
                .iter()
                .map(|(name, ty)| (self.name(name), *ty))
                .collect(),
        }
    }

    /// Whether a type can be eliminated into any sort, and whether its recursor has K-like reduction.
    fn eliminates(&mut self, name: &str) -> (bool, bool) {
        let own = self.name(name);
        let levels = self.0.find(own).unwrap().unwrap().params.len();
        let name = self.name(&format!("{name}.rec"));
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
    work(&mut World(Checker::new(&library, budget)))
}

/// `N`, with `z` and `s`; `F : Prop`, without a proof; `T : Prop`, with one.
fn basics(world: &mut World<'_>) {
    let (ty, prop) = (world.ty(), world.prop());
    let n = world.at("N", &[]);
    let s = world.pi(&[n], n);
    world
        .inductive(&[], 0, "N", ty, &[("N.z", n), ("N.s", s)])
        .unwrap();
    world.inductive(&[], 0, "F", prop, &[]).unwrap();
    let t = world.at("T", &[]);
    world.inductive(&[], 0, "T", prop, &[("T.i", t)]).unwrap();
}

/// Pseudo-random numbers.
fn next(seed: &mut u64) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    (*seed >> 33) as usize
}

/// A random level, and its value in each of the [`CASES`].
fn level(world: &mut World<'_>, seed: &mut u64, depth: u32) -> (LevelId, [u32; CASES]) {
    let leaf = depth == 0 || next(seed).is_multiple_of(4);
    match (leaf, next(seed) % 4) {
        (true, 0) => (world.zero(), [0; CASES]),
        (true, param) => {
            let param = param - 1;
            let id = world.param(["u", "v", "w"][param]);
            (id, std::array::from_fn(|case| digit(case, param)))
        }
        (false, 0 | 1) => {
            let (inner, values) = level(world, seed, depth - 1);
            (world.next(inner), values.map(|value| value + 1))
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
            let (field, ty) = (world.sort(one), world.sort(other));
            let constants = [field, ty].map(|ty| Constant {
                name: world.name("c"),
                params: Vec::new(),
                ty,
                kind: Kind::Axiom,
            });
            let equal = world.0.same_type(&constants[0], &constants[1]).unwrap();
            // `I (A : Sort one) : Sort other`, with a constructor that takes an `A`.
            let levels = ["u", "v", "w"].map(|name| world.param(name));
            let own = world.at("I", &levels);
            let (near, far) = (world.var(0), world.var(1));
            let made = world.0.store().app(own, far);
            let made = world.pi(&[field, near], made);
            let ty = world.pi(&[field], ty);
            let small = world.inductive(&["u", "v", "w"], 1, "I", ty, &[("I.i", made)]);
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

/// Declares the type `B`, over [`basics`].
type Declare = fn(&mut World<'_>) -> Result<(), Error>;

#[test]
fn invalid_inductive_types_are_rejected() {
    let bad: &[(&str, Declare)] = &[
        ("left of an arrow", |world| {
            let (ty, b, f) = (world.ty(), world.at("B", &[]), world.at("F", &[]));
            let not = world.pi(&[b], f);
            let made = world.pi(&[not], b);
            world.inductive(&[], 0, "B", ty, &[("B.i", made)])
        }),
        ("left of an arrow, twice", |world| {
            let (ty, b, f) = (world.ty(), world.at("B", &[]), world.at("F", &[]));
            let not = world.pi(&[b], f);
            let twice = world.pi(&[not], f);
            let made = world.pi(&[twice], b);
            world.inductive(&[], 0, "B", ty, &[("B.i", made)])
        }),
        ("left of an arrow, seen only by reducing", |world| {
            let (ty, b, f) = (world.ty(), world.at("B", &[]), world.at("F", &[]));
            let var = world.var(0);
            let not = world.pi(&[var], f);
            let not = world.fun(&[ty], not);
            let not = world.0.store().app(not, b);
            let made = world.pi(&[not], b);
            world.inductive(&[], 0, "B", ty, &[("B.i", made)])
        }),
        ("in another type", |world| {
            let (ty, b, var) = (world.ty(), world.at("B", &[]), world.var(0));
            let box_ty = world.pi(&[ty], ty);
            let far = world.var(1);
            let own = world.call("Box", &[far]);
            let boxed = world.pi(&[ty, var], own);
            world.inductive(&[], 1, "Box", box_ty, &[("Box.i", boxed)])?;
            let inner = world.call("Box", &[b]);
            let made = world.pi(&[inner], b);
            world.inductive(&[], 0, "B", ty, &[("B.i", made)])
        }),
        ("a universe that it lives in", |world| {
            let (ty, b) = (world.ty(), world.at("B", &[]));
            let made = world.pi(&[ty], b);
            world.inductive(&[], 0, "B", ty, &[("B.i", made)])
        }),
        ("a value of another type", |world| {
            let (ty, n) = (world.ty(), world.at("N", &[]));
            world.inductive(&[], 0, "B", ty, &[("B.i", n)])
        }),
        ("a value at another parameter", |world| {
            let (ty, n) = (world.ty(), world.at("N", &[]));
            let own = world.pi(&[ty], ty);
            let made = world.call("B", &[n]);
            let made = world.pi(&[ty], made);
            world.inductive(&[], 1, "B", own, &[("B.i", made)])
        }),
        ("a field at another parameter", |world| {
            let (ty, n) = (world.ty(), world.at("N", &[]));
            let own = world.pi(&[ty], ty);
            let far = world.var(1);
            let (field, made) = (world.call("B", &[n]), world.call("B", &[far]));
            let made = world.pi(&[ty, field], made);
            world.inductive(&[], 1, "B", own, &[("B.i", made)])
        }),
        ("a parameter of another type", |world| {
            let (ty, n, near) = (world.ty(), world.at("N", &[]), world.var(0));
            let own = world.pi(&[n], ty);
            let made = world.call("B", &[near]);
            let prop = world.prop();
            let made = world.pi(&[prop], made);
            world.inductive(&[], 1, "B", own, &[("B.i", made)])
        }),
        ("the type in an index of its own", |world| {
            let (ty, n) = (world.ty(), world.at("N", &[]));
            let own = world.pi(&[ty], ty);
            let inner = world.call("B", &[n]);
            let made = world.call("B", &[inner]);
            world.inductive(&[], 0, "B", own, &[("B.i", made)])
        }),
        ("a field at another level", |world| {
            let u = world.param("u");
            let above = world.next(u);
            let ty = world.sort(above);
            let zero = world.zero();
            let (field, made) = (world.at("B", &[zero]), world.at("B", &[u]));
            let made = world.pi(&[field], made);
            world.inductive(&["u"], 0, "B", ty, &[("B.i", made)])
        }),
        ("an undeclared universe level", |world| {
            let u = world.param("u");
            let ty = world.sort(u);
            world.inductive(&[], 0, "B", ty, &[])
        }),
        ("a universe level twice", |world| {
            let u = world.param("u");
            let ty = world.sort(u);
            world.inductive(&["u", "u"], 0, "B", ty, &[])
        }),
        ("more parameters than arguments", |world| {
            let (ty, n) = (world.ty(), world.at("N", &[]));
            let own = world.pi(&[n], ty);
            world.inductive(&[], 2, "B", own, &[])
        }),
        ("a value for a type", |world| {
            let z = world.at("N.z", &[]);
            world.inductive(&[], 0, "B", z, &[])
        }),
        ("a constructor twice", |world| {
            let (ty, b) = (world.ty(), world.at("B", &[]));
            world.inductive(&[], 0, "B", ty, &[("B.i", b), ("B.i", b)])
        }),
        ("a constructor with its recursor's name", |world| {
            let (ty, b) = (world.ty(), world.at("B", &[]));
            world.inductive(&[], 0, "B", ty, &[("B.rec", b)])
        }),
        ("a name that is taken", |world| {
            let (ty, b) = (world.ty(), world.at("B", &[]));
            world.inductive(&[], 0, "B", ty, &[("N.z", b)])
        }),
        ("a name that the kernel treats specially", |world| {
            let (ty, b) = (world.ty(), world.at("B", &[]));
            world.inductive(&[], 0, "B", ty, &[("Bool.true", b)])
        }),
        ("itself in its own type", |world| {
            let (ty, b) = (world.ty(), world.at("B", &[]));
            let own = world.pi(&[b], ty);
            world.inductive(&[], 0, "B", own, &[])
        }),
        ("its recursor in a field", |world| {
            let (ty, b, one) = (world.ty(), world.at("B", &[]), world.zero());
            let one = world.next(one);
            let field = world.at("B.rec", &[one]);
            let made = world.pi(&[field], b);
            world.inductive(&[], 0, "B", ty, &[("B.i", made)])
        }),
        ("its constructor in its constructor", |world| {
            let (ty, b) = (world.ty(), world.at("B", &[]));
            let own = world.at("B.i", &[]);
            let field = world.proj("B", 0, own);
            let made = world.pi(&[field], b);
            world.inductive(&[], 0, "B", ty, &[("B.i", made)])
        }),
        ("two universes", |world| {
            let (ty, prop) = (world.ty(), world.prop());
            let types = vec![world.member("B", ty, &[]), world.member("C", prop, &[])];
            let levels = Vec::new();
            world.0.declare_inductive(&Family {
                levels,
                params: 0,
                types,
            })
        }),
    ];
    for (what, declare) in bad {
        let judged = with(|world| {
            basics(world);
            declare(world)
        });
        assert!(
            matches!(judged, Err(Error::Rejected(_))),
            "{what}: {judged:?}"
        );
    }
}

/// A proof can be eliminated into data only if the proposition determines the proof's content.
#[test]
fn a_proposition_eliminates_into_data_only_if_it_determines_its_proof() {
    with(|world| {
        basics(world);
        let prop = world.prop();
        let (n, t, z) = (world.at("N", &[]), world.at("T", &[]), world.at("N.z", &[]));
        let (near, far) = (world.var(0), world.var(1));
        assert_eq!(world.eliminates("N"), (true, false));
        assert_eq!(world.eliminates("F"), (true, false));
        assert_eq!(world.eliminates("T"), (true, true));
        // A proposition with two constructors, and one whose proof contains a number.
        let or = world.at("Or", &[]);
        world
            .inductive(&[], 0, "Or", prop, &[("Or.l", or), ("Or.r", or)])
            .unwrap();
        let some = world.at("Some", &[]);
        let some = world.pi(&[n], some);
        world
            .inductive(&[], 0, "Some", prop, &[("Some.i", some)])
            .unwrap();
        assert_eq!(world.eliminates("Or"), (false, false));
        assert_eq!(world.eliminates("Some"), (false, false));
        // A number that is an index of the type, and one that is only part of an index.
        let index = world.pi(&[n], prop);
        let is = world.call("Is", &[near]);
        let is = world.pi(&[n], is);
        world
            .inductive(&[], 0, "Is", index, &[("Is.i", is)])
            .unwrap();
        assert_eq!(world.eliminates("Is"), (true, false));
        let after = world.call("N.s", &[near]);
        let is = world.call("After", &[after]);
        let is = world.pi(&[n], is);
        world
            .inductive(&[], 0, "After", index, &[("After.i", is)])
            .unwrap();
        assert_eq!(world.eliminates("After"), (false, false));
        let zero = world.call("Zero", &[z]);
        world
            .inductive(&[], 0, "Zero", index, &[("Zero.i", zero)])
            .unwrap();
        assert_eq!(world.eliminates("Zero"), (true, true));
        // A proposition whose fields are proofs.
        let both = world.at("Both", &[]);
        let both = world.pi(&[t, t], both);
        world
            .inductive(&[], 0, "Both", prop, &[("Both.i", both)])
            .unwrap();
        assert_eq!(world.eliminates("Both"), (true, false));
        // A type that is a proposition at one universe level is eliminated only into propositions at every level.
        let u = world.param("u");
        let (sort, own) = (world.sort(u), world.at("Any", &[u]));
        let ty_of = world.pi(&[sort], sort);
        let made = world.0.store().app(own, far);
        let made = world.pi(&[sort, near], made);
        world
            .inductive(&["u"], 1, "Any", ty_of, &[("Any.i", made)])
            .unwrap();
        assert_eq!(world.eliminates("Any"), (false, false));
        // Two propositions that are declared together.
        let types = vec![
            world.member("One", prop, &[]),
            world.member("Two", prop, &[]),
        ];
        let levels = Vec::new();
        let family = Family {
            levels,
            params: 0,
            types,
        };
        world.0.declare_inductive(&family).unwrap();
        assert_eq!(world.eliminates("One"), (false, false));
    });
}

/// A value of a structure equals its constructor applied to its projections, unless the type is recursive, even if the recursion is hidden.
#[test]
fn a_recursive_type_is_not_a_structure() {
    let judged = |hidden: bool, recursive: bool| {
        with(|world| {
            basics(world);
            let (ty, t) = (world.ty(), world.at("T", &[]));
            let prop = world.prop();
            let own = world.pi(&[prop], ty);
            let (near, far, s) = (world.var(0), world.var(1), world.at("S", &[]));
            // `∀ p, X p → S p`, where `X` is the type itself or a function to `N`.
            let n = world.at("N", &[]);
            let other = world.fun(&[prop], n);
            let inner = if recursive { s } else { other };
            let body = |world: &mut World<'_>, x: ExprId| {
                let field = world.0.store().app(x, near);
                let made = world.call("S", &[far]);
                world.pi(&[prop, field], made)
            };
            let made = if hidden {
                let body = body(world, far);
                let function = world.fun(&[own], body);
                world.0.store().app(function, inner)
            } else {
                body(world, inner)
            };
            // Under `fun X`, `p` is variable 0 and `X` variable 1.
            world.inductive(&[], 1, "S", own, &[("S.i", made)]).unwrap();
            // `fun P x h => h : ∀ P x, P x → P (S.i T x.0)`
            let at_t = world.call("S", &[t]);
            let to_prop = world.pi(&[at_t], prop);
            let holds = world.0.store().app(far, near);
            let field = world.proj("S", 0, far);
            let rebuilt = world.call("S.i", &[t, field]);
            let outer = world.var(2);
            let conclusion = world.0.store().app(outer, rebuilt);
            let ty = world.pi(&[to_prop, at_t, holds], conclusion);
            let value = world.fun(&[to_prop, at_t, holds], near);
            world.define("eta", ty, value)
        })
    };
    for hidden in [false, true] {
        assert_eq!(judged(hidden, false), Ok(()), "{hidden}");
        let why = judged(hidden, true);
        assert!(matches!(why, Err(Error::Rejected(_))), "{hidden}: {why:?}");
    }
}

/// A projection of a proof must be a proof, and a value without fields has no projections.
#[test]
fn projections_of_missing_fields_are_rejected() {
    with(|world| {
        basics(world);
        let (ty, prop) = (world.ty(), world.prop());
        let (n, t) = (world.at("N", &[]), world.at("T", &[]));
        let near = world.var(0);
        for (name, sort, field) in [("Some", prop, n), ("Both", prop, t), ("Box", ty, n)] {
            let own = world.at(name, &[]);
            let made = world.pi(&[field], own);
            let constructor = format!("{name}.i");
            world
                .inductive(&[], 0, name, sort, &[(&constructor, made)])
                .unwrap();
        }
        let index = world.pi(&[n], ty);
        let z = world.at("N.z", &[]);
        let made = world.call("Index", &[z]);
        let made = world.pi(&[n], made);
        world
            .inductive(&[], 0, "Index", index, &[("Index.i", made)])
            .unwrap();
        let indexed = world.call("Index", &[z]);
        for (name, of, structure, at, field, wanted) in [
            ("a", "Both", "Both", 0, t, true),
            ("b", "Box", "Box", 0, n, true),
            ("c", "Some", "Some", 0, n, false),
            ("d", "Box", "Box", 1, n, false),
            ("e", "Box", "Box", u32::MAX, n, false),
            ("f", "Box", "Both", 0, t, false),
            ("g", "N", "N", 0, n, false),
            ("h", "T", "T", 0, t, false),
            ("i", "F", "F", 0, t, false),
            ("j", "Index", "Index", 0, n, false),
            ("k", "Box", "Nothing", 0, n, false),
        ] {
            let domain = match of {
                "Index" => indexed,
                other => world.at(other, &[]),
            };
            let value = world.proj(structure, at, near);
            let value = world.fun(&[domain], value);
            let ty = world.pi(&[domain], field);
            let judged = world.define(name, ty, value);
            assert_eq!(judged.is_ok(), wanted, "{name}: {judged:?}");
        }
    });
}
