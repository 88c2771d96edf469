//! Which parts of a benchmark are run.

/// Whether a part was asked for, as in `cargo bench -p unisono-benches --bench cluster -- takeover`; all
/// parts are if none is named.
pub fn is_asked(part: &str) -> bool {
    let named = std::env::args().skip(1);
    let mut named = named.filter(|argument| !argument.starts_with('-'));
    match named.next() {
        None => true,
        Some(first) => first == part || named.any(|other| other == part),
    }
}
