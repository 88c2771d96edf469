//! The layers of the configuration, each with the positions of its keys, and their merge.
//!
//! [`reading`] defines the layers and their precedence.

mod reading;

use figment::value::{Dict, Map};
use figment::{Figment, Metadata, Profile, Provider};

use super::keys::EXCLUSIVE;
use super::overrides::SessionOverrides;
use super::sources::{Override, Sources};
use crate::diagnostic::{Diagnostic, Diagnostics, Origin, Place};
use crate::document::{Entry, Table, Value};
use crate::schema;

#[derive(Clone, Debug)]
pub(crate) struct Layer {
    pub(crate) origin: Origin,
    pub(crate) table: Table,
}

/// All layers, the highest precedence last.
#[derive(Clone, Debug)]
pub(crate) struct Layers(Vec<Layer>);

impl Layers {
    /// Reads, checks and completes every layer. Errors are reported and omitted.
    pub(crate) fn read(sources: &Sources, found: &mut Diagnostics) -> Layers {
        let mut layers = Layers(reading::layers(sources, found));
        layers.keep_one_of_each_group(found);
        layers
    }

    /// The same layers with the settings of a session in their place, and with settings above all
    /// others.
    pub(crate) fn with(
        &self,
        sources: &Sources,
        own: &SessionOverrides,
        settings: &[Override],
        found: &mut Diagnostics,
    ) -> Layers {
        let mut layers = self.clone();
        layers.put(reading::of_session(sources, own, found));
        layers.0.extend(reading::flags(sources, settings, found));
        layers.keep_one_of_each_group(found);
        layers
    }

    /// Inserts the layer of a session below those of the process. Its policy numbers apply to every
    /// model of the lead: lower layers no longer set them for a model or provider.
    fn put(&mut self, session: Layer) {
        let is_of_process =
            |layer: &Layer| matches!(layer.origin, Origin::Env(_) | Origin::Flag(_));
        let at = self.0.iter().position(is_of_process);
        let at = at.unwrap_or(self.0.len());
        let own = session.table.table("compaction");
        let own: Vec<&str> = own.into_iter().flat_map(Table::keys).collect();
        for layer in &mut self.0[..at] {
            let scopes = policy_scopes(&layer.table).into_iter();
            for scope in scopes.filter(|scope| scope.len() > 1) {
                if let Some(table) = scope_mut(&mut layer.table, &scope) {
                    table.retain(|entry| !own.iter().any(|key| say_the_same(key, &entry.key)));
                }
            }
        }
        self.0.insert(at, session);
    }

    /// Everything merged.
    pub(crate) fn figment(&self) -> Figment {
        self.0
            .iter()
            .fold(Figment::new(), |all, layer| all.merge(layer))
    }

    /// The entry with the value of a key, and its layer.
    pub(crate) fn find(&self, path: &[String]) -> Option<(&Layer, &Entry)> {
        let mut layers = self.0.iter().rev();
        layers.find_map(|layer| layer.table.find(path).map(|entry| (layer, entry)))
    }

    /// The position of a key's value.
    pub(crate) fn place(&self, path: &[&str]) -> Place {
        let path: Vec<String> = path.iter().map(|key| (*key).to_owned()).collect();
        match self.find(&path) {
            Some((_, entry)) => entry.place.clone(),
            None => Place::of_origin(Origin::Defaults),
        }
    }

    pub(crate) fn agents(&self) -> Table {
        let mut all = Table::default();
        for agents in self
            .0
            .iter()
            .filter_map(|layer| layer.table.table("agents"))
        {
            all.overlay(agents);
        }
        all
    }

    /// Of keys for the same value, the key of the latest layer stays. Two in one layer contradict
    /// each other.
    fn keep_one_of_each_group(&mut self, found: &mut Diagnostics) {
        let mut scopes: Vec<Vec<String>> = Vec::new();
        for layer in &self.0 {
            scopes.extend(policy_scopes(&layer.table));
        }
        scopes.sort();
        scopes.dedup();
        for scope in scopes {
            for group in EXCLUSIVE {
                let mut taken = false;
                for layer in self.0.iter_mut().rev() {
                    if let Some(table) = scope_mut(&mut layer.table, &scope) {
                        taken |= keep_one(table, group, taken, &scope, found);
                    }
                }
            }
        }
    }
}

/// Removes a group's keys from a table if a later layer has one, otherwise all but the first.
/// Returns whether one is left.
fn keep_one(
    table: &mut Table,
    group: &[&str],
    taken: bool,
    scope: &[String],
    found: &mut Diagnostics,
) -> bool {
    let mut first: Option<Entry> = None;
    table.retain(|entry| {
        if !group.contains(&entry.key.as_str()) {
            return true;
        }
        if let Some(first) = first.as_ref().filter(|_| !taken) {
            let scope = schema::dotted(scope);
            let problem = format!(
                "`{scope}.{}` contradicts `{scope}.{}` ({})",
                entry.key, first.key, first.place
            );
            let help = format!("keep one of {}", group.join(", "));
            let diagnostic = Diagnostic::error(entry.place.clone(), problem);
            found.push(
                diagnostic
                    .with_key(format!("{scope}.{}", entry.key))
                    .help(help),
            );
            return false;
        }
        if !taken {
            first = Some(entry.clone());
        }
        !taken
    });
    first.is_some()
}

/// Whether two keys of a policy are equal, or set the same value in different units.
fn say_the_same(a: &str, b: &str) -> bool {
    let together = |group: &&[&str]| group.contains(&a) && group.contains(&b);
    a == b || EXCLUSIVE.iter().any(together)
}

/// The paths of the tables that hold a policy's numbers.
fn policy_scopes(table: &Table) -> Vec<Vec<String>> {
    let Some(compaction) = table.table("compaction") else {
        return Vec::new();
    };
    let own = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect();
    let mut scopes: Vec<Vec<String>> = vec![own(&["compaction"])];
    for kind in ["providers", "models"] {
        let names = compaction.table(kind).into_iter().flat_map(Table::keys);
        scopes.extend(names.map(|name| own(&["compaction", kind, name])));
    }
    scopes
}

fn scope_mut<'t>(table: &'t mut Table, scope: &[String]) -> Option<&'t mut Table> {
    match scope.split_first() {
        None => Some(table),
        Some((key, rest)) => scope_mut(table.table_mut(key)?, rest),
    }
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.origin.to_string())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Profile::Default.collect(dict(&self.table)))
    }
}

fn dict(table: &Table) -> Dict {
    let entries = table.iter();
    entries
        .map(|entry| (entry.key.clone(), value(&entry.node.value)))
        .collect()
}

fn value(from: &Value) -> figment::value::Value {
    match from {
        Value::Null => figment::value::Value::from(""),
        Value::Bool(value) => (*value).into(),
        Value::Integer(n) => (*n).into(),
        Value::Float(x) => (*x).into(),
        Value::Text(text) => text.clone().into(),
        Value::List(items) => {
            let items: Vec<_> = items.iter().map(|item| value(&item.value)).collect();
            items.into()
        }
        Value::Table(table) => dict(table).into(),
    }
}
