//! Chooses the functions that are charged on entry, so that all recursion is charged.

use std::collections::BTreeSet;

use super::ModuleSummary;

/// The functions that are charged on entry: every cycle of calls enters one of them.
///
/// A cycle with an indirect call enters a function that is called indirectly, and an indirect call can be reached from there. All such functions are charged. The other
/// cycles consist of calls by name only, and a depth-first search finds a function in each.
pub(super) fn entries(summary: &ModuleSummary) -> BTreeSet<u32> {
    let reaching = reaching(summary);
    let mut charged = &summary.called_indirectly & &reaching;
    charged.extend(recursive(summary, &charged));
    charged
}

/// The functions that lead to an indirect call, directly or through functions that they call by name. An imported function may call back.
fn reaching(summary: &ModuleSummary) -> BTreeSet<u32> {
    let mut callers = vec![Vec::new(); summary.imported as usize + summary.calls.len()];
    for (caller, calls) in (summary.imported..).zip(&summary.calls) {
        for &callee in calls {
            callers[callee as usize].push(caller);
        }
    }
    let mut reaching = BTreeSet::new();
    let mut open: Vec<u32> = (0..summary.imported)
        .chain(summary.calling_indirectly.iter().copied())
        .collect();
    while let Some(function) = open.pop() {
        if reaching.insert(function) {
            open.extend(&callers[function as usize]);
        }
    }
    reaching
}

/// The functions that a depth-first search over calls by name reaches again while they are on its path. It leaves the `charged` functions out.
fn recursive(summary: &ModuleSummary, charged: &BTreeSet<u32>) -> BTreeSet<u32> {
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        Unseen,
        Open,
        Done,
    }
    let mut states = vec![State::Unseen; summary.calls.len()];
    let mut recursive = BTreeSet::new();
    let mut path = Vec::new();
    for root in 0..summary.calls.len() {
        if states[root] != State::Unseen {
            continue;
        }
        states[root] = State::Open;
        path.push((root, summary.calls[root].iter()));
        while let Some((caller, calls)) = path.last_mut() {
            let Some(&callee) = calls.next() else {
                states[*caller] = State::Done;
                path.pop();
                continue;
            };
            if callee < summary.imported || charged.contains(&callee) {
                continue;
            }
            let index = (callee - summary.imported) as usize;
            match states[index] {
                State::Unseen => {
                    states[index] = State::Open;
                    path.push((index, summary.calls[index].iter()));
                }
                State::Open => {
                    recursive.insert(callee);
                }
                State::Done => {}
            }
        }
    }
    recursive
}
