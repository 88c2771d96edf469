//! TOML with the position of every key and value.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Entry, Node, Table, Value};
use crate::diagnostic::{Diagnostic, Origin, Place, Text};

struct Source<'t>(Text<'t>);

impl Source<'_> {
    fn place<T>(&self, spanned: &Spanned<T>) -> Place {
        self.0.place(spanned.span().start)
    }

    fn table(&self, table: &DeTable<'_>) -> Result<Table, Box<Diagnostic>> {
        let mut entries = Vec::with_capacity(table.len());
        for (key, value) in table {
            let node = Node {
                value: self.value(value)?,
                place: self.place(value),
            };
            entries.push(Entry {
                key: key.get_ref().to_string(),
                place: self.place(key),
                node,
            });
        }
        entries.sort_by(|a, b| a.place.cmp(&b.place));
        Ok(entries.into_iter().collect())
    }

    fn value(&self, spanned: &Spanned<DeValue<'_>>) -> Result<Value, Box<Diagnostic>> {
        let wrong = |problem: String| {
            let place = self.place(spanned);
            Box::new(Diagnostic::error(place, problem))
        };
        Ok(match spanned.get_ref() {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Boolean(value) => Value::Bool(*value),
            DeValue::Integer(integer) => {
                let digits = integer.as_str();
                let value = i64::from_str_radix(digits, integer.radix());
                Value::Integer(value.map_err(|_| wrong(format!("{digits} is too large")))?)
            }
            DeValue::Float(float) => {
                let digits = float.as_str();
                let value = digits.parse();
                Value::Float(value.map_err(|_| wrong(format!("{digits} is not a number")))?)
            }
            DeValue::Datetime(time) => Value::Text(time.to_string()),
            DeValue::Array(items) => {
                let nodes = items.iter().map(|item| {
                    Ok(Node {
                        value: self.value(item)?,
                        place: self.place(item),
                    })
                });
                Value::List(nodes.collect::<Result<_, Box<Diagnostic>>>()?)
            }
            DeValue::Table(table) => Value::Table(self.table(table)?),
        })
    }
}

pub(super) fn parse(origin: Origin, text: &str) -> Result<Table, Box<Diagnostic>> {
    let source = Source(Text::new(origin, text));
    let parsed = DeTable::parse(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        let place = source.0.place(offset);
        let problem = format!("this is not TOML: {}", error.message());
        Box::new(Diagnostic::error(place, problem))
    })?;
    source.table(parsed.get_ref())
}
