//! For tests: texts of pages.

/// A text that is to have some others in it.
pub(crate) trait HasAll {
    fn has_all(&self, parts: &[&str]);
}

impl HasAll for str {
    #[track_caller]
    fn has_all(&self, parts: &[&str]) {
        for part in parts {
            assert!(self.contains(part), "{part:?} is missing: {self}");
        }
    }
}
