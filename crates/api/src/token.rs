//! Tokens of people and programs.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The rights of a token. Each scope includes the scopes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Reads.
    Read,
    /// Starts turns, adds messages, creates, changes and deletes sessions.
    Ask,
    /// Approves and rejects tool calls.
    Approve,
    /// Does everything, for all owners.
    Admin,
}

impl Scope {
    /// Every scope, the narrowest first.
    pub const ALL: [Scope; 4] = [Scope::Read, Scope::Ask, Scope::Approve, Scope::Admin];

    /// Its name in JSON and commands.
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

/// A text that is not a scope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a scope: use read, ask, approve or admin")]
pub struct UnknownScope(String);

impl FromStr for Scope {
    type Err = UnknownScope;

    fn from_str(text: &str) -> Result<Scope, UnknownScope> {
        let found = Scope::ALL.into_iter().find(|scope| scope.name() == text);
        found.ok_or_else(|| UnknownScope(text.to_owned()))
    }
}

/// Maximum number of characters in the name of a token or an owner.
pub const NAME_CHARS: usize = 64;

/// Whether a token or an owner can have that name: 1 to [`NAME_CHARS`] letters, digits and `-_.@+`, at
/// least one of them a letter or a digit. No other character is allowed, because names are parts of
/// addresses, headers, labels and logs.
pub fn is_name(text: &str) -> bool {
    let is_allowed = |char: char| char.is_ascii_alphanumeric() || "-_.@+".contains(char);
    text.len() <= NAME_CHARS
        && text.chars().all(is_allowed)
        && text.chars().any(|char| char.is_ascii_alphanumeric())
}

/// A token without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Token {
    /// Its name, which identifies its user.
    pub name: String,
    /// Its rights.
    pub scope: Scope,
    /// The owner of the sessions that it sees and creates; null: it sees all sessions and creates
    /// sessions without an owner.
    pub owner: Option<String>,
    /// When it was created, RFC 3339 in UTC.
    pub created_at: String,
    /// When it expires, RFC 3339 in UTC; null: never.
    pub expires_at: Option<String>,
    /// Whether it has expired.
    pub expired: bool,
}

/// A token to create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// Its name: 1 to 64 letters, digits and `-_.@+`.
    #[cfg_attr(
        feature = "description",
        schema(pattern = "^[-_.@+]*[0-9A-Za-z][-_.@+0-9A-Za-z]*$", max_length = 64)
    )]
    pub name: String,
    /// Its rights.
    pub scope: Scope,
    /// The owner of the sessions that it sees and creates: 1 to 64 letters, digits and `-_.@+`.
    /// Without an owner it sees all sessions and creates sessions without an owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "description",
        schema(pattern = "^[-_.@+]*[0-9A-Za-z][-_.@+0-9A-Za-z]*$", max_length = 64)
    )]
    pub owner: Option<String>,
    /// Seconds until it expires, 1 to 3,155,760,000 (100 years); absent: it never expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "description",
        schema(minimum = 1, maximum = 3_155_760_000_u64)
    )]
    pub expires_seconds: Option<u64>,
}

/// A new token with its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct CreatedToken {
    /// The token.
    #[serde(flatten)]
    pub token: Token,
    /// The secret for the header `Authorization: Bearer <secret>`. It is shown once; the store has only
    /// its digest.
    pub secret: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_special_characters() {
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
