//! The places of definitions, and their precedence.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use unisono_context::AgentId;

use crate::diagnostic::{Diagnostic, Diagnostics, Origin, Place, Severity};
use crate::document::{self, Entry, Node, Table, Value};
use crate::paths;
use crate::schema;
use crate::settings::Loaded;
use crate::settings::keys::AGENT;
use crate::skills::Skills;

/// The agents built into the program: file names and texts.
pub const EMBEDDED: [(&str, &str); 6] = [
    ("lead.md", include_str!("../../embedded/agents/lead.md")),
    (
        "decisions.md",
        include_str!("../../embedded/agents/decisions.md"),
    ),
    ("risks.md", include_str!("../../embedded/agents/risks.md")),
    ("facts.md", include_str!("../../embedded/agents/facts.md")),
    (
        "actions.md",
        include_str!("../../embedded/agents/actions.md"),
    ),
    (
        "coordinator.md",
        include_str!("../../embedded/agents/coordinator.md"),
    ),
];

/// One agent as written, checked against the known keys.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) id: AgentId,
    pub(super) place: Place,
    pub(super) table: Table,
    /// The text of its skills, which follows its instructions.
    pub(super) skills: String,
    /// The schema of its answers, which may be a file.
    pub(super) output_schema: Option<Arc<str>>,
}

/// An item of a list of texts.
pub(super) struct Item<'s> {
    pub(super) text: &'s str,
    pub(super) place: &'s Place,
}

impl Source {
    /// The position of a key, or of the whole definition.
    pub(super) fn key_place(&self, key: &str) -> Place {
        let entry = self.table.get(key);
        entry.map_or_else(|| self.place.clone(), |node| node.place.clone())
    }

    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.table.get(key)?.value.as_text()
    }

    pub(super) fn take_skills(&mut self, skills: &Skills, found: &mut Diagnostics) {
        let mut all = String::new();
        for item in self.texts("skills") {
            let name = item.text;
            let unknown = !skills.names().any(|known| known == name);
            let wrong = match skills.instructions(name) {
                Ok(text) => {
                    let _ = write!(all, "\n\n# Skill {name}\n\n{text}");
                    continue;
                }
                Err(_) if unknown => format!("agent `{}` names an unknown skill `{name}`", self.id),
                Err(wrong) => format!("agent `{}`: skill `{name}`: {wrong}", self.id),
            };
            let diagnostic = Diagnostic::error(item.place.clone(), wrong).with_key("skills");
            found.push(match unknown {
                true => diagnostic.suggest(name, skills.names()),
                false => diagnostic,
            });
        }
        self.skills = all;
    }

    /// The items of a list of texts; empty if it does not exist.
    pub(super) fn texts(&self, key: &str) -> impl Iterator<Item = Item<'_>> {
        let items = match self.table.get(key).map(|node| &node.value) {
            Some(Value::List(items)) => items.as_slice(),
            _ => &[],
        };
        items.iter().filter_map(|node| {
            Some(Item {
                text: node.value.as_text()?,
                place: &node.place,
            })
        })
    }
}

/// Every defined agent, by id.
pub(super) fn collect(loaded: &Loaded, found: &mut Diagnostics) -> Vec<Source> {
    let mut all: BTreeMap<AgentId, Source> = BTreeMap::new();
    for (name, text) in EMBEDDED {
        let path = Path::new("built-in").join("agents").join(name);
        let origin = Origin::File(path.clone());
        if let Some(source) = read(loaded, (&path, text), origin, Path::new(""), true, found) {
            all.insert(source.id.clone(), source);
        }
    }
    let tables = loaded.agent_tables();
    let is_known = |id: &str| all.contains_key(&AgentId::from(id)) || tables.entry(id).is_some();
    let project = loaded.project.as_deref();
    let person = loaded.sources().home.settings();
    let person = person.filter(|person| !is_same(person, project));
    let from_person = directory(loaded, person.as_deref(), &is_known, found);
    let is_known = |id: &str| is_known(id) || from_person.contains_key(&AgentId::from(id));
    let from_project = directory(loaded, project, &is_known, found);
    for (id, source) in &from_project {
        if let Some(hidden) = from_person.get(id) {
            let problem = format!("agent `{id}` is not used: {} has the same id", source.place);
            found.push(Diagnostic::warning(hidden.place.clone(), problem));
        }
    }
    all.extend(from_person);
    all.extend(from_project);
    overlay(loaded, &mut all, found);
    all.into_values().collect()
}

