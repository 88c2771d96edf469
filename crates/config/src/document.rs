//! A settings file as a tree in which every key and value has its position.

mod toml_text;
mod yaml_size;
mod yaml_text;

use crate::diagnostic::{Diagnostic, Place};

/// A value and its position.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Its start.
    pub place: Place,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A fraction.
    Float(f64),
    /// A text.
    Text(String),
    /// Values in order.
    List(Vec<Node>),
    /// Values by key.
    Table(Table),
}

impl Value {
    /// Its type, for people.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "nothing",
            Value::Bool(_) => "true or false",
            Value::Integer(_) => "a whole number",
            Value::Float(_) => "a fraction",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }

    /// The text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Keys with their values, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table(Vec<Entry>);

/// A key with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The position of the key.
    pub place: Place,
    /// The value.
    pub node: Node,
}

impl Table {
    /// The entries, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.0.iter()
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|entry| entry.key.as_str())
    }

    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.key == key)
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.node)
    }

    /// The table under a key.
    pub fn table(&self, key: &str) -> Option<&Table> {
        match &self.get(key)?.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }

    /// The entry at the end of a path of keys.
    pub(crate) fn find(&self, path: &[String]) -> Option<&Entry> {
        let (key, rest) = path.split_first()?;
        let entry = self.entry(key)?;
        match &entry.node.value {
            _ if rest.is_empty() => Some(entry),
            Value::Table(table) => table.find(rest),
            _ => None,
        }
    }

    pub(crate) fn retain(&mut self, keep: impl FnMut(&mut Entry) -> bool) {
        self.0.retain_mut(keep);
    }

    /// Adds an entry, or replaces the entry of that key.
    pub(crate) fn set(&mut self, entry: Entry) {
        match self.0.iter_mut().find(|known| known.key == entry.key) {
            Some(known) => *known = entry,
            None => self.0.push(entry),
        }
    }

    pub(crate) fn table_mut(&mut self, key: &str) -> Option<&mut Table> {
        let entry = self.0.iter_mut().find(|entry| entry.key == key)?;
        match &mut entry.node.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }

    /// Applies every key of `over`; tables are merged, other values are replaced.
    pub(crate) fn overlay(&mut self, over: &Table) {
        for entry in over.iter() {
            let known = self.0.iter_mut().find(|known| known.key == entry.key);
            match (known.map(|known| &mut known.node.value), &entry.node.value) {
                (Some(Value::Table(below)), Value::Table(above)) => below.overlay(above),
                _ => self.set(entry.clone()),
            }
        }
    }
}

impl FromIterator<Entry> for Table {
    fn from_iter<I: IntoIterator<Item = Entry>>(iter: I) -> Table {
        Table(iter.into_iter().collect())
    }
}

/// Parses TOML.
///
/// # Errors
/// The text is not TOML; the diagnostic has the position.
pub fn from_toml(origin: crate::diagnostic::Origin, text: &str) -> Result<Table, Box<Diagnostic>> {
    toml_text::parse(origin, text)
}

/// Parses YAML: keys with values.
///
/// # Errors
/// The text is not YAML, or not a table; the diagnostic has the position.
pub fn from_yaml(origin: crate::diagnostic::Origin, text: &str) -> Result<Table, Box<Diagnostic>> {
    yaml_text::whole(origin, text)
}

/// Parses Markdown with YAML front matter: the keys, and the text after them.
///
/// # Errors
/// The front matter is missing or is not YAML; the diagnostic has the position.
pub fn from_markdown(
    origin: crate::diagnostic::Origin,
    text: &str,
) -> Result<(Table, &str), Box<Diagnostic>> {
    yaml_text::parse(origin, text)
}

/// The same for front matter that is not YAML, such as an unquoted description with a colon, as the
/// programs read it that wrote it: a key begins a line, the rest is its text. None: there is no
/// front matter.
pub fn from_markdown_lines(origin: crate::diagnostic::Origin, text: &str) -> Option<(Table, &str)> {
    yaml_text::lines(origin, text)
}
