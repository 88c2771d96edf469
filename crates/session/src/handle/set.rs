//! Changes the session's overrides of settings.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::event::Fact;
use crate::refusal::Refusal;

use super::Recorder;

/// Records all overrides after the change; a change without effect is not recorded. Accepted turns
/// have their settings in the journal.
pub(super) fn handle(
    recorder: &mut Recorder<'_>,
    changes: BTreeMap<Arc<str>, Option<Arc<str>>>,
) -> Result<(), Refusal> {
    let mut settings = BTreeMap::clone(&recorder.state.settings);
    for (key, value) in changes {
        match value {
            Some(value) => settings.insert(key, value),
            None => settings.remove(&key),
        };
    }
    if settings == *recorder.state.settings {
        return Ok(());
    }
    Ok(recorder.record(Fact::SettingsSet { settings })?)
}
