//! Sends documents to addresses that clients name, if their hosts are allowed.
//!
//! A host name is resolved once; the checked addresses are used for the connection, so that another
//! lookup cannot change them. There is no proxy, and redirections are not followed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Url, redirect};
use tokio::net::lookup_host;
use tokio::time::timeout;

/// The connect timeout.
const CONNECT: Duration = Duration::from_secs(5);
/// The total timeout.
const TOTAL: Duration = Duration::from_secs(10);
/// The maximum length of an address, in bytes.
const URL_BYTES: usize = 2_048;

/// An address that documents may be sent to.
#[derive(Clone, PartialEq, Eq)]
pub struct Callback {
    url: Url,
    /// Private addresses that the list of allowed hosts names.
    allowed_ips: Vec<IpAddr>,
}

impl std::fmt::Debug for Callback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Path and query may be secret.
        f.debug_tuple("Callback")
            .field(&self.url.host_str())
            .finish()
    }
}

/// Why a document was not delivered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeliveryError {
    /// Permanent: the host resolves to an address that is not allowed, or a header is invalid.
    #[error("{0}")]
    Refused(String),
    /// Possibly temporary: it may be sent again.
    #[error("{0}")]
    Failed(String),
}

impl Callback {
    /// An address whose host is one of `hosts`. It must be https, except for private IP addresses.
    ///
    /// # Errors
    /// The address is not allowed; the text continues a sentence about it.
    pub fn new(text: &str, hosts: &[String]) -> Result<Callback, String> {
        if text.len() > URL_BYTES {
            return Err(format!("has more than {URL_BYTES} bytes"));
        }
        let url = Url::parse(text).map_err(|error| format!("is not a valid address: {error}"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("contains a user; use `authentication`".to_owned());
        }
        let host = url.host_str().unwrap_or_default();
        let is_listed = |name: &str| {
            hosts
                .iter()
                .any(|known| normalised_host(known) == normalised_host(name))
        };
        if host.is_empty() || !is_listed(host) {
            return Err(format!(
                "host {host:?} is not one to which callbacks may be sent; \
                 `server.callback_hosts` lists the allowed ones"
            ));
        }
        let allowed_ips: Vec<IpAddr> = hosts.iter().filter_map(|host| parse_ip(host)).collect();
        let is_private = parse_ip(host).is_some_and(|ip| !is_public(ip));
        match (url.scheme(), is_private) {
            ("https", _) | ("http", true) => Ok(Callback { url, allowed_ips }),
            ("http", false) => Err("must use https".to_owned()),
            (scheme, _) => Err(format!("begins with {scheme:?}; it must be https")),
        }
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
        let http = self.connection(self.addresses().await?)?;
        let request = http.post(self.url.clone()).headers(all).body(body);
        let response = request
            .send()
            .await
            .map_err(|error| failed(&error.without_url()))?;
        match response.status().as_u16() {
            200..300 => Ok(()),
            status => Err(DeliveryError::Failed(format!(
                "it was answered with status {status}"
            ))),
        }
    }

    /// The addresses of the host, all of them allowed.
    async fn addresses(&self) -> Result<Vec<SocketAddr>, DeliveryError> {
        let host = self.url.host_str().unwrap_or_default();
        let port = self.url.port_or_known_default().unwrap_or(443);
        let found: Vec<SocketAddr> = match parse_ip(host) {
            Some(ip) => vec![SocketAddr::new(ip, port)],
            None => {
                let found = lookup_host((host, port)).await;
                let unknown =
                    |error| DeliveryError::Failed(format!("{host} is not found: {error}"));
                found.map_err(unknown)?.collect()
            }
        };
        let private = found
            .iter()
            .map(SocketAddr::ip)
            .find(|ip| !self.is_allowed(*ip));
        match private {
            None => Ok(found),
            Some(ip) => Err(DeliveryError::Refused(format!(
                "{host} resolves to {ip}, a private address; add it to `server.callback_hosts` if \
                 callbacks may be sent there"
            ))),
        }
    }

    fn is_allowed(&self, ip: IpAddr) -> bool {
        is_public(ip) || self.allowed_ips.contains(&ip.to_canonical())
    }

    fn connection(&self, addresses: Vec<SocketAddr>) -> Result<reqwest::Client, DeliveryError> {
        // Fails if one is installed already, which then is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("unisono/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .no_proxy()
            .connect_timeout(CONNECT)
            .resolve_to_addrs(self.url.host_str().unwrap_or_default(), &addresses);
        if self.url.scheme() == "http" {
            builder = builder.tls_certs_only([]);
        }
        let failed = |error: reqwest::Error| DeliveryError::Failed(error.to_string());
        builder.build().map_err(failed)
    }
}

/// The host in the form used for comparison.
fn normalised_host(host: &str) -> String {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.trim_end_matches('.').to_ascii_lowercase()
}

/// The IP address in a host, if it is one.
fn parse_ip(host: &str) -> Option<IpAddr> {
    let ip: IpAddr = normalised_host(host).parse().ok()?;
    Some(ip.to_canonical())
}

/// Whether an address belongs to the public internet.
fn is_public(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let is_reserved = match (a, b, c) {
        // This network, shared addresses, protocol assignments, benchmarks, the future.
        (0, ..) | (100, 64..128, _) | (192, 0, 0) | (198, 18..20, _) | (240.., ..) => true,
        // Former IPv6 relays.
        (192, 88, 99) => true,
        _ => false,
    };
    !(is_reserved
        || ip.is_loopback()
        || ip.is_private()
        || ip.is_link_local()
        || ip.is_multicast()
        || ip.is_broadcast()
        || ip.is_documentation())
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, g, h] = ip.segments();
    let within = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match (a, b) {
        // An IPv4 address behind a gateway.
        (0x0064, 0xff9b) if (c, d, e, f) == (0, 0, 0, 0) => within(g, h),
        (0x2002, _) => within(b, c),
        // Documentation, Teredo and other assignments.
        (0x2001, 0x0db8) | (0x2001, 0..0x0200) | (0x3fff, 0..0x1000) => false,
        // All routed addresses.
        (0x2000..0x4000, _) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn addresses_of_private_networks_are_not_public() {
        for ip in [
            "127.0.0.1",
            "0.0.0.0",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "192.0.0.8",
            "198.18.0.1",
            "203.0.113.9",
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
            "::",
            "::1",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "::ffff:10.0.0.1",
            "::ffff:127.0.0.1",
            "64:ff9b::a00:1",
            "2002:a00:1::1",
            "2001:db8::1",
            "2001::1",
            "::10.0.0.1",
        ] {
            assert!(!is_public(ip.parse().unwrap()), "{ip}");
        }
        for ip in [
            "1.1.1.1",
            "172.32.0.1",
            "100.128.0.1",
            "2606:4700::1111",
            "64:ff9b::101:101",
        ] {
            assert!(is_public(ip.parse().unwrap()), "{ip}");
        }
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
        for (url, why) in [
            ("", "not a valid address"),
            ("hooks.example.com", "not a valid address"),
            ("https://other.example.com/", "server.callback_hosts"),
            (
                "https://hooks.example.com.evil.example/",
                "server.callback_hosts",
            ),
            (
                "https://evil.example/?hooks.example.com",
                "server.callback_hosts",
            ),
            ("https://hooks.example.com@evil.example/", "contains a user"),
            ("https://a:b@hooks.example.com/", "contains a user"),
            ("http://hooks.example.com/", "must use https"),
            ("http://1.1.1.1/", "must use https"),
            ("http://2130706434/", "server.callback_hosts"),
            ("http://0x7f.0.0.2/", "server.callback_hosts"),
            ("file:///etc/passwd", "server.callback_hosts"),
            ("ftp://127.0.0.1/", "must be https"),
        ] {
            let refused = Callback::new(url, &listed).unwrap_err();
            assert!(refused.contains(why), "{url}: {refused}");
        }
        let none = Callback::new("https://hooks.example.com/", &[]).unwrap_err();
        assert!(none.contains("server.callback_hosts"));
        let long = format!("https://hooks.example.com/{}", "a".repeat(URL_BYTES));
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
                .addresses()
                .await
                .unwrap()
                .iter()
                .all(|at| at.ip().is_loopback())
        );
    }
}
