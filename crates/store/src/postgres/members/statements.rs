//! The SQL statements of members. All times are those of the database's clock.

macro_rules! now {
    () => {
        "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    };
}

/// Renews a member's row. Returns all rows as they were before.
pub(super) const BEAT: &str = concat!(
    "WITH beat AS (
    INSERT INTO unisono_members AS me (member, instance, name, version, address, token, agents,
        draining, joined_unix_ms, beat_unix_ms)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, ",
    now!(),
    ", ",
    now!(),
    ") ON CONFLICT (member) DO UPDATE SET
        instance = excluded.instance, name = excluded.name, version = excluded.version,
        address = excluded.address, token = excluded.token, agents = excluded.agents,
        draining = CASE WHEN me.instance = excluded.instance THEN me.draining
                        ELSE excluded.draining END,
        joined_unix_ms = CASE WHEN me.instance = excluded.instance THEN me.joined_unix_ms
                              ELSE excluded.joined_unix_ms END,
        beat_unix_ms = excluded.beat_unix_ms
)
SELECT member, name, version, address, token, agents, joined_unix_ms, ",
    now!(),
    " - beat_unix_ms, draining, instance,
    (SELECT coalesce(sum(version), 0)::bigint FROM unisono_documents),
    EXISTS (SELECT FROM unisono_sessions WHERE owner = $9) FROM unisono_members"
);

/// All members, and the number of sessions that each owns.
pub(super) const MEMBERS: &str = concat!(
    "SELECT member, name, version, address, token, agents, joined_unix_ms, ",
    now!(),
    " - beat_unix_ms, draining, instance,
    (SELECT count(*) FROM unisono_sessions WHERE owner = known.member AND NOT deleted)
FROM unisono_members AS known ORDER BY joined_unix_ms, member"
);

pub(super) const OWNER: &str = concat!(
    "SELECT member, name, version, address, token, agents, joined_unix_ms, ",
    now!(),
    " - beat_unix_ms, draining, instance
FROM unisono_members WHERE member = (SELECT owner FROM unisono_sessions WHERE session = $1)"
);

/// Whether a session waits for a member that can work on it.
pub(super) const WAITS: &str = "\
SELECT session FROM unisono_sessions WHERE session = $1 AND owner = $2 AND NOT deleted";

/// Takes over sessions of members that are gone: each is assigned to one program, and its writer is
/// fenced.
pub(super) const TAKE_OVER: &str = concat!(
    "WITH taken AS (
    SELECT session FROM unisono_sessions
    WHERE owner IN (SELECT member FROM unisono_members
                    WHERE member <> $1 AND beat_unix_ms <= ",
    now!(),
    " - $2 UNION ALL SELECT $5)
        AND session <> ALL($4)
    LIMIT $3 FOR UPDATE SKIP LOCKED
)
UPDATE unisono_sessions AS known SET owner = $1, epoch = known.epoch + 1
FROM taken WHERE known.session = taken.session
RETURNING known.session, last_seq, epoch, payload_bytes, created_unix_ms, updated_unix_ms"
);

pub(super) const DOCUMENT: &str = "SELECT text FROM unisono_documents WHERE name = $1";

pub(super) const PUT_DOCUMENT: &str = "\
INSERT INTO unisono_documents AS known VALUES ($1, $2, 1)
ON CONFLICT (name) DO UPDATE SET text = excluded.text, version = known.version + 1
WHERE known.text <> excluded.text RETURNING version";

pub(super) const OWNED: &str = "\
SELECT session, last_seq, epoch, payload_bytes, created_unix_ms, updated_unix_ms
FROM unisono_sessions WHERE owner = $1 AND NOT deleted";

pub(super) const FORGET_GONE: &str = concat!(
    "DELETE FROM unisono_members AS gone WHERE member <> $1 AND beat_unix_ms <= ",
    now!(),
    " - $2 AND NOT EXISTS (SELECT FROM unisono_sessions WHERE owner = gone.member) RETURNING member"
);

/// Releases sessions; those that were claimed since are left unchanged.
pub(super) const RELEASE: &str = "\
UPDATE unisono_sessions AS known SET owner = NULL
FROM unnest($1::uuid[], $2::bigint[]) AS taken (session, epoch)
WHERE known.session = taken.session AND known.epoch = taken.epoch AND owner = $3
RETURNING known.session";

pub(super) const DECLINE: &str = "\
UPDATE unisono_sessions SET owner = $4, epoch = epoch + 1
WHERE session = $1 AND epoch = $2 AND owner = $3 RETURNING session";

pub(super) const DRAIN: &str = concat!(
    "UPDATE unisono_members SET draining = $2 WHERE member = $1 AND beat_unix_ms > ",
    now!(),
    " - $3 RETURNING member"
);

pub(super) const LEAVE: &str = "\
WITH owned AS (SELECT EXISTS (SELECT FROM unisono_sessions WHERE owner = $1) AS some), left_empty AS (
    DELETE FROM unisono_members USING owned
    WHERE member = $1 AND instance = $2 AND NOT owned.some RETURNING member
)
UPDATE unisono_members SET beat_unix_ms = 0
FROM owned WHERE member = $1 AND instance = $2 AND owned.some RETURNING member";
