//! The least that a client can do: send bodies that are ready, and read the answers to their end.

use bytes::Bytes;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use tokio::task::JoinSet;

/// A client of servers on this machine: no proxy, and no certificates are read.
pub fn local() -> reqwest::ClientBuilder {
    // Fails if there is one already, which then is used.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder();
    builder.no_proxy().tls_certs_only([])
}

/// A client that knows nothing of what it sends.
#[derive(Clone, Debug)]
pub struct Bare {
    http: reqwest::Client,
    url: String,
}

impl Bare {
    /// A client of the server at that address.
    pub fn new(url: &str) -> Bare {
        let http = local().build();
        Bare {
            http: http.expect("nothing of it can fail"),
            url: format!("{url}/v1/chat/completions"),
        }
    }

    /// Sends a request and reads its answer to the end.
    pub async fn send(&self, body: Bytes) {
        let request = self.http.post(&self.url).body(body);
        let request = request
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "text/event-stream");
        let mut response = request.send().await.expect("it answers");
        assert!(response.status().is_success(), "{}", response.status());
        while let Some(piece) = response.chunk().await.expect("the answer is whole") {
            std::hint::black_box(piece);
        }
    }

    /// Sends all but the last at once, and the last one when they are answered.
    pub async fn round(&self, bodies: &[Bytes]) {
        let (last, first) = bodies.split_last().expect("there is a lead");
        let mut sending = JoinSet::new();
        for body in first {
            let (bare, body) = (self.clone(), body.clone());
            sending.spawn(async move { bare.send(body).await });
        }
        while let Some(sent) = sending.join_next().await {
            sent.expect("none panics");
        }
        self.send(last.clone()).await;
    }
}
