//! Deletes a session and keeps its usage.

use tokio_postgres::Transaction;
use tokio_postgres::types::ToSql;

use super::batch::checksum;
use super::error_kind::failed;
use super::{NOW, unsigned};
use crate::engine::{DELETED_USAGE, Deletion};
use crate::error::{Error, Result};

/// Deletes a session in a transaction; returns whether it existed.
pub(super) async fn session(transaction: &Transaction<'_>, deletion: &Deletion) -> Result<bool> {
    let (session, id) = (deletion.session, deletion.session.0);
    let doing = || failed("delete a session");
    let row = "SELECT last_seq FROM unisono_sessions WHERE session = $1 AND NOT deleted FOR UPDATE";
    let row = transaction.query_opt(row, &[&id]).await.map_err(doing())?;
    let Some(row) = row else {
        return Ok(false);
    };
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
    let Some(left) = &deletion.deleted_usage else {
        return Ok(true);
    };
    let keep = format!(
        "INSERT INTO unisono_sessions AS known (session, epoch, last_seq, payload_bytes, deleted, \
         created_unix_ms, updated_unix_ms) VALUES ($1, 1, 1, $2, false, {NOW}, {NOW}) \
         ON CONFLICT (session) DO UPDATE SET deleted = false, last_seq = known.last_seq + 1, \
         epoch = CASE WHEN known.deleted THEN known.epoch + 1 ELSE known.epoch END, \
         payload_bytes = known.payload_bytes + $2, updated_unix_ms = {NOW} RETURNING last_seq"
    );
    let bytes = left.len() as i64;
    let kept = transaction
        .query_one(&keep, &[&DELETED_USAGE.0, &bytes])
        .await;
    let seq = unsigned(&kept.map_err(doing())?, 0);
    let event = "INSERT INTO unisono_events (session, seq, checksum, payload) \
                 VALUES ($1, $2, $3, $4)";
    let (sum, seq) = (checksum(DELETED_USAGE, seq, left), seq as i64);
    let parameters: [&(dyn ToSql + Sync); 4] = [&DELETED_USAGE.0, &seq, &sum, left];
    let written = transaction.execute(event, &parameters).await;
    written.map_err(doing())?;
    Ok(true)
}
