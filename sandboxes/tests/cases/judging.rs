//! Judging by test code: the tests run in one instance, and the program in another.

use std::sync::{Arc, Mutex};

use sandboxes::{Call, End, Limits, Request, Run, Sandbox, SandboxError, Watch, Work};

use super::{assert_unusable, changed, program, returned, timed_out};

fn try_judge(
    sandbox: &dyn Sandbox,
    source: &str,
    prelude: &str,
    tests: &[&str],
) -> Result<Run, SandboxError> {
    let tests: Vec<String> = tests.iter().map(|&test| test.to_owned()).collect();
    let work = Work::Tests {
        program: program(source),
        prelude,
        tests: &tests,
    };
    let limits = changed(|it| it.fuel = 2_000_000_000);
    sandbox.run(&Request::new(work, &limits))
}

fn judge(sandbox: &dyn Sandbox, source: &str, prelude: &str, tests: &[&str]) -> Run {
    try_judge(sandbox, source, prelude, tests).unwrap()
}

/// Whether each test ended without an exception.
fn passed(run: &Run) -> Vec<bool> {
    let passed = returned("null");
    run.calls.iter().map(|call| *call == passed).collect()
}

pub(crate) fn each_test_passes_or_raises(sandbox: &dyn Sandbox) {
    let prelude = "import math\nfrom numpy import allclose";
    let tests = [
        "assert f(1) == 2",
        "assert f(1, y=3) == 5",
        "assert allclose(f(0.1, 0.2), 0.3)",
        "g = f\nfor i in range(50):\n    assert g(i, i) == 2 * i",
        "assert math.sqrt(f(3)) == 2",
    ];
    let run = judge(sandbox, "def f(x, y=1): return x + y", prelude, &tests);
    assert_eq!(run.end, End::Completed);
    assert_eq!(passed(&run), [true, false, true, true, true]);
    assert!(matches!(&run.calls[1], Call::Raised { kind, .. } if kind == "AssertionError"));
}

pub(crate) fn a_watch_may_end_a_run(sandbox: &dyn Sandbox) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&seen);
    let watch = Watch::new(move |index, call| {
        record.lock().unwrap().push(index);
        matches!(call, Call::Returned(value) if value != "2")
    });
    let calls = ["[0]", "[1]", "[2]", "[3]"].map(str::to_owned);
    let program = program("def f(x): return x");
    let run_watched = |work| {
        let request = Request {
            watch: Some(&watch),
            ..Request::new(work, &Limits::default())
        };
        sandbox.run(&request).unwrap()
    };
    let run = run_watched(Work::Calls {
        program,
        calls: &calls,
    });
    assert_eq!((run.end, run.calls.len()), (End::Watched, 3));
    assert_eq!(std::mem::take(&mut *seen.lock().unwrap()), [0, 1, 2]);

    let tests = ["assert f(1) == 1", "assert f(2) == 1", "assert f(3) == 3"].map(str::to_owned);
    let run = run_watched(Work::Tests {
        program,
        prelude: "",
        tests: &tests,
    });
    assert_eq!((passed(&run), run.end), (vec![true, false], End::Watched));
    assert_eq!(*seen.lock().unwrap(), [0, 1]);
}

pub(crate) fn arguments_that_the_program_changes_are_changed_for_the_test(sandbox: &dyn Sandbox) {
    let source = "def f(x):\n    x['list'].append(4)\n    x['inner'][0][:] = [9]\n    x['set'].add(2)\n    del x['gone']\n    return len(x)";
    let test = "inner = [1]\nargument = {'list': [1, 2, 3], 'inner': (inner,), 'set': {1}, 'gone': 0}\nkept = argument['list']\nassert f(argument) == 3
assert argument == {'list': [1, 2, 3, 4], 'inner': ([9],), 'set': {1, 2}}\nassert inner == [9] and argument['list'] is kept";
    let fails = "x = [3, 1, 2]\ntry: f(x)\nexcept TypeError: pass\nassert x == [3, 1, 2]";
    let run = judge(sandbox, source, "", &[test, fails]);
    assert_eq!(passed(&run), [true, true], "{run:?}");
}

