//! The tokens of people and programs that this program knows.
//!
//! Requests are checked in memory. Changes by this program take effect at once; changes by another
//! program on the same database take effect when [`Local::take_tokens`] has read them.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, watch};
use unisono_api::token::Scope;
use unisono_context::{Digest, Timestamp};
use unisono_runtime::clock;
use unisono_store::Error as StoreError;
use unisono_store::tokens::{self, Token, TokenFact, Tokens, TokensByName};

use crate::Local;
use crate::caller::Caller;
use crate::error::Error;

/// Maximum number of retries of an entry that conflicts with another process.
const TRIES: usize = 64;
/// The prefix of secrets, by which people and scanners recognise them.
const PREFIX: &str = "unisono_";
/// Random bytes of a secret.
const BYTES: usize = 32;

#[derive(Debug, Default)]
pub(crate) struct TokenCache {
    /// `None` before the first use.
    journal: Mutex<Option<Tokens>>,
    table: watch::Sender<Arc<Table>>,
}

/// The tokens that are not revoked.
#[derive(Debug, Default)]
pub struct Table {
    by_digest: HashMap<Digest, Arc<Token>>,
}

impl Table {
    fn from_tokens(known: &TokensByName) -> Table {
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

    /// The token of that name, also if it has expired.
    pub fn named(&self, name: &str) -> Option<&Arc<Token>> {
        self.by_digest.values().find(|token| *token.name == *name)
    }
}

/// The caller that a token identifies.
pub fn caller_of(token: &Token) -> Caller {
    let caller = Caller::new(token.name.clone(), to_api(token.scope), token.owner.clone());
    caller.with_token(token.digest)
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

pub(crate) fn digest(secret: &str) -> Digest {
    Digest::of_bytes(secret.as_bytes())
}

pub(crate) fn secret() -> io::Result<String> {
    let mut bytes = [0u8; BYTES];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    let hex = bytes.iter().map(|byte| format!("{byte:02x}"));
    Ok(PREFIX.to_owned() + &hex.collect::<String>())
}

impl Local {
    /// The known tokens, with a notice of each change.
    pub fn known_tokens(&self) -> watch::Receiver<Arc<Table>> {
        self.shared.tokens.table.subscribe()
    }

    /// Ends when a token is revoked or expires, also by a change of another program that
    /// [`Local::take_tokens`] reads.
    pub async fn wait_until_invalid(&self, token: Digest) {
        let mut tokens = self.known_tokens();
        let expires = tokens
            .borrow()
            .of_digest(token)
            .and_then(|token| token.expires);
        let revoked = tokens.wait_for(|table| table.of_digest(token).is_none());
        tokio::select! {
            // A closed channel means that the program stops.
            _ = revoked => {}
            () = passed(expires) => {}
        }
    }

    /// Reads the token changes of other programs.
    ///
    /// # Errors
    /// The store fails.
    pub async fn take_tokens(&self) -> Result<(), Error> {
        let mut journal = self.shared.tokens.journal.lock().await;
        let (tokens, is_new) = match &mut *journal {
            Some(tokens) => {
                let is_new = tokens.refresh().await?;
                (tokens, is_new)
            }
            none => (
                none.insert(Tokens::open(&self.whole_journal()).await?),
                true,
            ),
        };
        if is_new {
            self.publish(tokens.known());
        }
        Ok(())
    }

    pub(crate) async fn owners_of_tokens(&self) -> Result<BTreeSet<Arc<str>>, Error> {
        let known = self.all_tokens().await?;
        Ok(known
            .values()
            .filter_map(|token| token.owner.clone())
            .collect())
    }

    /// The tokens that are not revoked, by name.
    pub(crate) async fn all_tokens(&self) -> Result<TokensByName, Error> {
        self.take_tokens().await?;
        let journal = self.shared.tokens.journal.lock().await;
        Ok(journal
            .as_ref()
            .map(|tokens| tokens.known().clone())
            .unwrap_or_default())
    }

    /// Records the fact that `decide` makes of the current tokens. After a conflict with another
    /// process it decides again.
    pub(crate) async fn record_token(
        &self,
        decide: impl Fn(&TokensByName) -> Result<TokenFact, Error>,
    ) -> Result<(), Error> {
        let mut journal = self.shared.tokens.journal.lock().await;
        let tokens = match &mut *journal {
            Some(tokens) => tokens,
            none => none.insert(Tokens::open(&self.whole_journal()).await?),
        };
        let mut tried = 0;
        loop {
            tokens.claim().await?;
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

    fn publish(&self, known: &TokensByName) {
        self.shared
            .tokens
            .table
            .send_replace(Arc::new(Table::from_tokens(known)));
    }
}

/// Waits until an instant, or forever without one.
async fn passed(at: Option<Timestamp>) {
    let Some(at) = at else {
        return std::future::pending().await;
    };
    loop {
        let left = at.0.saturating_sub(clock::now().0);
        let Ok(left @ 1..) = u64::try_from(left) else {
            return;
        };
        // The clock can be set meanwhile, so it is read again every minute.
        let left = Duration::from_millis(left).min(Duration::from_secs(60));
        tokio::time::sleep(left).await;
    }
}

/// The instant that is `seconds` from now.
pub(crate) fn expiry(seconds: u64) -> Timestamp {
    let ms = i64::try_from(seconds)
        .unwrap_or(i64::MAX)
        .saturating_mul(1_000);
    // RFC 3339 can still write this date.
    Timestamp(clock::now().0.saturating_add(ms.min(MAX_MS)))
}

/// A hundred years in milliseconds.
const MAX_MS: i64 = 100 * 366 * 24 * 60 * 60 * 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// The token whose secret is its name.
    fn token(name: &str, expires: Option<Timestamp>) -> Token {
        Token {
            name: name.into(),
            digest: digest(name),
            scope: tokens::Scope::Ask,
            owner: None,
            created: Timestamp(0),
            expires,
        }
    }

    #[test]
    fn a_secret_is_long_random_and_recognised() {
        let [one, other] = [secret().unwrap(), secret().unwrap()];
        assert_ne!(one, other);
        assert!(one.starts_with(PREFIX) && one.len() == PREFIX.len() + 2 * BYTES);
    }

    #[test]
    fn a_token_is_found_by_its_secret_alone() {
        let all = [token("a", None), token("b", Some(Timestamp(10)))];
        let known: TokensByName = all.map(|token| (token.name.clone(), token)).into();
        let table = Table::from_tokens(&known);
        let found = table.of_secret("a").unwrap();
        let caller = caller_of(found);
        assert_eq!(
            (caller.name(), caller.token()),
            (Some(&"a".into()), Some(found.digest))
        );
        assert!(table.of_secret("c").is_none() && table.of_secret("").is_none());
        assert!(table.named("b").is_some() && table.named("c").is_none());
    }

    #[tokio::test]
    async fn a_token_is_valid_until_it_is_revoked_or_expires() {
        let local = crate::fixture::local([]).await;
        for token in [
            token("valid", None),
            token("long", Some(expiry(3_600))),
            token("expired", Some(Timestamp(1))),
        ] {
            let fact = TokenFact::Created { token };
            local.record_token(|_| Ok(fact.clone())).await.unwrap();
        }
        local.wait_until_invalid(digest("expired")).await;
        local.wait_until_invalid(digest("unknown")).await;
        for name in ["valid", "long"] {
            let mut invalid = std::pin::pin!(local.wait_until_invalid(digest(name)));
            tokio::select! {
                biased;
                () = &mut invalid => panic!("{name} is valid"),
                () = std::future::ready(()) => {}
            }
            let fact = TokenFact::Revoked {
                name: name.into(),
                at: Timestamp(2),
            };
            local.record_token(|_| Ok(fact.clone())).await.unwrap();
            invalid.await;
        }
    }
}
