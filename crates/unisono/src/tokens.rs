//! Tokens of people and programs, as far as this program knows them.
//!
//! Requests are checked in memory. What this program writes is known at once; what another program on
//! the same database writes, when [`Local::take_tokens`] has read it.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::Arc;

use tokio::sync::{Mutex, watch};
use unisono_api::token::Scope;
use unisono_context::{Digest, Timestamp};
use unisono_runtime::clock;
use unisono_store::Error as StoreError;
use unisono_store::tokens::{self, Known, Token, TokenFact, Tokens};

use crate::Local;
use crate::caller::Caller;
use crate::error::Error;

/// How often an entry is decided again because another process wrote one meanwhile.
const TRIES: usize = 64;
/// What a secret begins with, so that people and scanners recognise one.
const PREFIX: &str = "unisono_";
/// Random bytes of a secret.
const BYTES: usize = 32;

/// The tokens that are known.
#[derive(Debug)]
pub(crate) struct KnownTokens {
    /// None before they are asked for.
    held: Mutex<Option<Tokens>>,
    table: watch::Sender<Arc<Table>>,
}

impl Default for KnownTokens {
    fn default() -> KnownTokens {
        KnownTokens {
            held: Mutex::default(),
            table: watch::Sender::new(Arc::default()),
        }
    }
}

/// The tokens that are not revoked.
#[derive(Debug, Default)]
pub struct Table {
    by_digest: HashMap<Digest, Arc<Token>>,
}

impl Table {
    fn of(known: &Known) -> Table {
        let each = known.values();
        Table {
            by_digest: each
                .map(|token| (token.digest, Arc::new(token.clone())))
                .collect(),
        }
    }

    /// The token with that secret, also if it has expired.
    pub fn of_secret(&self, secret: &str) -> Option<&Arc<Token>> {
        self.of_digest(digest(secret))
    }

    /// The token whose secret has that digest, also if it has expired.
    pub fn of_digest(&self, digest: Digest) -> Option<&Arc<Token>> {
        self.by_digest.get(&digest)
    }

    /// Whether a token is among them and has not expired.
    pub fn is_valid(&self, digest: Digest, now: Timestamp) -> bool {
        let known = self.of_digest(digest);
        known.is_some_and(|token| !token.is_expired(now))
    }

    /// The token of that name, also if it has expired.
    pub fn named(&self, name: &str) -> Option<&Arc<Token>> {
        self.by_digest.values().find(|token| *token.name == *name)
    }
}

/// Who has a token.
pub fn caller_of(token: &Token) -> Caller {
    Caller::new(token.name.clone(), to_api(token.scope), token.owner.clone())
}

pub(crate) const fn to_api(scope: tokens::Scope) -> Scope {
    match scope {
        tokens::Scope::Read => Scope::Read,
        tokens::Scope::Ask => Scope::Ask,
        tokens::Scope::Approve => Scope::Approve,
        tokens::Scope::Admin => Scope::Admin,
    }
}

pub(crate) const fn from_api(scope: Scope) -> tokens::Scope {
    match scope {
        Scope::Read => tokens::Scope::Read,
        Scope::Ask => tokens::Scope::Ask,
        Scope::Approve => tokens::Scope::Approve,
        Scope::Admin => tokens::Scope::Admin,
    }
}

/// What a secret is known by.
pub(crate) fn digest(secret: &str) -> Digest {
    Digest::of_bytes(secret.as_bytes())
}

/// A new secret.
pub(crate) fn secret() -> io::Result<String> {
    let mut bytes = [0u8; BYTES];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    let hex = bytes.iter().map(|byte| format!("{byte:02x}"));
    Ok(PREFIX.to_owned() + &hex.collect::<String>())
}

impl Local {
    /// The tokens that are known, each time that they change.
    pub fn known_tokens(&self) -> watch::Receiver<Arc<Table>> {
        self.tokens.table.subscribe()
    }

