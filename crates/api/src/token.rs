//! Tokens of people and programs.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What a token may do: each scope may do what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// To look.
    Read,
    /// To give sessions tasks and messages, to make, change and delete them.
    Ask,
    /// To decide about tool calls.
    Approve,
    /// Everything, for all owners.
    Admin,
}

impl Scope {
    /// Every scope, the narrowest first.
    pub const ALL: [Scope; 4] = [Scope::Read, Scope::Ask, Scope::Approve, Scope::Admin];

    /// Its name, as JSON and commands have it.
    pub const fn name(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Ask => "ask",
            Scope::Approve => "approve",
            Scope::Admin => "admin",
        }
    }
}

impl Display for Scope {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name of no scope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no scope: they are read, ask, approve, admin")]
pub struct NoScope(String);

impl FromStr for Scope {
    type Err = NoScope;

    fn from_str(text: &str) -> Result<Scope, NoScope> {
        let found = Scope::ALL.into_iter().find(|scope| scope.name() == text);
        found.ok_or_else(|| NoScope(text.to_owned()))
    }
}

/// Characters of the name of a token or an owner, at most.
pub const NAME_CHARS: usize = 64;

/// Whether a token or an owner can have that name: 1 to [`NAME_CHARS`] letters, digits and `-_.@+`, at
/// least one of them a letter or a digit. Names stand in addresses, headers, labels and logs, so that
/// none has a character that means something there.
pub fn is_name(text: &str) -> bool {
    let fits = |char: char| char.is_ascii_alphanumeric() || "-_.@+".contains(char);
    text.len() <= NAME_CHARS
        && text.chars().all(fits)
        && text.chars().any(|char| char.is_ascii_alphanumeric())
}

/// A token as lists show it, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Token {
    /// Its name: it stands for who uses it.
    pub name: String,
    /// What it may do.
    pub scope: Scope,
    /// Whose sessions it sees and makes; none: everybody's, and it makes nobody's.
    pub owner: Option<String>,
    /// When it was made, RFC 3339 in UTC.
    pub created: String,
    /// When it ends, RFC 3339 in UTC; none: it does not.
    pub expires: Option<String>,
    /// Whether it has ended.
    pub expired: bool,
}

/// A token to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// Its name: 1 to 64 letters, digits and `-_.@+`.
    #[cfg_attr(
        feature = "description",
        schema(pattern = "^[-_.@+0-9A-Za-z]{0,31}[0-9A-Za-z][-_.@+0-9A-Za-z]{0,31}$")
    )]
    pub name: String,
    /// What it may do.
    pub scope: Scope,
    /// Whose sessions it sees and makes: 1 to 64 letters, digits and `-_.@+`; none: everybody's, and
    /// it makes nobody's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "description",
        schema(pattern = "^[-_.@+0-9A-Za-z]{0,31}[0-9A-Za-z][-_.@+0-9A-Za-z]{0,31}$")
    )]
    pub owner: Option<String>,
    /// Seconds until it ends, 1 to 3,155,760,000 (100 years); none: it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "description",
        schema(minimum = 1, maximum = 3_155_760_000_u64)
    )]
    pub expires_seconds: Option<u64>,
}

/// A token that was made, with its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct MadeToken {
    /// The token.
    #[serde(flatten)]
    pub token: Token,
    /// What requests carry as `Authorization: Bearer <secret>`. It is shown once, and only its digest
    /// is stored.
    pub secret: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_character_that_means_something_elsewhere() {
        for name in ["a", "ada.b-c_d@e+f", &"x".repeat(NAME_CHARS)] {
            assert!(is_name(name), "{name:?}");
        }
        let long = "x".repeat(NAME_CHARS + 1);
        for name in [
            "",
            " ",
            "a b",
            "a\n",
            "a\u{202e}b",
            "\u{1b}[2J",
            "a;b",
            "a/b",
            "é",
            ".",
            "..",
            &long,
        ] {
            assert!(!is_name(name), "{name:?}");
        }
    }

    #[test]
    fn a_scope_is_written_as_its_name() {
        for scope in Scope::ALL {
            assert_eq!(scope.name().parse(), Ok(scope));
            assert_eq!(serde_json::to_value(scope).unwrap(), scope.name());
        }
        assert!("root".parse::<Scope>().is_err());
    }
}
