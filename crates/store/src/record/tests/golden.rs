//! The bytes of the version that is written, held still.
//!
//! The files are `tests/golden/record-<version>/<sample>.hex`, 32 bytes a line. A file that differs is a
//! format that changed: that takes a new record version, not a new file. For a new sample, put the
//! bytes that the failed test shows into its file.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{encode, samples};
use crate::codec;
use crate::record::{VERSION, agent, checkpoint, decode, message, policy, run, tokens, tool};

pub(super) fn directory(version: u16) -> PathBuf {
    let name = format!("tests/golden/record-{version}");
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn hex(bytes: &[u8]) -> String {
    let line = |line: &[u8]| {
        line.iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    bytes.chunks(32).map(|chunk| line(chunk) + "\n").collect()
}

pub(super) fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
    let byte = |pair: &[char]| u8::from_str_radix(&String::from_iter(pair), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

#[test]
fn it_is_written_and_read_as_ever() {
    let mut stale: BTreeSet<String> = fs::read_dir(directory(VERSION))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    for (name, event) in samples::all() {
        let file = format!("{name}.hex");
        let written = encode(&event).unwrap();
        let golden = fs::read_to_string(directory(VERSION).join(&file)).unwrap_or_default();
        assert_eq!(hex(&written), golden, "{file}: what is written changed");
        assert_eq!(
            decode(&unhex(&golden)),
            Ok(event),
            "{file}: what is read changed"
        );
        stale.remove(&file);
    }
    assert_eq!(stale, BTreeSet::new(), "files without a sample");
}

/// The code of each variant, in the order given, is its position.
fn assert_codes<T: Serialize + From<D>, D>(variants: impl IntoIterator<Item = D>) {
    for (code, variant) in (0u32..).zip(variants) {
        assert_eq!(
            codec::encode(&T::from(variant)),
            Ok(code.to_le_bytes().to_vec())
        );
    }
}

#[test]
fn codes_are_positions_in_these_lists() {
    use unisono_context::call::{CacheWarm, Stop};
    use unisono_context::checkpoint::{Kind, Tier, Writer};
    use unisono_context::message::Role;
    use unisono_context::policy::Preset;
    use unisono_context::tokens::Encoding;
    use unisono_session::agent::{ContextMode, OnFailure, PrefixMode};
    use unisono_session::run::Cause;
    use unisono_session::tool::Contract;

    assert_codes::<tokens::Encoding, _>([Encoding::O200kBase, Encoding::Cl100kBase]);
    assert_codes::<message::Role, _>([Role::System, Role::User, Role::Assistant, Role::Tool]);
    assert_codes::<policy::Preset, _>([
        Preset::Off,
        Preset::Truncate,
        Preset::Checkpoint,
        Preset::Retention,
        Preset::Progressive,
    ]);
    assert_codes::<checkpoint::Kind, _>([Kind::Auto, Kind::Manual]);
    assert_codes::<checkpoint::Tier, _>([Tier::Conversation, Tier::Topic, Tier::Bulk]);
    assert_codes::<checkpoint::Writer, _>([Writer::Model, Writer::Deterministic]);
    assert_codes::<agent::ContextMode, _>([ContextMode::Snapshot, ContextMode::TaskOnly]);
    assert_codes::<agent::PrefixMode, _>([PrefixMode::Shared, PrefixMode::Own]);
    assert_codes::<agent::OnFailure, _>([OnFailure::Continue, OnFailure::Fail]);
    assert_codes::<run::Cause, _>([
        Cause::Panic,
        Cause::Timeout,
        Cause::Spawn,
        Cause::Exit,
        Cause::BadOutput,
        Cause::Model,
        Cause::Busy,
        Cause::BadInput,
        Cause::SnapshotMismatch,
        Cause::Unavailable,
        Cause::Rejected,
        Cause::Overflow,
        Cause::Refused,
        Cause::Budget,
        Cause::Stuck,
    ]);
    assert_codes::<tool::Contract, _>(Contract::ALL);
    assert_codes::<run::Stop, _>([Stop::Complete, Stop::CutOff, Stop::Refused]);
    assert_codes::<agent::CacheWarm, _>([CacheWarm::Leader, CacheWarm::Prewarm, CacheWarm::Off]);
}
