//! From a completion to the program that is run.
//!
//! Where the task has a prefix (HumanEval's form), the completion is the rest of a function and stands behind it as it is, spaces included; or it is a
//! whole function, as chat models answer, and stands behind what the prefix has before that function.

use std::borrow::Cow;

use datasets::CodeTask;

use super::extract::extract;

/// The program, never blank; `None` where the completion holds none.
pub(super) fn assemble<'a>(task: &CodeTask, completion: &'a str) -> Option<Cow<'a, str>> {
    let code = extract(completion)?;
    let Some(prefix) = &task.prefix else {
        return Some(Cow::Borrowed(code));
    };
    if !is_whole(code, &task.entry_point) {
        let fenced = code.len() < completion.len();
        let line_break = if fenced && !prefix.ends_with('\n') {
            "\n"
        } else {
            ""
        };
        return Some(Cow::Owned(format!("{prefix}{line_break}{code}")));
    }
    // Such an import must stand first in its program.
    if code.contains("from __future__ import") {
        return Some(Cow::Borrowed(code));
    }
    let before = prefix
        .split_inclusive('\n')
        .take_while(|line| !defines(line, &task.entry_point))
        .map(str::len)
        .sum::<usize>();
    Some(Cow::Owned(format!("{}\n{code}", &prefix[..before])))
}

/// Whether `code` begins at the margin and defines `name` there.
fn is_whole(code: &str, name: &str) -> bool {
    let begins_at_the_margin = code
        .lines()
        .find(|line| !line.trim().is_empty())
        .is_some_and(|line| !line.starts_with([' ', '\t']));
    begins_at_the_margin && code.lines().any(|line| defines(line, name))
}

/// Whether `line` begins a definition of `name`, or assigns to it, at the margin.
fn defines(line: &str, name: &str) -> bool {
    let after = ["def ", "async def ", "class "]
        .iter()
        .find_map(|keyword| line.strip_prefix(keyword))
        .map(str::trim_start);
    let rest = after.unwrap_or(line).strip_prefix(name);
    rest.map(str::trim_start).is_some_and(|rest| {
        if after.is_some() {
            rest.starts_with(['(', ':', '['])
        } else {
            rest.starts_with('=') && !rest.starts_with("==")
        }
    })
}

#[cfg(test)]
mod tests {
    use datasets::Compare;

    use super::*;

    const PREFIX: &str = "import math\n\ndef g(x):\n    return x\n\ndef f(x: int) -> int:\n    \"\"\" Twice. \"\"\"\n";

    fn assembled(prefix: Option<&str>, completion: &str) -> Option<String> {
        let task = CodeTask {
            entry_point: "f".to_owned(),
            prefix: prefix.map(str::to_owned),
            canonical: None,
            imports: Vec::new(),
            example: None,
            tests: Vec::new(),
            asserts: Vec::new(),
            atol: 0.0,
            compare: Compare::Equal,
        };
        assemble(&task, completion).map(Cow::into_owned)
    }

    #[test]
    fn without_a_prefix_the_program_is_what_the_completion_holds() {
        assert_eq!(
            assembled(None, "    return 1").as_deref(),
            Some("    return 1")
        );
        assert_eq!(assembled(None, "```\nx\n```").as_deref(), Some("x\n"));
        assert_eq!(assembled(None, " "), None);
    }

    #[test]
    fn a_body_goes_on_with_the_prefix() {
        for completion in [
            "    return 2 * x\n",
            "\n    return 2 * x\n\ndef h():\n    pass\n",
            "    def f(y):\n        return y\n    return f(2 * x)",
            "    return 2 * x\n\nf = f",
        ] {
            assert_eq!(
                assembled(Some(PREFIX), completion).unwrap(),
                format!("{PREFIX}{completion}")
            );
        }
        assert_eq!(
            assembled(Some("def f(x):"), "So:\n```python\n    return x\n```\n").unwrap(),
            "def f(x):\n    return x\n"
        );
        assert_eq!(
            assembled(Some("def f(x): "), "return x").unwrap(),
            "def f(x): return x"
        );
    }

    #[test]
    fn a_whole_function_stands_in_place_of_the_prefixs_own() {
        for code in [
            "def f(x):\n    return 2 * x\n",
            "import os\n\nf = lambda x: 2 * x\n",
            "# twice\nasync def  f (x):\n    return x\n",
            "class f(int):\n    pass\n",
        ] {
            let expected = format!("import math\n\ndef g(x):\n    return x\n\n\n{code}");
            assert_eq!(assembled(Some(PREFIX), code).unwrap(), expected);
            let fenced = format!("Here:\n```python\n{code}```\n");
            assert_eq!(assembled(Some(PREFIX), &fenced).unwrap(), expected);
        }
        let future = "from __future__ import annotations\ndef f(x):\n    return x\n";
        assert_eq!(assembled(Some(PREFIX), future).unwrap(), future);
        // Another name, and a comparison, define nothing.
        let other = "def ff(x):\n    return x\nf == ff\n";
        assert_eq!(
            assembled(Some(PREFIX), other).unwrap(),
            format!("{PREFIX}{other}")
        );
    }
}
