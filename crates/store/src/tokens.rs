//! Tokens of people and programs, in an internal journal of the store.
//!
//! The store has only the digest of a token's secret. A secret has 256 random bits, so nobody can
//! guess it. A revoked token is deleted, and a new token may have its name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use unisono_context::{Digest, Timestamp};

use crate::engine::{Append, Engine, TOKENS as ID};
use crate::error::{Error, Fault, Record, Result};
use crate::grants::join;
use crate::journal::Journal;
use crate::record;
use crate::record::layout::{Fields, Layout, layout, put_optional, unknown};
use crate::shared_journal::{SharedJournal, State};

/// The rights of a token. Each scope includes the scopes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Reads.
    Read,
    /// Starts turns, adds messages, creates and changes sessions.
    Ask,
    /// Approves and rejects tool calls.
    Approve,
    /// Does everything, for all owners.
    Admin,
}

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its name, which identifies its user.
    pub name: Arc<str>,
    /// The BLAKE3 digest of its secret.
    pub digest: Digest,
    /// Its rights.
    pub scope: Scope,
    /// The owner of the sessions that it sees and creates. Without an owner it sees all sessions and
    /// creates sessions without an owner.
    pub owner: Option<Arc<str>>,
    /// The time of its creation.
    pub created: Timestamp,
    /// The time at which it expires; `None` if it does not.
    pub expires: Option<Timestamp>,
}

impl Token {
    /// Whether it has expired.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }
}

/// An event of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenFact {
    /// It was created.
    Created {
        /// The token.
        token: Token,
    },
    /// It was revoked.
    Revoked {
        /// Its name.
        name: Arc<str>,
        /// The time.
        at: Timestamp,
    },
}

layout! {
    codes Scope { 0 Read, 1 Ask, 2 Approve, 3 Admin }
    struct Token { name, digest, scope, owner, created, expires }
    enum TokenFact {
        0 Created { token },
        1 Revoked { name, at },
    }
}

/// The tokens that are not revoked, by name.
pub type TokensByName = BTreeMap<Arc<str>, Token>;

impl State for TokensByName {
    const ID: crate::engine::SessionId = ID;
    type Entry = TokenFact;
    type Saved = Vec<Token>;

    fn apply(&mut self, fact: TokenFact) {
        match fact {
            TokenFact::Created { token } => drop(self.insert(token.name.clone(), token)),
            TokenFact::Revoked { name, .. } => drop(self.remove(&name)),
        }
    }

    fn save(&self) -> Vec<Token> {
        self.values().cloned().collect()
    }

    fn restore(saved: Vec<Token>) -> TokensByName {
        let named = |token: Token| (token.name.clone(), token);
        saved.into_iter().map(named).collect()
    }
}

/// The journal of tokens.
#[derive(Debug)]
pub struct Tokens(SharedJournal<TokensByName>);

impl Tokens {
    /// Reads the journal, without a claim.
    pub async fn open(journal: &Journal) -> Result<Tokens> {
        SharedJournal::open(journal).await.map(Tokens)
    }

    /// The tokens that are not revoked.
    pub fn known(&self) -> &TokensByName {
        self.0.state()
    }

    /// Reads the new entries of other processes, and returns whether there were any.
    pub async fn refresh(&mut self) -> Result<bool> {
        self.0.refresh().await
    }

    /// Claims the journal if it is not claimed, and reads the new entries of other processes.
    pub async fn claim(&mut self) -> Result<()> {
        self.0.claim().await.map(drop)
    }

    /// Appends an entry; it is on disk when this returns. The caller has [claimed](Tokens::claim) the
    /// journal.
    ///
    /// # Errors
    /// Another process claimed the journal or appended to it: claim it again and decide by its new
    /// state. Or the store accepts no writes or fails.
    pub async fn append(&mut self, fact: TokenFact) -> Result<()> {
        self.0.append(fact).await
    }
}

/// Entries per read.
const PAGE: usize = 4_096;
/// Attempts to add tokens to a journal to which other processes append.
const TRIES: u32 = 8;

