//! A program can lie only about its own results.

use sandboxes::{Call, End, Limits, Run, Sandbox};

use super::{assert_unusable, result, returned, run, try_run};

fn kind(end: &End) -> &str {
    match end {
        End::Unloadable { kind, .. } => kind,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn source_that_does_not_load_is_unloadable(sandbox: &dyn Sandbox) {
    for (source, expected) in [
        ("def f(:", "SyntaxError"),
        ("raise ValueError('x')", "ValueError"),
        ("import nothing_like_this", "ModuleNotFoundError"),
        ("def g(): pass", "NameError"),
        ("", "NameError"),
        ("import sys; sys.exit(0)", "SystemExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("class E(BaseException): pass\nraise E", "E"),
    ] {
        let run = run(sandbox, source, &["[]"]);
        assert_eq!(kind(&run.end), expected, "{source}");
        assert_eq!(run.calls, []);
    }
}

pub(crate) fn any_exception_ends_only_its_call(sandbox: &dyn Sandbox) {
    let source = "import sys
class E(BaseException):
    def __str__(self): raise ValueError
    __repr__ = __str__
def f(n):
    if n == 0: raise E('own')
    if n == 1: sys.exit('bye')
    if n == 2: raise KeyError('k', 1)
    if n == 3: 1 / 0
    return n";
    let run = run(sandbox, source, &["[0]", "[1]", "[2]", "[3]", "[4]", "[]"]);
    let raised = |(kind, message): (&str, &str)| Call::Raised {
        kind: kind.to_owned(),
        message: message.to_owned(),
    };
    let expected = [
        ("E", "own"),
        ("SystemExit", "bye"),
        ("KeyError", "k, 1"),
        ("ZeroDivisionError", "division by zero"),
    ];
    assert_eq!(run.calls[..4], expected.map(raised));
    assert_eq!(run.calls[4], returned("4"));
    assert!(
        matches!(&run.calls[5], Call::Raised { kind, message } if kind == "TypeError" && message.contains("missing 1 required"))
    );
}

pub(crate) fn a_program_that_exits_the_process_keeps_its_answers(sandbox: &dyn Sandbox) {
    for status in ["0", "1"] {
        let source = format!("import os\ndef f(n):\n    if n: os._exit({status})\n    return n");
        let run = run(sandbox, &source, &["[0]", "[1]", "[0]"]);
        let died = End::Died(format!("the program left with exit status {status}"));
        assert_eq!((run.calls, run.end), (vec![returned("0")], died));
    }
    let run = run(sandbox, "import os\nos.abort()", &["[0]"]);
    assert!(matches!(run.end, End::Died(_)), "{:?}", run.end);
}

pub(crate) fn what_a_program_does_to_its_interpreter_changes_nothing_for_the_harness(
    sandbox: &dyn Sandbox,
) {
    let source = "import builtins, sys, json, types, gc, binascii, numpy, _json
def broken(*a, **k): raise RuntimeError('patched')
for name in ['len', 'type', 'isinstance', 'str', 'int', 'float', 'list', 'dict', 'tuple', 'set', 'map', 'repr', 'exec', 'compile', 'max', 'min', 'id', 'range', 'BaseException', 'Exception', 'print', 'getattr', '__import__', 'bytes']:
    setattr(builtins, name, broken)
json.dumps = json.loads = binascii.b2a_base64 = binascii.a2b_base64 = _json.encode_basestring = numpy.generic = numpy.ndarray = broken
sys.modules.clear()
def f(x): return [x, (1.5, {'a': b'x'}), 2**70]";
    let expected = r#"[{"$set":[1]},{"$tuple":[1.5,{"a":{"$bytes":"eA=="}}]},{"$int":"1180591620717411303424"}]"#;
    let run = run(sandbox, source, &[r#"[{"$set":[1]}]"#]);
    assert_eq!(run.calls, [returned(expected)]);
    assert_eq!(run.end, End::Completed);
    let limits = "import sys\nsys.setrecursionlimit(40)\nsys.set_int_max_str_digits(640)\ndef f(): return [[[[[[[10**700 > 1]]]]]], sys.getrecursionlimit()]";
    assert_eq!(result(sandbox, limits), "[[[[[[[true]]]]]],40]");
    let prints = "import sys\ndef f():\n    print('V1'); print('ok 1 passed', file=sys.stderr); sys.stdout.close()\n    return 2";
    assert_eq!(result(sandbox, prints), "2");
}

/// Runs two calls of a program that makes requests of its own.
fn forge(sandbox: &dyn Sandbox, body: &str) -> Run {
    let source = format!("import _host, os\nask = _host.call\ndef f(n):\n    {body}\n    return n");
    run(sandbox, &source, &["[1]", "[2]"])
}

pub(crate) fn forged_answers_count_as_the_answers_and_one_out_of_turn_ends_the_run(
    sandbox: &dyn Sandbox,
) {
    let both = "ask(b'V7'); ask(b'N'); ask(b'V8'); ";
    let complete = format!("{both}ask(b'N'); os._exit(0)");
    let further = format!("{both}ask(b'V9')");
    for (body, values, completes) in [
        ("ask(b'V7')", &["7"][..], false),
        ("ask(b'Mi' + bytes([7, 0, 0, 0]))", &["7"], false),
        (&complete, &["7", "8"], true),
        (&further, &["7", "8"], false),
    ] {
        let run = forge(sandbox, body);
        let expected: Vec<Call> = values.iter().copied().map(returned).collect();
        assert_eq!(run.calls, expected, "{body}");
        let out_of_turn = "the program broke the protocol: a request out of turn";
        let end = match completes {
            true => End::Completed,
            false => End::Died(out_of_turn.to_owned()),
        };
        assert_eq!(run.end, end, "{body}");
    }
}

pub(crate) fn bytes_that_are_not_a_request_end_the_run(sandbox: &dyn Sandbox) {
    for body in [
        "ask(b'')",
        "ask(b'?')",
        "ask(b'J')",
        "ask(b'L')",
        "ask(b'V{')",
        "ask(b'V' + b'[' * 1000)",
        "ask(b'E[1]')",
        "ask(b'V\\xff')",
        "ask(b'M')",
        "ask(b'M?')",
        "ask(b'M[' + bytes([255] * 4))",
        "ask(b'V' + bytes(100 << 20))",
        // A piece of text, then a binary form. It must not make the piece pass unchecked.
        "ask(b'P[[[nonsense'); ask(b'MN'); ask(b'N')",
        "ask(b'C[]')",
    ] {
        let run = forge(sandbox, body);
        assert!(matches!(run.end, End::Died(_)), "{body}: {run:?}");
        assert_eq!(run.calls, [], "{body}");
    }
}

pub(crate) fn arguments_that_cannot_be_sent_are_not_the_programs_fault(sandbox: &dyn Sandbox) {
    let calls = ["[]", r#"[{"$set":[[]]}]"#];
    let outcome = try_run(sandbox, "def f(*a): pass", &calls, &Limits::default());
    assert_unusable(outcome, &["call 1", "unhashable"]);
}
