use proptest::prelude::*;

use super::*;

/// As [`super::value`], without the count of bytes written.
fn value(marshalled: &[u8]) -> Result<Vec<u8>, Refused> {
    super::value(marshalled, &mut 0)
}

fn elements(marshalled: &[u8]) -> Result<Vec<u8>, Refused> {
    super::elements(marshalled, &mut 0)
}

fn json(marshalled: &[u8]) -> Result<String, Refused> {
    value(marshalled).map(|text| String::from_utf8(text).unwrap())
}

#[test]
fn values_have_the_text_of_the_guests_encoder() {
    for (marshalled, text) in [
        (&b"N"[..], "null"),
        (b"T", "true"),
        (b"\xe9\xff\xff\xff\xff", "-1"),
        (
            b"l\x05\0\0\0\xff\x7f\xff\x7f\xff\x7f\xff\x7f\x07\0",
            "9223372036854775807",
        ),
        (
            b"l\xfb\xff\xff\xff\0\0\0\0\0\0\0\0\x08\0",
            "-9223372036854775808",
        ),
        (b"\xe7\0\0\0\0\0\0\x04@", "2.5"),
        (
            b"y\0\0\0\0\0\0\xf0?\0\0\0\0\0\0\xf0\x7f",
            r#"{"$complex":[1.0,{"$float":"inf"}]}"#,
        ),
        (b"\xda\x01a", r#""a""#),
        (b"u\x05\0\0\0\xc3\xa9\"\n\x01", r#""é\"\n\u0001""#),
        (b"\xa9\0", r#"{"$tuple":[]}"#),
        (
            b"[\x02\0\0\0\xe9\x01\0\0\0)\x01r\0\0\0\0",
            r#"[1,{"$tuple":[1]}]"#,
        ),
        (
            b"{\xda\x01a\xfa\x01b\xda\x01br\0\0\0\x000",
            r#"{"a":"b","b":"a"}"#,
        ),
    ] {
        assert_eq!(json(marshalled).as_deref(), Ok(text), "{marshalled:?}");
        for cut in 0..marshalled.len() {
            assert_eq!(json(&marshalled[..cut]), Err(Refused), "{marshalled:?}");
        }
    }
}

#[test]
fn floats_are_written_as_python_writes_them() {
    for (float, text) in [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (0.1 + 0.2, "0.30000000000000004"),
        (1e-4, "0.0001"),
        (9.999e-5, "9.999e-05"),
        (9_999_999_999_999_998.0, "9999999999999998.0"),
        (-1e16, "-1e+16"),
        (1.5e300, "1.5e+300"),
        (5e-324, "5e-324"),
    ] {
        let bytes = [b"g", &f64::to_le_bytes(float)[..]].concat();
        assert_eq!(json(&bytes).as_deref(), Ok(text));
    }
}

#[test]
fn bytes_that_are_not_a_value_and_values_without_a_form_are_refused() {
    for wrong in [
        &b""[..],
        b"\x80",
        b"?",
        b"0",
        b"NN",
        b"i\x01",
        b"[\xff\xff\xff\x7fN",
        b"[\xff\xff\xff\xff",
        b"z\x02a",
        // A reference to nothing, a list that contains itself, and a reference with the flag for shared objects.
        b"r\0\0\0\0",
        b"\xdb\x01\0\0\0r\0\0\0\0",
        b"\xa9\x02N\xf2\0\0\0\0",
        // Bytes, a set, half a character, and an integer of 65 bits.
        b"s\x01\0\0\0a",
        b"<\0\0\0\0",
        b"u\x03\0\0\0\xed\xa0\x80",
        b"l\x05\0\0\0\0\0\0\0\0\0\0\0\x10\0",
        // Keys that are not plain text.
        b"{i\x01\0\0\0N0",
        b"{z\x04$intN0",
        b"{u\x02\0\0\0\xc3\xa9N0",
    ] {
        assert_eq!(value(wrong), Err(Refused), "{wrong:?}");
    }
}

#[test]
fn nesting_is_bounded_even_through_references() {
    let nested = |levels: usize| [b"[\x01\0\0\0".repeat(levels), b"N".to_vec()].concat();
    assert!(value(&nested(MAX_DEPTH)).is_ok());
    assert_eq!(value(&nested(MAX_DEPTH + 1)), Err(Refused));
    // A pair of a list of almost as many levels and a reference to that list.
    let pair = [&b")\x02\xdb\x01\0\0\0"[..], &nested(MAX_DEPTH - 2)].concat();
    assert!(value(&[&pair[..], b"r\0\0\0\0"].concat()).is_ok());
    let deeper = [&pair[..], b"[\x01\0\0\0r\0\0\0\0"].concat();
    assert_eq!(value(&deeper), Err(Refused));
}

#[test]
fn few_bytes_never_become_a_long_text() {
    // Each pair holds the next pair twice, the second time as a reference.
    let levels = 30;
    let mut bytes = [b"\xa9\x02".repeat(levels), b"\xa9\0".to_vec()].concat();
    for index in (1..=u32::try_from(levels).unwrap()).rev() {
        bytes.push(b'r');
        bytes.extend(index.to_le_bytes());
    }
    assert_eq!(value(&bytes), Err(Refused));
}

#[test]
fn the_text_written_for_a_refused_value_is_counted_and_bounded() {
    // A long text, and then `references` references to it.
    let shared = |length: usize, references: usize, last: u8| {
        let count = u32::try_from(length).unwrap().to_le_bytes();
        let items = u32::try_from(references + 2).unwrap().to_le_bytes();
        let text = [&b"\xf5"[..], &count, &b"x".repeat(length)[..]].concat();
        let again = b"r\0\0\0\0".repeat(references);
        [&b"["[..], &items, &text[..], &again[..], &[last]].concat()
    };
    let mut written = 0;
    let text = super::value(&shared(1 << 10, 60, b'N'), &mut written).unwrap();
    assert_eq!(written, text.len() as u64);
    let written_for_refused = |marshalled: &[u8]| {
        let mut written = 0;
        assert_eq!(super::value(marshalled, &mut written), Err(Refused));
        written
    };
    let all_but_null = written - 5;
    let refused = written_for_refused(&shared(1 << 10, 60, b'?'));
    assert_eq!(refused, all_but_null);
    let long = written_for_refused(&shared(4 << 20, 60, b'N'));
    assert!((60 << 20..=MAX_TEXT as u64).contains(&long), "{long}");
    let items = 1_100_000_u32.to_le_bytes();
    let flagged = [&b"["[..], &items, &[b'N' | FLAG].repeat(1_100_000)[..]].concat();
    assert_eq!(value(&flagged), Err(Refused));
}

#[test]
fn the_elements_of_a_list_are_read_without_its_brackets() {
    assert_eq!(elements(b"[\x02\0\0\0NT").unwrap(), b"null,true");
    let shared = b"\xdb\x02\0\0\0\xe9\x01\0\0\0r\x01\0\0\0";
    assert_eq!(elements(shared).unwrap(), b"1,1");
    assert_eq!(elements(b"[\0\0\0\0").unwrap(), b"");
    assert_eq!(elements(b")\0"), Err(Refused));
}

/// Bytes that resemble a value: letters of types, with and without the flag, small counts, and references.
fn almost_values() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop::sample::select(&b"NTFilgyzZaAut)([{r0s<?"[..]);
    let typed = (kind, any::<bool>())
        .prop_map(|(kind, flagged)| vec![if flagged { kind | FLAG } else { kind }]);
    let piece = prop_oneof![
        4 => typed,
        3 => (0_u32..6).prop_map(|count| count.to_le_bytes().to_vec()),
        2 => (0_u32..6).prop_map(|number| [&b"r"[..], &number.to_le_bytes()].concat()),
        1 => prop::collection::vec(any::<u8>(), 0..9),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

/// Checks what holds for any bytes: the text is JSON, and both it and the text written before a refusal are bounded.
fn check_bounds(bytes: &[u8]) {
    let limit = bytes.len() * MAX_EXPANSION + MIN_TEXT_LIMIT;
    for (read, brackets) in [
        (super::value as fn(&[u8], &mut u64) -> _, ["", ""]),
        (super::elements, ["[", "]"]),
    ] {
        let mut written = 0;
        if let Ok(text) = read(bytes, &mut written) {
            assert_eq!(written, text.len() as u64);
            assert!(text.len() <= limit);
            let text = String::from_utf8(text).unwrap();
            let json = format!("{}{text}{}", brackets[0], brackets[1]);
            serde_json::from_str::<serde::de::IgnoredAny>(&json).unwrap();
        }
        assert!(written <= (limit + 16 * bytes.len()) as u64, "{written}");
    }
}

proptest! {
    #[test]
    fn the_text_of_a_float_parses_to_the_same_float(float: f64) {
        let bytes = [b"g", &f64::to_le_bytes(float)[..]].concat();
        let text = json(&bytes).unwrap();
        if float.is_finite() {
            prop_assert_eq!(text.parse::<f64>().unwrap().to_bits(), float.to_bits());
        } else {
            let tag = "{\"$float\":";
            prop_assert!(text.starts_with(tag));
        }
    }

    #[test]
    fn any_bytes_become_bounded_json_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        check_bounds(&bytes);
    }

    #[test]
    fn bytes_that_resemble_a_value_become_bounded_json_or_are_refused(bytes in almost_values()) {
        check_bounds(&bytes);
    }
}
