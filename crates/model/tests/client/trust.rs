//! Tests on machines without certificates: a local server can be used, an `https` address is
//! refused with advice.

use std::process::Command;

use unisono_fake_provider::FakeProvider;
use unisono_model::client::{Client, Error};
use unisono_model::dialect::Dialect;
use unisono_model::language::{Class, Stage};

use crate::setup::{client, ms, reply, settings};

const CHILD: &str = "UNISONO_TEST_WITHOUT_CERTIFICATES";

/// Runs the test again in a process that finds no certificates.
#[tokio::test]
async fn missing_certificates() {
    if std::env::var_os(CHILD).is_none() {
        let exe = std::env::current_exe().unwrap();
        let child = Command::new(exe)
            .args(["trust::missing_certificates", "--exact", "--nocapture"])
            .env(CHILD, "1")
            .env("SSL_CERT_FILE", "/nowhere/cert.pem")
            .env("SSL_CERT_DIR", "/nowhere")
            .output()
            .unwrap();
        let reported = String::from_utf8_lossy(&child.stdout);
        assert!(
            child.status.success() && reported.contains("1 passed"),
            "{reported}"
        );
        return;
    }
    let provider = FakeProvider::start().await;
    let local = client(Dialect::Anthropic, &provider.url());
    assert!(reply(&local).await.is_ok());
    // These systems do not keep trusted certificates in files.
    if cfg!(any(windows, target_vendor = "apple")) {
        return;
    }
    let error = Client::new(settings(Dialect::Anthropic, "https://127.0.0.1:1")).unwrap_err();
    assert!(matches!(error, Error::Tls { .. }), "{error:?}");
    assert!(error.to_string().contains("ca-certificates"), "{error}");
}

#[tokio::test]
async fn connecting_includes_the_encryption() {
    // This server waits for an HTTP request and never answers a TLS handshake.
    let provider = FakeProvider::start().await;
    let url = provider.url().replace("http://", "https://");
    let mut settings = settings(Dialect::Anthropic, &url);
    settings.timeouts.connect = ms(200);
    settings.retry.attempts = 1;
    match Client::new(settings) {
        Ok(client) => {
            let error = reply(&client).await.unwrap_err();
            assert_eq!(error.class, Class::Timeout(Stage::Connect), "{error}");
            assert_eq!(provider.request_count(), 0);
        }
        // This machine has no certificates.
        Err(error) => assert!(matches!(error, Error::Tls { .. }), "{error}"),
    }
}
