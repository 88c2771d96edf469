//! Links and browsers as lines of text, for the file of a store and for other daemons.

use blake3::Hash;
use unisono_context::Timestamp;

use super::{Browser, KNOWN_MS, LINK_MS, Link, Login};

impl Browser {
    /// Clocks of several daemons may differ.
    pub(super) fn is_known(&self, now: Timestamp) -> bool {
        now.0.abs_diff(self.since.0) < KNOWN_MS
    }

    pub(super) fn line(&self) -> String {
        format!(
            "{} {}{}\n",
            self.secret.to_hex(),
            self.since.0,
            self.login.end()
        )
    }

    /// Parses a line; none if it is invalid.
    pub(super) fn read(line: &str) -> Option<Browser> {
        let mut words = line.split(' ');
        Some(Browser {
            secret: Hash::from_hex(words.next()?).ok()?,
            since: Timestamp(words.next()?.trim().parse().ok()?),
            login: Login::read(words.next())?,
        })
    }
}

impl Link {
    /// Clocks of several daemons may differ.
    pub(super) fn is_valid(&self, now: Timestamp) -> bool {
        now.0.abs_diff(self.made.0) < LINK_MS
    }

    pub(super) fn line(&self) -> String {
        format!(
            "link {} {}{}\n",
            self.code.to_hex(),
            self.made.0,
            self.login.end()
        )
    }

    pub(super) fn read(line: &str) -> Option<Link> {
        let mut words = line.strip_prefix("link ")?.split(' ');
        Some(Link {
            code: Hash::from_hex(words.next()?).ok()?,
            made: Timestamp(words.next()?.trim().parse().ok()?),
            login: Login::read(words.next())?,
        })
    }
}

impl Login {
    pub(super) fn end(self) -> String {
        self.token
            .map_or(String::new(), |token| format!(" {token}"))
    }

    /// Parses a word; none if it is not a digest, so that an invalid line permits no login.
    pub(super) fn read(word: Option<&str>) -> Option<Login> {
        let token = word.map(|word| word.trim().parse()).transpose().ok()?;
        Some(Login { token })
    }
}
