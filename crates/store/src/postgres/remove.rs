//! Deletes a session and keeps its usage.

use tokio_postgres::Transaction;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::batch::checksum;
use super::error_kind::failed;
use super::{CLAIMED_AT_MOST, NOW, Postgres, link, unsigned};
use crate::admit;
use crate::engine::is_of_a_session;
use crate::engine::{DELETED_USAGE, Deletion};
use crate::error::{Error, Result};

/// What became of an attempt to delete a session.
enum Removal {
    Deleted,
    /// There is no such session.
    Unknown,
    /// Another live member works on it.
    OwnedElsewhere,
}

impl Postgres {
    /// Deletes a session that no other live member owns; returns whether it existed.
    pub(super) async fn deleted(&self, deletion: Deletion) -> Result<bool> {
        admit::check_deletion(&deletion)?;
        self.check_open()?;
        let session = deletion.session;
        self.recent.forget(session);
        let membership = self.membership.as_ref();
        let membership = membership.filter(|_| is_of_a_session(session));
        for _ in 0..CLAIMED_AT_MOST {
            let member = membership.map(|all| (all.id(), all.lease_of_others_ms()));
            match self.deleted_once(&deletion, member).await? {
                Removal::Deleted => return Ok(true),
                Removal::Unknown => return Ok(false),
                Removal::OwnedElsewhere => {}
            }
            if let Some(all) = membership
                && let Some(refused) = all.refused(session).await?
            {
                return Err(refused);
            }
        }
        Err(self.unreachable("this program's own beats do not come through"))
    }

    async fn deleted_once(
        &self,
        deletion: &Deletion,
        member: Option<(Uuid, i64)>,
    ) -> Result<Removal> {
        // A transaction needs a connection of its own.
        let mut client = link::connect(&self.options).await?;
        let transaction = client.transaction().await.map_err(failed("begin"))?;
        let removal = remove(&transaction, deletion, member).await?;
        if matches!(removal, Removal::Deleted) {
            let committed = transaction.commit().await;
            self.recent.forget(deletion.session);
            committed.map_err(failed("delete a session"))?;
        }
        Ok(removal)
    }
}

/// Deletes a session in a transaction. `member` is who deletes it, with the age of a beat from which on
/// another member counts as gone.
async fn remove(
    transaction: &Transaction<'_>,
    deletion: &Deletion,
    member: Option<(Uuid, i64)>,
) -> Result<Removal> {
    let (session, id) = (deletion.session, deletion.session.0);
    let doing = || failed("delete a session");
    let (member, lease_ms) = member.unzip();
    // The row of the owner is locked as by a claim: its beat comes before or after the deletion.
    let row = format!(
        "SELECT last_seq, EXISTS (SELECT FROM (SELECT beat_unix_ms FROM unisono_members \
                 WHERE member = known.owner AND member <> $2::uuid OFFSET 0 FOR SHARE) AS other \
             WHERE other.beat_unix_ms > {NOW} - $3::bigint) \
         FROM unisono_sessions AS known WHERE session = $1 AND NOT deleted FOR UPDATE OF known"
    );
    let parameters: [&(dyn ToSql + Sync); 3] = [&id, &member, &lease_ms];
    let row = transaction.query_opt(&row, &parameters).await;
    let Some(row) = row.map_err(doing())? else {
        return Ok(Removal::Unknown);
    };
    // Without a member to compare with, no other one is found.
    if row.get(1) {
        return Ok(Removal::OwnedElsewhere);
    }
    let last_seq = unsigned(&row, 0);
    if let Some(expected_seq) = deletion
        .expected_seq
        .filter(|expected| *expected != last_seq)
    {
        return Err(Error::Conflict {
            session,
            expected_seq,
            last_seq,
        });
    }
    let gone = [
        "DELETE FROM unisono_events WHERE session = $1".to_owned(),
        "DELETE FROM unisono_checkpoints WHERE session = $1".to_owned(),
        "DELETE FROM unisono_callbacks WHERE session = $1".to_owned(),
        format!(
            "UPDATE unisono_sessions SET deleted = true, epoch = epoch + 1, last_seq = 0, \
             payload_bytes = 0, owner = NULL, updated_unix_ms = {NOW} WHERE session = $1"
        ),
    ];
    for statement in gone {
        transaction
            .execute(&statement, &[&id])
            .await
            .map_err(doing())?;
    }
    if let Some(usage) = &deletion.deleted_usage {
        keep_usage(transaction, usage).await?;
    }
    Ok(Removal::Deleted)
}

/// Appends the usage of a deleted session to the journal of such usage.
async fn keep_usage(transaction: &Transaction<'_>, usage: &[u8]) -> Result<()> {
    let doing = || failed("delete a session");
    let keep = format!(
        "INSERT INTO unisono_sessions AS known (session, epoch, last_seq, payload_bytes, deleted, \
         created_unix_ms, updated_unix_ms) VALUES ($1, 1, 1, $2, false, {NOW}, {NOW}) \
         ON CONFLICT (session) DO UPDATE SET deleted = false, last_seq = known.last_seq + 1, \
         epoch = CASE WHEN known.deleted THEN known.epoch + 1 ELSE known.epoch END, \
         payload_bytes = known.payload_bytes + $2, updated_unix_ms = {NOW} RETURNING last_seq"
    );
    let bytes = usage.len() as i64;
    let kept = transaction
        .query_one(&keep, &[&DELETED_USAGE.0, &bytes])
        .await;
    let seq = unsigned(&kept.map_err(doing())?, 0);
    let event = "INSERT INTO unisono_events (session, seq, checksum, payload) \
                 VALUES ($1, $2, $3, $4)";
    let (sum, seq) = (checksum(DELETED_USAGE, seq, usage), seq as i64);
    let parameters: [&(dyn ToSql + Sync); 4] = [&DELETED_USAGE.0, &seq, &sum, &usage];
    let written = transaction.execute(event, &parameters).await;
    written.map_err(doing())?;
    Ok(())
}
