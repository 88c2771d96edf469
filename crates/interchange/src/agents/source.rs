//! The contents of a file before their interpretation.

use std::path::Path;

use super::{Error, Format, crew};
use unisono_config::diagnostic::Origin;
use unisono_config::document::{self, Entry, Table, Value};

/// A file as keys and text.
#[derive(Clone, Debug)]
pub(super) struct Document {
    pub(super) table: Table,
    /// The text below the front matter of a Markdown file.
    pub(super) body: Option<String>,
    /// Whether its front matter was parsed line by line, because it is not YAML.
    pub(super) lenient: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Agent {
    pub(super) name: String,
    pub(super) document: Document,
}

/// Parses a file according to its extension.
pub(super) fn parse(path: &Path, text: &str) -> Result<Document, Error> {
    let origin = Origin::File(path.to_owned());
    let text = text.trim_start_matches('\u{feff}');
    let whole = |table| Document {
        table,
        body: None,
        lenient: false,
    };
    let ending = path.extension().and_then(|ending| ending.to_str());
    let read = match ending.unwrap_or_default() {
        "toml" => document::from_toml(origin, text).map(whole),
        "yaml" | "yml" => document::from_yaml(origin, text).map(whole),
        "json" | "jsonc" => document::from_yaml(origin, &json_as_yaml(text)).map(whole),
        _ => match document::from_markdown(origin.clone(), text) {
            Ok((table, body)) => Ok(Document {
                table,
                body: Some(body.to_owned()),
                lenient: false,
            }),
            Err(_) => match document::from_markdown_lines(origin, text) {
                Some((table, body)) => Ok(Document {
                    table,
                    body: Some(body.to_owned()),
                    lenient: true,
                }),
                None => return Err(Error::NoFrontMatter),
            },
        },
    };
    read.map_err(Error::Malformed)
}

/// The agents of a file: one, or one for each key of a table.
pub(super) fn agents(format: Format, path: &Path, document: Document) -> Vec<Agent> {
    let named = match format {
        Format::CrewAi => Some(crew::agents(&document).clone()),
        Format::OpenCode => ["agent", "agents"]
            .iter()
            .find_map(|key| document.table.table(key))
            .cloned(),
        _ => None,
    };
    let Some(table) = named else {
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_default();
        let stem = name.split('.').next().unwrap_or_default().to_owned();
        return vec![Agent {
            name: stem,
            document,
        }];
    };
    let tables = table.iter().filter_map(|entry| match &entry.node.value {
        Value::Table(table) => Some(Agent {
            name: entry.key.clone(),
            document: Document {
                table: match format {
                    // Positions in JSON are not reliable.
                    Format::OpenCode => table.iter().cloned().map(without_position).collect(),
                    _ => table.clone(),
                },
                body: None,
                lenient: false,
            },
        }),
        _ => None,
    });
    tables.collect()
}

fn without_position(mut entry: Entry) -> Entry {
    entry.place.at = None;
    entry
}

/// JSON as YAML: spaces in place of comments and tabs, and a character in place of the two escapes
/// of its UTF-16.
fn json_as_yaml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut quoted, mut escaped) = (false, false);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let comment = match quoted {
            true => None,
            false if rest.starts_with("//") => Some(rest.find('\n').unwrap_or(rest.len())),
            false if rest.starts_with("/*") => {
                Some(rest.find("*/").map_or(rest.len(), |at| at + 2))
            }
            false => None,
        };
        if let Some(length) = comment {
            let blank = |c: char| if c == '\n' { '\n' } else { ' ' };
            out.extend(rest[..length].chars().map(blank));
            rest = &rest[length..];
            continue;
        }
        if quoted && !escaped && c == '\\' {
            if let Some(c) = surrogate_pair(rest) {
                out.push(c);
                rest = &rest[PAIR_BYTES..];
                continue;
            }
            escaped = true;
        } else {
            quoted ^= c == '"' && !escaped;
            escaped = false;
        }
        // YAML allows no tabs between tokens.
        out.push(if c == '\t' && !quoted { ' ' } else { c });
        rest = &rest[c.len_utf8()..];
    }
    out
}

/// The length of two escapes such as `\ud83d\ude00`.
const PAIR_BYTES: usize = 12;

/// The character of the two escapes at the beginning.
fn surrogate_pair(text: &str) -> Option<char> {
    let (first, second) = text.get(..PAIR_BYTES)?.split_at_checked(PAIR_BYTES / 2)?;
    let unit = |escape: &str| u16::from_str_radix(escape.strip_prefix("\\u")?, 16).ok();
    let mut pair = char::decode_utf16([unit(first)?, unit(second)?]);
    let c = pair.next()?.ok()?;
    pair.next().is_none().then_some(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_json_escapes_in_utf16_are_read() {
        for (written, expected) in [
            (r#""\ud83d\uDE00 \u00e9 \\ud83d""#, Some("😀 é \\ud83d")),
            (r#""\\\ud83d\ude00\" x""#, Some("\\😀\" x")),
            (r#""\u00e9\u00e9""#, Some("éé")),
            (r#""\ud83d""#, None),
            (r#""\ud83d\u00e9""#, None),
        ] {
            let text = format!("{{\"a\": {written}}}");
            let read = parse(Path::new("opencode.json"), &text).ok();
            let value = read.map(|document| document.table.get("a").unwrap().value.clone());
            let text = value.as_ref().and_then(Value::as_text);
            assert_eq!(text, expected, "{written}");
        }
    }

    #[test]
    fn comments_are_removed_and_texts_kept() {
        let json = "{ // one\n\t\"a\": \"x // \\\" y\", /* two\n */ \"b\": 1 }";
        let plain = json_as_yaml(json);
        assert!(
            plain.contains("\"x // \\\" y\"") && !plain.contains("one") && !plain.contains("two")
        );
        assert_eq!(plain.lines().count(), json.lines().count());
    }
}
