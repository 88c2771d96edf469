//! Tokens of people and programs, in a journal of the store's own.
//!
//! Of a token's secret only its digest is kept: the secret has 256 random bits, so nobody finds it by
//! trying. A revoked token is gone; its name can be given again.
//!
//! Where several processes use the store, all of them write to the journal: each reads what the others
//! wrote before it decides, and one that is not up to date writes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use unisono_context::{Digest, Timestamp};

use crate::engine::{Append, Checkpoint, TOKENS as ID};
use crate::error::{Error, Fault, Record, Result};
use crate::grants::join;
use crate::journal::Journal;
use crate::record;
use crate::record::layout::{Fields, Layout, layout, put_optional, unknown};

/// Entries read at a time.
const PAGE: usize = 4_096;
/// Entries after which the state is written down when the journal is opened.
const FOLD_AFTER: u64 = 1_024;

/// What a token may do: each may do what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// To look.
    Read,
    /// To give sessions tasks and messages, to make and change them.
    Ask,
    /// To decide about calls of tools.
    Approve,
    /// Everything, for all owners.
    Admin,
}

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its name: it stands for who uses it.
    pub name: Arc<str>,
    /// The BLAKE3 digest of its secret.
    pub digest: Digest,
    /// What it may do.
    pub scope: Scope,
    /// Whose sessions it sees and makes; none: everybody's, and it makes nobody's.
    pub owner: Option<Arc<str>>,
    /// When it was made.
    pub created: Timestamp,
    /// When it ends; none: it does not.
    pub expires: Option<Timestamp>,
}

impl Token {
    /// Whether it is no longer valid.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }
}

/// Something that happened to a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenFact {
    /// It was made.
    Created {
        /// The token.
        token: Token,
    },
    /// It is no longer valid.
    Revoked {
        /// Its name.
        name: Arc<str>,
        /// When.
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
pub type Known = BTreeMap<Arc<str>, Token>;

/// The journal of tokens.
#[derive(Debug)]
pub struct Tokens {
    journal: Journal,
    /// None until it could be taken, and after another process took it.
    epoch: Option<u64>,
    last: u64,
    known: Known,
}

impl Tokens {
    /// Reads the journal; it is taken with the first entry that is written.
    ///
    /// # Errors
    /// The store failed; an entry cannot be read.
    pub async fn open(journal: &Journal) -> Result<Tokens> {
        let (known, last, _) = fold(journal).await?;
        Ok(Tokens {
            journal: journal.clone(),
            epoch: None,
            last,
            known,
        })
    }

    /// The tokens that are not revoked.
    pub fn known(&self) -> &Known {
        &self.known
    }

    /// Reads what others have written; answers whether anything was.
    ///
    /// # Errors
    /// The store failed; an entry cannot be read.
    pub async fn refresh(&mut self) -> Result<bool> {
        let last = read_on(&self.journal, &mut self.known, self.last).await?;
        let is_new = last != self.last;
        self.last = last;
        Ok(is_new)
    }

    /// Takes the journal if it is not ours, and reads what others have written to it.
    ///
    /// # Errors
    /// The store takes no writes, or failed; an entry cannot be read.
    pub async fn take(&mut self) -> Result<()> {
        let engine = self.journal.engine();
        if self.journal.cluster().is_some() {
            self.epoch = Some(join(engine.as_ref(), ID).await?.epoch);
            return self.refresh().await.map(drop);
        }
        if self.epoch.is_some() {
            return Ok(());
        }
        let claim = engine.claim(ID).await?;
        let (known, last, folded) = fold(&self.journal).await?;
        if last - folded > FOLD_AFTER {
            let all: Vec<Token> = known.values().cloned().collect();
            let checkpoint = Checkpoint {
                seq: last,
                state: record::encode_entry(&all, ID, last)?,
            };
            engine.put_checkpoint(ID, claim.epoch, checkpoint).await?;
        }
        self.epoch = Some(claim.epoch);
        self.last = last;
        self.known = known;
        Ok(())
    }

    /// Writes an entry down; it is on disk when it returns. The journal has been
    /// [taken](Tokens::take).
    ///
    /// # Errors
    /// Another process has taken the journal or written to it: take it again, and decide by what it
    /// says. Or the store takes no writes, or failed.
    pub async fn append(&mut self, fact: TokenFact) -> Result<()> {
        let Some(epoch) = self.epoch else {
            return Err(Error::Conflict {
                session: ID,
                expected_seq: self.last,
                last_seq: self.last,
            });
        };
        let append = Append {
            session: ID,
            epoch,
            expected_seq: self.last,
            payloads: vec![record::encode_entry(&fact, ID, self.last + 1)?],
        };
        match self.journal.engine().append(append).await {
            Ok(last) => {
                self.last = last;
                apply(&mut self.known, fact);
                Ok(())
            }
            Err(error) => {
                // Whoever goes on takes it again.
                self.epoch = None;
                Err(error)
            }
        }
    }
}

fn apply(known: &mut Known, fact: TokenFact) {
    match fact {
        TokenFact::Created { token } => drop(known.insert(token.name.clone(), token)),
        TokenFact::Revoked { name, .. } => drop(known.remove(&name)),
    }
}

/// What the journal says, its last entry, and how many its newest state checkpoint covers.
async fn fold(journal: &Journal) -> Result<(Known, u64, u64)> {
    let engine = journal.engine();
    let (mut known, mut folded) = (Known::new(), 0);
    if let Some(Checkpoint { seq, state }) = engine.latest_checkpoint(ID).await? {
        let of = Record::Event { session: ID, seq };
        let all: Vec<Token> =
            record::decode_own(&state).map_err(|fault| Error::unreadable(of, fault))?;
        known.extend(all.into_iter().map(|token| (token.name.clone(), token)));
        folded = seq;
    }
    let last = read_on(journal, &mut known, folded).await?;
    Ok((known, last, folded))
}

/// Applies the entries after `last`, and answers with the number of the last there is.
async fn read_on(journal: &Journal, known: &mut Known, mut last: u64) -> Result<u64> {
    loop {
        let page = journal.engine().read(ID, last + 1, PAGE).await?;
        if page.is_empty() {
            return Ok(last);
        }
        for event in page {
            let of = Record::Event {
                session: ID,
                seq: event.seq,
            };
            let fact = record::decode_own(&event.payload);
            apply(known, fact.map_err(|fault| Error::unreadable(of, fault))?);
            last = event.seq;
        }
    }
}

#[cfg(test)]
mod tests {
    //! A token is there until it is revoked, also for who opens the journal again.

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
            tokens.take().await.unwrap();
            for n in 0..FOLD_AFTER {
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

    #[tokio::test]
    async fn who_is_not_up_to_date_writes_nothing() {
        let journal = Journal::new(Arc::new(Memory::new()));
        let mut first = Tokens::open(&journal).await.unwrap();
        assert!(first.append(created("a")).await.is_err(), "not taken");
        first.take().await.unwrap();
        let mut second = Tokens::open(&journal).await.unwrap();
        second.take().await.unwrap();
        second.append(created("a")).await.unwrap();
        assert!(first.append(created("a")).await.is_err());
        first.take().await.unwrap();
        assert!(first.known().contains_key("a"));
        second.refresh().await.unwrap();
    }
}
