//! Chat templates in Hugging Face's dialect of Jinja.

mod memory;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::civil::Date;
use jiff::tz::TimeZone;

use minijinja::machinery::{self, CompiledTemplate, TemplateConfig};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, context};

/// A model's chat template.
pub struct ChatTemplate {
    source: String,
    special: BTreeMap<String, String>,
}

const NAME: &str = "chat_template";
/// Variable of the day, which [`strftime_now`] reads.
const DAY: &str = "_day";

/// Maximum number of instructions that filling in a template executes, far more than published templates need.
const MAX_INSTRUCTIONS: u64 = 1_000_000;
/// Maximum length of what a template adds to the messages, of a value in addition to them, and of a value as JSON, in bytes.
const MAX_BYTES: usize = 16 << 20;
/// Maximum depth of nested values.
const MAX_DEPTH: usize = 64;
/// Maximum number of spaces by which JSON is indented for each level.
const MAX_INDENT: usize = 16;

impl ChatTemplate {
    /// Parses a template. `special` holds the texts of special tokens by their names in templates (`bos_token`, `eos_token`, …).
    pub fn new(source: &str, special: BTreeMap<String, String>) -> Result<Self, String> {
        let source = without_generation_tags(source);
        let source = memory::without_constant_products(&source, syntax()?);
        compiled(&source)?;
        Ok(Self { source, special })
    }

    /// Renders the prompt for the assistant's reply to `(role, content)` messages. For a template that reads the time, it is the beginning of `day`.
    ///
    /// Anyone may publish a model with a template. So the instructions that it executes, the text that it adds and the values on the way are limited. The stack
    /// that the library's parser takes is not: tens of thousands of operators in one expression end the process.
    pub fn render(&self, messages: &[(String, String)], day: Date) -> Result<String, String> {
        self.conversation(messages, day, true)
    }

    /// Renders messages, followed by the beginning of a reply if `add_generation_prompt` is set.
    pub(super) fn conversation(
        &self,
        messages: &[(String, String)],
        day: Date,
        add_generation_prompt: bool,
    ) -> Result<String, String> {
        let length: usize = messages.iter().map(|(_, content)| content.len()).sum();
        let messages: Vec<Value> = messages
            .iter()
            .map(|(role, content)| context! { role, content })
            .collect();
        let variables = context! {
            messages,
            add_generation_prompt,
            // Templates test whether these are none.
            tools => (),
            documents => (),
            _day => day.to_string(),
            ..Value::from_pairs(self.special.iter().map(|(k, v)| (k.as_str(), v.as_str())))
        };
        let template = compiled(&self.source)?;
        let environment = environment(MAX_BYTES + length);
        let mut prompt = String::new();
        machinery::eval(
            &environment,
            &template.instructions,
            variables,
            &template.blocks,
            &mut machinery::make_string_output(&mut prompt),
            AutoEscape::None,
        )
        .map(drop)
        .and_then(|()| match prompt.len() > MAX_BYTES + length {
            true => Err(ErrorKind::WriteFailure.into()),
            false => Ok(()),
        })
        .map_err(|e| not_filled_in(&e))?;
        Ok(prompt)
    }
}

/// What a template may use. One value has at most `largest` bytes.
fn environment(largest: usize) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_debug(false);
    environment.set_fuel(Some(MAX_INSTRUCTIONS));
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", strftime_now);
    environment.add_filter("tojson", to_json);
    memory::limit(&mut environment, largest);
    environment
}

fn syntax() -> Result<SyntaxConfig, String> {
    let mut syntax = SyntaxConfig::builder();
    let syntax = syntax.trim_blocks(true).lstrip_blocks(true).build();
    syntax.map_err(|e| e.to_string())
}

fn compiled(source: &str) -> Result<CompiledTemplate<'_>, String> {
    let config = TemplateConfig {
        syntax_config: syntax()?,
        default_auto_escape: Arc::new(|_| AutoEscape::None),
    };
    let mut template = CompiledTemplate::new(NAME, source, &config)
        .map_err(|e| format!("the chat template cannot be read: {e}"))?;
    memory::weigh_values(&mut template);
    Ok(template)
}

