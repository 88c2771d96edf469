//! The position of the reader in a file, and the kept part of its text.

use std::cell::RefCell;
use std::rc::Rc;

use crate::transcript::source::Place;

/// The maximum size of a file's first object over several lines; beyond it the first line counts as broken.
pub(super) const OBJECT_BYTES: usize = 64 << 20;

/// The current position, shared by the text and the visitors of its values.
#[derive(Clone, Default)]
pub(super) struct SharedTracker(Rc<RefCell<Tracker>>);

#[derive(Default)]
struct Tracker {
    next: Place,
    last: Place,
    offset: u64,
    /// The start of the current value, once known.
    value_start: Option<Place>,
    /// The kept text, from the first value after the last mark on.
    kept: Option<Vec<u8>>,
    kept_from: Place,
    /// The maximum size of the kept text if it has several lines.
    most_kept: usize,
    recorded: Option<Vec<u8>>,
}

impl Tracker {
    /// Advances by a byte. Returns false if the kept text is too large.
    fn advance(&mut self, byte: u8) -> bool {
        let between = byte.is_ascii_whitespace() || byte == b',' || byte == b':';
        if self.value_start.is_none() && !between {
            self.value_start = Some(self.next);
        }
        if let Some(kept) = &mut self.kept
            && !(kept.is_empty() && between)
        {
            if kept.is_empty() {
                self.kept_from = self.next;
            }
            kept.push(byte);
        }
        if let Some(recorded) = &mut self.recorded {
            recorded.push(byte);
        }
        self.offset += 1;
        if byte & 0xc0 != 0x80 {
            self.last = self.next;
        }
        self.next = self.next.after_byte(byte);
        let several_lines = self.next.line > self.kept_from.line;
        !several_lines
            || self
                .kept
                .as_ref()
                .is_none_or(|kept| kept.len() < self.most_kept)
    }
}

impl SharedTracker {
    /// Sets the position of the beginning.
    pub(super) fn start(&self, place: Place) {
        let mut track = self.0.borrow_mut();
        (track.next, track.last) = (place, place);
    }

    /// Skips bytes that are not part of the text.
    pub(super) fn skip(&self, bytes: usize) {
        self.0.borrow_mut().offset += bytes as u64;
    }

    /// The number of bytes read.
    pub(super) fn offset(&self) -> u64 {
        self.0.borrow().offset
    }

    /// Advances by a byte. Returns false if the kept text is too large.
    pub(super) fn advance(&self, byte: u8) -> bool {
        self.0.borrow_mut().advance(byte)
    }

    /// Starts keeping the text, from the next value on; at most this many bytes over several lines.
    pub(super) fn start_keeping(&self, most: usize) {
        let mut track = self.0.borrow_mut();
        track.most_kept = most;
        track.value_start = None;
        track.kept.get_or_insert_default().clear();
        track.kept_from = track.next;
    }

    /// Prepares for the next value.
    pub(super) fn expect_value(&self) {
        self.0.borrow_mut().value_start = None;
    }

    pub(super) fn value_start(&self) -> Place {
        let track = self.0.borrow();
        track.value_start.unwrap_or(track.last)
    }

    pub(super) fn take(&self) -> (Place, Vec<u8>) {
        let mut track = self.0.borrow_mut();
        (track.kept_from, track.kept.take().unwrap_or_default())
    }

    pub(super) fn drop_kept(&self) {
        self.0.borrow_mut().kept = None;
    }

    /// Records the text from here on, also if none is kept.
    pub(super) fn record(&self) {
        self.0.borrow_mut().recorded = Some(Vec::new());
    }

    pub(super) fn recorded(&self) -> Vec<u8> {
        let mut track = self.0.borrow_mut();
        track.recorded.take().unwrap_or_default()
    }

    pub(super) fn last(&self) -> Place {
        self.0.borrow().last
    }

    pub(super) fn next(&self) -> Place {
        self.0.borrow().next
    }
}
