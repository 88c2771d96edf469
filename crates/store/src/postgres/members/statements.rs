//! The SQL statements of members. All times are those of the database's clock.

macro_rules! now {
    () => {
        "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    };
}

/// Renews a member's row. Returns all rows as they were before, the sum of the versions of all shared
/// documents and of the journal of tokens ($11), the pauses of other members, in milliseconds, the
/// last entry of the journal of automatic starts ($12), who is about to free budget, how long members have
/// been waiting for budget ($14), in milliseconds, whose writes are refused, the times of the last beats, and
/// that of this one.
pub(super) const BEAT: &str = concat!(
    "WITH beat AS (
    INSERT INTO unisono_members AS me (member, instance, name, version, address, token, agents,
        draining, short, spending, refused, short_unix_ms, joined_unix_ms, beat_unix_ms)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $10, $13, $15, ",
    now!(),
    " - $14::bigint, ",
    now!(),
    ", ",
    now!(),
    ") ON CONFLICT (member) DO UPDATE SET
        instance = excluded.instance, name = excluded.name, version = excluded.version,
        address = excluded.address, token = excluded.token, agents = excluded.agents,
        short = excluded.short, spending = excluded.spending, refused = excluded.refused,
        short_unix_ms = excluded.short_unix_ms,
        draining = CASE WHEN me.instance = excluded.instance THEN me.draining
                        ELSE excluded.draining END,
        joined_unix_ms = CASE WHEN me.instance = excluded.instance THEN me.joined_unix_ms
                              ELSE excluded.joined_unix_ms END,
        beat_unix_ms = excluded.beat_unix_ms
    RETURNING beat_unix_ms
), held AS MATERIALIZED (
    SELECT provider, model, until_unix_ms - ",
    now!(),
    " AS remaining FROM unisono_holds
    WHERE member <> $1 AND until_unix_ms > ",
    now!(),
    " ORDER BY until_unix_ms DESC LIMIT 256
)
SELECT member, name, version, address, token, agents, joined_unix_ms, ",
    now!(),
    " - beat_unix_ms, draining, instance,
    (SELECT coalesce(sum(version), 0)::bigint FROM unisono_documents)
        + coalesce((SELECT last_seq FROM unisono_sessions WHERE session = $11), 0),
    EXISTS (SELECT FROM unisono_sessions WHERE owner = $9), short,
    (SELECT array_agg(provider) FROM held), (SELECT array_agg(model) FROM held),
    (SELECT array_agg(remaining) FROM held),
    coalesce((SELECT last_seq FROM unisono_sessions WHERE session = $12), 0), spending, ",
    now!(),
    " - short_unix_ms, refused, beat_unix_ms, (SELECT beat_unix_ms FROM beat)
FROM unisono_members"
);

/// All members, and the number of sessions that each owns.
pub(super) const MEMBERS: &str = concat!(
    "SELECT member, name, version, address, token, agents, joined_unix_ms, ",
    now!(),
    " - beat_unix_ms, draining, instance,
    (SELECT count(*) FROM unisono_sessions WHERE owner = known.member AND NOT deleted)
FROM unisono_members AS known ORDER BY joined_unix_ms, member"
);