fn not_filled_in(error: &Error) -> String {
    let what = match error.kind() {
        ErrorKind::OutOfFuel => format!("it has not ended after {MAX_INSTRUCTIONS} instructions"),
        ErrorKind::WriteFailure => format!(
            "it computes or writes more than {} MiB in addition to the messages, or {} times as much in all",
            MAX_BYTES >> 20,
            memory::VALUES
        ),
        _ => {
            return format!(
                "the chat template cannot be filled in: {:.500}",
                error.to_string()
            );
        }
    };
    format!(
        "the chat template cannot be filled in: {what}; correct it in the model's chat_template.jinja or tokenizer_config.json, or take a model from a source that you trust"
    )
}

/// Replaces the tags of `{% generation %}`, which marks the assistant's text for training masks, by those of a block without effect.
fn without_generation_tags(source: &str) -> String {
    let mut result = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let (before, tag_on) = rest.split_at(start);
        result += before;
        // Search after the opening `{%`: its `%` does not close the tag.
        let Some(length) = tag_on[2..].find("%}") else {
            rest = tag_on;
            break;
        };
        let (tag, after) = tag_on.split_at(length + 4);
        let words = tag[2..length + 2].trim_matches(['-', '+', ' ', '\n', '\t']);
        match words {
            "generation" => result += &tag.replace("generation", "if true"),
            "endgeneration" => result += &tag.replace("endgeneration", "endif"),
            _ => result += tag,
        }
        rest = after;
    }
    result + rest
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message))
}

/// Python's `datetime.now().strftime(format)`, at the beginning of the template's day.
fn strftime_now(state: &State<'_, '_>, format: &str) -> Result<String, Error> {
    let day = state.lookup(DAY).unwrap_or_default().to_string();
    day.parse::<Date>()
        .and_then(|day| day.to_zoned(TimeZone::UTC))
        .and_then(|time| jiff::fmt::strtime::format(format, &time))
        .map_err(|e| Error::new(ErrorKind::InvalidOperation, e.to_string()))
}

#[allow(clippy::needless_pass_by_value, reason = "the signature of a filter")]
/// Python's `json.dumps(value, ensure_ascii=False)`: spaces after commas and colons, no escapes for HTML.
fn to_json(value: Value, options: Kwargs) -> Result<Value, Error> {
    let indent: Option<usize> = options.get("indent")?;
    let _: Option<bool> = options.get("ensure_ascii")?;
    let _: Option<bool> = options.get("sort_keys")?;
    options.assert_all_used()?;
    if indent.is_some_and(|width| width > MAX_INDENT) {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("tojson indents by at most {MAX_INDENT} spaces"),
        ));
    }
    let mut text = String::new();
    write_json(&mut text, &value, indent, 0)?;
    Ok(Value::from_safe_string(text))
}