/// Adds the tokens of another store, given by the entries of its journal. Tokens that were revoked in
/// either store are not added. Returns the number of skipped tokens: another token here has their name.
pub(crate) async fn merge(engine: &dyn Engine, theirs: &[Vec<u8>]) -> Result<u64> {
    let theirs: Vec<TokenFact> = (1..)
        .zip(theirs)
        .map(|(seq, entry)| decode(seq, entry))
        .collect::<Result<_>>()?;
    let mut tries = TRIES;
    // Without any, the journal need not be made.
    while !theirs.is_empty() {
        let claim = join(engine, ID).await?;
        let mut ours = Vec::new();
        while (ours.len() as u64) < claim.last_seq {
            let page = engine.read(ID, ours.len() as u64 + 1, PAGE).await?;
            if page.is_empty() {
                break;
            }
            for event in page {
                ours.push(decode(event.seq, &event.payload)?);
            }
        }
        let (added, skipped) = missing(&ours, &theirs);
        let facts = added.into_iter().map(|token| TokenFact::Created { token });
        let entries = (claim.last_seq + 1..)
            .zip(facts)
            .map(|(seq, fact)| record::encode_entry(&fact, ID, seq));
        let payloads = entries.collect::<Result<Vec<_>>>()?;
        if payloads.is_empty() {
            return Ok(skipped);
        }
        let appended = engine.append(Append::new(ID, claim.epoch, claim.last_seq, payloads));
        match appended.await {
            Ok(_) => return Ok(skipped),
            Err(Error::Fenced { .. } | Error::Conflict { .. }) if tries > 1 => tries -= 1,
            Err(error) => return Err(error),
        }
    }
    Ok(0)
}

/// The tokens that only the other journal has, and the number of those whose name another token has.
fn missing(ours: &[TokenFact], theirs: &[TokenFact]) -> (Vec<Token>, u64) {
    let fold = |facts: &[TokenFact]| {
        let mut tokens = TokensByName::new();
        facts.iter().cloned().for_each(|fact| tokens.apply(fact));
        tokens
    };
    // Also those that were revoked since.
    let seen: BTreeSet<Digest> = ours
        .iter()
        .filter_map(|fact| match fact {
            TokenFact::Created { token } => Some(token.digest),
            TokenFact::Revoked { .. } => None,
        })
        .collect();
    let known = fold(ours);
    let unseen = fold(theirs).into_values();
    let unseen = unseen.filter(|token| !seen.contains(&token.digest));
    let (skipped, added): (Vec<Token>, Vec<Token>) =
        unseen.partition(|token| known.contains_key(&token.name));
    (added, skipped.len() as u64)
}

fn decode(seq: u64, entry: &[u8]) -> Result<TokenFact> {
    let session = ID;
    record::decode_own(entry)
        .map_err(|fault| Error::unreadable(Record::Event { session, seq }, fault))
}

#[cfg(test)]
mod tests {
    //! A token exists until it is revoked, also after a restart.

    use super::*;
    use crate::disk::Disk;
    use crate::memory::Memory;

    fn token(name: &str, expires: Option<i64>) -> Token {
        Token {
            name: name.into(),
            digest: Digest::of_bytes(name.as_bytes()),
            scope: Scope::Ask,
            owner: Some("ada".into()),
            created: Timestamp(1),
            expires: expires.map(Timestamp),
        }
    }

    fn created(name: &str) -> TokenFact {
        TokenFact::Created {
            token: token(name, None),
        }
    }

    fn revoked(name: &str) -> TokenFact {
        TokenFact::Revoked {
            name: name.into(),
            at: Timestamp(2),
        }
    }

    #[test]
    fn a_token_ends_when_it_expires() {
        let token = token("a", Some(10));
        assert!(!token.is_expired(Timestamp(9)) && token.is_expired(Timestamp(10)));
        assert!(Scope::Read < Scope::Ask && Scope::Approve < Scope::Admin);
    }