/// Whether a directory is the project's: a person may work in the directory of their own agents.
fn is_same(directory: &Path, project: Option<&Path>) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    let real_project = project.and_then(real);
    project == Some(directory) || (real_project.is_some() && real(directory) == real_project)
}

/// Applies the configuration's tables.
fn overlay(loaded: &Loaded, all: &mut BTreeMap<AgentId, Source>, found: &mut Diagnostics) {
    for Entry { key, place, node } in loaded.agent_tables().iter() {
        let Value::Table(table) = &node.value else {
            continue;
        };
        let Some(id) = valid_id(key, place, found) else {
            continue;
        };
        match all.get_mut(&id) {
            Some(source) => {
                for key in ["description", "instructions"] {
                    if let (Some(over), Some(under)) = (table.entry(key), source.table.entry(key)) {
                        let problem = format!(
                            "agent `{id}`: this `{key}` takes the place of the one at {}",
                            under.place
                        );
                        found.push(Diagnostic::warning(over.place.clone(), problem).with_key(key));
                    }
                }
                source.table.overlay(table);
            }
            None => {
                let source = Source {
                    id: id.clone(),
                    place: place.clone(),
                    table: table.clone(),
                    skills: String::new(),
                    output_schema: None,
                };
                all.insert(id, source);
            }
        }
    }
}

/// The agents of a directory's `agents/`. `is_known`: whether an agent of that name is also defined
/// elsewhere.
fn directory(
    loaded: &Loaded,
    base: Option<&Path>,
    is_known: &dyn Fn(&str) -> bool,
    found: &mut Diagnostics,
) -> BTreeMap<AgentId, Source> {
    let mut all: BTreeMap<AgentId, Source> = BTreeMap::new();
    let Some(base) = base else {
        return all;
    };
    let working = &loaded.sources().directory;
    for path in definition_files(&base.join("agents"), working, found) {
        let shown = paths::display_path(&path, working);
        let draft = loaded.sources().drafts.get(&path).cloned();
        let text = match draft.map_or_else(|| std::fs::read_to_string(&path), Ok) {
            Ok(text) => text,
            Err(error) => {
                let problem = format!("the agent's file cannot be read: {error}");
                found.push(Diagnostic::error(Place::file(&shown), problem));
                continue;
            }
        };
        let origin = Origin::File(shown);
        let is_known = path
            .file_stem()
            .is_some_and(|stem| is_known(&stem.to_string_lossy()));
        let Some(source) = read(loaded, (&path, &text), origin, base, is_known, found) else {
            continue;
        };
        if let Some(other) = all.get(&source.id) {
            let problem = format!("agent `{}` is also defined in {}", source.id, other.place);
            let help = "keep one of the two files";
            found.push(Diagnostic::error(source.place, problem).help(help));
            continue;
        }
        all.insert(source.id.clone(), source);
    }
    all
}

/// The files that define agents, a person's own first.
pub(super) fn of_agents(loaded: &Loaded) -> Vec<PathBuf> {
    let sources = loaded.sources();
    // Unreadable files are reported when they are read.
    let mut untold = Diagnostics::default();
    let bases = [sources.home.settings(), sources.project()];
    let files = bases
        .into_iter()
        .flatten()
        .flat_map(|base| definition_files(&base.join("agents"), &sources.directory, &mut untold));
    files.collect()
}

/// The file that defines an agent; none: it is built in, or defined by settings or the program.
pub(super) fn of_agent(loaded: &Loaded, id: &str) -> Option<PathBuf> {
    let named = |path: &PathBuf| path.file_stem().is_some_and(|stem| stem == id);
    // The project's own come last, and count.
    of_agents(loaded).into_iter().rfind(named)
}

