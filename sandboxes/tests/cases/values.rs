//! Values come back unchanged.

use sandboxes::{Call, End, Sandbox};

use super::{changed, result, returned, run, run_within};

pub(crate) fn every_kind_of_value_goes_in_and_comes_out_unchanged(sandbox: &dyn Sandbox) {
    let values = [
        "null",
        "true",
        "1",
        "1.0",
        "-0.0",
        "1e+300",
        "-9223372036854775808",
        "9223372036854775807",
        r#"{"$int":"9223372036854775808"}"#,
        r#"{"$int":"-123456789012345678901234567890"}"#,
        r#"{"$float":"nan"}"#,
        r#"{"$float":"-inf"}"#,
        r#"{"$complex":[1.0,{"$float":"inf"}]}"#,
        r#""text with \"quotes\", \n line breaks, é and 😀""#,
        r#"{"$bytes":"AAEC/w=="}"#,
        "[]",
        "[1,[2.0,[null]]]",
        r#"{"$tuple":[]}"#,
        r#"{"$tuple":[1,{"$tuple":["a"]}]}"#,
        r#"{"$set":[1]}"#,
        r#"{"$frozenset":[{"$tuple":[1,2]}]}"#,
        "{}",
        r#"{"b":1,"a":[2]}"#,
        r#"{"$dict":[[1,"one"],[{"$tuple":[1,2]},null]]}"#,
        r#"{"$dict":[["$tuple",1]]}"#,
        "[1,1.0,true]",
        r#"["a",null]"#,
        r#"[1.5,{"$float":"nan"}]"#,
        r#"[1,{"$int":"9223372036854775808"}]"#,
    ];
    let calls: Vec<String> = values.iter().map(|value| format!("[{value}]")).collect();
    let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
    let run = run(sandbox, "def f(x): return x", &calls);
    assert_eq!(run.end, End::Completed);
    for (value, call) in values.iter().zip(run.calls) {
        assert_eq!(call, returned(*value));
    }
}

pub(crate) fn numpy_values_and_subclasses_come_back_as_their_plain_data(sandbox: &dyn Sandbox) {
    let source = r"
import numpy as np, enum, collections
class Liar(int):
    def __eq__(self, other): return True
    def __int__(self): return 7
    def __repr__(self): return '7'
    __str__ = __index__ = __repr__
    __hash__ = int.__hash__
class List(list):
    def __iter__(self): return iter([7])
    def __len__(self): return 1
    def __getitem__(self, i): return 7
class Text(str):
    def __str__(self): return '7'
    def encode(self, *a): return b'7'
class Map(dict):
    def items(self): return [(7, 7)]
    __iter__ = keys = items
class Colour(enum.IntEnum):
    RED = 3
Point = collections.namedtuple('Point', 'x y')
def f():
    return [Liar(1), List([1, 2]), Text('abc'), Map(a=1), Colour.RED, Point(1, 2), collections.Counter('aab'),
            np.int32(5), np.float64(0.5), np.bool_(True), np.array([[1, 2], [3, 4]]), np.array(2.0), np.str_('s'), np.complex128(1j),
            collections.OrderedDict(x=1), collections.defaultdict(list, {1: [2]}), bytearray(b'ab')]
";
    let expected = r#"[1,[1,2],"abc",{"a":1},3,{"$tuple":[1,2]},{"a":2,"b":1},5,0.5,true,[[1,2],[3,4]],2.0,"s",{"$complex":[0.0,1.0]},{"x":1},{"$dict":[[1,[2]]]},{"$bytes":"YWI="}]"#;
    assert_eq!(result(sandbox, source), expected);
}

