//! Which functions are charged on entry: enough that no recursion goes without.

use std::collections::BTreeSet;

use super::Plan;

/// Every cycle of calls enters one of these.
///
/// A cycle with an indirect call in it enters a function that is called indirectly and from which an indirect call can be reached: all of those
/// are charged. What cycles are left are of calls by name alone, and of each of them a depth-first search finds an entry.
pub(super) fn entries(plan: &Plan) -> BTreeSet<u32> {
    let reaching = reaching(plan);
    let mut charged: BTreeSet<u32> = plan
        .taken
        .iter()
        .copied()
        .filter(|function| reaching.contains(function))
        .collect();
    charged.extend(called_again(plan, &charged));
    charged
}

/// The functions from which an indirect call can be reached: by themselves or through what they call by name. An imported one may call back.
fn reaching(plan: &Plan) -> BTreeSet<u32> {
    let mut callers = vec![Vec::new(); plan.imported as usize + plan.calls.len()];
    for (caller, calls) in (plan.imported..).zip(&plan.calls) {
        for &callee in calls {
            callers[callee as usize].push(caller);
        }
    }
    let mut reaching = BTreeSet::new();
    let mut open: Vec<u32> = (0..plan.imported)
        .chain(plan.indirect.iter().copied())
        .collect();
    while let Some(function) = open.pop() {
        if reaching.insert(function) {
            open.extend(&callers[function as usize]);
        }
    }
    reaching
}

/// The functions that a depth-first search over calls by name, those of `charged` ones left out, meets again while it is still in them.
fn called_again(plan: &Plan, charged: &BTreeSet<u32>) -> BTreeSet<u32> {
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        Unseen,
        Open,
        Done,
    }
    let mut states = vec![State::Unseen; plan.calls.len()];
    let mut again = BTreeSet::new();
    let mut path = Vec::new();
    for root in 0..plan.calls.len() {
        if states[root] != State::Unseen {
            continue;
        }
        states[root] = State::Open;
        path.push((root, plan.calls[root].iter()));
        while let Some((caller, calls)) = path.last_mut() {
            let Some(&callee) = calls.next() else {
                states[*caller] = State::Done;
                path.pop();
                continue;
            };
            if callee < plan.imported || charged.contains(&callee) {
                continue;
            }
            let index = (callee - plan.imported) as usize;
            match states[index] {
                State::Unseen => {
                    states[index] = State::Open;
                    path.push((index, plan.calls[index].iter()));
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
