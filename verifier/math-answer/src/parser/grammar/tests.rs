use proptest::prelude::*;

use super::*;
use crate::expression::{Bracket, Constant, Function};

fn number(value: i64) -> Expr {
    Expr::number(value)
}

fn symbol(name: &str) -> Expr {
    Expr::Symbol(name.into())
}

fn half() -> Expr {
    Expr::Quotient(Box::new(number(1)), Box::new(number(2)))
}

fn tree(text: &str) -> Expr {
    parse(text, Commas::Thousands).unwrap_or_else(|| panic!("{text} has no tree"))
}

#[test]
fn juxtaposed_factors_bind_more_tightly_than_sums() {
    let half_x = Expr::Product(vec![half(), symbol("x")]);
    assert_eq!(tree(r"\frac12x+3"), Expr::Sum(vec![half_x, number(3)]));
}

#[test]
fn an_argument_without_braces_is_one_digit() {
    let root = |radicand| Expr::Root(Box::new(number(2)), Box::new(number(radicand)));
    assert_eq!(tree(r"\sqrt23"), Expr::Product(vec![root(2), number(3)]));
    assert_eq!(tree("√23"), root(23));
    assert_eq!(tree(r"\frac123"), Expr::Product(vec![half(), number(3)]));
}

#[test]
fn commas_separate_thousands_or_elements() {
    let large = number(1234);
    assert_eq!(tree("1,234"), large);
    let point = |items| Expr::Tuple(Bracket::Round, items, Bracket::Round);
    assert_eq!(
        parse("(1,234)", Commas::Lists),
        Some(point(vec![number(1), number(234)]))
    );
    assert_eq!(tree("(1, 234)"), point(vec![number(1), number(234)]));
    assert_eq!(tree("12,34"), Expr::List(vec![number(12), number(34)]));
    assert_eq!(tree("0,123"), Expr::List(vec![number(0), number(123)]));
}

#[test]
fn the_argument_of_a_function_ends_at_the_next_sign() {
    let call = |inside| Expr::Call(Function::Sin, vec![inside]);
    let triple = Expr::Product(vec![number(3), symbol("x")]);
    assert_eq!(tree(r"\sin 3x"), call(triple.clone()));
    assert_eq!(
        tree(r"\sin 3x + 1"),
        Expr::Sum(vec![call(triple), number(1)])
    );
    assert_eq!(
        tree("sin(x)y"),
        Expr::Product(vec![call(symbol("x")), symbol("y")])
    );
    let inverse = Expr::Call(Function::Arcsin, vec![symbol("x")]);
    assert_eq!(tree(r"\sin^{-1}x"), inverse);
}

#[test]
fn constants_are_distinguished_from_names() {
    assert_eq!(tree("i"), Expr::Constant(Constant::I));
    assert_eq!(
        tree(r"-\infty"),
        Expr::Negative(Box::new(Expr::Constant(Constant::Infinity)))
    );
    assert_eq!(tree("x_{12}"), symbol("x_12"));
    assert_eq!(tree("f'"), symbol("f'"));
}

#[test]
fn text_that_is_not_an_answer_has_no_tree() {
    for text in [
        "",
        "7^",
        "7 \\cdot",
        "{{{7",
        r"\frac{}{}",
        "1 2",
        ")",
        r"\begin{cases}1\end{cases}",
        "?",
        "3 +",
        r"\left(",
    ] {
        assert_eq!(parse(text, Commas::Thousands), None, "{text}");
    }
}

#[test]
fn depth_and_length_are_bounded() {
    for text in [
        "(".repeat(2000) + "1" + &")".repeat(2000),
        "-".repeat(3000) + "1",
        "{".repeat(1000),
        r"\sqrt".repeat(500) + "2",
        "2^".repeat(1000) + "2",
    ] {
        let _ = parse(&text, Commas::Thousands);
    }
}

#[test]
fn nested_attempts_that_fail_end() {
    for opened in [
        "11A_{",
        r"½½1_{",
        r"2\binom3 1A_{",
        r"\$1,700\choose ½1_{\arctan\pi",
    ] {
        assert_eq!(parse(&opened.repeat(40), Commas::Thousands), None);
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in r"(?s)(\\[a-z]{1,6}|\\.|\\frac|\\sqrt|\\left|\\text\{|\\begin\{pmatrix\}|[{}()\[\]|^_$%&!'=<>:;,.+*/ 0-9a-zA-Zé-]|.){0,60}") {
        let _ = parse(&text, Commas::Thousands);
        let _ = parse(&text, Commas::Lists);
    }
}
