//! The conversation about a whole program: one call of the harness's own `whole_program`. Its result is the exit status. The program's standard output is kept outside
//! the conversation.

use super::ProgramConversation;
use crate::{Call, End, Limits, MAX_STREAM_BYTES, SandboxError};

/// Bytes of the result, with the start of standard error.
const MAX_RESULT: usize = 1 << 20;

/// Checks that a sandbox can give a program this input.
///
/// # Errors
/// [`SandboxError::Unusable`] if it cannot: the task is wrong.
pub(crate) fn check(stdin: &str) -> Result<(), SandboxError> {
    if stdin.len() <= MAX_STREAM_BYTES {
        return Ok(());
    }
    Err(SandboxError::Unusable(format!(
        "the standard input of a program has {} bytes, and {MAX_STREAM_BYTES} are the most; leave the test out",
        stdin.len()
    )))
}

/// Bytes that the program may write to standard output.
pub(crate) fn max_output(limits: &Limits) -> usize {
    limits.output.min(MAX_STREAM_BYTES)
}

/// A conversation about the program `source`. `stdin` is its standard input, unless that is not part of the conversation.
pub(crate) fn conversation(
    source: &str,
    stdin: Option<&str>,
    limits: &Limits,
) -> ProgramConversation {
    let call = serde_json::json!([source, stdin, max_output(limits)]).to_string();
    let limits = Limits {
        value: MAX_RESULT,
        ..*limits
    };
    ProgramConversation::whole_program(call, &limits)
}

/// How a program ended that has sent a result; `None` if it has sent none. `output` is the maximum of standard output, in bytes.
pub(crate) fn end(results: &[Call], output: usize) -> Option<End> {
    let [Call::Returned(result), ..] = results else {
        return None;
    };
    let (status, size, stderr): (i32, usize, String) = serde_json::from_str(result).ok()?;
    Some(if size > output {
        End::TooMuchOutput
    } else {
        End::Exited { status, stderr }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_result_of_the_right_form_is_an_exit() {
        let returned = |text: &str| [Call::Returned(text.to_owned())];
        assert_eq!(
            end(&returned(r#"[3,5,"oops"]"#), 5),
            Some(End::Exited {
                status: 3,
                stderr: "oops".to_owned()
            })
        );
        assert_eq!(end(&returned(r#"[0,6,""]"#), 5), Some(End::TooMuchOutput));
        for forged in ["0", "[0]", r#"{"$digest":"x"}"#, r#"[0,0,""#, "[0,-1,\"\"]"] {
            assert_eq!(end(&returned(forged), 5), None, "{forged}");
        }
        assert_eq!(end(&[], 5), None);
    }
}
