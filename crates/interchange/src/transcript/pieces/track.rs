//! The position of the reader in a file, and the kept part of its text.

use std::cell::RefCell;
use std::rc::Rc;

use crate::transcript::source::Place;

/// An object over several lines is one object up to here; beyond it, the first line is broken.
const OBJECT_BYTES: usize = 64 << 20;

/// Where one is, for the text and for those who visit its values.
#[derive(Clone, Default)]
pub(super) struct Shared(Rc<RefCell<Track>>);

#[derive(Default)]
struct Track {
    next: Place,
    last: Place,
    offset: u64,
    /// Where the value under way begins, once it has begun.
    begun: Option<Place>,
    /// The text since the last mark, where it is kept: from its first value on.
    kept: Option<Vec<u8>>,
    kept_from: Place,
}

impl Track {
    /// Takes note of a byte; false if that is too much to be kept.
    fn saw(&mut self, byte: u8) -> bool {
        let between = byte.is_ascii_whitespace() || byte == b',' || byte == b':';
        if self.begun.is_none() && !between {
            self.begun = Some(self.next);
        }
        if let Some(kept) = &mut self.kept
            && !(kept.is_empty() && between)
        {
            if kept.is_empty() {
                self.kept_from = self.next;
            }
            kept.push(byte);
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
                .is_none_or(|kept| kept.len() < OBJECT_BYTES)
    }
}

impl Shared {
    /// The text begins there.
    pub(super) fn start(&self, place: Place) {
        let mut track = self.0.borrow_mut();
        (track.next, track.last) = (place, place);
    }

    /// So many bytes are no part of the text.
    pub(super) fn skip(&self, bytes: usize) {
        self.0.borrow_mut().offset += bytes as u64;
    }

    /// How many bytes were read.
    pub(super) fn offset(&self) -> u64 {
        self.0.borrow().offset
    }

    /// Takes note of a byte; false if that is too much to be kept.
    pub(super) fn saw(&self, byte: u8) -> bool {
        self.0.borrow_mut().saw(byte)
    }

    /// From the next value on, the text is kept.
    pub(super) fn mark(&self) {
        let mut track = self.0.borrow_mut();
        track.begun = None;
        track.kept.get_or_insert_default().clear();
        track.kept_from = track.next;
    }

    /// The next value begins somewhere behind.
    pub(super) fn begin(&self) {
        self.0.borrow_mut().begun = None;
    }

    /// Where the value begins that was read last.
    pub(super) fn begun(&self) -> Place {
        let track = self.0.borrow();
        track.begun.unwrap_or(track.last)
    }

    pub(super) fn take(&self) -> (Place, Vec<u8>) {
        let mut track = self.0.borrow_mut();
        (track.kept_from, track.kept.take().unwrap_or_default())
    }

    pub(super) fn drop_kept(&self) {
        self.0.borrow_mut().kept = None;
    }

    pub(super) fn last(&self) -> Place {
        self.0.borrow().last
    }

    pub(super) fn next(&self) -> Place {
        self.0.borrow().next
    }
}
