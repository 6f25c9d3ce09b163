//! A run sees nothing of earlier runs, and every run sees the same world.

use sandboxes::{End, Sandbox};

use super::{result, returned, run};

pub(crate) fn calls_of_one_run_share_an_instance_and_runs_share_nothing(sandbox: &dyn Sandbox) {
    let source = "import builtins, math\nseen = []\ndef f():\n    seen.append(1); math.pi = 3; builtins.len = None\n    return [len is None, getattr(builtins, 'n', 0), len_of(seen)]\ndef len_of(x): return x.__len__()";
    let first = run(sandbox, source, &["[]", "[]"]);
    assert_eq!(first.calls, ["[true,0,1]", "[true,0,2]"].map(returned));
    let source = "import math\nn = len([1])\ndef f(): return [math.pi > 3, n, 'seen' in globals()]";
    assert_eq!(result(sandbox, source), "[true,1,false]");
}

pub(crate) fn time_randomness_hashes_and_addresses_are_the_same_in_every_run(
    sandbox: &dyn Sandbox,
) {
    let source = "import random, time, os, uuid, datetime, numpy, secrets
def f():
    return [random.random(), random.Random().random(), time.time(), time.perf_counter(), os.urandom(8), str(uuid.uuid4()), hash('text'), id(object()),
            str(datetime.datetime.now()), numpy.random.rand(), numpy.random.default_rng().random(), secrets.token_hex(4), list({'a', 'b', 'c', 'd'}), repr(f)]";
    let first = result(sandbox, source);
    assert!(first.contains("2025-01-01"), "{first}");
    assert_eq!(first, result(sandbox, source));
}

pub(crate) fn runs_on_several_threads_are_independent(sandbox: &dyn Sandbox) {
    let source =
        "state = []\ndef f(n):\n    state.append(n)\n    return [state, sum(range(n * 1000))]";
    std::thread::scope(|scope| {
        for n in 1..=8_u64 {
            scope.spawn(move || {
                for _ in 0..2 {
                    let run = run(sandbox, source, &[&format!("[{n}]")]);
                    let sum = n * 1000 * (n * 1000 - 1) / 2;
                    assert_eq!(run.calls, [returned(format!("[[{n}],{sum}]"))]);
                }
            });
        }
    });
}

pub(crate) fn the_program_is_not_the_main_module_and_has_a_module_of_its_own(
    sandbox: &dyn Sandbox,
) {
    let source = "import sys, dataclasses, pickle
@dataclasses.dataclass
class P:
    x: 'int'
main = __name__ == '__main__'
def f(): return [main, sys.modules[__name__].main, pickle.loads(pickle.dumps(P(3))).x]";
    assert_eq!(result(sandbox, source), "[false,false,3]");
    let source = "def f(): return 1\nif __name__ == '__main__': raise ValueError";
    assert_eq!(run(sandbox, source, &["[]"]).end, End::Completed);
}
