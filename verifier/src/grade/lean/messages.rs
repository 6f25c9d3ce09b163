//! What Lean says of a proof, and what follows from it.

use sandboxes::lean::{Message, Said, Severity};

use super::proof::{Axioms, Body};

/// Axioms that Lean's own library rests on.
const AXIOMS: [&str; 3] = ["propext", "Quot.sound", "Classical.choice"];

/// What the messages come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Proved, from these axioms; `None` where Lean was not asked for them.
    Proved(Option<Vec<String>>),
    /// Not proved: the first reason, and its line in the proof where it has one.
    Unproved(String, Option<usize>),
    /// The task's own header or statement is not accepted here.
    BadTask(String),
}

/// What follows from what Lean said.
pub(super) fn outcome(body: &Body, said: &Said) -> Outcome {
    let error = |message: &&Message| message.severity == Severity::Error;
    let line = |message: &Message| message.pos.line;
    let in_proof =
        |message: &Message| (line(message) < body.closed).then(|| line(message) + 1 - body.proof);
    if let Some(first) = said.header.iter().find(error) {
        return Outcome::BadTask(format!("Lean does not accept the header: {}", first.data));
    }
    if let Some(first) = said
        .body
        .iter()
        .filter(error)
        .find(|message| line(message) < body.proof)
    {
        return Outcome::BadTask(format!(
            "Lean does not accept the statement: {}",
            first.data
        ));
    }
    if let Some(first) = said.body.iter().find(error) {
        let place = in_proof(first);
        let reason = match place {
            Some(_) => first.data.clone(),
            None if line(first) < body.proved => {
                format!("the proof does not end where its text does: {}", first.data)
            }
            None => format!("what is proved is not what was asked for: {}", first.data),
        };
        return Outcome::Unproved(reason, place);
    }
    let assumes = |message: &&Message| {
        let sorry = message.data.starts_with("declaration uses") && message.data.contains("sorry");
        message.severity == Severity::Warning && sorry && line(message) >= body.proof
    };
    if let Some(first) = said.body.iter().find(assumes) {
        return Outcome::Unproved(first.data.clone(), in_proof(first));
    }
    let last: Vec<&Message> = said
        .body
        .iter()
        .filter(|message| line(message) == body.end)
        .collect();
    let [last] = last.as_slice() else {
        return Outcome::Unproved("Lean did not come to the end of the file".into(), None);
    };
    let astray = || {
        Outcome::Unproved(
            format!("Lean came to another end than it should: {}", last.data),
            None,
        )
    };
    match body.axioms {
        Axioms::Scanned if last.data.trim() == body.name => Outcome::Proved(None),
        Axioms::Scanned => astray(),
        Axioms::Printed => match axioms(&last.data, &body.name) {
            None => astray(),
            Some(axioms) => match axioms
                .iter()
                .find(|axiom| !AXIOMS.contains(&axiom.as_str()))
            {
                Some(other) if other == "sorryAx" => {
                    Outcome::Unproved("it leaves something unproved (`sorryAx`)".into(), None)
                }
                Some(other) => Outcome::Unproved(format!("it rests on the axiom `{other}`"), None),
                None => Outcome::Proved(Some(axioms)),
            },
        },
    }
}