fn write_json(
    out: &mut String,
    value: &Value,
    indent: Option<usize>,
    depth: usize,
) -> Result<(), Error> {
    // A value may contain another one many times, so the text may be much larger than the value in memory.
    if out.len() > MAX_BYTES {
        return Err(ErrorKind::WriteFailure.into());
    }
    let line = |out: &mut String, depth: usize| {
        if let Some(width) = indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', width * depth));
        }
    };
    let comma = if indent.is_some() { "," } else { ", " };
    match value.kind() {
        kind @ (ValueKind::Seq | ValueKind::Iterable | ValueKind::Map) => {
            let is_map = kind == ValueKind::Map;
            out.push(if is_map { '{' } else { '[' });
            let mut empty = true;
            for item in value.try_iter()? {
                out.push_str(if empty { "" } else { comma });
                empty = false;
                line(out, depth + 1);
                if is_map {
                    out.push_str(&serde_json::Value::from(item.to_string()).to_string());
                    out.push_str(": ");
                    write_json(out, &value.get_item(&item)?, indent, depth + 1)?;
                } else {
                    write_json(out, &item, indent, depth + 1)?;
                }
            }
            if !empty {
                line(out, depth);
            }
            out.push(if is_map { '}' } else { ']' });
        }
        ValueKind::Undefined | ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => out.push_str(&value.to_string()),
        _ => out.push_str(&serde_json::Value::from(value.to_string()).to_string()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(source: &str) -> Result<String, String> {
        let special = BTreeMap::from([
            ("bos_token".to_owned(), "<s>".to_owned()),
            ("eos_token".to_owned(), "</s>".to_owned()),
        ]);
        let messages = [
            ("user", " Hi there "),
            ("assistant", "Hello"),
            ("user", "<b> & 'c'"),
        ];
        let messages = messages.map(|(role, content)| (role.to_owned(), content.to_owned()));
        ChatTemplate::new(source, special)?.render(&messages, jiff::civil::date(2026, 3, 9))
    }

    #[test]
    fn templates_give_what_python_and_transformers_make_of_them() {
        for (source, expected) in [
            // Python's methods, slices and loop controls.
            (
                "{{ bos_token }}{% for m in messages[1:] %}{% if m.role == 'x' %}{% break %}{% endif %}{{ m['content'].strip().split(' ')[0] | upper }}|{% endfor %}{{ messages[0].content.strip() }}",
                "<s>HELLO|<B>|Hi there",
            ),
            // A line with only a block leaves no blank line.
            (
                "{% for m in messages %}\n    {% if m.role == 'user' %}\n{{ m.content }}\n    {% endif %}\n{% endfor %}\nend",
                " Hi there \n<b> & 'c'\nend",
            ),
            // The tags of a generation have no effect.
            (
                "{% for m in messages %}{%- generation -%}  {{ m.content }}  {%- endgeneration -%}{% endfor %}",
                " Hi there Hello<b> & 'c'",
            ),
            (
                "{% if tools is none and documents is none and not custom %}none{% endif %}{% if tools is defined %} defined{% endif %}",
                "none defined",
            ),
            (
                "{{ messages[2] | tojson }}{{ [1, 2.5, true, none, {}] | tojson }}",
                r#"{"role": "user", "content": "<b> & 'c'"}[1, 2.5, true, null, {}]"#,
            ),
            (
                "{{ {'a': [1, 2]} | tojson(indent=2) }}",
                "{\n  \"a\": [\n    1,\n    2\n  ]\n}",
            ),
            // The beginning of the given day.
            ("{{ strftime_now('%d %b %Y %H:%M') }}", "09 Mar 2026 00:00"),
        ] {
            assert_eq!(render(source).unwrap(), expected, "{source}");
        }
    }

    #[test]
    fn what_a_template_adds_to_the_messages_has_a_limit() {
        let question = "q".repeat(MAX_BYTES);
        let render = |added: usize| -> Result<String, String> {
            let source = format!("{{{{ messages[0].content }}}}{{{{ 'x' * {added} }}}}");
            let template = ChatTemplate::new(&source, BTreeMap::new())?;
            let messages = [("user".to_owned(), question.clone())];
            template.render(&messages, jiff::civil::date(2026, 3, 9))
        };
        assert_eq!(render(MAX_BYTES).unwrap().len(), 2 * MAX_BYTES);
        let error = render(MAX_BYTES + 1).unwrap_err();
        assert!(error.contains("more than 16 MiB in addition"), "{error}");
    }

    #[test]
    fn what_cannot_be_filled_in_is_an_error_that_says_why() {
        let nested = |levels: usize, inner: &str| {
            format!(
                "{{% set ns = namespace(x=1) %}}{{% for i in range({levels}) %}}{{% set ns.x = {inner} %}}{{% endfor %}}{{{{ ns.x | tojson }}}}"
            )
        };
        let many = "{% for a in range(100000) %}".repeat(2) + "{% endfor %}{% endfor %}";
        let raised = "{{ raise_exception('roles must alternate') }}";
        for (source, expected) in [
            (raised, "roles must alternate"),
            (&many, "1000000 instructions"),
            (&many, "chat_template.jinja"),
            (&nested(MAX_DEPTH, "[ns.x, ns.x]"), "more than 16 MiB"),
            (&nested(MAX_DEPTH, "[ns.x]"), "at most 64 levels"),
            ("{{ [1] | tojson(indent=1000) }}", "at most 16 spaces"),
            ("{% for m in %}", "cannot be read"),
            // Incomplete tags.
            ("{%}", ""),
            ("a{%", ""),
            ("{%}generation%}", ""),
            ("{% generation", ""),
            ("{%%}", ""),
        ] {
            let error = render(source).unwrap_err();
            assert!(error.contains(expected), "{source}: {error}");
        }
        assert!(render(&nested(MAX_DEPTH - 1, "[ns.x]")).is_ok());
    }
}