    /// Reads what other programs wrote about tokens.
    ///
    /// # Errors
    /// The store fails.
    pub async fn take_tokens(&self) -> Result<(), Error> {
        let mut held = self.tokens.held.lock().await;
        let (tokens, is_new) = match &mut *held {
            Some(tokens) => {
                let is_new = tokens.refresh().await?;
                (tokens, is_new)
            }
            none => (
                none.insert(Tokens::open(&self.parts_journal()).await?),
                true,
            ),
        };
        if is_new {
            self.publish(tokens.known());
        }
        Ok(())
    }

    /// The owners to whom tokens belong.
    ///
    /// # Errors
    /// The store fails.
    pub(crate) async fn owners_of_tokens(&self) -> Result<BTreeSet<Arc<str>>, Error> {
        let known = self.all_tokens().await?;
        Ok(known
            .values()
            .filter_map(|token| token.owner.clone())
            .collect())
    }

    /// The tokens that are not revoked, by name.
    pub(crate) async fn all_tokens(&self) -> Result<Known, Error> {
        self.take_tokens().await?;
        let held = self.tokens.held.lock().await;
        Ok(held
            .as_ref()
            .map(|tokens| tokens.known().clone())
            .unwrap_or_default())
    }

    /// Decides by the tokens there are, and writes down what is decided. Where another process wrote
    /// meanwhile, it is decided again.
    pub(crate) async fn record_token(
        &self,
        decide: impl Fn(&Known) -> Result<TokenFact, Error>,
    ) -> Result<(), Error> {
        let mut held = self.tokens.held.lock().await;
        let tokens = match &mut *held {
            Some(tokens) => tokens,
            none => none.insert(Tokens::open(&self.parts_journal()).await?),
        };
        let mut tried = 0;
        loop {
            tokens.take().await?;
            let fact = decide(tokens.known())?;
            tried += 1;
            match tokens.append(fact).await {
                Ok(()) => break,
                Err(StoreError::Fenced { .. } | StoreError::Conflict { .. }) if tried < TRIES => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.publish(tokens.known());
        Ok(())
    }

    fn publish(&self, known: &Known) {
        self.tokens.table.send_replace(Arc::new(Table::of(known)));
    }
}

/// When something ends that lasts so many seconds from now.
pub(crate) fn after(seconds: u64) -> Timestamp {
    let ms = i64::try_from(seconds)
        .unwrap_or(i64::MAX)
        .saturating_mul(1_000);
    // Far enough away, and still a date that can be written.
    Timestamp(clock::now().0.saturating_add(ms.min(MOST_MS)))
}

/// A hundred years in milliseconds.
const MOST_MS: i64 = 100 * 366 * 24 * 60 * 60 * 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_long_random_and_recognised() {
        let [one, other] = [secret().unwrap(), secret().unwrap()];
        assert_ne!(one, other);
        assert!(one.starts_with(PREFIX) && one.len() == PREFIX.len() + 2 * BYTES);
    }

    #[test]
    fn a_token_is_found_by_its_secret_alone() {
        let token = |name: &str, expires| Token {
            name: name.into(),
            digest: digest(&format!("secret of {name}")),
            scope: tokens::Scope::Ask,
            owner: None,
            created: Timestamp(0),
            expires,
        };
        let all = [token("a", None), token("b", Some(Timestamp(10)))];
        let known: Known = all.map(|token| (token.name.clone(), token)).into();
        let table = Table::of(&known);
        let found = table.of_secret("secret of a").unwrap();
        assert_eq!(caller_of(found).name(), Some(&"a".into()));
        assert!(table.of_secret("secret of c").is_none() && table.of_secret("").is_none());
        let b = digest("secret of b");
        assert!(table.is_valid(b, Timestamp(9)) && !table.is_valid(b, Timestamp(10)));
        assert!(table.named("b").is_some() && table.named("c").is_none());
    }
}
