//! Assembles the program to run from the extracted code.
//!
//! If the task has a prefix (HumanEval's form), the code is one of two things. The rest of a function is appended to the prefix unchanged, spaces included. A whole
//! function, as chat models answer, is appended to the part of the prefix before that function.

use std::borrow::Cow;

use datasets::python_name::{line_defines as defines, method};
use datasets::{CodeTask, Value};

/// What a completion has to contain.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The function that the program defines, or the class of the method; `None` if it only has to run.
    pub entry_point: Option<&'a str>,
    /// The code that the completion continues.
    pub prefix: Option<&'a str>,
}

impl Wanted<'_> {
    /// A program that only has to run.
    pub const PROGRAM: Wanted<'static> = Wanted {
        entry_point: None,
        prefix: None,
    };
}

impl<'a> From<&'a CodeTask> for Wanted<'a> {
    fn from(task: &'a CodeTask) -> Wanted<'a> {
        Wanted {
            entry_point: Some(
                method(&task.entry_point).map_or(&task.entry_point, |(class, ..)| class),
            ),
            prefix: task.prefix.as_deref(),
        }
    }
}

/// The program of `code`. `fenced` says whether the code was in a fenced block. `whole` says whether it has the whole function, not only the rest of the prefix's.
pub(super) fn assemble<'a>(
    wanted: Wanted<'_>,
    code: &'a str,
    fenced: bool,
    whole: bool,
) -> Cow<'a, str> {
    let Some(prefix) = wanted.prefix else {
        return Cow::Borrowed(code);
    };
    if !whole {
        let line_break = line_break(prefix, fenced);
        return Cow::Owned(format!("{prefix}{line_break}{code}"));
    }
    if !futures_can_move(code) {
        return Cow::Borrowed(code);
    }
    let before = prefix
        .split_inclusive('\n')
        .take_while(|line| !wanted.entry_point.is_some_and(|name| defines(line, name)))
        .map(str::len)
        .sum::<usize>();
    Cow::Owned(format!("{}\n{code}", &prefix[..before]))
}

/// The beginning of an import that must come first in a program.
const FUTURE: &str = "from __future__ import";

/// Whether every `__future__` import in `code` is a line of its own, so that it can be moved. True if there are none.
pub(super) fn futures_can_move(code: &str) -> bool {
    code.lines()
        .filter(|line| line.contains(FUTURE))
        .all(|line| line.starts_with(FUTURE) && !line.contains(['(', '\\', ';', '\'', '"']))
}

/// `source` with its `__future__` imports moved to the beginning, if they can be moved.
pub(super) fn futures_first(source: String) -> String {
    if !source.contains(FUTURE) || !futures_can_move(&source) {
        return source;
    }
    let (mut first, mut rest) = (String::new(), String::new());
    for line in source.split_inclusive('\n') {
        if line.starts_with(FUTURE) {
            first.push_str(line.trim_end());
            first.push('\n');
        } else {
            rest.push_str(line);
        }
    }
    first + &rest
}

/// The separator between a prefix and code that continues it.
pub(super) fn line_break(prefix: &str, fenced: bool) -> &'static str {
    if fenced && !prefix.is_empty() && !prefix.ends_with('\n') {
        "\n"
    } else {
        ""
    }
}

/// Whether `code` begins without indentation and defines `name` at the top level.
pub(super) fn is_whole(code: &str, name: &str) -> bool {
    let begins_at_the_margin = code
        .lines()
        .find(|line| !line.trim().is_empty())
        .is_some_and(|line| !line.starts_with([' ', '\t']));
    begins_at_the_margin && code.lines().any(|line| defines(line, name))
}

/// The function that stands for a task's method in the program. A program may have a function with the name of the method.
const FUNCTION: &str = "_rapid_method";