pub(crate) fn what_the_program_leaves_alone_stays_the_tests_own(sandbox: &dyn Sandbox) {
    let source = "def f(x, to=None):
    if to: x[:] = to
    elif hasattr(x, 'append'): x.append(9)
    else: x.update({9: 9})";
    let prelude = "import collections, decimal, enum, numpy
class Colour(enum.IntEnum):
    RED = 1
    BLUE = 2
Point = collections.namedtuple('Point', 'x y')";
    let tests = [
        "x = [Colour.RED, numpy.int64(5), numpy.float32(0.5)]\nf(x)\nassert x[0] is Colour.RED and x[1:] == [5, 0.5, 9]
assert type(x[1]) is numpy.int64 and type(x[2]) is numpy.float32",
        "x = [Point(Colour.RED, 3)]\nf(x)\nassert x[0].x is Colour.RED and x[1] == 9",
        "x = collections.deque([Colour.RED])\nf(x)\nassert x[0] is Colour.RED and x[1] == 9",
        "x = {Colour.RED: Colour.BLUE}\nf(x)\nassert [*x][0] is Colour.RED and x[1] is Colour.BLUE and x[9] == 9",
        "x = {Colour.RED}\nf(x)\nassert x == {1, 9} and Colour in [*map(type, x)]",
        // An equal number of another type is a change.
        "x = [True, 1, Colour.RED]\nf(x, [1, 1.0, 2])\nassert x == [1, 1, 2] and [*map(type, x)] == [int, float, int]",
        "x = [0.0, decimal.Decimal('1.0')]\nf(x, [-0.0, decimal.Decimal('1.00')])\nassert [*map(str, x)] == ['-0.0', '1.00']",
        // Two objects with the value nan are unequal, unless they are one object.
        "x = [float('nan'), decimal.Decimal('nan'), complex('nan')]\nthen = [*x, 9]\nf(x)\nassert x == then",
        "x = {1: float('nan')}\nthen = {**x, 9: 9}\nf(x)\nassert x == then",
        "d = {1: 1}\nx = [d.values()]\nf(x)\nd[1] = 2\nassert [*x[0]] == [2] and x[1] == 9",
        "x = [(Colour.RED, 1)]\nf(x, [(Colour.RED, 2)])\nassert x[0][0] is Colour.RED and x[0][1] == 2",
    ];
    let run = judge(sandbox, source, prelude, &tests);
    assert_eq!(passed(&run), [true; 11], "{run:?}");
}

pub(crate) fn exceptions_keep_their_type(sandbox: &dyn Sandbox) {
    let source = "class Own(Exception): pass\ndef f(n):\n    if n == 0: raise ValueError('bad value')\n    if n == 1: raise Own('mine')\n    raise SystemExit";
    let tests = [
        "try:\n    f(0)\n    assert False\nexcept ValueError as error:\n    assert str(error) == 'bad value'",
        "try:\n    f(1)\n    assert False\nexcept Exception as error:\n    assert (type(error).__name__, str(error)) == ('Own', 'mine')",
        "try:\n    f(2)\nexcept Exception: pass",
        "f(0)",
    ];
    let run = judge(sandbox, source, "", &tests);
    assert_eq!(passed(&run), [true, true, true, false], "{run:?}");
    let source = "
import json
class Own(KeyError): pass
class Last(StopIteration): pass
class Most(Own, ValueError): pass
raisers = [lambda: json.loads('{'), lambda: 'é'.encode('ascii'), lambda: {}[Own], lambda: [][0], None, Last, Most, type('not a name', (ValueError,), {})]
def f(n):
    raiser = raisers[n]
    if isinstance(raiser, type): raise raiser('x')
    raiser()
";
    let kinds =
        "ValueError UnicodeError KeyError LookupError TypeError RuntimeError KeyError RuntimeError";
    let test = |(n, kind)| format!("try:\n    f({n})\n    assert False\nexcept {kind}: pass");
    let tests: Vec<String> = kinds.split(' ').enumerate().map(test).collect();
    let tests: Vec<&str> = tests.iter().map(String::as_str).collect();
    let run = judge(sandbox, source, "", &tests);
    assert_eq!(passed(&run), [true; 8], "{run:?}");
}

