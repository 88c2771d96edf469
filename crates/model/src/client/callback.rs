//! Sends documents to addresses that clients name, if their hosts are allowed.

use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::timeout;

use super::guarded::GuardedUrl;
use super::headers;

const TOTAL: Duration = Duration::from_secs(10);
const SETTING: &str = "server.callback_hosts";

/// An address that documents may be sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callback(GuardedUrl);

/// Why a document was not delivered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeliveryError {
    /// Permanent: the host resolves to an address that is not allowed, or a header is invalid.
    #[error("{0}")]
    Refused(String),
    /// Possibly temporary: it may be sent again.
    #[error("{0}")]
    Failed(String),
    /// Temporary: the receiver asks to wait that long before it is sent again.
    #[error("{0}")]
    Later(String, Duration),
}

impl Callback {
    /// An address whose host is one of `hosts`. It must be https, except for private IP addresses.
    ///
    /// # Errors
    /// The address is not allowed; the text continues a sentence about it.
    pub fn new(text: &str, hosts: &[String]) -> Result<Callback, String> {
        GuardedUrl::new(text, hosts, SETTING).map(Callback)
    }

    /// Sends a document. Dropping the future drops the connection.
    ///
    /// # Errors
    /// It was not accepted: the status, or the reason why there was no response.
    pub async fn send(&self, headers: &[(&str, String)], body: Bytes) -> Result<(), DeliveryError> {
        let sending = self.exchange(headers, body);
        let late = |_| DeliveryError::Failed(format!("no answer within {} s", TOTAL.as_secs()));
        timeout(TOTAL, sending).await.map_err(late)?
    }

    async fn exchange(&self, headers: &[(&str, String)], body: Bytes) -> Result<(), DeliveryError> {
        let failed = |error: &dyn std::fmt::Display| DeliveryError::Failed(error.to_string());
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            let wrong = || DeliveryError::Refused(format!("header {name} cannot be sent"));
            let name = HeaderName::try_from(*name).map_err(|_| wrong())?;
            let mut value = HeaderValue::try_from(value).map_err(|_| wrong())?;
            value.set_sensitive(true);
            all.insert(name, value);
        }
        let http = self.0.connection().await?;
        let request = http.post(self.0.url().clone()).headers(all).body(body);
        let response = request
            .send()
            .await
            .map_err(|error| failed(&error.without_url()))?;
        let status = response.status().as_u16();
        if (200..300).contains(&status) {
            return Ok(());
        }
        let why = format!("it was answered with status {status}");
        let wait = headers::read(response.headers(), Timestamp::now()).retry_after;
        Err(match wait {
            Some(wait) => DeliveryError::Later(why, wait),
            None => DeliveryError::Failed(why),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn a_receiver_says_when_it_may_be_sent_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let busy = "503 Service Unavailable";
        let answers = [
            format!("HTTP/1.1 {busy}\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n"),
            format!("HTTP/1.1 {busy}\r\nContent-Length: 0\r\n\r\n"),
            "HTTP/1.1 204 No Content\r\nRetry-After: 7\r\n\r\n".to_owned(),
        ];
        thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.read(&mut [0; 4_096]);
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        let callback = Callback::new(&url, &hosts(&["127.0.0.1"])).unwrap();
        let why = || "it was answered with status 503".to_owned();
        for answered in [
            Err(DeliveryError::Later(why(), Duration::from_secs(7))),
            Err(DeliveryError::Failed(why())),
            Ok(()),
        ] {
            assert_eq!(callback.send(&[], Bytes::new()).await, answered);
        }
    }

    fn hosts(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn only_listed_hosts_with_encryption_are_accepted() {
        let listed = hosts(&["Hooks.example.com", "127.0.0.1", "::1", "1.1.1.1"]);
        for url in [
            "https://hooks.example.com/a?b=c",
            "https://HOOKS.example.com.:8443/",
            "http://127.0.0.1:9/hook",
            "http://[::1]/hook",
            "https://1.1.1.1/",
        ] {
            Callback::new(url, &listed).unwrap();
        }
        for (url, why) in rows! {
            ("", "not a valid address"),
            ("hooks.example.com", "not a valid address"),
            ("https://other.example.com/", "server.callback_hosts"),
            ("https://hooks.example.com.evil.example/", "server.callback_hosts"),
            ("https://evil.example/?hooks.example.com", "server.callback_hosts"),
            ("https://hooks.example.com@evil.example/", "contains a user"),
            ("https://a:b@hooks.example.com/", "contains a user"),
            ("http://hooks.example.com/", "must use https"),
            ("http://1.1.1.1/", "must use https"),
            ("http://2130706434/", "server.callback_hosts"),
            ("http://0x7f.0.0.2/", "server.callback_hosts"),
            ("file:///etc/passwd", "server.callback_hosts"),
            ("ftp://127.0.0.1/", "must be https"),
        } {
            let refused = Callback::new(url, &listed).unwrap_err();
            assert!(refused.contains(why), "{url}: {refused}");
        }
        let none = Callback::new("https://hooks.example.com/", &[]).unwrap_err();
        assert!(none.contains("server.callback_hosts"));
        let long = format!("https://hooks.example.com/{}", "a".repeat(2_048));
        assert!(Callback::new(&long, &listed).unwrap_err().contains("bytes"));
    }

    #[tokio::test]
    async fn a_host_with_a_private_address_is_rejected_unless_the_address_is_listed() {
        let url = "https://localhost:9/";
        let refused = Callback::new(url, &hosts(&["localhost"])).unwrap();
        let refused = refused.send(&[], Bytes::new()).await.unwrap_err();
        assert!(
            matches!(&refused, DeliveryError::Refused(why) if why.contains("a private address"))
        );
        let allowed_ips = hosts(&["localhost", "127.0.0.1", "::1"]);
        let allowed_ips = Callback::new(url, &allowed_ips).unwrap();
        assert!(
            allowed_ips
                .0
                .addresses()
                .await
                .unwrap()
                .iter()
                .all(|at| at.ip().is_loopback())
        );
    }
}
