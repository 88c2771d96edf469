//! A repeated message begins one session; each state of a turn has one A2A state.

use unisono_api::service::Sessions as _;
use unisono_api::token::Scope;

use super::*;
use crate::caller::Caller;
use crate::first_messages::FirstMessages;
use crate::fixture::local;

#[tokio::test]
async fn a_message_that_comes_again_finds_the_session_that_it_began() {
    let local = local([]).await;
    let tasks = Tasks::default();
    let (one, other) = (Digest::of_bytes(b"one"), Digest::of_bytes(b"other"));
    let (first, is_new) = tasks.session(&local, one, "One").await.unwrap();
    let (second, _) = tasks.session(&local, other, "Other").await.unwrap();
    assert!(is_new && first.id() != second.id());
    let (again, is_new) = Tasks::default().session(&local, one, "").await.unwrap();
    assert!(!is_new && again.id() == first.id());
    // Another process reads the store.
    let (journal, process) = (local.whole_journal(), FirstMessages::default());
    for (message, session) in [(one, &first), (other, &second)] {
        let known = process
            .session(&journal, end(&local, message))
            .await
            .unwrap();
        assert_eq!(known, Some(session.id()));
    }
    // A deleted session is not found. The next one has a later time in its id.
    let (name, begun_ms) = (first.id().to_string(), first.id().as_u128() >> 80);
    local.delete_session(&name, false).await.unwrap();
    while u128::from(now_ms()) <= begun_ms {
        tokio::task::yield_now().await;
    }
    let (third, is_new) = tasks.session(&local, one, "").await.unwrap();
    assert!(is_new && third.id() != first.id());
    let id = uuid::Uuid::from_u128(first.id().as_u128());
    assert_eq!(id.get_version_num(), 7);
    assert_eq!(id.get_variant(), uuid::Variant::RFC4122);
    let (seconds, _) = id.get_timestamp().unwrap().to_unix();
    assert!(seconds.abs_diff(now_ms() / 1_000) < 60);
}

#[tokio::test]
async fn the_same_message_of_two_owners_begins_two_sessions_whose_ids_have_nothing_in_common() {
    let local = local([]).await;
    let message = Digest::of_bytes(b"one");
    let mut ends = Vec::new();
    for owner in [None, Some("ada"), Some("bob")] {
        let caller = Caller::new("any", Scope::Ask, owner.map(Into::into));
        let local = local.for_caller(caller);
        let (session, is_new) = Tasks::default().session(&local, message, "").await.unwrap();
        assert!(is_new, "{owner:?}");
        let (again, is_new) = Tasks::default().session(&local, message, "").await.unwrap();
        assert!(!is_new && again.id() == session.id(), "{owner:?}");
        ends.push(session.id().as_u128() & RANDOM_BITS);
    }
    ends.dedup();
    assert_eq!(ends.len(), 3, "{ends:x?}");
}

#[tokio::test]
async fn the_same_message_with_several_tokens_of_one_owner_begins_one_session() {
    let local = local([]).await;
    let message = Digest::of_bytes(b"one");
    let begin = async |name: &str, scope: Scope| {
        let local = local.for_caller(Caller::new(name, scope, Some("ada".into())));
        let (session, is_new) = Tasks::default().session(&local, message, "").await.unwrap();
        (session.id(), is_new)
    };
    let (phone, laptop, desk) = tokio::join!(
        begin("phone", Scope::Ask),
        begin("laptop", Scope::Ask),
        begin("desk", Scope::Admin),
    );
    let (begun, created): (Vec<SessionId>, Vec<bool>) = [phone, laptop, desk].into_iter().unzip();
    assert_eq!(begun, [begun[0]; 3]);
    assert_eq!(created.iter().filter(|is_new| **is_new).count(), 1);
}

#[test]
fn an_id_names_session_and_turn() {
    let id = TaskId {
        session: SessionId::from_u128(3),
        turn: TurnId::from_u128(4),
    };
    assert_eq!(id.to_string().parse(), Ok(id));
    let (session, turn) = (id.session, id.turn);
    for text in rows! {
        String::new(), ".".to_owned(), session.to_string(), format!("{session}."),
        format!(".{turn}"), format!("{session}.{turn}.{turn}"), format!("{session}:{turn}"),
    } {
        assert_eq!(text.parse::<TaskId>(), Err(NoTaskId), "{text:?}");
    }
}