/// Times in milliseconds: how long the server has been running, the age of the newest beat before it
/// started, and whether there was a beat since. Members that left properly have no beat.
pub(super) const SERVER_START: &str = concat!(
    "SELECT up, min(age) FILTER (WHERE age >= up), coalesce(bool_or(age < up), false)
FROM (SELECT ",
    now!(),
    " - (extract(epoch FROM pg_postmaster_start_time()) * 1000)::bigint AS up) AS server
LEFT JOIN (SELECT ",
    now!(),
    " - beat_unix_ms AS age FROM unisono_members WHERE beat_unix_ms > 0) AS known ON true
GROUP BY up"
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
/// fenced. A member whose beat is under way is not gone. A beat that begins meanwhile waits, so that its program
/// finds out after it what it still owns.
pub(super) const TAKE_OVER: &str = concat!(
    "WITH gone AS MATERIALIZED (
    SELECT member FROM unisono_members WHERE member <> $1 AND beat_unix_ms <= ",
    now!(),
    " - $2 FOR SHARE SKIP LOCKED
), taken AS (
    SELECT session FROM unisono_sessions
    WHERE owner IN (SELECT member FROM gone UNION ALL SELECT $5) AND session <> ALL($4)
    LIMIT $3 FOR UPDATE SKIP LOCKED
)
UPDATE unisono_sessions AS known SET owner = $1, epoch = known.epoch + 1
FROM taken WHERE known.session = taken.session
RETURNING known.session, last_seq, epoch, payload_bytes, created_unix_ms, updated_unix_ms"
);

pub(super) const DOCUMENT: &str = "SELECT text, version FROM unisono_documents WHERE name = $1";

/// Replaces a document that is as it was read: of version $3, or not there where that is 0.
pub(super) const PUT_DOCUMENT: &str = "\
INSERT INTO unisono_documents AS known VALUES ($1, $2, 1)
ON CONFLICT (name) DO UPDATE SET text = excluded.text, version = known.version + 1
WHERE known.version = $3 RETURNING version";

/// The longer hold stays. Those that are over are forgotten; in the order of their keys, so that two
/// members do not wait for each other.
pub(super) const HOLD: &str = concat!(
    "WITH past AS (
    DELETE FROM unisono_holds AS known USING (
        SELECT provider, model FROM unisono_holds WHERE until_unix_ms <= ",
    now!(),
    " AND (provider, model) NOT IN (SELECT * FROM unnest($2::text[], $3::text[]))
        FOR UPDATE SKIP LOCKED
    ) AS gone WHERE known.provider = gone.provider AND known.model = gone.model
)
INSERT INTO unisono_holds AS known (provider, model, member, until_unix_ms)
SELECT provider, model, $1, ",
    now!(),
    " + wait FROM unnest($2::text[], $3::text[], $4::bigint[]) AS asked (provider, model, wait)
ORDER BY provider, model
ON CONFLICT (provider, model) DO UPDATE
SET member = excluded.member, until_unix_ms = excluded.until_unix_ms
WHERE known.until_unix_ms < excluded.until_unix_ms RETURNING provider"
);

/// Nothing is kept of a session that is not there.
pub(super) const PUT_CALLBACK: &str = "\
INSERT INTO unisono_callbacks (session, name, text)
SELECT session, $2, $3 FROM unisono_sessions WHERE session = $1 AND NOT deleted
ON CONFLICT (session, name) DO UPDATE SET text = excluded.text RETURNING name";

/// Only if it is still that one.
pub(super) const FORGET_CALLBACK: &str = "\
DELETE FROM unisono_callbacks WHERE session = $1 AND name = $2 AND text = $3 RETURNING name";

pub(super) const CALLBACKS: &str = "\
SELECT session, text FROM unisono_callbacks WHERE session = ANY($1) ORDER BY session, name";

/// The callbacks of sessions that the member owns, and of sessions without an owner, whose last state
/// may not have been delivered.
pub(super) const OWN_CALLBACKS: &str = "\
SELECT kept.session, kept.text FROM unisono_callbacks AS kept
JOIN unisono_sessions AS known ON known.session = kept.session
WHERE known.owner = $1 OR known.owner IS NULL ORDER BY kept.session, kept.name LIMIT 4096";

pub(super) const OWNED: &str = "\
SELECT session, last_seq, epoch, payload_bytes, created_unix_ms, updated_unix_ms
FROM unisono_sessions WHERE owner = $1 AND NOT deleted";

/// A page of the sessions of a member, in descending order of their ids.
pub(super) const OWNED_BY: &str = "\
SELECT session, last_seq, epoch, payload_bytes, created_unix_ms, updated_unix_ms
FROM unisono_sessions WHERE owner = $1 AND session < $2 AND last_seq > 0 AND NOT deleted
ORDER BY session DESC LIMIT $3";

pub(super) const CREATED_SINCE: &str = "\
SELECT session, last_seq, epoch, payload_bytes, created_unix_ms, updated_unix_ms
FROM unisono_sessions WHERE created_unix_ms >= $1 AND NOT deleted
    AND (session, created_unix_ms) NOT IN (SELECT * FROM unnest($2::uuid[], $3::bigint[]))";

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

/// The session of a cause that is the first to name one, for a day, until that session is deleted; of two at
/// the same time, one is.
pub(super) const BEGIN_ONCE: &str = concat!(
    "WITH past AS (
    DELETE FROM unisono_begun WHERE cause IN (
        SELECT cause FROM unisono_begun WHERE cause <> $1 AND unix_ms < ",
    now!(),
    " - 86400000 LIMIT 100 FOR UPDATE SKIP LOCKED)
)
INSERT INTO unisono_begun AS known (cause, session, unix_ms) VALUES ($1, $2, ",
    now!(),
    ") ON CONFLICT (cause) DO UPDATE SET (session, unix_ms) = (
    SELECT CASE WHEN over THEN excluded.session ELSE known.session END,
        CASE WHEN over THEN excluded.unix_ms ELSE known.unix_ms END
    FROM (SELECT known.unix_ms < excluded.unix_ms - 86400000 OR EXISTS (
        SELECT FROM unisono_sessions AS gone WHERE gone.session = known.session AND gone.deleted
    ) AS over) AS state
)
RETURNING session"
);

pub(super) const BEGUN: &str = concat!(
    "SELECT session FROM unisono_begun WHERE cause = $1 AND unix_ms >= ",
    now!(),
    " - 86400000"
);

/// Leaves all of a member's sessions to the others, and joins under another id ($3) in the same moment: a
/// request to let it in again concerns the one or the other.
pub(super) const HAND_OVER: &str = concat!(
    "WITH old AS (
    UPDATE unisono_members SET beat_unix_ms = 0 WHERE member = $1 AND instance = $2
    RETURNING name, version, address, token, agents, draining, joined_unix_ms
)
INSERT INTO unisono_members (member, instance, name, version, address, token, agents, draining,
    joined_unix_ms, beat_unix_ms)
SELECT $3, $2, name, version, address, token, agents, draining, joined_unix_ms, ",
    now!(),
    " FROM old
ON CONFLICT (member) DO UPDATE SET draining = excluded.draining, beat_unix_ms = excluded.beat_unix_ms
RETURNING draining"
);
