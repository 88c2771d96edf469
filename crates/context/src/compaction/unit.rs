//! Units: groups of messages that stay or leave together.

use crate::budget::Budget;
use crate::checkpoint::Span;
use crate::ids::Ordinal;
use crate::message::Role;
use crate::tokens::Count;
use crate::view::{Item, View};

/// A message, or an assistant message with its tool calls, all their results and all messages
/// between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Its messages.
    pub span: Span,
    /// Its tokens in the current form, the dialect's overhead included.
    pub count: Count,
    /// Whether it begins with a user message.
    pub user: bool,
    /// Whether one of its messages must stay.
    pub pinned: bool,
}

/// The uncovered messages of a view as units, oldest first.
pub(super) fn units(view: &View<'_>, items: &[Item<'_>], budget: &Budget) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::with_capacity(items.len());
    for item in items {
        let ordinal = item.ordinal();
        let mut unit = Unit {
            span: Span::new(ordinal, ordinal),
            count: item.count(budget) + Count::exact(budget.per_message.0),
            user: item.role() == Role::User,
            pinned: view.is_pinned(ordinal),
        };
        // A result that arrived after its call was covered has no unit to stay with.
        let first = item.node.unit_start;
        if first < ordinal && position(&units, first).is_some() {
            while let Some(older) = units.pop_if(|older| older.span.last >= first) {
                unit = joined(older, unit);
            }
        }
        units.push(unit);
    }
    units
}

fn joined(older: Unit, newer: Unit) -> Unit {
    Unit {
        span: Span::new(older.span.first, newer.span.last),
        count: older.count + newer.count,
        user: older.user,
        pinned: older.pinned || newer.pinned,
    }
}

/// The index of the unit of a message. Units are ascending and disjoint.
pub(super) fn position(units: &[Unit], ordinal: Ordinal) -> Option<usize> {
    let at = units.partition_point(|unit| unit.span.last < ordinal);
    units
        .get(at)
        .filter(|unit| unit.span.contains(ordinal))
        .map(|_| at)
}
