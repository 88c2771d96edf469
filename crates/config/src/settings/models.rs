//! The models in settings, and the catalogue.

use std::path::PathBuf;

use unisono_model::catalogue::{Catalogue, EXTRACTIVE, Entry, FileError};

use super::layers::Layers;
use super::{AUTO, Config, Sources};
use crate::diagnostic::{Diagnostic, Diagnostics, Origin, Place};

/// The built-in catalogue with a person's own above it; none if a file is wrong.
pub(super) fn catalogue(
    config: &Config,
    sources: &Sources,
    found: &mut Diagnostics,
) -> Option<Catalogue> {
    let built_in = match Catalogue::built_in() {
        Ok(catalogue) => catalogue,
        Err(error) => return refuse(place_of(&error), reason_of(&error), found),
    };
    let beside = sources.home.settings().map(|dir| dir.join("models.toml"));
    let beside = beside.filter(|path| path.is_file());
    let built_in = config.providers.iter().fold(built_in, |all, (name, own)| {
        let all = match &own.like {
            Some(like) => all.with_provider(name, like),
            None => all,
        };
        match &own.default_model {
            Some(model) => all.with_default_model(name, model),
            None => all,
        }
    });
    let built_in = sources.program.added_to(built_in, found);
    let Some(path) = config.models.catalogue.clone().or(beside) else {
        return Some(built_in);
    };
    let shown = crate::paths::display_path(&path, &sources.directory);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => {
            let problem = format!("the model catalogue cannot be read: {error}");
            return refuse(Place::file(&shown), problem, found);
        }
    };
    match built_in.with_file(&shown.to_string_lossy(), &text) {
        Ok(catalogue) => Some(catalogue),
        Err(error) => refuse(place_of(&error), reason_of(&error), found),
    }
}

fn refuse(place: Place, problem: String, found: &mut Diagnostics) -> Option<Catalogue> {
    found.push(Diagnostic::error(place, problem));
    None
}

fn place_of(error: &FileError) -> Place {
    Place {
        origin: Origin::File(PathBuf::from(&error.file)).into(),
        at: Some((u32::try_from(error.line).unwrap_or(u32::MAX), 1)),
    }
}

fn reason_of(error: &FileError) -> String {
    match &error.key {
        Some(key) => format!("`{key}`: {}", error.reason),
        None => error.reason.clone(),
    }
}

/// Named models and providers must exist.
pub(super) fn check(
    config: &Config,
    catalogue: &Catalogue,
    layers: &Layers,
    found: &mut Diagnostics,
) {
    let mut known = |path: &[&str], name: &str| {
        let key = path.join(".");
        match catalogue.get(None, name) {
            Ok(entry) => warn(&entry, &layers.place(path), &key, found),
            Err(error) => {
                found.push(Diagnostic::error(layers.place(path), error.to_string()).with_key(key));
            }
        }
    };
    let compaction = &config.compaction;
    if config.models.default != AUTO {
        known(&["models", "default"], &config.models.default);
    }
    if let Some(name) = &config.models.instead {
        known(&["models", "override"], name);
    }
    for name in &config.models.fallback {
        known(&["models", "fallback"], name);
    }
    for name in compaction.models.keys() {
        known(&["compaction", "models", name], name);
    }
    check_tables(config, catalogue, layers, found);
    check_summarisers(config, catalogue, layers, found);
    for provider in compaction.providers.keys() {
        if !catalogue.providers().any(|known| known == provider) {
            let place = layers.place(&["compaction", "providers", provider]);
            let problem = format!("unknown provider `{provider}`");
            let diagnostic = Diagnostic::error(place, problem);
            found.push(diagnostic.suggest(provider, catalogue.providers()));
        }
    }
}

/// The table of a model counts only under the name with the provider.
fn check_tables(config: &Config, catalogue: &Catalogue, layers: &Layers, found: &mut Diagnostics) {
    for name in config.compaction.models.keys() {
        let Ok(Entry { model, .. }) = catalogue.get(None, name) else {
            continue;
        };
        let whole = format!("{}/{}", model.provider, model.model);
        if *name == whole || *name == model.to_string() {
            continue;
        }
        let path = ["compaction", "models", name.as_str()];
        let problem = format!("the table of model `{name}` names no provider");
        let diagnostic = Diagnostic::warning(layers.place(&path), problem).with_key(path.join("."));
        found.push(diagnostic.help(format!("write it as `compaction.models.\"{whole}\"`")));
    }
}

/// Named summarisers must exist and be available.
fn check_summarisers(
    config: &Config,
    catalogue: &Catalogue,
    layers: &Layers,
    found: &mut Diagnostics,
) {
    for (path, names) in config.compaction.summarisers() {
        let (place, key) = (layers.place(&path), path.join("."));
        for name in names {
            match catalogue.get(None, name) {
                Ok(entry) => warn(&entry, &place, &key, found),
                Err(error) => {
                    let diagnostic = Diagnostic::error(place.clone(), error.to_string());
                    found.push(diagnostic.with_key(&*key));
                }
            }
        }
        let last = names.iter().position(|name| name == EXTRACTIVE);
        if let Some(unasked) = last.and_then(|at| names.get(at + 1)) {
            let problem =
                format!("summariser `{unasked}` is never asked: `{EXTRACTIVE}` comes before it");
            found.push(Diagnostic::warning(place, problem).with_key(key));
        }
    }
}

/// Reports the assumptions about a model.
pub(crate) fn warn(entry: &Entry, place: &Place, key: &str, found: &mut Diagnostics) {
    if !entry.assumed {
        return;
    }
    let problem = format!(
        "the window of model `{}` is not in the catalogue: {} tokens and {} of output are assumed",
        entry.model, entry.window, entry.max_output
    );
    let diagnostic = Diagnostic {
        of_model: true,
        ..Diagnostic::warning(place.clone(), problem)
    };
    let lines = entry_lines(entry);
    let help = format!(
        "unless its server reports it, put what is right into the file of `models.catalogue`:\n{lines}"
    );
    found.push(diagnostic.with_key(key).help(help));
}

/// The lines of a catalogue for a model without an entry, with the assumptions about it.
pub fn entry_lines(entry: &Entry) -> String {
    let Entry {
        model,
        window,
        max_output,
        ..
    } = entry;
    format!(
        "[models.\"{model}\"]\n\
         window = {window}\n\
         max_output = {max_output}\n\
         # price = {{ input = …, output = … }}  # dollars per million tokens"
    )
}
