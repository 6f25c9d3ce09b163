//! The limit on the memory that filling in a chat template takes.
//!
//! The library counts instructions, and one instruction may double a text. So an instruction is added after each that makes a value, to weigh the value. A
//! value weighs as much as its text, since a list may contain the same text many times. A call that may return much more than it gets is checked before it is
//! made.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use minijinja::machinery::{CompiledTemplate, Instruction, Instructions, Token, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Rest, Value, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, escape_formatter, filters};
use minijinja_contrib::pycompat;

use super::MAX_DEPTH;

/// What all values of a template weigh together, as a multiple of the largest.
pub(super) const VALUES: usize = 8;
/// Weight of a value in addition to its text, in bytes.
const ITEM: usize = 64;
/// The filter that weighs a value.
const WEIGH: &str = "_weigh";
/// The filter that weighs a part of another value.
const WEIGH_PART: &str = "_weigh_part";

/// How much values may weigh, in bytes: one value, and all that are still to come.
struct Limit {
    largest: usize,
    left: AtomicUsize,
}

/// Has an environment weigh what templates compute in it. One value weighs at most `largest` bytes.
pub(super) fn limit(environment: &mut Environment<'_>, largest: usize) {
    let left = AtomicUsize::new(VALUES.saturating_mul(largest));
    let limit = Arc::new(Limit { largest, left });
    for (filter, depth) in [(WEIGH, 0), (WEIGH_PART, 1)] {
        let limit = limit.clone();
        environment.add_filter(filter, move |value: Value| limit.weighed(value, depth));
    }
    let written = limit.clone();
    environment.set_formatter(move |out, state, value| {
        written.weighed(value.clone(), 0)?;
        escape_formatter(out, state, value)
    });
    for (name, builtin) in [
        ("replace", Value::from_function(filters::replace)),
        ("join", Value::from_function(filters::join)),
        ("indent", Value::from_function(filters::indent)),
        ("format", Value::from_function(filters::format)),
    ] {
        let limit = limit.clone();
        let bounded = move |state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>| {
            let args = args.into_values();
            limit.check_result(name, &args)?;
            builtin.call(state, &args)
        };
        environment.add_filter(name, bounded);
    }
    environment.set_unknown_method_callback(move |state, value, method, args| {
        let mut all = [std::slice::from_ref(value), args].concat();
        if method == "join" {
            all.reverse();
        }
        limit.check_result(method, &all)?;
        pycompat::unknown_method_callback(state, value, method, args)
    });
    // They repeat values or write all of them, and published templates do without.
    for filter in ["batch", "chain", "pprint", "slice", "zip"] {
        environment.remove_filter(filter);
    }
    environment.remove_global("debug");
}

impl Limit {
    fn weighed(&self, value: Value, depth: usize) -> Result<Value, Error> {
        let mut weight = 0;
        self.weigh(&value, depth, &mut weight)?;
        self.spend(weight)?;
        // A sequence that is computed when it is read may read another such sequence, and so on, as deep as the stack. So it is computed now. A tuple is
        // repeated at once, a list when it is read.
        if value.kind() == ValueKind::Iterable || depth > 0 && value.is_tuple() {
            return value.try_iter()?.checked().collect();
        }
        Ok(value)
    }

    fn spend(&self, weight: usize) -> Result<(), Error> {
        let left = self.left.load(Ordering::Relaxed).checked_sub(weight);
        self.left
            .store(left.ok_or(ErrorKind::WriteFailure)?, Ordering::Relaxed);
        Ok(())
    }