pub(crate) fn a_value_without_encoding_is_opaque(sandbox: &dyn Sandbox) {
    let source = r"
import re, fractions
class Meta(type):
    def __hash__(cls): raise ValueError
    @property
    def __name__(cls): return 'int'
class Own(metaclass=Meta):
    __class__ = int
def f(): return [object(), re.match('a', 'a'), (i for i in []), f, int, Own(), range(3), fractions.Fraction(1, 2), '\ud800', ['\udfff']]
";
    let opaque = |name: &str| format!(r#"{{"$opaque":"{name}"}}"#);
    let names = "object,Match,generator,function,type,Own,range,Fraction";
    let mut expected: Vec<String> = names.split(',').map(opaque).collect();
    let surrogates = opaque("str with lone surrogates");
    expected.extend([surrogates.clone(), format!("[{surrogates}]")]);
    assert_eq!(result(sandbox, source), format!("[{}]", expected.join(",")));
}

pub(crate) fn a_value_nested_too_deeply_or_in_itself_is_too_large(sandbox: &dyn Sandbox) {
    for body in [
        "x = []\n    x.append(x)",
        "x = []\n    for _ in range(100000): x = [x]",
        "x = {}\n    x['a'] = (x,)",
    ] {
        let source = format!("def f():\n    {body}\n    return x");
        let run = run(sandbox, &source, &["[]", "[]"]);
        assert_eq!(run.calls, [Call::TooDeepOrLarge, Call::TooDeepOrLarge]);
        assert_eq!(run.end, End::Completed);
    }
}

pub(crate) fn a_long_value_becomes_a_digest_and_equal_values_have_equal_digests(
    sandbox: &dyn Sandbox,
) {
    let limits = changed(|it| it.value = 1000);
    let source = "def f(n, x): return [x] * n + ['é' * 100000]";
    let digest = |call: &str| match &run_within(sandbox, source, &[call], &limits).calls[..] {
        [Call::Returned(value)] => value.clone(),
        other => panic!("{other:?}"),
    };
    let one = digest("[200000, 1]");
    assert!(one.starts_with(r#"{"$digest":""#), "{one}");
    assert_eq!(one, digest("[200000, 1]"));
    assert_ne!(one, digest("[200000, 2]"));
    assert_ne!(one, digest("[199999, 1]"));
}

pub(crate) fn a_number_of_many_digits_comes_back_despite_the_interpreters_own_limit(
    sandbox: &dyn Sandbox,
) {
    let expected = format!(r#"{{"$int":"1{}"}}"#, "0".repeat(5000));
    assert_eq!(result(sandbox, "def f(): return 10**5000"), expected);
    let text = result(sandbox, "def f(): return str(10**5000)");
    assert!(text.starts_with("ValueError: Exceeds the limit"), "{text}");
}

/// The interpreter's own code writes most values, and the harness writes those that it cannot. Both must give the same text.
pub(crate) fn a_value_is_the_same_in_binary_form_and_in_json(sandbox: &dyn Sandbox) {
    let source = r##"
import random, struct
shared = ['shared', 1.5, ('in', {'it': None})]
def value(random, depth):
    kinds = [
        lambda: None,
        lambda: random.random() < 0.5,
        lambda: random.randrange(-10, 10),
        lambda: random.choice([-1, 1]) * random.getrandbits(random.randrange(1, 80)),
        lambda: struct.unpack('<d', random.getrandbits(64).to_bytes(8, 'little'))[0],
        lambda: round(random.uniform(-1e5, 1e5), random.randrange(5)),
        lambda: 10.0 ** random.randrange(-8, 20),
        lambda: complex(random.randrange(3), float('nan')),
        lambda: ''.join(random.choices('ab"\\/\n\0\x1f\x7f$\u00e9\u20ac\U0001f600', k=random.randrange(6))),
        lambda: shared,
        lambda: [value(random, depth + 1) for _ in range(random.randrange(4))],
        lambda: tuple([value(random, depth + 1) for _ in range(random.randrange(4))]),
        lambda: {random.choice(['a', 'b', 'cd', '$e', '\u00e9'][:random.choice([3, 3, 5])]): value(random, depth + 1) for _ in range(random.randrange(3))},
        lambda: {value(random, 9): 1, 1: 2},
    ]
    return random.choice(kinds[: 9 if depth > 4 else None])()
class Same(list): pass
def f(seed, whole):
    rows = [value(random.Random(seed + i), 0) for i in range(3000 if seed == 0 else 40)]
    return rows if whole else Same(rows)
"##;
    for seed in (0..40).map(|seed| 1000 * seed) {
        let calls = [format!("[{seed},true]"), format!("[{seed},false]")];
        let run = run(sandbox, source, &[&calls[0], &calls[1]]);
        let [Call::Returned(one), Call::Returned(other)] = run.calls.as_slice() else {
            panic!("{run:?}");
        };
        assert_eq!(one, other, "seed {seed}");
    }
}

/// Long lists are written in pieces, which must give the same text.
pub(crate) fn a_long_list_is_encoded_like_its_elements(sandbox: &dyn Sandbox) {
    let source = r##"
class Row(tuple):
    def __iter__(self): raise SystemExit
class Text(str):
    def __str__(self): return 'overridden'
ROWS = {
    'tuples': [('a', '[]{},:'), ('b',), (Text('base'), '', '\x7f')],
    'lists': [['a', ''], ['b']],
    'quoted tuples': [('a', '"],["', '\\', '\x00\n'), ('"',)],
    'quoted lists': [['a', '"],["', '\\'], ['\\"],["']],
    'mixed': [('a',), ['a']],
    'empty': [('a',), ()],
    'numbers': [('a', 1), ('b', 2.5, None, True)],
    'nested': [('a', ('b',)), ('c', ['d', {'e': 1}])],
    'odd': [('a', '\ud800'), ('é', '😀')],
    'subclass': [('a',), Row(('b', 'c'))],
}
def f(kind, index):
    rows = ROWS[kind]
    return rows[index] if index >= 0 else rows * 1500
"##;
    let one = |kind: &str, index: i32| -> Option<String> {
        let run = run(sandbox, source, &[&format!("[\"{kind}\",{index}]")]);
        match &run.calls[0] {
            Call::Returned(value) => Some(value.clone()),
            Call::Raised { kind, .. } if kind == "IndexError" => None,
            other => panic!("{other:?}"),
        }
    };
    let kinds = "tuples,lists,quoted tuples,quoted lists,mixed,empty,numbers,nested,odd,subclass";
    for kind in kinds.split(',') {
        let elements: Vec<String> = (0..).map_while(|index| one(kind, index)).collect();
        assert!(elements.len() > 1);
        let whole = vec![elements.join(","); 1500].join(",");
        assert_eq!(one(kind, -1).unwrap(), format!("[{whole}]"), "{kind}");
    }
}
