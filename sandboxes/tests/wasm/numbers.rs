//! Numbers in a 32-bit interpreter behave as VERDICT-DIFFERENCES.md says.

use super::support::sandbox;
use crate::cases::result;

#[test]
fn numbers_behave_as_in_a_32_bit_interpreter() {
    for (expression, expected) in [
        ("sys.maxsize", "2147483647"),
        ("len(range(2**31 - 1))", "2147483647"),
        ("10**9 in range(10**10)", "true"),
        ("range(10**10)[-1]", "9999999999"),
        (
            "list(range(10**12, 10**12 + 2))",
            "[1000000000000,1000000000001]",
        ),
        ("hash(2**31 - 1)", "0"),
        ("str(numpy.arange(10).dtype)", "\"int32\""),
        (
            "int(numpy.arange(1, 3, dtype='int64').sum() << 40)",
            "3298534883328",
        ),
        ("sys.int_info.bits_per_digit", "30"),
        ("sum([2**31, 2**40])", "1101659111424"),
        ("sys.float_info.dig", "15"),
    ] {
        let source = format!("import sys, numpy\ndef f(): return {expression}");
        assert_eq!(result(sandbox(), &source), expected, "{expression}");
    }
    let too_long = result(sandbox(), "def f(): return len(range(10**10))");
    assert!(too_long.starts_with("OverflowError"), "{too_long}");
}
