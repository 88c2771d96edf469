//! Labels and variables: texts by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Invalid;

/// Names and texts, ascending by name, each name once.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TextMap(Vec<(Arc<str>, Arc<str>)>);

impl From<&BTreeMap<Arc<str>, Arc<str>>> for TextMap {
    fn from(map: &BTreeMap<Arc<str>, Arc<str>>) -> Self {
        Self(
            map.iter()
                .map(|(name, text)| (name.clone(), text.clone()))
                .collect(),
        )
    }
}

impl TryFrom<TextMap> for BTreeMap<Arc<str>, Arc<str>> {
    type Error = Invalid;

    fn try_from(TextMap(pairs): TextMap) -> Result<Self, Invalid> {
        if pairs.is_sorted_by(|a, b| a.0 < b.0) {
            Ok(pairs.into_iter().collect())
        } else {
            Err(Invalid::Order { table: "names" })
        }
    }
}