pub(crate) fn iterators_and_objects_of_the_library_arrive_unchanged(sandbox: &dyn Sandbox) {
    let source = "
import collections, datetime, decimal, fractions
def count(n):
    if n < 0: raise ValueError('below zero')
    yield from range(n)
def sorts(xs):
    xs.sort()
    yield xs
MADE = {
    'range': lambda: range(3), 'numbers': count, 'sorts': sorts, 'map': lambda: map(str, [1, 2]), 'zip': lambda: zip('ab', [1, 2]),
    'fraction': lambda: fractions.Fraction(1, 3), 'decimal': lambda: decimal.Decimal('1.50'), 'date': lambda: datetime.date(2020, 1, 2),
    'datetime': lambda: datetime.datetime(2020, 1, 2, 3, tzinfo=datetime.timezone.utc), 'time': lambda: datetime.time(1, 2),
    'timedelta': lambda: datetime.timedelta(days=-1), 'deque': lambda: collections.deque([1, (2,)], 5), 'keys': lambda: {'a': 1}.keys(),
    'values': lambda: {'a': 1}.values(), 'items': lambda: {'a': [1]}.items(), 'same': lambda x: x, 'append': lambda x: x.append(9),
}
def f(kind, *arguments): return MADE[kind](*arguments)
";
    let prelude = "import collections, datetime, decimal, fractions, inspect";
    let right = [
        "assert f('range') == range(3) != [0, 1, 2] and f('same', f('range')) == range(3)",
        "numbers = f('numbers', 3)\nassert next(numbers) == 0 and list(numbers) == [1, 2] and inspect.isgenerator(numbers)",
        "assert f('numbers', 2) != [0, 1] and dict(f('zip')) == {'a': 1, 'b': 2} and list(f('map')) == ['1', '2']",
        // A generator raises and changes things only when it is advanced.
        "late = f('numbers', -1)\ntry:\n    next(late)\n    assert False\nexcept ValueError: pass",
        "xs = [2, 1]\nf('sorts', xs)\nassert xs == [2, 1]",
        "assert f('fraction') == fractions.Fraction(1, 3) and str(f('decimal')) == '1.50'",
        "assert f('date') == datetime.date(2020, 1, 2) and f('time') == datetime.time(1, 2) and f('timedelta').days == -1",
        "assert f('datetime') == datetime.datetime(2020, 1, 2, 3, tzinfo=datetime.timezone.utc)",
        "assert f('deque') == collections.deque([1, (2,)]) and f('deque').maxlen == 5",
        "assert f('keys') == {'a'} and list(f('values')) == [1] and list(f('items')) == [('a', [1])]",
        "day = datetime.date(2021, 1, 1)\nassert f('same', day) == day",
        "queue = collections.deque([1])\nf('append', queue)\nassert queue == collections.deque([1, 9])",
    ];
    let run = judge(sandbox, source, prelude, &right);
    assert_eq!(passed(&run), [true; 12], "{run:?}");
    // The value in place of an iterator cannot be sent back, and that is not the task's fault.
    let run = judge(sandbox, source, prelude, &["f('same', f('numbers', 2))"]);
    assert_eq!((passed(&run), run.end), (vec![false], End::Completed));
}

/// Judges `program` by `tests`. They are parts between blank lines; the first is the prelude.
fn each_part_passes(sandbox: &dyn Sandbox, program: &str, tests: &str) {
    let parts: Vec<&str> = tests.split("\n\n").collect();
    let run = judge(sandbox, program, parts[0], &parts[1..]);
    assert_eq!(passed(&run), vec![true; parts.len() - 1], "{run:?}");
}

pub(crate) fn what_tests_put_in_place_of_the_library_reaches_the_program(sandbox: &dyn Sandbox) {
    let program = include_str!("replaced_program.py");
    each_part_passes(sandbox, program, include_str!("replaced_tests.py"));
}

pub(crate) fn tests_see_the_data_of_results_and_never_their_methods(sandbox: &dyn Sandbox) {
    let program = include_str!("data_program.py");
    each_part_passes(sandbox, program, include_str!("data_tests.py"));
}

pub(crate) fn a_failed_test_names_the_type_of_an_opaque_value(sandbox: &dyn Sandbox) {
    let source =
        "import itertools\nclass Stack: pass\ndef f(n): return Stack() if n else itertools.count()";
    let tests = ["f(1).push(2)", "next(f(0))", "assert f == 1"];
    let run = judge(sandbox, source, "", &tests);
    for (call, kind) in run.calls.iter().zip([Some("Stack"), Some("count"), None]) {
        let Call::Raised { message, .. } = call else {
            panic!("{call:?}");
        };
        assert_eq!(message.contains("a value of type"), kind.is_some());
        assert!(kind.is_none_or(|kind| message.contains(kind)), "{message}");
    }
}

