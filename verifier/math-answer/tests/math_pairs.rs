//! Checks comparisons against a careful reader's verdicts on the pairs of `math_pairs.tsv` and `math_asked.tsv`.

use math_answer::pairs::{Pair, parse};
use math_answer::{Answer, Comparison, Policy, compare, compare_answers};

fn pairs() -> Vec<Pair<'static>> {
    parse(include_str!("math_pairs.tsv")).expect("pairs")
}

fn assert_none(wrong: &[String]) {
    let (count, lines) = (wrong.len(), wrong.join("\n"));
    assert!(wrong.is_empty(), "{count} wrong:\n{lines}");
}

fn compared(question: &str, expected: &str, answer: &str, policy: Policy) -> Comparison {
    let expected = Answer::parse(expected).with_question(question);
    compare_answers(&expected, &Answer::parse(answer), policy)
}

fn same(question: &str, expected: &str, answer: &str, policy: Policy) -> bool {
    let comparison = compared(question, expected, answer, policy);
    matches!(comparison, Comparison::Same(_))
}

/// What is wrong with the verdict on a pair, if it is not a careful reader's.
fn misjudged(question: &str, pair: &Pair<'_>) -> Option<String> {
    let compared = |policy| compared(question, pair.expected, pair.answer, policy);
    let is_right = |policy| matches!(compared(policy), Comparison::Same(_)) == pair.is_same(policy);
    let is_wrong = !is_right(Policy::Standard) || !is_right(Policy::Lenient);
    is_wrong.then(|| format!("{question} {pair:?}: {:?}", compared(Policy::Standard)))
}

#[test]
fn every_pair_has_the_verdict_of_a_careful_reader() {
    let pairs = pairs();
    assert!(pairs.len() >= 600, "{}", pairs.len());
    let wrong = pairs.iter().filter_map(|pair| misjudged("", pair));
    assert_none(&wrong.collect::<Vec<_>>());
}

/// A line of `math_asked.tsv` has the verdict, the question, the expected answer and the answer.
#[test]
fn the_question_decides_what_is_counted_and_in_which_unit() {
    let lines = include_str!("math_asked.tsv").lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let wrong = lines.filter_map(|line| {
        let [verdict, question, expected, answer] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("four fields: {line}");
        };
        let pair = format!("{verdict}\t{expected}\t{answer}");
        let [pair] = parse(&pair).expect(line)[..] else {
            panic!("one pair: {line}");
        };
        misjudged(question, &pair)
    });
    assert_none(&wrong.collect::<Vec<_>>());
}

/// The expected answer decides the unit of a bare number, the meaning of a comma between digits, and whether 9:24 is a time. So pairs of these kinds are skipped.
#[test]
fn every_answer_equals_itself_and_lenient_verdicts_are_symmetric() {
    let mut wrong = Vec::new();
    for Pair {
        expected, answer, ..
    } in pairs()
    {
        if !expected.contains('\u{0}') && !same("", expected, expected, Policy::Standard) {
            wrong.push(format!("{expected} does not equal itself"));
        }
        let both = format!("{expected} {answer}").to_lowercase();
        let skipped = "% per pct circ ° degree 1,234 20,100 9:24";
        if skipped.split(' ').any(|part| both.contains(part)) {
            continue;
        }
        let same = |first, second| same(&both, first, second, Policy::Lenient);
        if same(expected, answer) != same(answer, expected) {
            wrong.push(format!("{expected} | {answer} is not the same both ways"));
        }
    }
    assert_none(&wrong);
}

