//! Which functions are charged on entry: enough that no recursion goes without.

use std::collections::BTreeSet;

use super::ModuleSummary;

/// Every cycle of calls enters one of these.
///
/// A cycle with an indirect call in it enters a function that is called indirectly and from which an indirect call can be reached: all of those
/// are charged. What cycles are left are of calls by name alone, and of each of them a depth-first search finds an entry.
pub(super) fn entries(summary: &ModuleSummary) -> BTreeSet<u32> {
    let reaching = reaching(summary);
    let mut charged: BTreeSet<u32> = summary
        .taken
        .iter()
        .copied()
        .filter(|function| reaching.contains(function))
        .collect();
    charged.extend(called_again(summary, &charged));
    charged
}

/// The functions from which an indirect call can be reached: by themselves or through what they call by name. An imported one may call back.
fn reaching(summary: &ModuleSummary) -> BTreeSet<u32> {
    let mut callers = vec![Vec::new(); summary.imported as usize + summary.calls.len()];
    for (caller, calls) in (summary.imported..).zip(&summary.calls) {
        for &callee in calls {
            callers[callee as usize].push(caller);
        }
    }
    let mut reaching = BTreeSet::new();
    let mut open: Vec<u32> = (0..summary.imported)
        .chain(summary.indirect.iter().copied())
        .collect();
    while let Some(function) = open.pop() {
        if reaching.insert(function) {
            open.extend(&callers[function as usize]);
        }
    }
    reaching
}

/// The functions that a depth-first search over calls by name, those of `charged` ones left out, meets again while it is still in them.
fn called_again(summary: &ModuleSummary, charged: &BTreeSet<u32>) -> BTreeSet<u32> {
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        Unseen,
        Open,
        Done,
    }
    let mut states = vec![State::Unseen; summary.calls.len()];
    let mut again = BTreeSet::new();
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
                    again.insert(callee);
                }
                State::Done => {}
            }
        }
    }
    again
}
