//! Many connections at once, and what the server says of them.

use tokio::task::JoinSet;
use unisono_fake_provider::{Act, Dialect, FakeProvider, Gate};

use crate::client::Client;

#[tokio::test]
async fn hundreds_of_connections_are_held_and_answered() {
    const CLIENTS: usize = 300;
    let gate = Gate::new();
    let provider = FakeProvider::play(Act::answer("Hi.").hold(&gate)).await;
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let mut client = Client::of(&provider).await;
        clients.spawn(async move {
            client.ask(Dialect::Anthropic, true).await;
            client.response().await.status
        });
    }
    gate.reached(CLIENTS).await;
    assert_eq!(provider.wait_for(CLIENTS).await.len(), CLIENTS);
    assert_eq!(provider.in_flight(), CLIENTS);
    gate.open();
    while let Some(status) = clients.join_next().await {
        assert_eq!(status.expect("no panic"), 200);
    }
    provider.wait_for_quiet().await;
    assert_eq!(provider.max_in_flight(), CLIENTS);
    assert_eq!(provider.connections(), CLIENTS as u64);
    assert_eq!(provider.abandoned(), 0);
}

#[tokio::test]
async fn a_client_that_leaves_a_gate_is_noticed() {
    let gate = Gate::new();
    let provider = FakeProvider::play(Act::answer("Hi.").hold(&gate)).await;
    let mut client = Client::of(&provider).await;
    client.ask(Dialect::Gemini, false).await;
    gate.reached(1).await;
    drop(client);
    provider.wait_for_abandoned(1).await;
    assert!(!gate.is_open());
}

#[tokio::test]
async fn a_dropped_server_drops_its_connections() {
    let provider = FakeProvider::start().await;
    let mut client = Client::of(&provider).await;
    client.ask(Dialect::Gemini, false).await;
    client.response().await;
    drop(provider);
    assert!(client.rest().await.0.is_empty());
}