/// If these expressions were computed as written, a comparison would never end.
#[test]
fn hostile_answers_end_and_equal_nothing_else() {
    for hostile in [
        "9".repeat(1 << 20),
        r"10^{10^{10^{10}}}".to_owned(),
        format!("1*10^{{{}}}", "9".repeat(100)),
        format!("10^{{{}}}", "9".repeat(100)),
        "{".repeat(1 << 16),
        r"\frac".repeat(800),
        r"\sqrt[".repeat(600),
        r"\sqrt".repeat(600) + "2",
        "1,".repeat(2_000),
        format!("{}1{}", "(".repeat(2_000), ")".repeat(2_000)),
        format!("{}1{}", "(".repeat(40), ")".repeat(40)),
        r"\text{".repeat(600),
        "!".repeat(1000),
        format!("9{}", "!".repeat(60)),
        "9^9^9^9^9^9".to_owned(),
        format!(r"\sin({}1{})", r"\sin(".repeat(40), ")".repeat(40)),
        r"\sin x + ".repeat(300) + "1",
        r"\pm 1".repeat(300),
        r"\pm 1\cup 2".to_owned(),
        r"\begin{pmatrix}\pm 1\end{pmatrix}".to_owned(),
        "1/2".repeat(600),
        format!(r"\{{{}\}}", r"\sin 1, \cos 2, ".repeat(60) + "1"),
        format!(r"{}(1,2)", r"(0,1)\cup".repeat(400)),
        r"\binom{100000}{50000}".to_owned(),
        "e^{e^{e^{e^9}}}".to_owned(),
        r"\ln\ln\ln\ln\ln 2".to_owned(),
        format!("x^{{{}}}", "9".repeat(300)),
        format!("{}1", "1+".repeat(900)),
        format!("(x+1)^{{{}}}", "9".repeat(50)),
        r"\sqrt{98765432109876543210987654321}".to_owned(),
        format!(r"7\text{{{}}}", " mile^9".repeat(500)),
        format!(r"7\text{{{}}}", " million".repeat(500)),
        format!(r"7\text{{{}}}", " apples".repeat(500)),
        r"7\text{ or 8}".repeat(290),
        r"\{x|".repeat(800),
        "f(".repeat(1000),
        r"\text{(A)}(".repeat(300),
        r"7\text{ hours }".repeat(250),
        r"7^{\text{th}}".repeat(300),
        "3e9".repeat(1000),
        r"\begin{cases}".repeat(250),
        r"\text{the ratio }(".repeat(300),
        "the ratio x:".repeat(300) + "1",
        "the ratio ".repeat(400) + "x=1",
        "1:".repeat(1_000) + "1=2",
        "AB:BC=".repeat(300) + "2",
        format!("{}x{}", "2(1+".repeat(40), ")".repeat(40)),
        format!("{}x{}", "9999999999(1+".repeat(40), ")/7".repeat(40)),
        format!("{}x+1{}", "(".repeat(40), ")/3".repeat(40)),
        format!("2({}x)", "x+".repeat(900)),
        format!("{}x<1", "999999999999x+".repeat(120)),
        format!("{}x<1", "2x<".repeat(600)),
        "m=1,n=4;".repeat(250),
        "(1,4),".repeat(300),
        "40 per cent ".repeat(150),
    ] {
        for expected in [
            "1",
            r"\sqrt{2}",
            "x",
            r"\sin 1, \cos 2",
            r"(0,1)\cup(2,3)",
            r"\sqrt{98765432109876543210987654323}",
            "2x+2",
            "x<2",
            "(1,5),(2,3)",
        ] {
            assert_eq!(
                compare(expected, &hostile, Policy::Lenient),
                Comparison::Different,
                "{expected}"
            );
        }
        let _ = compare(&hostile, &hostile, Policy::Lenient);
        let _ = compare(&hostile, &format!("{hostile}+1"), Policy::Lenient);
    }
}

/// Earlier comparisons, the thread and the order change neither a verdict nor the rule.
#[test]
fn a_verdict_depends_on_the_two_answers_alone() {
    let pairs = pairs();
    let judge = |pair: &Pair<'_>| {
        [Policy::Standard, Policy::Lenient]
            .map(|policy| compare(pair.expected, pair.answer, policy))
    };
    let forwards: Vec<[Comparison; 2]> = pairs.iter().map(judge).collect();
    let mut backwards: Vec<[Comparison; 2]> = pairs.iter().rev().map(judge).collect();
    backwards.reverse();
    assert_eq!(forwards, backwards);
    // Each comparison follows one that spends all of its steps.
    let hostile = format!(r"\{{{}\}}", r"\sin 1, \cos 2, ".repeat(60) + "1");
    std::thread::scope(|scope| {
        for (part, expected) in pairs.chunks(600).zip(forwards.chunks(600)) {
            let (hostile, judge) = (&hostile, &judge);
            scope.spawn(move || {
                for (pair, expected) in part.iter().zip(expected) {
                    let _ = compare(r"\sin 1, \cos 2", hostile, Policy::Lenient);
                    assert_eq!(judge(pair), *expected, "{pair:?}");
                }
            });
        }
    });
}
