//! Tests that the bytes of format 1 stay the same, with golden files: a store of today can be
//! opened tomorrow.

use std::path::Path;

use serde::de::DeserializeOwned;

use super::*;
use crate::codec;
use crate::envelope::{self, Kind};

const SESSION: SessionId = SessionId::from_u128(0x0011_2233_4455_6677_8899_AABB_CCDD_EEFF);

fn golden<T>(name: &str, kind: Kind, seq: u64, row: &T)
where
    T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    let sealed = envelope::seal(kind, key(SESSION, seq), row).unwrap();
    if std::env::var_os("UNISONO_BLESS").is_some() {
        std::fs::write(&path, &sealed).unwrap();
    }
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(
        sealed, bytes,
        "the bytes of {name} changed: that needs a new kind of record"
    );
    let body = envelope::open_as(&bytes, kind, key(SESSION, seq)).unwrap();
    assert_eq!(codec::decode::<T>(body).as_ref(), Ok(row));
}

fn stamp() -> Stamp {
    Stamp {
        epoch: 3,
        at_unix_ms: 1_790_000_000_123,
        previous: genesis(SESSION),
    }
}

#[test]
fn head_bytes() {
    let head = Head {
        epoch: 3,
        born_epoch: 2,
        last_seq: 258,
        last_hash: link(&genesis(SESSION), 258, &digest(b"payload")),
        payload_bytes: 65_536,
        created_unix_ms: 1_790_000_000_000,
        updated_unix_ms: 1_790_000_000_123,
        deleted: true,
    };
    golden("head.bin", Kind::Head, 0, &head);
}

#[test]
fn an_event_put_in_place_is_what_the_codec_makes_of_it() {
    for len in [0, 1, 7, 255, 256, 65_537] {
        let payload: Vec<u8> = (0..len).map(|n: u32| n.to_le_bytes()[0]).collect();
        let mut put = vec![9];
        EventRow::put_inline(&mut put, &stamp(), &payload);
        let body = Body::Inline(Block(payload));
        let row = EventRow {
            stamp: stamp(),
            body,
        };
        assert_eq!(put[1..], codec::encode(&row).unwrap(), "{len} bytes");
        assert_eq!(put[0], 9, "what was there stays");
    }
}

#[test]
fn event_bytes() {
    let body = Body::Inline(Block(b"payload".to_vec()));
    golden(
        "event-inline.bin",
        Kind::Event,
        258,
        &EventRow {
            stamp: stamp(),
            body,
        },
    );
    let body = Body::Chunked {
        len_bytes: 70_000,
        chunks: vec![digest(b"a"), digest(b"b")],
    };
    golden(
        "event-chunked.bin",
        Kind::Event,
        259,
        &EventRow {
            stamp: stamp(),
            body,
        },
    );
}

#[test]
fn checkpoint_bytes() {
    let body = Body::Inline(Block(b"state".to_vec()));
    golden(
        "checkpoint.bin",
        Kind::Checkpoint,
        258,
        &CheckpointRow { epoch: 3, body },
    );
}

#[test]
fn page_bytes() {
    let blocks = vec![7, 7, 258];
    golden("page.bin", Kind::Page, 4, &PageRow { blocks });
}

#[test]
fn mark_bytes() {
    golden("mark.bin", Kind::Mark, 258, &());
}

#[test]
fn archive_end_bytes() {
    let end = ArchiveEnd {
        records: 7,
        digest: digest(b"all before"),
    };
    golden("archive-end.bin", Kind::ArchiveEnd, u64::MAX, &end);
}

#[test]
fn a_row_is_all_of_its_bytes() {
    let bytes = codec::encode(&stamp()).unwrap();
    assert!(codec::decode::<Stamp>(&bytes[..bytes.len() - 1]).is_err());
    assert!(codec::decode::<Stamp>(&[&bytes[..], &[0]].concat()).is_err());
    // A length beyond the end is refused before memory is allocated for it.
    assert!(codec::decode::<Block>(&u64::MAX.to_le_bytes()).is_err());
}
