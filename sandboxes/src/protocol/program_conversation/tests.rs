use super::*;

const PROGRAM: Program<'_> = Program {
    source: "",
    entry_point: "f",
};

fn conversation(calls: &[&str]) -> ProgramConversation {
    let calls: Vec<String> = calls.iter().map(|&call| call.to_owned()).collect();
    let limits = Limits {
        value: 10,
        ..Limits::default()
    };
    ProgramConversation::calling(PROGRAM, &calls, None, &limits)
}

/// Has the host answer these requests, and returns the last answer.
fn answers(talk: &mut ProgramConversation, requests: &[&str]) -> Result<Vec<u8>, Broken> {
    let answer = |_, request: &&str| talk.answer(request.as_bytes());
    requests.iter().try_fold(Vec::new(), answer)
}

#[test]
fn calls_are_answered_once_each_and_in_order() {
    let mut talk = conversation(&["[1]", "[2]"]);
    for (requests, answer) in [
        (&["J", "L", "N"][..], "[1]"),
        (&["V10", "N"], "[2]"),
        (&["V20", "N"], ""),
    ] {
        assert_eq!(answers(&mut talk, requests), Ok(answer.into()));
    }
    assert!(talk.completed());
    let results = ["10", "20"].map(|value| Call::Returned(value.to_owned()));
    assert_eq!(talk.take_results(), results);
}

#[test]
fn a_request_out_of_turn_stops_the_guest() {
    for requests in [
        &["V1"][..],
        &["J", "J"],
        &["J", "N"],
        &["J", "L", "V1"],
        &["J", "L", "N", "V1", "V1"],
        &["J", "L", "N", "N"],
        &["J", "L", "N", "A1"],
        &["J", "L", "N", "V1", "N", "N"],
        &[""],
    ] {
        let mut talk = conversation(&["[]"]);
        let (last, before) = requests.split_last().unwrap();
        answers(&mut talk, before).unwrap();
        let refused = talk.answer(last.as_bytes());
        assert!(matches!(refused, Err(Broken::Protocol(_))), "{requests:?}");
    }
}

/// The results of one call's requests, or the error of the first request that breaks the conversation.
fn results_of(limits: &Limits, requests: &[&[u8]]) -> Result<Vec<Call>, Broken> {
    let calls = ["[]".to_owned()];
    let mut talk = ProgramConversation::calling(PROGRAM, &calls, None, limits);
    for request in [&b"J"[..], b"L", b"N"].iter().chain(requests) {
        talk.answer(request)?;
    }
    Ok(talk.take_results())
}

#[test]
fn a_value_begun_as_text_cannot_continue_in_binary_form() {
    let limits = Limits::default();
    for pieces in [&b"P\xff"[..], b"P[[[nonsense", b"P["] {
        for binary in [&b"MN"[..], b"B[\x01\0\0\0N"] {
            let mixed = results_of(&limits, &[pieces, binary]);
            assert_eq!(mixed, Err(Broken::Protocol("a value in two forms")));
        }
    }
    let null = Ok(vec![Call::Returned("null".to_owned())]);
    assert_eq!(results_of(&limits, &[b"P", b"MN"]), null);
    // Text may follow a binary form, and then replaces it. A value that is requested again starts from scratch.
    let replaced = results_of(&limits, &[b"B[\x01\0\0\0N", b"P", b"Vnull"]);
    assert_eq!(replaced, null);
    assert_eq!(results_of(&limits, &[b"M?", b"N", b"Vnull"]), null);
}

#[test]
fn a_serving_conversation_takes_no_binary_form() {
    for binary in [&b"MN"[..], b"B[\x01\0\0\0N"] {
        let mut talk = ProgramConversation::serving(PROGRAM, &Limits::default());
        answers(&mut talk, &["J", "L", "N"]).unwrap();
        talk.expect("[[],{}]".to_owned()).unwrap();
        talk.answer(b"N").unwrap();
        let refused = talk.answer(binary);
        assert_eq!(refused, Err(Broken::Protocol("a request out of turn")));
    }
}