/// The `.md` and `.toml` files of a directory, by name. No directory, no files.
fn definition_files(directory: &Path, working: &Path, found: &mut Diagnostics) -> Vec<PathBuf> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            let place = Place::file(&paths::display_path(directory, working));
            let problem = format!("the directory of agents cannot be read: {error}");
            found.push(Diagnostic::error(place, problem));
            return Vec::new();
        }
    };
    let is_definition = |path: &PathBuf| {
        let hidden = path
            .file_name()
            .is_some_and(|n| n.to_string_lossy().starts_with('.'));
        let readme = path
            .file_stem()
            .is_some_and(|s| s.eq_ignore_ascii_case("readme"));
        let known = path.extension().is_some_and(|e| e == "md" || e == "toml");
        // A link without its target is an error when it is read.
        let is_no_file = || std::fs::metadata(path).is_ok_and(|entry| !entry.is_file());
        known && !hidden && !readme && !is_no_file()
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let mut paths: Vec<PathBuf> = paths.filter(is_definition).collect();
    paths.sort();
    paths
}

/// `is_known`: whether the agent is also defined elsewhere. Then the file is meant as an agent: that
/// definition must not take its place.
fn read(
    loaded: &Loaded,
    (path, text): (&Path, &str),
    origin: Origin,
    base: &Path,
    is_known: bool,
    found: &mut Diagnostics,
) -> Option<Source> {
    let whole = Place::of_origin(origin.clone());
    let stem = path.file_stem()?.to_string_lossy();
    let is_toml = path
        .extension()
        .is_some_and(|extension| extension == "toml");
    let parsed = if is_toml {
        document::from_toml(origin, text.trim_start_matches('\u{feff}')).map(|table| (table, ""))
    } else {
        document::from_markdown(origin, text)
    };
    let (mut table, body) = match parsed {
        Ok((table, _)) if is_toml && !is_known && is_other_table(&table) => {
            let problem = "this is no agent: none of its keys is one of an agent";
            let diagnostic = Diagnostic::warning(whole, problem);
            found.push(diagnostic.help("an agent has at least a `description`"));
            return None;
        }
        Ok(parsed) => parsed,
        Err(mut diagnostic) => {
            if !is_toml && !is_known && is_other_text(text) {
                diagnostic.severity = Severity::Warning;
                diagnostic.problem = format!("this is no agent: {}", diagnostic.problem);
            }
            found.push(*diagnostic);
            return None;
        }
    };
    let id = valid_id(&stem, &whole, found)?;
    schema::check(&mut table, AGENT, "", found);
    loaded
        .sources()
        .home
        .expand_all(&mut table, AGENT, "", base, found);
    if !body.trim().is_empty() {
        if let Some(entry) = table.entry("instructions") {
            let problem = "`instructions` is set, but the text below the front matter is used";
            found.push(Diagnostic::warning(entry.place.clone(), problem).with_key("instructions"));
        }
        table.set(instructions(body, &whole));
    }
    Some(Source {
        id,
        place: whole,
        table,
        skills: String::new(),
        output_schema: None,
    })
}

/// Whether a Markdown file does not begin as an agent does: directories named `agents` also have other
/// files. An empty one may be about to be written.
fn is_other_text(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    !text.is_empty() && !text.starts_with("---")
}

/// The same for a TOML file: no key is one of an agent.
fn is_other_table(table: &Table) -> bool {
    let is_of_agent = |key: &str| AGENT.iter().any(|known| known.name == key);
    table.keys().next().is_some() && !table.keys().any(is_of_agent)
}

fn instructions(body: &str, place: &Place) -> Entry {
    Entry {
        key: "instructions".to_owned(),
        place: place.clone(),
        node: Node {
            value: Value::Text(body.trim().to_owned()),
            place: place.clone(),
        },
    }
}

/// `[a-z0-9][a-z0-9_-]*`.
fn valid_id(name: &str, place: &Place, found: &mut Diagnostics) -> Option<AgentId> {
    if super::is_id(name) {
        return Some(AgentId::from(name));
    }
    let problem = format!("`{name}` cannot be the name of an agent");
    let help = "use a-z, 0-9, `_` and `-`, starting with a letter or digit";
    found.push(Diagnostic::error(place.clone(), problem).help(help));
    None
}
