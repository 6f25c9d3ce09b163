use dashu_int::IBig;
use proptest::prelude::*;

use super::*;

fn python(text: &str) -> Value {
    Value::parse_python(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn int(n: i64) -> Value {
    Value::from(n)
}

/// Literals of Python, each with its value in the tagged form. Tasks' digests are computed from these texts, and verdicts are cached under the digests.
const LITERALS: &str = r#"
None => null
 True  => true
-12 => -12
0x1F => 31
1_000 => 1000
00 => 0
--5 => 5
18446744073709551615 => 18446744073709551615
-12345678901234567890123 => {"$int":"-12345678901234567890123"}
1e3 => 1000.0
.5 => 0.5
5. => 5.0
-0.0 => -0.0
0.1 => 0.1
-inf => {"$float":"-inf"}
float('-inf') => {"$float":"-inf"}
1e999 => {"$float":"inf"}
nan => {"$float":"nan"}
1j => {"$complex":[0.0,1.0]}
(1+2j) => {"$complex":[1.0,2.0]}
1.5 - 2.5j => {"$complex":[1.5,-2.5]}
complex(1, -2) => {"$complex":[1.0,-2.0]}
complex(0.5, inf) => {"$complex":[0.5,{"$float":"inf"}]}
[] => []
[1, [None,],] => [1,[null]]
() => {"$tuple":[]}
(1) => 1
(1,) => {"$tuple":[1]}
set() => {"$set":[]}
{1, 2, 1} => {"$set":[1,2]}
{1, True, 1.0} => {"$set":[1]}
frozenset() => {"$frozenset":[]}
frozenset({1}) => {"$frozenset":[1]}
{} => {}
{'a': 1, 'b': 2} => {"a":1,"b":2}
{'b': 1, 'a': 2} => {"$dict":[["b",1],["a",2]]}
{'$price': 1} => {"$dict":[["$price",1]]}
{1: 'a', 'b': 2} => {"$dict":[[1,"a"],["b",2]]}
{1: 'a', 2: 'b', 1: 'c'} => {"$dict":[[1,"c"],[2,"b"]]}
{(1, 2): ()} => {"$dict":[[{"$tuple":[1,2]},{"$tuple":[]}]]}
'a\n\t\\\'\x41\u00e9\U0001F600\x01"' => "a\n\t\\'Aé😀\u0001\""
'\101\0\d' => "A\u0000\\d"
r'\n' => "\\n"
'a' "b" u'c' => "abc"
"it's" => "it's"
'' => ""
b'\xff\101' b'z' => {"$bytes":"/0F6"}
Rb'\x' => {"$bytes":"XHg="}
"#;

#[test]
fn a_python_literal_has_its_value_in_the_tagged_form() {
    let lines = LITERALS.trim_matches('\n').lines();
    let cases = lines.map(|line| line.split_once(" => ").unwrap());
    let with_line_breaks = [
        ("[ # a comment\n 1,\n\n 2 ]", "[1,2]"),
        ("'''a\n'b' '''", "\"a\\n'b' \""),
        ("'a\\\nb'", "\"ab\""),
        ("'''a\r\nb'''", "\"a\\nb\""),
    ];
    for (literal, tagged) in cases.chain(with_line_breaks) {
        assert_eq!(python(literal).to_json_text(), tagged, "{literal}");
    }
    let opaque = Value::Opaque("Match".to_owned());
    assert_eq!(opaque.to_json_text(), r#"{"$opaque":"Match"}"#);
}

#[test]
fn text_that_is_not_a_literal_is_refused_with_its_position() {
    let cases = [
        ("", 0),
        ("[1, 2", 5),
        ("[1 2]", 3),
        ("[1, os]", 4),
        ("f(1)", 0),
        ("f'x'", 0),
        ("012", 0),
        ("1x", 0),
        ("'abc", 0),
        ("'a\nb'", 0),
        ("b'é'", 2),
        ("'a' b'b'", 4),
        ("{[]: 1}", 1),
        ("{[1]}", 1),
        ("1 + 2", 4),
        ("-'a'", 0),
        ("1, 2", 1),
        (r"'\x4'", 1),
        (r"'\ud800'", 1),
        (r"'\N{DASH}'", 1),
        ("{1: 2, 3}", 8),
        ("(1 + 'a'", 5),
    ];
    for (literal, position) in cases {
        let error = Value::parse_python(literal).expect_err(literal);
        assert_eq!(error.position, position, "{literal}: {error}");
    }
    let error = Value::parse_python("['ab', os.system]").unwrap_err();
    let says = "`os` is a name, not a literal, at character 7: `os.system]`";
    assert_eq!(error.to_string(), says);
}

#[test]
fn the_prefix_parser_stops_after_the_literal() {
    let value = Value::parse_python_prefix("[1,\n 2]\nresults = []").unwrap();
    assert_eq!(value, Value::List(vec![int(1), int(2)]));
}

#[test]
fn nesting_is_limited_in_every_form() {
    let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    assert!(Value::parse_python(&nested(MAX_DEPTH + 1)).is_ok());
    assert!(Value::parse_python(&nested(MAX_DEPTH + 2)).is_err());
    assert!(Value::parse_json(&nested(MAX_DEPTH + 2)).is_err());
    for hostile in ["[", "(", "{", "{1:", "-", "set([", "{\"$dict\":[["] {
        assert!(Value::parse_python(&hostile.repeat(200_000)).is_err());
        assert!(Value::parse_json(&hostile.repeat(200_000)).is_err());
    }
}

/// The tagged form of the deepest value is within the nesting limit of `serde_json`.
#[test]
fn the_deepest_value_survives_the_wire() {
    let mut value = Value::None;
    for _ in 0..MAX_DEPTH {
        value = Value::Dict(vec![(int(1), value)]);
    }
    let wire = value.to_json_text();
    assert!(serde_json::from_str::<serde_json::Value>(&wire).is_ok());
    assert_eq!(Value::parse_json(&wire).unwrap(), value);
}

#[test]
fn the_digits_of_integers_are_limited() {
    let digits = "9".repeat(MAX_DIGITS);
    assert!(Value::parse_python(&digits).is_ok());
    assert!(Value::parse_python(&format!("{digits}9")).is_err());
    assert!(Value::parse_json(&format!(r#"{{"$int":"{digits}9"}}"#)).is_err());
}

#[test]
fn numbers_in_json_text_are_parsed_without_loss() {
    let json = r#"[123456789012345678901234567890, 1.0, -0, NaN, -Infinity, "\ud83d\ude00\/"]"#;
    let python =
        "[123456789012345678901234567890, 1.0, 0, float('nan'), float('-inf'), '\u{1f600}/']";
    assert_eq!(Value::parse_json(json).unwrap().to_python(), python);
    let wrong = r#"[1,] {"a":1,} {1:2} {"a"} 01 1. +1 'a' "\x" "a True "\ud800" - 1e"#;
    for wrong in wrong.split(' ').chain(["\"\t\""]) {
        assert!(Value::parse_json(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_tag_must_be_the_only_key_and_have_the_right_content() {
    let cases = r#"{"$tuple":[1],"x":2} {"$tuple":1} {"$price":1} {"$bytes":"?"} {"$float":1} {"$int":"1.5"}
        {"$int":""} {"$complex":[1]} {"$complex":[1,2,3]} {"$dict":[[1]]} {"$opaque":null}"#;
    for case in cases.split_whitespace() {
        assert!(Value::parse_json(case).is_err(), "{case}");
    }
}

/// Finite floats only: a NaN is not equal to itself.
fn value() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        any::<f64>().prop_filter("finite", |x| x.is_finite()),
        Just(f64::INFINITY),
        Just(-0.0)
    ];
    let leaf = prop_oneof![
        Just(Value::None),
        any::<bool>().prop_map(Value::Bool),
        any::<i128>().prop_map(|n| Value::Int(IBig::from(n))),
        any::<i64>().prop_map(|n| Value::Int(IBig::from(n))),
        number.clone().prop_map(Value::Float),
        (number.clone(), number).prop_map(|(re, im)| Value::Complex(re, im)),
        any::<String>().prop_map(Value::Str),
        any::<Vec<u8>>().prop_map(Value::Bytes),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        let items = prop::collection::vec(inner.clone(), 0..5);
        let key = prop_oneof![any::<String>(), "[$a-c]{1,3}"].prop_map(Value::Str);
        prop_oneof![
            items.clone().prop_map(Value::List),
            items.prop_map(Value::Tuple),
            prop::collection::btree_set(any::<i32>(), 0..4).prop_map(|s| Value::Set(
                s.into_iter().map(|n| Value::from(i64::from(n))).collect()
            )),
            prop::collection::btree_set(any::<String>(), 0..4).prop_map(|s| Value::FrozenSet(
                s.iter().map(|t| Value::from(t.as_str())).collect()
            )),
            prop::collection::vec((key, inner), 0..4).prop_map(|entries| {
                let mut distinct: Vec<(Value, Value)> = Vec::new();
                for (key, value) in entries {
                    if distinct.iter().all(|(k, _)| *k != key) {
                        distinct.push((key, value));
                    }
                }
                Value::Dict(distinct)
            }),
        ]
    })
}

proptest! {
    #[test]
    fn a_value_survives_json(value in value()) {
        prop_assert_eq!(&Value::parse_json(&value.to_json_text()).unwrap(), &value);
    }

    #[test]
    fn a_value_survives_its_own_literal(value in value()) {
        prop_assert_eq!(&Value::parse_python(&value.to_python()).unwrap(), &value);
    }

    #[test]
    fn no_text_makes_a_parser_panic(text in any::<String>()) {
        let _ = (Value::parse_python(&text), Value::parse_json(&text));
    }

    /// Text of the characters that occur in literals reaches further into the parsers than arbitrary text.
    #[test]
    fn no_near_literal_makes_a_parser_panic(text in r#"[\[\](){}:,'"\\\-+.0-9ejxubrRN \n\u{e9}$]{0,40}"#) {
        if let Ok(value) = Value::parse_python(&text) {
            let _ = (value.to_json_text(), value.to_python());
        }
        let _ = (Value::parse_json(&text), Value::parse_python_prefix(&text));
    }

    /// Any JSON of a request is a value or an error.
    #[test]
    fn no_json_makes_the_reader_panic(text in r#"(\{"\$(tuple|set|dict|int|float|bytes|complex|opaque|x)":)?[\[\]{}",:0-9a$]{0,20}\}?"#) {
        let _ = Value::parse_json(&text);
    }
}
