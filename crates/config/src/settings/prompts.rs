//! The prompts of summarisers: built in, a person's, the project's, and prompts named by a path.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use unisono_model::summariser::{PromptError, Prompts};

use super::layers::Layers;
use super::{Config, Sources};
use crate::diagnostic::{Diagnostic, Diagnostics, Origin, Place, Severity};
use crate::paths;

/// The directory of prompts, in a person's settings and below a project's `config`.
const DIRECTORY: &str = "prompts";
/// Placeholders that hardly any other text has.
const PLACEHOLDERS: [&str; 3] = ["conversation", "prior", "target_tokens"];

/// All prompts; none if one that is needed is wrong: one that a setting names, or that replaces a
/// built-in prompt. Projects keep other texts in such directories as well.
pub(super) fn read(
    config: &Config,
    sources: &Sources,
    layers: &Layers,
    found: &mut Diagnostics,
) -> Option<Prompts> {
    let mut reader = Reader {
        sources,
        found,
        wrong: BTreeSet::new(),
    };
    let mut prompts = match Prompts::built_in() {
        Ok(prompts) => prompts,
        Err(error) => {
            reader.refuse(&error, true);
            return None;
        }
    };
    let named = config.compaction.prompts().map(|(_, name)| name.to_owned());
    let built_in = prompts.names().map(str::to_owned);
    let needed: BTreeSet<String> = built_in.chain(named).collect();
    let person = sources.home.settings().map(|dir| dir.join(DIRECTORY));
    let project = sources
        .project()
        .map(|dir| dir.join("config").join(DIRECTORY));
    for directory in [person, project].into_iter().flatten() {
        for (name, path) in files(&directory) {
            let place = Place::file(&reader.shown(&path));
            let is_needed = needed.contains(&name);
            prompts = reader.add(prompts, (&name, &path), &place, is_needed);
        }
    }
    for (path, name) in config.compaction.prompts() {
        let place = layers.place(&path);
        if name.contains('/') {
            prompts = reader.add(prompts, (name, Path::new(name)), &place, true);
        }
        if !reader.wrong.contains(name) {
            check(&prompts, name, place, &path.join("."), reader.found);
        }
    }
    reader.wrong.is_empty().then_some(prompts)
}

/// Named prompts must be among those that were read: no other file is read.
pub(super) fn check_named(
    config: &Config,
    prompts: &Prompts,
    layers: &Layers,
    found: &mut Diagnostics,
) {
    for (path, name) in config.compaction.prompts() {
        if prompts.get(name).is_none() {
            found.push(unknown(prompts, name, layers.place(&path), &path.join(".")));
        }
    }
}

fn unknown(prompts: &Prompts, name: &str, place: Place, key: &str) -> Diagnostic {
    let problem = format!("unknown prompt `{name}`");
    let diagnostic = Diagnostic::error(place, problem).with_key(key);
    diagnostic.suggest(name, prompts.names())
}

/// A named prompt must exist and ask for an acceptable summary.
fn check(prompts: &Prompts, name: &str, place: Place, key: &str, found: &mut Diagnostics) {
    match prompts.get(name) {
        None => found.push(unknown(prompts, name, place, key)),
        Some(prompt) if !prompt.names_sections() => {
            let problem = format!(
                "the prompt `{name}` names none of the sections that a running summary must have"
            );
            let help = "name at least one, as `## Decisions and outcomes`; see \
                        config/prompts/general.md";
            found.push(Diagnostic::error(place, problem).with_key(key).help(help));
        }
        Some(_) => {}
    }
}

/// The prompt files of a directory with their names, sorted; empty without the directory. As with
/// agents, hidden files, such as locks of editors, and a `README.md` are not among them.
fn files(directory: &Path) -> Vec<(String, PathBuf)> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let named = entries.filter_map(|entry| {
        let path = entry.path();
        let is_prompt = path.extension().is_some_and(|end| end == "md");
        let name = path.file_stem()?.to_str()?.to_owned();
        let is_other = name.starts_with('.') || name.eq_ignore_ascii_case("readme");
        (is_prompt && !is_other).then_some((name, path))
    });
    let mut files: Vec<_> = named.collect();
    files.sort();
    files
}

/// Whether a text is meant as a prompt of summarisers.
fn is_for_summarisers(text: &str) -> bool {
    let opened = text.split("{{").skip(1);
    let mut names = opened.filter_map(|rest| rest.split_once("}}"));
    names.any(|(name, _)| PLACEHOLDERS.contains(&name.trim()))
}

struct Reader<'r> {
    sources: &'r Sources,
    found: &'r mut Diagnostics,
    /// The names of needed prompts that are wrong.
    wrong: BTreeSet<String>,
}

impl Reader<'_> {
    fn shown(&self, path: &Path) -> PathBuf {
        paths::display_path(path, &self.sources.directory)
    }

    /// The prompts with that of a file, or unchanged if the file is wrong, which is reported.
    fn add(
        &mut self,
        prompts: Prompts,
        (name, path): (&str, &Path),
        place: &Place,
        is_needed: bool,
    ) -> Prompts {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => {
                let problem = format!("the prompt {} cannot be read: {error}", path.display());
                let help = "write the name of a prompt, or the path of a file that can be read";
                let diagnostic = Diagnostic::error(place.clone(), problem).help(help);
                self.report(diagnostic, is_needed);
                self.wrong.extend(is_needed.then(|| name.to_owned()));
                return prompts;
            }
        };
        let shown = self.shown(path).to_string_lossy().into_owned();
        // The comment at the start is found without the mark that some editors write.
        let text = text.trim_start_matches('\u{feff}');
        match prompts.clone().with_file(name, &shown, text) {
            Ok(prompts) => prompts,
            Err(error) => {
                if is_needed || is_for_summarisers(text) {
                    self.refuse(&error, is_needed);
                }
                self.wrong.extend(is_needed.then(|| name.to_owned()));
                prompts
            }
        }
    }

    fn refuse(&mut self, error: &PromptError, is_needed: bool) {
        let place = Place {
            origin: Origin::File(PathBuf::from(&error.file)).into(),
            at: Some((u32::try_from(error.line).unwrap_or(u32::MAX), 1)),
        };
        let mut diagnostic = Diagnostic::error(place, error.reason.clone());
        if let Some(similar) = error.similar {
            diagnostic = diagnostic.help(format!("did you mean `{{{{{similar}}}}}`?"));
        }
        self.report(diagnostic, is_needed);
    }

    /// Reports an error of a prompt; a warning if nothing needs the prompt.
    fn report(&mut self, diagnostic: Diagnostic, is_needed: bool) {
        let severity = match is_needed {
            true => Severity::Error,
            false => Severity::Warning,
        };
        self.found.push(Diagnostic {
            severity,
            ..diagnostic
        });
    }
}
