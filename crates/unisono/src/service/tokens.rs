//! Tokens of people and programs.

use async_trait::async_trait;
use unisono_api::audit::DAEMON;
use unisono_api::service::{self, Tokens};
use unisono_api::token::{CreatedToken, NAME_CHARS, NewToken, Token, is_name};
use unisono_api::{Code, Page, PageQuery};
use unisono_context::Timestamp;
use unisono_runtime::clock;
use unisono_store::tokens::{self, TokenFact};

use super::no_cursor;
use crate::Local;
use crate::error::Error;
use crate::tokens::{digest, expiry, from_api, secret, to_api};
use crate::values;

/// The prefix of a cursor; the name of the last token follows.
const AFTER: &str = "after:";
/// Maximum number of tokens.
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
