//! The layers of the configuration, each with the places of its keys, and their merge.
//!
//! In order, later wins: defaults, machine, person, project, *(settings stored at run time)*,
//! *(session)*, environment, flags. The two in brackets are not there yet; they belong between
//! the project and the environment in [`Layers::read`].

use std::io;
use std::path::{Path, PathBuf};

use figment::value::{Dict, Map};
use figment::{Figment, Metadata, Profile, Provider};

use super::keys::{ALL, EXCLUSIVE};
use super::sources::{PREFIX, Sources};
use crate::diagnostic::{Diagnostic, Diagnostics, Origin, Place};
use crate::document::{self, Entry, Node, Table, Value};
use crate::schema::{self, Kind};
use crate::{DEFAULTS, paths};

/// One layer.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    pub(crate) origin: Origin,
    pub(crate) table: Table,
}

/// All layers, the one that wins last.
#[derive(Clone, Debug)]
pub(crate) struct Layers(Vec<Layer>);

impl Layers {
    /// Reads, checks and completes every layer. What is wrong is reported and left out.
    pub(crate) fn read(sources: &Sources, found: &mut Diagnostics) -> Layers {
        let mut layers = Layers(Vec::new());
        let directory = &sources.directory;
        let add = |layers: &mut Layers, layer: Option<Layer>, base: &Path, found: &mut _| {
            layers
                .0
                .extend(layer.map(|l| l.checked(sources, base, found)));
        };
        let defaults = parse(Origin::Defaults, DEFAULTS, found);
        add(&mut layers, defaults, directory, found);
        for path in [sources.system.clone(), person_file(sources)]
            .into_iter()
            .flatten()
        {
            let layer = read_file(sources, &path, false, found);
            add(
                &mut layers,
                layer,
                path.parent().unwrap_or(directory),
                found,
            );
        }
        if let Some(path) = sources.project_path() {
            let layer = read_file(sources, &path, sources.file.is_some(), found);
            let base = sources.project();
            add(
                &mut layers,
                layer,
                base.as_deref().unwrap_or(directory),
                found,
            );
        }
        let given = sources.env.iter().filter_map(|(name, value)| {
            let path = name.strip_prefix(PREFIX)?.to_lowercase();
            let path = path.split("__").map(str::to_owned).collect();
            Some(setting(Origin::Env(name.clone()), path, value))
        });
        let flags = sources.overrides.iter().map(|over| {
            let path = over.key.split('.').map(str::to_owned).collect();
            setting(Origin::Flag(over.flag.clone()), path, &over.value)
        });
        for layer in given.chain(flags) {
            add(&mut layers, Some(layer), directory, found);
        }
        layers.keep_one_of_each_group(found);
        layers
    }

    /// Everything merged.
    pub(crate) fn figment(&self) -> Figment {
        self.0
            .iter()
            .fold(Figment::new(), |all, layer| all.merge(layer))
    }

    /// The entry that a key's value comes from, and its layer.
    pub(crate) fn find(&self, path: &[String]) -> Option<(&Layer, &Entry)> {
        let mut layers = self.0.iter().rev();
        layers.find_map(|layer| layer.table.find(path).map(|entry| (layer, entry)))
    }

    /// The place of a key's value.
    pub(crate) fn place(&self, path: &[&str]) -> Place {
        let path: Vec<String> = path.iter().map(|key| (*key).to_owned()).collect();
        match self.find(&path) {
            Some((_, entry)) => entry.place.clone(),
            None => Place::whole(Origin::Defaults),
        }
    }

    /// The tables of agents, of all layers.
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

    /// Of keys that say the same thing, the latest layer's stays. Two in one layer contradict
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

/// Drops a group's keys from a table if a later layer has one, else all but the first. Returns
/// whether one is left.
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
            found.push(diagnostic.on(format!("{scope}.{}", entry.key)).help(help));
            return false;
        }
        if !taken {
            first = Some(entry.clone());
        }
        !taken
    });
    first.is_some()
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

impl Layer {
    /// With its faults reported and left out, and its paths made absolute.
    fn checked(mut self, sources: &Sources, base: &Path, found: &mut Diagnostics) -> Layer {
        schema::check(&mut self.table, ALL, "", found);
        sources.home.expand_all(&mut self.table, ALL, base, found);
        self
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

fn person_file(sources: &Sources) -> Option<PathBuf> {
    sources
        .home
        .settings()
        .map(|dir| dir.join(super::sources::FILE))
}

/// Reads a file if it is there; one that was asked for must be. A copy of the defaults is no
/// layer of its own: it would hide the layers below.
fn read_file(
    sources: &Sources,
    path: &Path,
    asked_for: bool,
    found: &mut Diagnostics,
) -> Option<Layer> {
    let shown = paths::shown(path, &sources.directory);
    let origin = Origin::File(shown.clone());
    match std::fs::read_to_string(path) {
        Ok(text) if text == DEFAULTS => None,
        Ok(text) => parse(origin, &text, found),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !asked_for => None,
        Err(error) => {
            let problem = format!("the settings cannot be read: {error}");
            found.push(Diagnostic::error(Place::file(&shown), problem));
            None
        }
    }
}

fn parse(origin: Origin, text: &str, found: &mut Diagnostics) -> Option<Layer> {
    let text = text.trim_start_matches('\u{feff}');
    match document::from_toml(origin.clone(), text) {
        Ok(table) => Some(Layer { origin, table }),
        Err(diagnostic) => {
            found.push(*diagnostic);
            None
        }
    }
}

/// A layer of one value, given as text.
fn setting(origin: Origin, path: Vec<String>, raw: &str) -> Layer {
    let place = Place::whole(origin.clone());
    let kind = schema::kind_at(ALL, &path);
    let node = |value| Node {
        value,
        place: place.clone(),
    };
    let value = match kind {
        Some(Kind::Texts) => {
            let items = schema::coerce_list(raw);
            Value::List(
                items
                    .map(|item| node(Value::Text(item.to_owned())))
                    .collect(),
            )
        }
        kind => schema::coerce(raw, kind),
    };
    let table = path.iter().rev().fold(value, |value, key| {
        let entry = Entry {
            key: key.clone(),
            place: place.clone(),
            node: node(value),
        };
        Value::Table([entry].into_iter().collect())
    });
    let table = match table {
        Value::Table(table) => table,
        _ => Table::default(),
    };
    Layer { origin, table }
}