/// `'NAME' depends on axioms: [a, b]`, or `'NAME' does not depend on any axioms`.
fn axioms(text: &str, name: &str) -> Option<Vec<String>> {
    let rest = text.trim().strip_prefix(&format!("'{name}' "))?;
    if rest.starts_with("does not depend on any axioms") {
        return Some(Vec::new());
    }
    let list = rest.strip_prefix("depends on axioms:")?.trim();
    let list = list.strip_prefix('[')?.strip_suffix(']')?;
    Some(
        list.split(',')
            .map(|axiom| axiom.trim().to_owned())
            .filter(|axiom| !axiom.is_empty())
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use sandboxes::lean::Position;

    use super::super::proof::{self, Task};
    use super::*;

    fn given(axioms: Axioms) -> Body {
        let task = Task {
            header: "",
            statement: "theorem t : 1 = 1 := by",
        };
        proof::body(task, "rfl", axioms).unwrap()
    }

    fn said(severity: Severity, line: usize, data: &str) -> Message {
        Message {
            severity,
            pos: Position { line, column: 0 },
            data: data.into(),
        }
    }

    fn axioms_said(body: &Body, list: &str) -> Message {
        said(
            Severity::Information,
            body.end,
            &format!("'{}' {list}", body.name),
        )
    }

    fn judged(body: &Body, messages: &[Message]) -> Outcome {
        outcome(
            body,
            &Said {
                header: vec![],
                body: messages.to_vec(),
            },
        )
    }

    const SORRY: &str = "declaration uses 'sorry'";

    #[test]
    fn a_proof_rests_on_allowed_axioms_and_nothing_went_wrong() {
        let body = given(Axioms::Printed);
        let sorry = said(Severity::Warning, 1, SORRY);
        let none = axioms_said(&body, "does not depend on any axioms");
        assert_eq!(
            judged(&body, &[sorry.clone(), none]),
            Outcome::Proved(Some(vec![]))
        );
        let two = axioms_said(&body, "depends on axioms: [propext,\n Classical.choice]");
        assert_eq!(
            judged(&body, &[sorry, two]),
            Outcome::Proved(Some(vec!["propext".into(), "Classical.choice".into()]))
        );
    }

    #[test]
    fn everything_else_is_no_proof() {
        let body = given(Axioms::Printed);
        let fine = axioms_said(&body, "does not depend on any axioms");
        for messages in [
            vec![
                said(Severity::Error, body.proof, "unsolved goals"),
                fine.clone(),
            ],
            vec![
                said(Severity::Error, body.closed + 1, "Invalid name after `end`"),
                fine.clone(),
            ],
            vec![
                said(Severity::Error, body.proved, "type mismatch"),
                fine.clone(),
            ],
            vec![said(Severity::Warning, body.proof, SORRY), fine.clone()],
            vec![axioms_said(&body, "depends on axioms: [sorryAx]")],
            vec![axioms_said(&body, "depends on axioms: [propext, cheat]")],
            // No word of the axioms, another's, two, or in another place.
            vec![],
            vec![said(
                Severity::Information,
                body.end,
                "'other' does not depend on any axioms",
            )],
            vec![fine.clone(), fine.clone()],
            vec![said(Severity::Information, body.proof, &fine.data)],
        ] {
            assert!(
                matches!(judged(&body, &messages), Outcome::Unproved(..)),
                "{messages:?}"
            );
        }
    }

    #[test]
    fn where_a_fault_lies_is_told() {
        let body = given(Axioms::Printed);
        for (line, wanted, place) in [
            (body.proof, "wrong", Some(1)),
            (body.closed, "the proof does not end where", None),
            (body.closed + 1, "the proof does not end where", None),
            (body.proved, "what is proved is not what", None),
        ] {
            let Outcome::Unproved(why, at) = judged(&body, &[said(Severity::Error, line, "wrong")])
            else {
                panic!("an error is no proof")
            };
            assert!(why.starts_with(wanted) && at == place, "{line}: {why}");
        }
    }

    #[test]
    fn the_tasks_own_faults_are_not_the_proofs() {
        let body = given(Axioms::Printed);
        let fine = axioms_said(&body, "does not depend on any axioms");
        let wrong = said(Severity::Error, 1, "unknown identifier");
        assert!(matches!(
            judged(&body, &[wrong.clone(), fine]),
            Outcome::BadTask(_)
        ));
        let header = Said {
            header: vec![wrong],
            body: vec![],
        };
        assert!(matches!(outcome(&body, &header), Outcome::BadTask(_)));
    }

    #[test]
    fn without_a_list_of_axioms_lean_must_come_to_the_end_and_warn_of_nothing() {
        let body = given(Axioms::Scanned);
        let end = said(Severity::Information, body.end, &body.name);
        let asked = said(Severity::Warning, 1, "declaration uses `sorry`");
        assert_eq!(
            judged(&body, &[asked.clone(), end.clone()]),
            Outcome::Proved(None)
        );
        let sorry = said(Severity::Warning, body.proof, "declaration uses `sorry`");
        for messages in [
            vec![asked.clone()],
            vec![asked.clone(), sorry, end.clone()],
            vec![said(Severity::Information, body.end, "other")],
        ] {
            assert!(
                matches!(judged(&body, &messages), Outcome::Unproved(..)),
                "{messages:?}"
            );
        }
    }
}