    #[tokio::test]
    async fn tokens_are_there_again_and_are_no_session() {
        let directory = tempfile::tempdir().unwrap();
        for round in 0..2u64 {
            let disk = Disk::open(directory.path().join("store")).unwrap().disk;
            let journal = Journal::new(Arc::new(disk));
            let mut tokens = Tokens::open(&journal).await.unwrap();
            let names: Vec<&str> = tokens.known().keys().map(|name| &**name).collect();
            assert_eq!(names, [&["b"][..0], &["b"]][round as usize]);
            tokens.claim().await.unwrap();
            for n in 0..1_024 {
                tokens.append(created(&n.to_string())).await.unwrap();
                tokens.append(revoked(&n.to_string())).await.unwrap();
            }
            tokens.append(created("b")).await.unwrap();
            assert_eq!(tokens.known()["b"], token("b", None));
            assert_eq!(journal.sessions(None, 10).await.unwrap(), []);
            assert!(!journal.exists(ID.into()).await.unwrap());
            journal.close().await.unwrap();
        }
    }

    #[test]
    fn tokens_of_another_store_are_added_unless_revoked_or_of_a_known_name() {
        let other = |name: &str| TokenFact::Created {
            token: Token {
                digest: Digest::of_bytes(b"another secret"),
                ..token(name, None)
            },
        };
        let theirs = [
            created("a"),
            created("b"),
            created("c"),
            created("d"),
            revoked("d"),
        ];
        let ours = [created("a"), created("b"), revoked("b"), other("c")];
        let (added, skipped) = missing(&[], &theirs);
        let names = |all: &[Token]| {
            all.iter()
                .map(|one| one.name.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (names(&added), skipped),
            (vec!["a".to_owned(), "b".to_owned(), "c".to_owned()], 0)
        );
        let (added, skipped) = missing(&ours, &theirs);
        assert_eq!((names(&added), skipped), (vec![], 1));
    }

    #[tokio::test]
    async fn an_archive_brings_its_tokens_along() {
        let place = tempfile::tempdir().unwrap();
        let archive = place.path().join("archive");
        let from = Arc::new(Memory::new());
        let mut tokens = Tokens::open(&Journal::new(from.clone())).await.unwrap();
        tokens.claim().await.unwrap();
        tokens.append(created("a")).await.unwrap();
        tokens.append(created("b")).await.unwrap();
        crate::archive::export(from.as_ref(), &archive)
            .await
            .unwrap();
        for own in [None, Some("b"), Some("z")] {
            // The daemon of the store may have claimed the journal without an entry.
            let to = Arc::new(Memory::new());
            let journal = Journal::new(to.clone());
            let mut tokens = Tokens::open(&journal).await.unwrap();
            tokens.claim().await.unwrap();
            if let Some(own) = own {
                let mut token = token(own, None);
                token.digest = Digest::of_bytes(b"another secret");
                tokens.append(TokenFact::Created { token }).await.unwrap();
            }
            let moved = crate::archive::import(to.as_ref(), &archive).await.unwrap();
            assert_eq!(moved.skipped_tokens, u64::from(own == Some("b")));
            let tokens = Tokens::open(&journal).await.unwrap();
            let names: Vec<&str> = tokens.known().keys().map(|name| &**name).collect();
            let expected: &[&str] = if own == Some("z") {
                &["a", "b", "z"]
            } else {
                &["a", "b"]
            };
            assert_eq!(names, expected, "{own:?}");
        }
    }

    #[tokio::test]
    async fn who_is_not_up_to_date_writes_nothing() {
        let journal = Journal::new(Arc::new(Memory::new()));
        let mut first = Tokens::open(&journal).await.unwrap();
        assert!(first.append(created("a")).await.is_err(), "not taken");
        first.claim().await.unwrap();
        let mut second = Tokens::open(&journal).await.unwrap();
        second.claim().await.unwrap();
        second.append(created("a")).await.unwrap();
        assert!(first.append(created("a")).await.is_err());
        first.claim().await.unwrap();
        assert!(first.known().contains_key("a"));
        second.refresh().await.unwrap();
    }
}
