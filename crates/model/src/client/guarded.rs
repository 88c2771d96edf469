//! Addresses that clients name. A request is made only to a host that a setting lists, and never to
//! a private address, unless the address itself is listed.
//!
//! A host name is resolved once; the checked addresses are used for the connection, so that another
//! lookup cannot change them. There is no proxy, and redirections are not followed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use reqwest::Url;
use tokio::net::lookup_host;

use super::callback::DeliveryError;
use super::transport;

const CONNECT: Duration = Duration::from_secs(5);
/// The maximum length of an address, in bytes.
const URL_BYTES: usize = 2_048;

/// An address whose host is allowed.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct GuardedUrl {
    url: Url,
    /// Private addresses that the list of allowed hosts names.
    allowed_ips: Vec<IpAddr>,
    /// The setting with the list.
    setting: &'static str,
}

impl std::fmt::Debug for GuardedUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Path and query may be secret.
        std::fmt::Debug::fmt(&self.url.host_str(), f)
    }
}

impl GuardedUrl {
    /// An address whose host is one of `hosts`, the value of `setting`. It must be https, except for
    /// private IP addresses.
    ///
    /// # Errors
    /// The address is not allowed; the text continues a sentence about it.
    pub(super) fn new(
        text: &str,
        hosts: &[String],
        setting: &'static str,
    ) -> Result<GuardedUrl, String> {
        if text.len() > URL_BYTES {
            return Err(format!("has more than {URL_BYTES} bytes"));
        }
        let url = Url::parse(text).map_err(|error| format!("is not a valid address: {error}"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("contains a user or password".to_owned());
        }
        let host = url.host_str().unwrap_or_default();
        let is_listed = |name: &str| {
            hosts
                .iter()
                .any(|known| normalised_host(known) == normalised_host(name))
        };
        if host.is_empty() || !is_listed(host) {
            return Err(format!(
                "has the host {host:?}, which is not allowed: `{setting}` lists those that are"
            ));
        }
        let allowed_ips: Vec<IpAddr> = hosts.iter().filter_map(|host| parse_ip(host)).collect();
        let is_private = parse_ip(host).is_some_and(|ip| !is_public(ip));
        match (url.scheme(), is_private) {
            ("https", _) | ("http", true) => Ok(GuardedUrl {
                url,
                allowed_ips,
                setting,
            }),
            ("http", false) => Err("must use https".to_owned()),
            (scheme, _) => Err(format!("begins with {scheme:?}; it must be https")),
        }
    }

    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    /// The addresses of the host, all of them allowed.
    pub(super) async fn addresses(&self) -> Result<Vec<SocketAddr>, DeliveryError> {
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
                "{host} resolves to {ip}, a private address; add it to `{}` if requests may be \
                 sent there",
                self.setting
            ))),
        }
    }

    fn is_allowed(&self, ip: IpAddr) -> bool {
        is_public(ip) || self.allowed_ips.contains(&ip.to_canonical())
    }

    /// A client that connects only to the checked addresses of the host.
    ///
    /// # Errors
    /// An address is not allowed, or the host is not found.
    pub(super) async fn connection(&self) -> Result<reqwest::Client, DeliveryError> {
        let addresses = self.addresses().await?;
        let builder = transport::plain(self.url.scheme() != "http", CONNECT)
            .no_proxy()
            .resolve_to_addrs(self.url.host_str().unwrap_or_default(), &addresses);
        let failed = |error: reqwest::Error| DeliveryError::Failed(error.to_string());
        builder.build().map_err(failed)
    }
}

/// The host in the form used for comparison.
fn normalised_host(host: &str) -> String {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.trim_end_matches('.').to_ascii_lowercase()
}

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

    #[test]
    fn addresses_of_private_networks_are_not_public() {
        for ip in rows! {
            "127.0.0.1", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
            "169.254.169.254", "100.64.0.1", "192.0.0.8", "198.18.0.1", "203.0.113.9", "224.0.0.1",
            "255.255.255.255", "240.0.0.1", "::", "::1", "fe80::1", "fc00::1", "fd12::1", "ff02::1",
            "::ffff:10.0.0.1", "::ffff:127.0.0.1", "64:ff9b::a00:1", "2002:a00:1::1", "2001:db8::1",
            "2001::1", "::10.0.0.1",
        } {
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
}
