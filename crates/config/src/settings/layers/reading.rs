//! Reads the layers. In order, later ones have precedence:
//!
//! defaults, machine, person, project, settings changed at run time, session, environment, flags.
//! The layer of a session is not a source of the program: it is inserted when a session is shown or
//! changed.

use std::io;
use std::path::{Path, PathBuf};

use super::Layer;
use crate::diagnostic::{Diagnostic, Diagnostics, Origin, Place};
use crate::document::{self, Entry, Node, Table, Value};
use crate::paths;
use crate::schema::{self, Kind};
use crate::settings::DEFAULTS;
use crate::settings::keys::ALL;
use crate::settings::overrides::SessionOverrides;
use crate::settings::sources::{FILE, Override, PREFIX, Sources, is_there};
use crate::settings::stored::{STORED, path_of};

/// Every layer with its paths made absolute; errors are reported and omitted.
pub(super) fn layers(sources: &Sources, found: &mut Diagnostics) -> Vec<Layer> {
    let files = files(sources, found);
    let mut of_defaults = Diagnostics::default();
    let mut below: Vec<Layer> = files
        .into_iter()
        .map(|(layer, base)| match layer.origin {
            Origin::Defaults => checked(layer, &base, sources, &mut of_defaults),
            _ => checked(layer, &base, sources, found),
        })
        .collect();
    let directory = &sources.directory;
    let above: Vec<Layer> = settings(sources, found)
        .into_iter()
        .map(|layer| checked(layer, directory, sources, found))
        .collect();
    // The other layers determine the store.
    let all = below.iter().chain(&above);
    let at_run_time = store(all).and_then(|store| stored(sources, &store, found));
    below.extend(at_run_time.map(|layer| checked(layer, directory, sources, found)));
    below.extend(above);
    // A default that another layer replaces need not be possible here.
    let is_replaced = |one: &Diagnostic| {
        let path = one.key.as_deref().map(path_of).unwrap_or_default();
        below.iter().any(|layer| layer.table.find(&path).is_some())
    };
    let wrong = of_defaults.iter().filter(|one| !is_replaced(one));
    wrong.for_each(|one| found.push(one.clone()));
    below
}

fn checked(mut layer: Layer, base: &Path, sources: &Sources, found: &mut Diagnostics) -> Layer {
    schema::check(&mut layer.table, ALL, "", found);
    sources
        .home
        .expand_all(&mut layer.table, ALL, "", base, found);
    layer
}

fn store<'l>(layers: impl DoubleEndedIterator<Item = &'l Layer>) -> Option<PathBuf> {
    let key = ["store".to_owned(), "path".to_owned()];
    let mut paths = layers.rev().filter_map(|layer| {
        let entry = layer.table.find(&key)?;
        entry.node.value.as_text().map(PathBuf::from)
    });
    paths.next()
}

/// The settings changed while the program ran.
fn stored(sources: &Sources, store: &Path, found: &mut Diagnostics) -> Option<Layer> {
    let path = store.join(STORED);
    let Some(text) = &sources.stored else {
        return read_file(sources, &path, false, found);
    };
    let shown = paths::display_path(&path, &sources.directory);
    parse(Origin::File(shown), text, found)
}

/// The layers that are files, each with the base of its relative paths.
fn files(sources: &Sources, found: &mut Diagnostics) -> Vec<(Layer, PathBuf)> {
    let mut all = Vec::new();
    let mut add = |layer: Option<Layer>, base: &Path| {
        all.extend(layer.map(|layer| (layer, base.to_owned())));
    };
    let directory = &sources.directory;
    add(parse(Origin::Defaults, DEFAULTS, found), directory);
    let person = sources.home.settings().map(|dir| dir.join(FILE));
    for path in [sources.system.clone(), person].into_iter().flatten() {
        let base = path.parent().unwrap_or(directory);
        add(read_file(sources, &path, false, found), base);
    }
    if let Some(path) = sources.project_path() {
        let base = sources.project();
        let layer = read_file(sources, &path, sources.file.is_some(), found);
        add(layer, base.as_deref().unwrap_or(directory));
    }
    all
}

/// One layer per variable, then one per flag.
fn settings(sources: &Sources, found: &mut Diagnostics) -> Vec<Layer> {
    let variables = sources.env.iter().filter_map(|(name, value)| {
        let path = path_of_variable(name.strip_prefix(PREFIX)?);
        let origin = Origin::Env(name.clone());
        let Some(value) = value.to_str() else {
            let place = Place::of_origin(origin);
            found.push(Diagnostic::error(place, "its value is not UTF-8"));
            return None;
        };
        Some(setting(origin, path, value))
    });
    variables
        .chain(sources.overrides.iter().map(flag))
        .collect()
}

/// The keys of a variable, in lower case. A name in a table of texts, such as a variable of a program,
/// keeps its case and may contain `__`. The name of a header has no case.
fn path_of_variable(name: &str) -> Vec<String> {
    let parts: Vec<&str> = name.split("__").collect();
    let mut path: Vec<String> = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        if matches!(schema::kind_at(ALL, &path), Some(Kind::TextMap)) {
            let name = parts[at..].join("__");
            let is_header = path.last().is_some_and(|table| table == "headers");
            path.push(if is_header { name.to_lowercase() } else { name });
            break;
        }
        path.push(part.to_lowercase());
    }
    path
}

fn flag(over: &Override) -> Layer {
    let path = path_of(&over.key);
    setting(Origin::Flag(over.flag.clone()), path, &over.value)
}

pub(super) fn flags(
    sources: &Sources,
    settings: &[Override],
    found: &mut Diagnostics,
) -> Vec<Layer> {
    let layers = settings.iter().map(flag);
    layers
        .map(|layer| checked(layer, &sources.directory, sources, found))
        .collect()
}

pub(super) fn of_session(
    sources: &Sources,
    own: &SessionOverrides,
    found: &mut Diagnostics,
) -> Layer {
    let mut table = Table::default();
    for (key, value) in own {
        let path = path_of(key);
        table.overlay(&setting(Origin::Session, path, value).table);
    }
    let origin = Origin::Session;
    checked(Layer { origin, table }, &sources.directory, sources, found)
}

/// Whether neither the file nor its directory exists.
fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory)
}

/// Reads a file if it exists; a requested file must exist. A copy of the defaults is not a layer:
/// it would hide the layers below.
fn read_file(
    sources: &Sources,
    path: &Path,
    asked_for: bool,
    found: &mut Diagnostics,
) -> Option<Layer> {
    let shown = paths::display_path(path, &sources.directory);
    let origin = Origin::File(shown.clone());
    let read = match sources.texts.get(path) {
        Some(Some(text)) => Ok(text.clone()),
        Some(None) if !asked_for => return None,
        _ => std::fs::read_to_string(path),
    };
    match read {
        Ok(text) if text == DEFAULTS => None,
        Ok(text) => parse(origin, &text, found),
        Err(error) if is_absent(&error) && !asked_for && !is_there(path) => None,
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

/// A layer with one value, given as text.
fn setting(origin: Origin, path: Vec<String>, raw: &str) -> Layer {
    let place = Place::of_origin(origin.clone());
    let kind = schema::kind_at(ALL, &path);
    let node = |value| Node {
        value,
        place: place.clone(),
    };
    let value = match kind {
        Some(Kind::Texts) => {
            let items = schema::coerce_list(raw).into_iter();
            Value::List(items.map(|item| node(Value::Text(item))).collect())
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