pub(crate) fn a_run_whose_tests_never_call_the_program_is_uncalled(sandbox: &dyn Sandbox) {
    let unused = "class TestF:\n    def test(self): f(1)";
    for (prelude, tests, end) in [
        ("", &["pass", unused][..], End::Uncalled),
        ("def test(): f(1)", &["pass"], End::Uncalled),
        ("", &["pass", "f(1)"], End::Completed),
        ("x = f(1)", &["assert x == 1"], End::Completed),
    ] {
        let run = judge(sandbox, "def f(x): return x", prelude, tests);
        assert_eq!(run.end, end, "{prelude:?} {tests:?}");
        assert!(passed(&run).iter().all(|&passed| passed));
    }
}

pub(crate) fn the_program_keeps_its_state_between_calls_and_cannot_reach_the_tests(
    sandbox: &dyn Sandbox,
) {
    let source = "import sys, builtins
seen = 0
class Cheat:
    def __eq__(self, other): return True
builtins.AssertionError = Exception
def f(n=0):
    global seen
    seen += 1
    return [seen, 'tests' in sys.modules, Cheat() if n else 0]";
    let tests = [
        "assert f() == [1, False, 0]",
        "assert f() == [2, False, 0]",
        "assert f(1)[2] == 1",
        "assert f(1)[2] is None",
        "x = f(1)[2]\nassert x == x",
    ];
    let run = judge(sandbox, source, "", &tests);
    assert_eq!(passed(&run), [true, true, false, false, false], "{run:?}");
}

pub(crate) fn a_program_that_stops_ends_the_run_with_the_tests_so_far(sandbox: &dyn Sandbox) {
    let exits = "import os\ndef f(n):\n    if n: os._exit(0)";
    let run = judge(sandbox, exits, "", &["f(0)", "f(1)", "f(0)"]);
    let died = End::Died("the program left with exit status 0".to_owned());
    assert_eq!((passed(&run), run.end), (vec![true], died));
    let loops = "def f(n):\n    while n: pass";
    let run = judge(sandbox, loops, "", &["f(0)", "f(1)"]);
    assert_eq!((passed(&run), timed_out(&run.end)), (vec![true], true));
    let forges = "import _host\ndef f(n): _host.call(b'V[7, null]')";
    let run = judge(sandbox, forges, "", &["assert f(0) == 7", "pass"]);
    assert!(run.calls.is_empty() && matches!(run.end, End::Died(_)));
    let run = judge(sandbox, "def f(:", "", &["f()"]);
    assert!(matches!(&run.end, End::Unloadable { kind, .. } if kind == "SyntaxError"));
    assert_eq!(run.calls, []);
}

pub(crate) fn broken_test_code_of_a_task_is_not_the_programs_fault(sandbox: &dyn Sandbox) {
    let nested = "x = []\nfor _ in range(99): x = [x]\nf(x)";
    for (prelude, test, says) in [
        ("import nothing_like_this", "f(1)", "does not load"),
        ("", "f(lambda: 1)", "type function"),
        ("", nested, "nested too deeply"),
    ] {
        let broken = try_judge(sandbox, "def f(x): return x", prelude, &[test]);
        assert_unusable(broken, &[says]);
    }
    let called = judge(sandbox, "def f(x): raise ValueError", "f(1)", &["f(1)"]);
    assert!(
        matches!(&called.end, End::Unloadable { kind, .. } if kind == "ValueError"),
        "a prelude that fails after a call may fail because of the program: {called:?}"
    );
    // The program's own results may be unsendable, and so may values that a test derives from them.
    let nested = "x = []\nfor _ in range(f(1)): x = [x]\nf(x)";
    for (program, test) in [
        ("def f(x=0): return object()", "f(f())"),
        ("def f(x): return 0xD800", "f(chr(f(1)))"),
        ("def f(x): return 'lambda: 0'", "f(eval(f(1)))"),
        ("def f(x): return 99", nested),
    ] {
        let run = judge(sandbox, program, "", &[test]);
        let raised = matches!(&run.calls[0], Call::Raised { kind, .. } if kind == "TypeError");
        assert!(raised, "{test}: {run:?}");
    }
}
