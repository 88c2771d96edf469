//! A tree of messages. Each names the previous one; they are in any order, and one path is active.

use std::collections::HashMap;

use unisono_context::MessageId;

use super::draft::{Draft, DraftMessage, Parent};
use super::json::Value;
use super::source::Problem;

/// A message of the file, which is converted to any number of messages.
pub(super) struct Node<'t> {
    pub(super) id: String,
    pub(super) parent: Option<String>,
    pub(super) value: Value<'t>,
}

/// Reads a tree. The active path ends at `current`, else at the last message. It is read first and
/// becomes `main`.
pub(super) fn read<'t>(
    nodes: &[Node<'t>],
    current: Option<&str>,
    draft: &mut Draft<'t, '_, '_>,
    convert: impl Fn(Value<'t>, &mut Draft<'t, '_, '_>) -> Result<Vec<DraftMessage>, Problem<'t>>,
) {
    let by_id = nodes.iter().enumerate();
    let by_id: HashMap<&str, usize> = by_id.map(|(at, node)| (node.id.as_str(), at)).collect();
    let mut parents = Vec::with_capacity(nodes.len());
    for node in nodes {
        let named = node.parent.as_deref();
        let parent = named.and_then(|id| by_id.get(id).copied());
        if let (Some(id), None) = (named, parent) {
            let reason = format!(
                "the message before it, {id:?}, is missing; it is treated as a first message"
            );
            draft.warn(node.value.wrong(reason));
        }
        parents.push(parent);
    }
    let current = current.and_then(|id| by_id.get(id).copied());
    let current = current.or(nodes.len().checked_sub(1));
    let mut ends: Vec<Option<MessageId>> = vec![None; nodes.len()];
    let order = order(&parents, current);
    for &at in &order {
        ends[at] = parents[at].and_then(|parent| ends[parent]);
        let value = nodes[at].value;
        match convert(value, draft) {
            Ok(messages) => {
                for message in messages {
                    let parent = ends[at].map_or(Parent::Root, Parent::Message);
                    let message = DraftMessage { parent, ..message };
                    ends[at] = draft.place(value.raw(), message).or(ends[at]);
                }
            }
            Err(problem) => draft.bad(problem),
        }
    }
    let mut read = vec![false; nodes.len()];
    order.iter().for_each(|at| read[*at] = true);
    let lost = nodes.iter().zip(read).filter(|(_, read)| !read);
    for (node, _) in lost {
        let reason = "the message is its own predecessor, or follows such a message";
        draft.bad(node.value.wrong(reason));
    }
    draft.main = current.and_then(|at| ends[at]);
}

/// The nodes that are reachable from a root, each after its parent, those on the path to `current`
/// first.
fn order(parents: &[Option<usize>], current: Option<usize>) -> Vec<usize> {
    let mut children = vec![Vec::new(); parents.len()];
    for (at, parent) in parents.iter().enumerate() {
        if let Some(parent) = parent {
            children[*parent].push(at);
        }
    }
    let mut is_active = vec![false; parents.len()];
    let mut next = current;
    while let Some(at) = next.filter(|at| !is_active[*at]) {
        is_active[at] = true;
        next = parents[at];
    }
    let roots = (0..parents.len()).filter(|at| parents[*at].is_none());
    let mut open: Vec<usize> = roots.collect();
    // Nodes are taken from the end.
    let arrange = |some: &mut [usize]| {
        some.reverse();
        some.sort_by_key(|at| is_active[*at]);
    };
    arrange(&mut open);
    let mut order = Vec::with_capacity(parents.len());
    while let Some(at) = open.pop() {
        order.push(at);
        arrange(&mut children[at]);
        open.append(&mut children[at]);
    }
    order
}