#[test]
fn the_program_pays_for_text_that_the_host_writes() {
    let text = [
        &b"[\x0b\0\0\0\xda\xff"[..],
        &[b'x'; 255],
        &b"r\0\0\0\0".repeat(9)[..],
    ]
    .concat();
    let (valid, refused) = ([&text[..], b"N"].concat(), [&text[..], b"?"].concat());
    let limits = |fuel| Limits {
        fuel,
        ..Limits::default()
    };
    // Ten times a text of 255 characters and its quotes, and the commas and brackets around them.
    let price = TEXT_PRICE * (10 * 257 + 11);
    for form in [&valid, &refused] {
        let request = [b"M", &form[..]].concat();
        let too_little = results_of(&limits(price - 1), &[&request]);
        assert_eq!(too_little, Err(Broken::Fuel));
        assert!(results_of(&limits(2 * price), &[&request]).is_ok());
        let again = [&request[..], b"N", &request[..], b"N", &request[..]];
        assert!(results_of(&limits(2 * price), &again).is_err());
    }
}

#[test]
fn a_value_that_is_not_json_of_bounded_depth_is_refused() {
    assert!(value(b"[1,{\"a\":\"[[[\\\"\"}]").is_ok());
    for bad in ["", "[1", "nul", "1 2", &"[".repeat(200)] {
        assert!(value(bad.as_bytes()).is_err(), "{bad}");
    }
    let [open, close] = ["[", "]"].map(|bracket| bracket.repeat(MAX_DEPTH + 1));
    assert!(value((open + &close).as_bytes()).is_err());
    assert!(value(b"\"\xff\"").is_err());
    for half in [r#""\ud800""#, r#"["\\\uDfff"]"#, r#"{"\ud83d\ude00":1}"#] {
        assert!(value(half.as_bytes()).is_err(), "{half}");
    }
    for whole in [r#""\\ud800""#, r#""\u0000\u00d8\ud7ff""#, "\"😀\""] {
        assert!(value(whole.as_bytes()).is_ok(), "{whole}");
    }
}

#[test]
fn a_long_value_has_the_same_digest_however_it_is_cut_into_pieces() {
    let long = format!("\"{}\"", "x".repeat(40));
    let results = |pieces: &[&str]| {
        let mut talk = conversation(&["[]"]);
        answers(&mut talk, &[&["J", "L", "N"], pieces].concat()).unwrap();
        talk.take_results()
    };
    let hash = blake3::hash(long.as_bytes());
    let digest = format!("{{\"$digest\":\"42 bytes, BLAKE3 {hash}\"}}");
    let (one, two, three) = (&long[..5], &long[5..30], &long[30..]);
    for (pieces, expected) in [
        (vec![format!("V{long}")], &digest[..]),
        (
            vec![format!("P{one}"), format!("P{two}"), format!("V{three}")],
            &digest,
        ),
        (vec!["P[1,".to_owned(), "V2]".to_owned()], "[1,2]"),
    ] {
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        assert_eq!(results(&pieces), [Call::Returned(expected.to_owned())]);
    }
}

#[test]
fn values_beyond_the_limit_for_the_whole_run_become_digests() {
    let mut talk = conversation(&["[]"; 200]);
    answers(&mut talk, &["J", "L"]).unwrap();
    for _ in 0..200 {
        answers(&mut talk, &["N", "V\"xxxxxx\""]).unwrap();
    }
    let results = talk.take_results();
    let whole = Call::Returned("\"xxxxxx\"".to_owned());
    assert!(results[..20].iter().all(|call| *call == whole));
    assert!(
        results[20..]
            .iter()
            .all(|call| matches!(call, Call::Returned(text) if text.starts_with("{\"$digest\"")))
    );
}
