//! Tests with a provider that uses HTTP/2, as those on the internet do: one connection carries all
//! requests, cancelling a request resets only its stream, and flow control works for a long reply.
//!
//! `loopback/` has a certificate for 127.0.0.1 and the authority that signed it; the authority's
//! key was deleted.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use h2::server::{self, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use rustls::ServerConfig;
use rustls::crypto::ring;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use unisono_model::client::Client;
use unisono_model::dialect::Dialect;

use crate::setup::{client, reply, settings, soon};

const CHILD: &str = "UNISONO_TEST_HTTP2";
/// Longer than any initial flow-control window.
const LONG: usize = 6 * 1_024 * 1_024;

/// The requests that the server received.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    /// The first event of a reply was sent; no more follow.
    Held,
    /// The stream of that reply was reset.
    Reset(Reason),
}

/// The answers to requests, in the order of their arrival.
#[derive(Clone, Copy)]
enum Way {
    Text(usize),
    Hold,
}

struct Provider {
    url: String,
    connections: Arc<AtomicUsize>,
    seen: mpsc::UnboundedReceiver<Seen>,
}

impl Provider {
    async fn start(ways: &'static [Way]) -> Provider {
        let certificate = include_bytes!("loopback/leaf.der").to_vec().into();
        let key = include_bytes!("loopback/key.der").to_vec();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth();
        let key = rustls::pki_types::PrivatePkcs8KeyDer::from(key);
        let mut config = config
            .with_single_cert(vec![certificate], key.into())
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/v1", listener.local_addr().unwrap());
        let (tell, seen) = mpsc::unbounded_channel();
        let (connections, requests) =
            (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counted = connections.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (acceptor, counted) = (acceptor.clone(), counted.clone());
                let (tell, requests) = (tell.clone(), requests.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(socket).await else {
                        return;
                    };
                    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
                    counted.fetch_add(1, Ordering::SeqCst);
                    let Ok(mut connection) = server::handshake(stream).await else {
                        return;
                    };
                    while let Some(Ok((request, respond))) = connection.accept().await {
                        let nth = requests.fetch_add(1, Ordering::SeqCst);
                        let way = ways.get(nth).copied().unwrap_or(Way::Text(5));
                        tokio::spawn(answer(request.into_body(), respond, way, tell.clone()));
                    }
                });
            }
        });
        Provider {
            url,
            connections,
            seen,
        }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn event(data: &str) -> Bytes {
    Bytes::from(format!("data: {data}\n\n"))
}

fn piece(text: &str) -> Bytes {
    event(&format!(
        r#"{{"id":"c","object":"chat.completion.chunk","choices":[{{"index":0,"delta":{{"content":"{text}"}}}}]}}"#
    ))
}

/// Reads the complete request, then answers it.
async fn answer(
    mut body: RecvStream,
    mut respond: SendResponse<Bytes>,
    way: Way,
    tell: mpsc::UnboundedSender<Seen>,
) {
    while let Some(Ok(data)) = body.data().await {
        body.flow_control().release_capacity(data.len()).unwrap();
    }
    let head = http::Response::builder().header("content-type", "text/event-stream");
    let mut stream: SendStream<Bytes> = respond
        .send_response(head.body(()).unwrap(), false)
        .unwrap();
    let length = match way {
        Way::Text(length) => length,
        Way::Hold => {
            stream.send_data(piece("so far"), false).unwrap();
            tell.send(Seen::Held).unwrap();
            let reset = std::future::poll_fn(|cx| stream.poll_reset(cx)).await;
            tell.send(Seen::Reset(reset.unwrap())).unwrap();
            return;
        }
    };
    let mut left = length;
    while left > 0 {
        let part = left.min(1_000);
        stream.send_data(piece(&"x".repeat(part)), false).unwrap();
        left -= part;
    }
    let end = r#"{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}"#;
    stream.send_data(event(end), false).unwrap();
    stream.send_data(event("[DONE]"), true).unwrap();
}

/// Runs the test again in a process that trusts only the authority of these tests.
#[tokio::test]
async fn requests_share_a_connection_and_are_cancelled_separately() {
    if std::env::var_os(CHILD).is_none() {
        let authority = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/client/loopback/authority.pem"
        );
        let name = "http2::requests_share_a_connection_and_are_cancelled_separately";
        let child = Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact", "--nocapture"])
            .env(CHILD, "1")
            .env("SSL_CERT_FILE", authority)
            .env("SSL_CERT_DIR", "/nowhere")
            .output()
            .unwrap();
        let reported = String::from_utf8_lossy(&child.stdout);
        let why = String::from_utf8_lossy(&child.stderr);
        assert!(
            child.status.success() && reported.contains("1 passed"),
            "{reported}{why}"
        );
        return;
    }
    // These systems do not keep trusted certificates in files.
    if cfg!(any(windows, target_vendor = "apple")) {
        return;
    }
    let ways = &[Way::Text(5), Way::Hold, Way::Text(LONG), Way::Text(5)];
    let mut provider = Provider::start(ways).await;
    let client = Arc::new(client(Dialect::OpenAiChat, &provider.url));
    assert_eq!(&*reply(&client).await.unwrap().text, "xxxxx");

    let dropped = {
        let client = client.clone();
        tokio::spawn(async move { reply(&client).await })
    };
    assert_eq!(soon(provider.seen.recv()).await, Some(Seen::Held));
    let (long, short) = tokio::join!(reply(&client), reply(&client));
    let lengths = [long, short].map(|reply| reply.unwrap().text.len());
    assert_eq!(
        lengths.iter().sum::<usize>(),
        LONG + 5,
        "the held one is in nobody's way"
    );
    dropped.abort();
    let reset = soon(provider.seen.recv()).await;
    assert_eq!(reset, Some(Seen::Reset(Reason::CANCEL)));

    assert_eq!(&*reply(&client).await.unwrap().text, "xxxxx");
    assert_eq!(provider.connections(), 1);
}

#[tokio::test]
async fn a_certificate_of_an_unknown_authority_is_refused_with_advice() {
    let provider = Provider::start(&[]).await;
    // A machine without certificates refuses the address itself.
    let Ok(client) = Client::new(settings(Dialect::OpenAiChat, &provider.url)) else {
        return;
    };
    let error = reply(&client).await.unwrap_err();
    for part in ["invalid peer certificate", "SSL_CERT_FILE"] {
        assert!(error.reason.contains(part), "{error}");
    }
}