    /// Adds the weight of a value that is `depth` levels deep in another.
    fn weigh(&self, value: &Value, depth: usize, weight: &mut usize) -> Result<(), Error> {
        let refused = |reason: String| Err(Error::new(ErrorKind::InvalidOperation, reason));
        *weight += ITEM + value.as_bytes().map_or(0, <[u8]>::len);
        if *weight > self.largest + ITEM {
            return Err(ErrorKind::WriteFailure.into());
        }
        if depth > MAX_DEPTH {
            return refused(format!("values have at most {MAX_DEPTH} levels"));
        }
        // It can change later, and with it the weight of the value around it. It could even contain itself.
        let object = value.as_object();
        if depth > 0 && object.is_some_and(|it| it.type_name().ends_with("::Namespace")) {
            return refused("a namespace cannot be a part of another value".to_owned());
        }
        let kind = value.kind();
        if matches!(kind, ValueKind::Seq | ValueKind::Iterable | ValueKind::Map) {
            for item in value.try_iter()? {
                self.weigh(&item, depth + 1, weight)?;
                if kind == ValueKind::Map {
                    self.weigh(&value.get_item(&item)?, depth + 1, weight)?;
                }
            }
        }
        Ok(())
    }

    /// Refuses a call with too large a result: the text of the other arguments, once for each piece of the first.
    fn check_result(&self, name: &str, args: &[Value]) -> Result<(), Error> {
        if !["replace", "join", "indent", "format"].contains(&name) {
            return Ok(());
        }
        let texts: Vec<String> = args.iter().map(Value::to_string).collect();
        let [text, others @ ..] = &texts[..] else {
            return Ok(());
        };
        let (pieces, width) = match (name, others) {
            ("replace", [from, ..]) => (text.matches(from.as_str()).count(), 0),
            ("join", _) => (args[0].len().unwrap_or(0), 0),
            ("indent", _) => (text.split('\n').count(), 4 + largest_number(others)),
            _ => (
                text.matches(['%', '{']).count(),
                largest_number(&texts[..1]),
            ),
        };
        let written = others.iter().fold(width, |sum, text| sum + text.len());
        self.spend(pieces.saturating_mul(written))
    }
}

/// The largest number of decimal digits in texts; more if it has too many.
fn largest_number(texts: &[String]) -> usize {
    let digits = texts
        .iter()
        .flat_map(|it| it.split(|c: char| !c.is_ascii_digit()));
    let numbers = digits.map(|digits| digits.parse().unwrap_or(digits.len() << 50));
    numbers.max().unwrap_or(0)
}

/// The source with the left factor of each multiplication weighed, and so no constant: the compiler multiplies constants itself, without a limit.
pub(super) fn without_constant_products(source: &str, syntax: SyntaxConfig) -> String {
    let (mut result, mut copied, mut unpacks) = (String::new(), 0, false);
    // After an error, the rest is for the parser, which reports it.
    for (token, span) in tokenize(source, false, syntax).map_while(Result::ok) {
        if matches!(token, Token::Mul) && !unpacks {
            let start = span.start_offset as usize;
            result += &format!("{}|{WEIGH} ", &source[copied..start]);
            copied = start;
        }
        unpacks = matches!(token, Token::ParenOpen | Token::BracketOpen | Token::Comma);
    }
    result + &source[copied..]
}

/// Adds the instructions that weigh the values of the template's own.
pub(super) fn weigh_values(template: &mut CompiledTemplate<'_>) {
    template.instructions = weighing(&template.instructions);
    let blocks = std::mem::take(&mut template.blocks);
    let blocks = blocks.iter().map(|(name, block)| (*name, weighing(block)));
    template.blocks = blocks.collect::<BTreeMap<_, _>>();
}

