//! Locations of files: the directories of the XDG specification, and paths in settings.

use std::path::{Path, PathBuf};

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::document::{Table, Value};
use crate::schema::{self, Key, Kind};

/// Our directory below the XDG directories.
const OURS: &str = "unisono";

/// A person's directories. A missing one is unknown: neither `HOME` nor its own variable is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Home {
    /// `$HOME`.
    pub home: Option<PathBuf>,
    /// `$XDG_CONFIG_HOME`, or `~/.config`.
    pub config: Option<PathBuf>,
    /// `$XDG_DATA_HOME`, or `~/.local/share`.
    pub data: Option<PathBuf>,
}

impl Home {
    /// The directories of these variables. Relative paths are ignored, as XDG requires.
    pub fn from_variables(variable: impl Fn(&str) -> Option<PathBuf>) -> Home {
        let absolute = |name: &str| variable(name).filter(|path| path.is_absolute());
        let home = absolute("HOME");
        let below = |path: &str| home.as_ref().map(|home| home.join(path));
        Home {
            config: absolute("XDG_CONFIG_HOME").or_else(|| below(".config")),
            data: absolute("XDG_DATA_HOME").or_else(|| below(".local/share")),
            home,
        }
    }

    /// The person's settings, agents and catalogue.
    pub fn settings(&self) -> Option<PathBuf> {
        self.config.as_ref().map(|dir| dir.join(OURS))
    }

    /// Makes a path of a setting absolute: `~/`, `$XDG_DATA_HOME/` and `$XDG_CONFIG_HOME/` at its
    /// start are replaced; any other relative path starts at `base`.
    ///
    /// # Errors
    /// The variable that the path needs and that is not set.
    fn expand(&self, path: &str, base: &Path) -> Result<PathBuf, &'static str> {
        let starts = [
            ("~", &self.home, "HOME"),
            ("$HOME", &self.home, "HOME"),
            ("$XDG_DATA_HOME", &self.data, "XDG_DATA_HOME"),
            ("$XDG_CONFIG_HOME", &self.config, "XDG_CONFIG_HOME"),
        ];
        for (start, directory, variable) in starts {
            match path.strip_prefix(start) {
                Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                    let directory = directory.as_ref().ok_or(variable)?;
                    return Ok(directory.join(rest.trim_start_matches('/')));
                }
                _ => {}
            }
        }
        Ok(base.join(path))
    }

    /// As [`Self::expand`], as text. The error is what is wrong, and what to do.
    fn expand_text(&self, path: &str, base: &Path) -> Result<String, (String, String)> {
        let whole = self.expand(path, base).map_err(|variable| {
            let problem = format!("{path:?} needs a variable that is not set");
            (
                problem,
                format!("set {variable}, or write an absolute path"),
            )
        })?;
        if path.starts_with('$') && whole == base.join(path) {
            let problem = format!("{path:?} begins with a variable that paths do not have");
            let help = "begin it with ~, $HOME, $XDG_DATA_HOME or $XDG_CONFIG_HOME";
            return Err((problem, help.to_owned()));
        }
        whole.into_os_string().into_string().map_err(|whole| {
            let problem = format!("{path:?} is {whole:?} in full, which is not UTF-8");
            (problem, "write an absolute path in UTF-8".to_owned())
        })
    }

    /// Makes every path of a table absolute. `path` leads to the table.
    pub(crate) fn expand_all(
        &self,
        table: &mut Table,
        keys: &[Key],
        path: &str,
        base: &Path,
        found: &mut Diagnostics,
    ) {
        table.retain(|entry| {
            let kind = keys.iter().find(|key| key.name == entry.key);
            let dotted = schema::join(path, &entry.key);
            match (kind.map(|key| key.kind), &mut entry.node.value) {
                (Some(Kind::Section(keys)), Value::Table(table)) => {
                    self.expand_all(table, keys, &dotted, base, found);
                }
                (Some(Kind::Named(keys)), Value::Table(tables)) => tables.retain(|named| {
                    if let Value::Table(table) = &mut named.node.value {
                        let dotted = schema::join(&dotted, &named.key);
                        self.expand_all(table, keys, &dotted, base, found);
                    }
                    true
                }),
                (Some(Kind::Program | Kind::Prompt), Value::Text(text)) if !text.contains('/') => {}
                (Some(Kind::Schema), Value::Text(text)) if schema::is_inline_schema(text) => {}
                (
                    Some(Kind::Path | Kind::Program | Kind::Prompt | Kind::Schema),
                    Value::Text(text),
                ) => match self.expand_text(text, base) {
                    Ok(whole) => *text = whole,
                    Err((problem, help)) => {
                        let diagnostic = Diagnostic::error(entry.node.place.clone(), problem);
                        found.push(diagnostic.with_key(dotted).help(help));
                        return false;
                    }
                },
                _ => {}
            }
            true
        });
    }
}

/// The path for display: relative to `directory` if it is below it.
pub(crate) fn display_path(path: &Path, directory: &Path) -> PathBuf {
    match path.strip_prefix(directory) {
        Ok(relative) if !relative.as_os_str().is_empty() => relative.to_owned(),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_start_where_they_say() {
        let home = Home::from_variables(|name| match name {
            "HOME" => Some("/home/ada".into()),
            "XDG_DATA_HOME" => Some("/data".into()),
            "XDG_CONFIG_HOME" => Some("relative".into()),
            _ => None,
        });
        let table = [
            ("$XDG_DATA_HOME/unisono", "/data/unisono"),
            ("$XDG_CONFIG_HOME", "/home/ada/.config"),
            ("~/x", "/home/ada/x"),
            ("~x", "/base/~x"),
            (".unisono", "/base/.unisono"),
            ("/abs", "/abs"),
        ];
        for (path, expected) in table {
            let path = home.expand(path, Path::new("/base"));
            assert_eq!(path.unwrap(), Path::new(expected));
        }
        let nobody = Home::default();
        assert_eq!(nobody.expand("~/x", Path::new("/b")), Err("HOME"));
    }
}
