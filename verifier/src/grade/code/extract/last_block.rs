//! The rule of version 0.1.0: the last fenced Python block, else the last fenced block, else the whole text. It looks only at the fences and parses nothing.

/// The program, never blank; `None` if there is none.
pub(super) fn extract(completion: &str) -> Option<&str> {
    let (mut python, mut any) = (None, None);
    let mut open: Option<Fence> = None;
    let mut at = 0;
    for line in completion.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let Some(marks) = fence(line) else { continue };
        let info = line.trim_start()[marks..].trim();
        match &open {
            Some(fence) if marks >= fence.marks && info.is_empty() => {
                let block = &completion[fence.content..start];
                if fence.python {
                    python = Some(block);
                }
                any = Some(block);
                open = None;
            }
            Some(_) => {}
            None => {
                let language = info
                    .split(|c: char| !c.is_ascii_alphanumeric())
                    .next()
                    .unwrap_or("");
                let python = matches!(
                    language.to_ascii_lowercase().as_str(),
                    "python" | "python3" | "py"
                );
                open = Some(Fence {
                    marks,
                    python,
                    start,
                    content: at,
                });
            }
        }
    }
    // A block that the end of the completion cut off. If it is empty, the fence closes a block that the prompt opened.
    if let Some(fence) = open {
        let block = &completion[fence.content..];
        if block.trim().is_empty() {
            any = any.or(Some(&completion[..fence.start]));
        } else {
            if fence.python {
                python = Some(block);
            }
            any = Some(block);
        }
    }
    let program = python.or(any).unwrap_or(completion);
    (!program.trim().is_empty()).then_some(program)
}

struct Fence {
    marks: usize,
    python: bool,
    /// Where its line begins.
    start: usize,
    /// Where its block begins.
    content: usize,
}

/// The number of backticks at the start of the line, if there are three or more and the line has no others.
fn fence(line: &str) -> Option<usize> {
    let line = line.trim_start();
    let marks = line.bytes().take_while(|&byte| byte == b'`').count();
    (marks >= 3 && !line[marks..].contains('`')).then_some(marks)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_program_is_the_last_python_block_or_block_or_text() {
        for (text, program) in [
            (
                "```python\na = 1\n```\nand\n```python\nb = 2\n```\noutput:\n```\nc\n```\n",
                "b = 2\n",
            ),
            ("```\na = 1\n```\n```\nb = 2\n```", "b = 2\n"),
            ("def f():\n    return 1\n", "def f():\n    return 1\n"),
            // A block that is cut off counts.
            ("```python\na = 1\n", "a = 1\n"),
            // A bare fence at the end closes the text before it.
            ("    return x\n```\n", "    return x\n"),
            ("a = 1\n```python\n \n", "a = 1\n"),
            ("```\na = 1\n```\n```\n", "a = 1\n"),
            // A fence inside a longer fence is content.
            (
                "````python\ns = '''\n```\n'''\n````\n",
                "s = '''\n```\n'''\n",
            ),
        ] {
            assert_eq!(extract(text), Some(program), "{text}");
        }
        for blank in ["", " \n\t", "```python\n\n```"] {
            assert_eq!(extract(blank), None, "{blank}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_extraction_panic(text in r"(?s)(```|```python|`|\n| |é|.){0,40}") {
            if let Some(program) = extract(&text) {
                prop_assert!(text.contains(program));
            }
        }
    }
}
