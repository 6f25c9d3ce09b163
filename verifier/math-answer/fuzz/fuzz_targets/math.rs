//! Compares two answers that are built from pieces of answers. No comparison may take longer than [`LIMIT`].
//!
//! ```sh
//! bash scripts/fuzz.sh 300 math
//! ```
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use math_answer::{Comparison, Policy, Settings, compare, grade};

/// The byte that ends one answer and begins the other.
const NEXT: u8 = 255;

const PIECES: &[&str] = &[
    "0", "1", "2", "3", "7", "10", "12", "100", "1000", "99999999999", "0.5", ".5", "0.333", "x", "y", "n", "a", "b", "e", "i", "\\pi", "\\infty", "+", "-", "*", "/",
    "^", "_", "=", "<", ">", "\\le", "\\ge", "\\ne", "\\in", "\\pm", "\\mp", "(", ")", "[", "]", "{", "}", "\\{", "\\}", "|", ",", ";", ":", "!", "%", "\\%", "\\$",
    "^\\circ", "'", "\\frac", "\\frac{", "\\sqrt", "\\sqrt[3]", "\\sqrt{", "\\sin", "\\cos", "\\tan", "\\arcsin", "\\arctan", "\\ln", "\\log", "\\log_2", "\\exp", "e^",
    "2^", "10^", "\\binom", "\\gcd", "\\max", "\\lfloor", "\\rfloor", "\\left", "\\right", "\\cup", "\\cap", "\\setminus", "\\mathbb{R}", "\\text{ cm}", "\\text{ m}",
    "\\text{and}", "\\text{or}", "\\text{east}", "\\text{ p.m.}", " ", "\\begin{pmatrix}", "\\end{pmatrix}", "&", "\\\\", "\\overline{3}", "f(", "\\cdot", "\\times",
    "\\div", "}{", "^{", "_{", "½", "√", "π", "\\boxed{", "million", "dollars", "\\choose", "\\approx", "\\emptyset", "_8", "PM",
    "√16777183", "√16777139", "√16776491", "√8179", "\\sqrt{12345678901234567890}", "\\{√8179+√12967,", "\\sqrt[3]{7}+", "\\sin 1,", "3^{5000}", "(1+\\pm", "x>1,", "x\\ne 2,",
    "(0,1)\\cup", "\\binom{4096}{2048}", "512!", "x_1", "443075998594971901525755795893562721", "0.\\overline{142857}", "\\land", "(x,y)=",
    "AB:BC=", "the ratio ", "\\text{the area of }", "m\\angle A:", "pct", " per cent", "-2y\\ge 6", "2x<4", "x=1,y=2;", "(1,2),", "2(x+", ")/3", "(a-5)/3",
];
/// Maximum number of repetitions of a part of an answer. Single pieces seldom give an answer of the maximum length; repetition does.
const REPEATED: usize = 64;
/// Repeats the pieces before it: 254, the number of pieces, the number of repetitions.
const REPEAT: u8 = 254;

/// Maximum processor time of one comparison. The released code has a limit of 20 ms, and instrumented code takes several times as long.
const LIMIT: Duration = Duration::from_millis(100);
/// Maximum runs of a comparison over the limit.
const RUNS: usize = 5;

/// Processor time of this thread, from the first field of Linux's `schedstat`, in nanoseconds.
fn processor_time() -> Duration {
    let fields = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux counts the time of a thread");
    let nanoseconds = fields.split_whitespace().next().and_then(|field| field.parse().ok());
    Duration::from_nanos(nanoseconds.expect("the first field is a number"))
}

fn in_time<T>(work: impl Fn() -> T) -> T {
    let mut shortest = Duration::MAX;
    // Other work of the machine may slow down one run, but hardly all of them.
    for _ in 0..RUNS {
        let began = processor_time();
        let result = work();
        shortest = shortest.min(processor_time() - began);
        if shortest <= LIMIT {
            return result;
        }
    }
    panic!("a comparison took {shortest:?}");
}

fn text(bytes: &[u8]) -> String {
    let mut pieces: Vec<&str> = Vec::new();
    let mut bytes = bytes.iter().map(|byte| usize::from(*byte));
    while let Some(byte) = bytes.next() {
        if byte != usize::from(REPEAT) {
            pieces.push(PIECES[byte % PIECES.len()]);
            continue;
        }
        let (Some(length), Some(times)) = (bytes.next(), bytes.next()) else { break };
        let part = pieces[pieces.len().saturating_sub(length % 32)..].to_vec();
        for _ in 0..times % REPEATED {
            pieces.extend(&part);
        }
        pieces.truncate(4096);
    }
    pieces.concat()
}

fuzz_target!(|bytes: &[u8]| {
    let middle = bytes.iter().position(|byte| *byte == NEXT).unwrap_or(bytes.len() / 2);
    let (expected, answer) = (text(&bytes[..middle]), text(&bytes[middle..]));
    let lenient = in_time(|| compare(&expected, &answer, Policy::Lenient));
    assert_eq!(lenient, compare(&expected, &answer, Policy::Lenient), "a verdict is a function of the answers");
    let standard = in_time(|| compare(&expected, &answer, Policy::Standard));
    assert!(
        !matches!(standard, Comparison::Same(_)) || matches!(lenient, Comparison::Same(_)),
        "the standard policy accepts nothing that the lenient one refuses"
    );
    in_time(|| compare(&expected, &answer, Policy::Strict));
    in_time(|| grade("", &expected, &answer, Settings::default()));
});
