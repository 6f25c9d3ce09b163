//! The first error in Lean's messages about a file. Messages explain a verdict and never decide it: code in the file may have written them.

use sandboxes::lean::{Messages, Severity};

/// The first error, with its line after the header, from 1, unless it is in the header.
pub(super) fn first_error(messages: &Messages) -> Option<(String, Option<usize>)> {
    let error = |message: &&sandboxes::lean::Message| message.severity == Severity::Error;
    let header = messages.header.iter().find(error);
    let header = header.map(|message| {
        (
            format!("Lean does not accept the header: {}", message.data),
            None,
        )
    });
    header.or_else(|| {
        let first = messages.body.iter().find(error)?;
        Some((first.data.clone(), Some(first.pos.line)))
    })
}

#[cfg(test)]
mod tests {
    use sandboxes::lean::{Message, Position};

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
    fn the_first_error_is_returned_with_its_line() {
        let error = |line, data| message(Severity::Error, line, data);
        let warning = message(Severity::Warning, 1, "declaration uses 'sorry'");
        let mut messages = Messages {
            header: vec![],
            body: vec![warning, error(2, "unsolved goals"), error(3, "more")],
        };
        assert_eq!(
            first_error(&messages),
            Some(("unsolved goals".into(), Some(2)))
        );
        messages.header.push(error(1, "unknown module"));
        let (why, line) = first_error(&messages).unwrap();
        assert_eq!(
            (why.as_str(), line),
            ("Lean does not accept the header: unknown module", None)
        );
        assert_eq!(first_error(&Messages::default()), None);
    }
}