fn weighing<'source>(code: &Instructions<'source>) -> Instructions<'source> {
    let part = || Instruction::ApplyFilter(WEIGH_PART, Some(1), u8::MAX);
    let (mut all, mut places) = (Vec::new(), Vec::new());
    for (number, instruction) in (0..).map_while(|i| Some((i, code.get(i)?))) {
        places.push(all.len() as u32);
        let mut put = |added: &[Instruction<'source>]| {
            let line = code.get_line(number).unwrap_or(0) as u16;
            all.extend(added.iter().map(|added| (added.clone(), line)));
        };
        match instruction {
            Instruction::EmitRaw(text) => {
                let text = Value::from_safe_string((*text).to_owned());
                put(&[Instruction::LoadConst(text), Instruction::Emit]);
                continue;
            }
            Instruction::SetAttr(_) => put(&[Instruction::Swap, part(), Instruction::Swap]),
            Instruction::Mul => put(&[part(), Instruction::Swap, part(), Instruction::Swap]),
            _ => {}
        }
        put(std::slice::from_ref(instruction));
        if matches!(
            instruction,
            Instruction::Add
                | Instruction::Mul
                | Instruction::StringConcat
                | Instruction::Slice
                | Instruction::BuildMap(_)
                | Instruction::BuildList(_)
                | Instruction::BuildTuple(_)
                | Instruction::EndCapture
                | Instruction::ApplyFilter(..)
                | Instruction::CallFunction(..)
                | Instruction::CallMethod(..)
                | Instruction::CallObject(_)
        ) {
            put(&[Instruction::ApplyFilter(WEIGH, Some(1), u8::MAX)]);
        }
    }
    places.push(all.len() as u32);
    let mut weighing = Instructions::new(code.name(), code.source());
    for (mut instruction, line) in all {
        if let Instruction::Jump(target)
        | Instruction::JumpIfFalse(target)
        | Instruction::JumpIfFalseOrPop(target)
        | Instruction::JumpIfTrueOrPop(target)
        | Instruction::Iterate(target)
        | Instruction::BuildMacro(_, target, _) = &mut instruction
        {
            *target = places[*target as usize];
        }
        weighing.add_with_line(instruction, line);
    }
    weighing
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use minijinja::{Environment, context};
    use minijinja_contrib::pycompat::unknown_method_callback;

    use crate::text::template::{ChatTemplate, syntax};

    fn render(source: &str) -> Result<String, String> {
        let messages = ["user", "model"].map(|role| (role.to_owned(), format!("by\n{role}")));
        let template = ChatTemplate::new(source, BTreeMap::new())?;
        template.render(&messages, jiff::civil::date(2026, 3, 9))
    }

    #[test]
    fn no_template_computes_more_than_the_limit() {
        // Each would be tens of megabytes without the limit.
        let doubled = "'x'|ns.v ~ ns.v; 'x'|ns.v + ns.v; 'x'|ns.v * 2; 'x'|2 * ns.v; 'x'|ns.v.replace('x', 'xx'); 'x'|ns.v|replace('x', 'xx'); \
             'x'|[ns.v, ns.v]|join; 'x'|''.join([ns.v, ns.v]); 'x'|'%s%s'|format(ns.v, ns.v); 'x'|'{0}{0}'.format(ns.v); [1]|ns.v + ns.v; [1]|ns.v * 2; \
             (1,)|ns.v + ns.v; (1,)|ns.v * 2; 1|[ns.v, ns.v]; 1|(ns.v, ns.v); 1|{'a': ns.v, 'b': ns.v}; 1|dict(a=ns.v, b=ns.v); 'x'|twice(ns.v)";
        let doubled = doubled.split("; ").map(|case| {
            let (value, step) = case.split_once('|').unwrap();
            format!("{{% set ns = namespace(v={value}) %}}{{% for i in range(25) %}}{{% set ns.v = {step} %}}{{% endfor %}}")
        });
        let expressions = "'x' * 40000000; 3 * ('x' * (10000000 + 0)); (1, 2) * 10000000; ([1, 2] * 10000000)|list; {'a': 1}.items()|first * n; \
             '%40000000s'|format(1); '%.40000000f'|format(1.5); '{:>40000000}'.format(1); 'a\nb'|indent(n); 'a\nb'|indent(width=n); \
             x|replace('x', y); x.replace('x', y); x|join(y); range(30000)|join(d=y); y.join(x|list); [x]|map('replace', 'x', y)|list";
        let expressions = expressions
            .split("; ")
            .map(|e| format!("{{% if {e} %}}{{% endif %}}"));
        let captured = "{% set s %}{% for i in range(30000) %}yyy{{ y }}{% endfor %}{% endset %}";
        let written = captured.replace("yyy{{ y }}", &"y".repeat(1_000));
        let many = "{% for i in range(200) %}{% set s = n ~ y * 1000 %}{% endfor %}";
        let others = [captured, &written, many].map(str::to_owned);
        for case in doubled.chain(expressions).chain(others) {
            let source = format!(
                "{{% macro twice(x) %}}{{{{ x }}}}{{{{ x }}}}{{% endmacro %}}{{% set n = 40000000 %}}{{% set x = 'x' * 30000 %}}{{% set y = 'y' * 1000 %}}{{% block b %}}{case}{{% endblock %}}"
            );
            let error = render(&source).expect_err(&case);
            let limit = "more than 16 MiB in addition";
            assert!(error.contains(limit), "{case}: {error}");
        }
        for (case, expected) in [
            ("set ns.x = ns", "a namespace"),
            ("set ns.x = [ns]", "a namespace"),
            ("set x = namespace(x={'a': ns})", "a namespace"),
            ("set x = [1]|batch(10, 1)", "batch is unknown"),
            ("set x = debug()", "debug is unknown"),
            ("include 'chat_template'", "non-existing template"),
        ] {
            let error = render(&format!("{{% set ns = namespace() %}}{{% {case} %}}")).unwrap_err();
            assert!(error.contains(expected), "{case}: {error}");
        }
    }

    #[test]
    fn weighing_changes_no_result() {
        for source in [
            "{% for m in messages %}{% if loop.first %}a{% elif m.role == 'user' and not loop.last %}b{% else %}c{{ loop.index * 2 }}{% endif %}{% else %}none{% endfor %}",
            "{% for m in [] %}{{ m }}{% else %}none{% endfor %}{% for i in range(9) if i % 2 %}{% if i == 5 %}{% continue %}{% elif i > 6 %}{% break %}{% endif %}{{ i }}{% endfor %}",
            "{% macro m(a, b=2 * 3) %}[{{ a * b }}{{ caller() if caller }}]{% endmacro %}{{ m(*[2]) }}{{ m('x', b=2) }}{% call m(1) %}{{ 1 + 1 }}{% endcall %}{{ m(**{'a': 4}) }}",
            "{% for x in [[1, [2]], 3] recursive %}{{ loop(x) if x is sequence else x * 2 }},{% endfor %}",
            "{% set ns = namespace(s='', n=0) %}{% for m in messages %}{% set ns.s = ns.s ~ m.role[0] + '-' %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.s * ns.n }}{{ ns.n * ' ' }}|",
            "{% set x %}a{{ 1 }}{% endset %}{% filter upper %}{{ x }}b{% endfilter %}{% with y = x * 2 %}{{ y }}{% endwith %}{% block b %}{{ x }}{% endblock %}{{ self.b() }}",
            "{{ messages[1:]|map(attribute='role')|join(', ') }}{{ messages[::-1]|length }}{{ 'abc'[1:] }}{{ [1] * 2 + [3] }}{{ {'a': 1}.items()|list }}{{ ['a', 'b']|join(d='-') }}",
            "{% for k, v in {'a': 1, 'b': [2]}|items %}{{ k }}={{ v }}{% endfor %}{{ '%s: %5.2f'|format('a', 1.5) }}{{ '**{}** {x}'.format(10 ** 15, x=2) }}{{ 'a\nb'|indent(width=2) }}",
            "{{ 2 ** 3 * 4 }}{{ -2 * 3 }}{{ not 0 * 1 }}{{ (1 + 2) * (3 - 1) }}{{ 'a' if 2 * 2 == 4 }}{{ [2 * 3, 4 * 5][1 * 1] }}{# 2 * 3 #}{% raw %}2 * 3{% endraw %}",
            "{{ 'a*b' ~ \"c * d\" }}{{ messages[0].content.replace('by', 'of').split('\n')|reverse|list }}{{ undefined ~ 'x' }}{{ messages[0]|length * 2 }}",
        ] {
            let mut environment = Environment::new();
            environment.set_syntax(syntax().unwrap());
            environment.set_unknown_method_callback(unknown_method_callback);
            let messages =
                ["user", "model"].map(|role| context! { role, content => format!("by\n{role}") });
            let expected = environment.render_str(source, context! { messages });
            assert_eq!(render(source).unwrap(), expected.unwrap(), "{source}");
        }
    }
}
