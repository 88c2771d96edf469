//! A broker alone, with requests of sessions that are not in memory.

use unisono_context::{Timestamp, Tokens};
use unisono_session::budget::Caps;
use unisono_session::machine::Import;
use unisono_session::{Input, Machine};
use unisono_store::Memory;

use super::*;

const OPENED: SessionId = SessionId::from_u128(1);
const OTHER: SessionId = SessionId::from_u128(2);

fn tokens(tokens: u64) -> Amount {
    Amount {
        tokens: Tokens(tokens),
        ..Amount::ZERO
    }
}

/// A journal with a session that has used nothing.
async fn journal() -> Journal {
    let import = Import {
        session: Some(OPENED),
        ..Import::default()
    };
    let made = Machine::new().handle(Input::Import(import), Timestamp(0));
    let events = made.unwrap().events;
    let journal = Journal::new(Arc::new(Memory::new()));
    let epoch = journal.claim(OPENED).await.unwrap().epoch;
    let appended = journal.append(OPENED, epoch, 0, &events, 0);
    appended.await.unwrap();
    journal
}

#[tokio::test]
async fn a_session_that_is_opened_before_it_is_settled_keeps_its_new_grant() {
    let caps = Caps {
        tokens: Some(Tokens(1_000)),
        ..Caps::NONE
    };
    let args = Args {
        journal: journal().await,
        rules: DaemonBudget {
            caps,
            period_hours: None,
        },
        owners: Arc::default(),
        is_restart: false,
    };
    let (broker, _task) = BudgetBroker::spawn(None, BudgetBroker, args).await.unwrap();
    let raise = |session| {
        let request = Request {
            session,
            owner: None,
            number: 1,
            session_use: SessionUse::default(),
            needed: tokens(800),
            begun: false,
            spending: false,
            recall: Recall::new(|| true),
        };
        let (reply, answer) = oneshot::channel();
        assert!(broker.send_message(Msg::Raise(request, reply)).is_ok());
        answer
    };
    let ceiling = raise(OPENED).await.unwrap().unwrap();
    assert!(tokens(800).is_within(ceiling));
    // Its journal has no reservation yet.
    let (reply, settled) = oneshot::channel();
    assert!(
        broker
            .send_message(Msg::Settle(vec![OPENED], reply))
            .is_ok()
    );
    settled.await.unwrap();
    // What is left is too little for another session, which waits.
    let answer = tokio::time::timeout(Duration::from_millis(200), raise(OTHER));
    assert!(answer.await.is_err());
    broker.stop(None);
}
