//! Ranges of messages.

use std::fmt;

use crate::ids::Ordinal;

/// A closed range of ordinals on a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// First message of the range.
    pub first: Ordinal,
    /// Last message of the range.
    pub last: Ordinal,
}

impl Span {
    /// A range; `first` must not be after `last`.
    pub const fn new(first: Ordinal, last: Ordinal) -> Span {
        Span { first, last }
    }

    /// Number of messages.
    pub const fn len(self) -> u32 {
        self.last.0 + 1 - self.first.0
    }

    /// Always false: a range holds at least one message.
    pub const fn is_empty(self) -> bool {
        false
    }

    /// Whether both have a message in common.
    pub fn overlaps(self, other: Span) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// The same messages in ascending ranges, with adjacent ranges joined.
    pub fn merged(mut spans: Vec<Span>) -> Vec<Span> {
        spans.sort_unstable();
        let mut out: Vec<Span> = Vec::with_capacity(spans.len());
        for span in spans {
            match out.last_mut() {
                Some(last) if span.first <= last.last.next() => {
                    last.last = last.last.max(span.last);
                }
                _ => out.push(span),
            }
        }
        out
    }

    /// The first list without the second; each list is ascending and disjoint.
    pub fn difference(spans: &[Span], others: &[Span]) -> Vec<Span> {
        let mut out = Vec::new();
        for span in spans {
            let mut next = span.first;
            for other in others.iter().filter(|other| other.overlaps(*span)) {
                if next < other.first {
                    out.push(Span::new(next, Ordinal(other.first.0 - 1)));
                }
                next = next.max(other.last.next());
            }
            if next <= span.last {
                out.push(Span::new(next, span.last));
            }
        }
        out
    }

    /// Whether the message is in the range.
    pub fn contains(self, ordinal: Ordinal) -> bool {
        self.first <= ordinal && ordinal <= self.last
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}–{}", self.first, self.last)
        }
    }
}
