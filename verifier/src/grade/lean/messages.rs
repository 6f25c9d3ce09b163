//! The first error in Lean's messages about a file. Messages explain a verdict and never decide it: code in the file may have written them.

use sandboxes::lean::{Message, Messages, Severity};

/// The first error in the body. One in the header is [`sandboxes::lean::LeanError::Header`] instead.
pub(super) fn first_error(messages: &Messages) -> Option<&Message> {
    let is_error = |message: &&Message| message.severity == Severity::Error;
    messages.body.iter().find(is_error)
}

#[cfg(test)]
mod tests {
    use sandboxes::lean::Position;

    use super::*;

    fn message(severity: Severity, line: usize, data: &str) -> Message {
        Message {
            severity,
            pos: Position { line, column: 0 },
            end: None,
            data: data.into(),
        }
    }

    #[test]
    fn the_first_error_is_found_behind_warnings() {
        let error = |line, data| message(Severity::Error, line, data);
        let warning = message(Severity::Warning, 1, "declaration uses 'sorry'");
        let first = error(2, "unsolved goals");
        let messages = Messages {
            header: vec![],
            body: vec![warning, first.clone(), error(3, "more")],
        };
        assert_eq!(first_error(&messages), Some(&first));
        assert_eq!(first_error(&Messages::default()), None);
    }
}
