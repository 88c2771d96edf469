//! The journal as a disk stores it: records of bytes, of which a crash leaves any prefix.

use unisono_session::Event;

#[derive(Clone, Debug, Default)]
pub struct Journal {
    events: Vec<Event>,
    /// The end of each record, in bytes.
    ends: Vec<usize>,
    durable: usize,
}

impl Journal {
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// The number of events that are certainly on disk.
    pub fn durable(&self) -> usize {
        self.durable
    }

    pub fn push(&mut self, event: Event, bytes: usize) {
        let start = self.ends.last().copied().unwrap_or(0);
        self.ends.push(start + bytes.max(1));
        self.events.push(event);
    }

    pub fn sync(&mut self, up_to: usize) {
        self.durable = self.durable.max(up_to.min(self.len()));
    }

    /// The start of the records after the first `kept`, and the length of the next one.
    pub fn record_at(&self, kept: usize) -> (usize, usize) {
        let start = if kept == 0 { 0 } else { self.ends[kept - 1] };
        let end = self.ends.get(kept).copied().unwrap_or(start);
        (start, end - start)
    }

    /// Only the first `bytes` reached the disk; an incomplete record is dropped. Returns the lost
    /// events.
    pub fn cut(&mut self, bytes: usize) -> Vec<Event> {
        let kept = self.ends.partition_point(|end| *end <= bytes);
        assert!(kept >= self.durable, "what was synced stays");
        self.ends.truncate(kept);
        self.durable = kept;
        self.events.split_off(kept)
    }
}
