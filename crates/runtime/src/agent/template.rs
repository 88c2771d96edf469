//! Texts of a definition that take values from the environment: `Bearer ${TOKEN}`.
//!
//! Definitions, journals and exports contain only the template; variables are resolved when they
//! are needed. `$$` stands for a dollar sign.

/// A text with variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Variable(String),
}

impl Template {
    /// Parses a text.
    ///
    /// # Errors
    /// The reason why it is invalid, for a person.
    pub fn parse(text: &str) -> Result<Template, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            pieces.push(Piece::Text(before.to_owned()));
            rest = if let Some(after) = after.strip_prefix('$') {
                pieces.push(Piece::Text("$".to_owned()));
                after
            } else {
                let named = after
                    .strip_prefix('{')
                    .and_then(|after| after.split_once('}'));
                let Some((name, after)) = named.filter(|(name, _)| is_name(name)) else {
                    return Err(
                        "a `$` begins a variable such as ${TOKEN}; write $$ for a dollar sign"
                            .to_owned(),
                    );
                };
                pieces.push(Piece::Variable(name.to_owned()));
                after
            };
        }
        pieces.push(Piece::Text(rest.to_owned()));
        pieces.retain(|piece| *piece != Piece::Text(String::new()));
        Ok(Template { pieces })
    }

    /// The names of its variables.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Variable(name) => Some(name.as_str()),
        })
    }

    /// The text with the values of its variables.
    ///
    /// # Errors
    /// The name of the first variable without a value.
    pub fn fill(&self, look: impl Fn(&str) -> Option<String>) -> Result<String, String> {
        let pieces = self.pieces.iter().map(|piece| match piece {
            Piece::Text(text) => Ok(text.clone()),
            Piece::Variable(name) => look(name).ok_or_else(|| name.clone()),
        });
        pieces.collect()
    }
}

fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(plain) && name.starts_with(|c: char| !c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    //! Texts and their values.

    use super::*;

    #[test]
    fn variables_are_replaced_by_their_values() {
        let look = |name: &str| (name == "TOKEN").then(|| "s3cret".to_owned());
        let table = [
            ("plain", Ok("plain")),
            ("", Ok("")),
            ("Bearer ${TOKEN}", Ok("Bearer s3cret")),
            ("${TOKEN}${TOKEN}!", Ok("s3crets3cret!")),
            ("5 $$ ${TOKEN} $$$$", Ok("5 $ s3cret $$")),
            ("${OTHER} ${TOKEN}", Err("OTHER")),
        ];
        for (text, expected) in table {
            let filled = Template::parse(text).unwrap().fill(look);
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(filled, expected, "{text}");
        }
        let template = Template::parse("${A}-${B_2}").unwrap();
        assert_eq!(template.variables().collect::<Vec<_>>(), ["A", "B_2"]);
    }

    #[test]
    fn an_invalid_variable_is_refused() {
        for text in [
            "$", "$TOKEN", "${}", "${TOKEN", "${2}", "${a b}", "x$ y", "$$$",
        ] {
            let wrong = Template::parse(text).unwrap_err();
            assert!(wrong.contains("${TOKEN}"), "{text}: {wrong}");
        }
    }
}