/// The program to run for calls of a task's entry point, and the function to call in it. For a method, the function makes an instance for each call.
pub(super) fn callable<'a>(entry_point: &'a str, source: &'a str) -> (Cow<'a, str>, &'a str) {
    let Some((class, _, name)) = method(entry_point) else {
        return (Cow::Borrowed(source), entry_point);
    };
    // A program without the class cannot be loaded.
    let source = format!(
        "{source}\n\n{class}\ndef {FUNCTION}(*arguments, _rapid_made=None, **keywords):
    method = {entry_point} if _rapid_made is None else {class}(*_rapid_made[0], **_rapid_made[1]).{name}
    return method(*arguments, **keywords)\n"
    );
    (Cow::Owned(source), FUNCTION)
}

/// The task in the form for its test code. For a method, it has a class with a method that calls the program.
pub(super) fn with_class(task: &CodeTask) -> Cow<'_, CodeTask> {
    let Some((class, _, name)) = method(&task.entry_point) else {
        return Cow::Borrowed(task);
    };
    let stand_in = format!(
        "class {class}:
    def __init__(self, *arguments, **keywords):
        self._rapid_made = [arguments, keywords]
    def {name}(self, *arguments, **keywords):
        return {FUNCTION}(*arguments, _rapid_made=self._rapid_made, **keywords)"
    );
    Cow::Owned(CodeTask {
        imports: [&task.imports[..], &[stand_in]].concat(),
        ..task.clone()
    })
}

/// The encoded arguments of each of the task's tests.
pub(super) fn calls_of(task: &CodeTask) -> Vec<String> {
    task.tests
        .iter()
        .map(|test| {
            let args: Vec<String> = test.args.iter().map(Value::to_json_text).collect();
            format!("[{}]", args.join(","))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIX: &str = "import math\n\ndef g(x):\n    return x\n\ndef f(x: int) -> int:\n    \"\"\" Twice. \"\"\"\n";

    fn assembled(prefix: Option<&str>, code: &str) -> String {
        let wanted = Wanted {
            entry_point: Some("f"),
            prefix,
        };
        assemble(wanted, code, false, is_whole(code, "f")).into_owned()
    }

    #[test]
    fn a_body_is_appended_to_the_prefix_if_there_is_one() {
        assert_eq!(assembled(None, "    return 1"), "    return 1");
        for completion in [
            "    return 2 * x\n",
            "\n    return 2 * x\n\ndef h():\n    pass\n",
            "    def f(y):\n        return y\n    return f(2 * x)",
            "    return 2 * x\n\nf = f",
        ] {
            let program = assembled(Some(PREFIX), completion);
            assert_eq!(program, format!("{PREFIX}{completion}"));
        }
        let program = assembled(Some("def f(x): "), "return x");
        assert_eq!(program, "def f(x): return x");
        assert_eq!(line_break("def f(x):", true), "\n");
        assert_eq!(line_break("def f(x): ", false), "");
    }

    #[test]
    fn a_whole_function_replaces_that_of_the_prefix() {
        for code in [
            "def f(x):\n    return 2 * x\n",
            "import os\n\nf = lambda x: 2 * x\n",
            "# twice\nasync def  f (x):\n    return x\n",
            "class f(int):\n    pass\n",
        ] {
            let expected = format!("import math\n\ndef g(x):\n    return x\n\n\n{code}");
            assert_eq!(assembled(Some(PREFIX), code), expected);
        }
        let future = "from __future__ import annotations\ndef f(x):\n    return x\n";
        assert_eq!(
            futures_first(assembled(Some(PREFIX), future)),
            "from __future__ import annotations\nimport math\n\ndef g(x):\n    return x\n\n\ndef f(x):\n    return x\n"
        );
        let fixed = "from __future__ import (\n    annotations)\ndef f(x):\n    return x\n";
        assert_eq!(assembled(Some(PREFIX), fixed), fixed);
        assert_eq!(futures_first(fixed.to_owned()), fixed);
        // Neither another name nor a comparison defines `f`.
        let other = "def ff(x):\n    return x\nf == ff\n";
        assert_eq!(assembled(Some(PREFIX), other), format!("{PREFIX}{other}"));
    }
}
