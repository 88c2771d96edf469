//! Tokens of people and programs.

use std::sync::Arc;

use async_trait::async_trait;
use unisono_api::audit::DAEMON;
use unisono_api::service::{self, Tokens};
use unisono_api::token::{CreatedToken, NAME_CHARS, NewToken, Token, is_name};
use unisono_api::{Code, Page, PageQuery};
use unisono_context::Timestamp;
use unisono_runtime::clock;
use unisono_store::tokens::{self, TokenFact, TokensByName};

use super::no_cursor;
use crate::Local;
use crate::error::Error;
use crate::tokens::{digest, expiry, from_api, secret, to_api};
use crate::values;

/// The prefix of a cursor; the name of the last token follows.
const AFTER: &str = "after:";
const MAX_TOKENS: usize = 10_000;
/// The maximum lifetime of a token in seconds: 100 years.
const LONGEST_SECONDS: u64 = 3_155_760_000;

#[async_trait]
impl Tokens for Local {
    async fn tokens(&self, query: &PageQuery) -> service::Result<Page<Token>> {
        let (known, now) = (self.all_tokens().await?, clock::now());
        let after = match query.cursor.as_deref() {
            None => "",
            Some(cursor) => {
                let name = cursor.strip_prefix(AFTER).filter(|name| is_name(name));
                name.ok_or_else(|| no_cursor(cursor))?
            }
        };
        let left = known.values().filter(|token| *token.name > *after);
        let limit = Page::<()>::size(query.limit);
        let part = Page::first(left, limit, |last| format!("{AFTER}{}", last.name));
        Ok(part.map(|token| described(token, now)))
    }

    async fn create_token(&self, new: &NewToken) -> service::Result<CreatedToken> {
        check_name("name", &new.name)?;
        if new.name == DAEMON {
            let detail = format!("{DAEMON:?} is the daemon's own token; use another name");
            return Err(service::Error::new(Code::InvalidRequest, detail));
        }
        if let Some(owner) = &new.owner {
            check_name("owner", owner)?;
        }
        let allowed = 1..=LONGEST_SECONDS;
        if let Some(seconds) = new.expires_seconds.filter(|end| !allowed.contains(end)) {
            let detail = format!(
                "`expires_seconds` must be 1 to {LONGEST_SECONDS}, and is {seconds}; leave it out for a \
                 token that does not end"
            );
            return Err(service::Error::new(Code::InvalidRequest, detail));
        }
        let failed = |error: std::io::Error| Error::new(Code::Failed, error.to_string());
        let secret = secret().map_err(failed)?;
        let token = tokens::Token {
            name: new.name.as_str().into(),
            digest: digest(&secret),
            scope: from_api(new.scope),
            owner: new.owner.as_deref().map(Into::into),
            created: clock::now(),
            expires: new.expires_seconds.map(expiry),
        };
        self.make_room(MAX_TOKENS).await?;
        self.record_token(|known| {
            if known.contains_key(&token.name) {
                let name = &token.name;
                let detail = format!("there is a token {name} already; revoke it first");
                return Err(Error::new(Code::Conflict, detail));
            }
            if known.len() >= MAX_TOKENS {
                let detail = format!("the limit of {MAX_TOKENS} tokens is reached; revoke some");
                return Err(Error::new(Code::Refused, detail));
            }
            let token = token.clone();
            Ok(TokenFact::Created { token })
        })
        .await?;
        Ok(CreatedToken {
            token: described(&token, clock::now()),
            secret,
        })
    }

    async fn revoke_token(&self, name: &str) -> service::Result<Token> {
        let known = self.all_tokens().await?;
        let unknown = || Error::not_found("token", format!("{name:?}"));
        let token = known.get(name).ok_or_else(unknown)?;
        self.record_token(|known| {
            let token = known.get(name).ok_or_else(unknown)?;
            Ok(TokenFact::Revoked {
                name: token.name.clone(),
                at: clock::now(),
            })
        })
        .await?;
        Ok(described(token, clock::now()))
    }
}

impl Local {
    /// Revokes the token that expired first, if there are so many tokens that no other one can be
    /// created.
    async fn make_room(&self, most: usize) -> Result<(), Error> {
        let now = clock::now();
        if expired_first(&self.all_tokens().await?, most, now).is_none() {
            return Ok(());
        }
        self.record_token(|known| {
            let changed = || Error::new(Code::Conflict, "the tokens changed meanwhile; try again");
            let name = expired_first(known, most, now).ok_or_else(changed)?;
            Ok(TokenFact::Revoked { name, at: now })
        })
        .await
    }
}

/// The token that expired first; none if there are fewer tokens than `most`, or none has expired.
fn expired_first(known: &TokensByName, most: usize, now: Timestamp) -> Option<Arc<str>> {
    let expired = known.values().filter(|token| token.is_expired(now));
    let first = expired.min_by_key(|token| token.expires)?;
    (known.len() >= most).then(|| first.name.clone())
}

fn check_name(what: &str, name: &str) -> Result<(), Error> {
    if is_name(name) {
        return Ok(());
    }
    let detail = format!(
        "`{what}` must be 1 to {NAME_CHARS} letters, digits and `-_.@+`, with a letter or a digit; it \
         is {name:?}"
    );
    Err(Error::new(Code::InvalidRequest, detail))
}

fn described(token: &tokens::Token, now: Timestamp) -> Token {
    Token {
        name: token.name.to_string(),
        scope: to_api(token.scope),
        owner: token.owner.as_deref().map(str::to_owned),
        created_at: values::instant(token.created),
        expires_at: token.expires.map(values::instant),
        expired: token.is_expired(now),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::local;

    #[tokio::test]
    async fn the_token_that_expired_first_makes_room_for_another_one() {
        let local = local([]).await;
        for (name, expires) in [
            ("valid", None),
            ("later", Some(Timestamp(2))),
            ("first", Some(Timestamp(1))),
        ] {
            let token = tokens::Token {
                name: name.into(),
                digest: digest(name),
                scope: tokens::Scope::Ask,
                owner: None,
                created: Timestamp(0),
                expires,
            };
            let fact = TokenFact::Created { token };
            local.record_token(|_| Ok(fact.clone())).await.unwrap();
        }
        for (most, left) in [
            (4, &["first", "later", "valid"][..]),
            (3, &["later", "valid"][..]),
            (1, &["valid"][..]),
            (1, &["valid"][..]),
        ] {
            local.make_room(most).await.unwrap();
            let known = local.all_tokens().await.unwrap();
            assert!(known.keys().map(|name| &**name).eq(left.iter().copied()));
        }
        local.shutdown().await;
    }
}
