//! Texts are read and not run, and no text affects the outline of another.

use sandboxes::defined_names::{Outline, Text, read};
use sandboxes::{Limits, Sandbox};

use super::changed;

/// The outline of each text, read one after another within so much fuel.
fn outlines(sandbox: &dyn Sandbox, texts: &[String], fuel: u64) -> Vec<Outline> {
    let limits = changed(|it| it.fuel = fuel);
    let one = |text: &String| {
        let text = Text {
            header: "",
            text,
            loose: true,
        };
        read(sandbox, &[text], &limits).unwrap().remove(0)
    };
    texts.iter().map(one).collect()
}

pub(crate) fn the_outline_of_a_text_does_not_depend_on_earlier_texts(sandbox: &dyn Sandbox) {
    let mut texts = [
        "def f():\n    return g(1)\n",
        "Here it is:\ndef f(x): return x\nThat is all.",
        "raise SystemExit\nwhile True: pass\n",
        "import os; os._exit(0)\n",
        "# -*- coding: nothing-of-the-kind -*-\nx = 'é\u{1f600}'\n",
        "",
    ]
    .map(str::to_owned)
    .to_vec();
    texts.extend([
        "[".repeat(5_000),
        format!("x = {}1\n", "-".repeat(100_000)),
        format!("x = 1{}\n", "+1".repeat(50_000)),
        "def f():\n    pass\n".repeat(500),
    ]);
    // The least is that of a first pass.
    for fuel in [Limits::default().fuel, 2_000_000_000] {
        let forwards = outlines(sandbox, &texts, fuel);
        texts.reverse();
        let mut backwards = outlines(sandbox, &texts, fuel);
        backwards.reverse();
        texts.reverse();
        assert_eq!(forwards, backwards);
        let Outline { pieces, fault } = &forwards[0];
        assert!(pieces[0].defines == ["f"] && pieces[0].uses == ["g"] && fault.is_none());
    }
}
