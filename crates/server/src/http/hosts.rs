//! The host names that the server accepts.

use std::net::{Ipv6Addr, SocketAddr};

/// The host and port by which this machine reaches an address; a wildcard address becomes loopback.
pub(crate) fn authority(address: SocketAddr) -> String {
    match address.ip().is_unspecified() {
        true => format!("localhost:{}", address.port()),
        false => address.to_string(),
    }
}

/// The beginning of addresses at a host: `public` if that names the same host.
pub(super) fn origin(host: &str, public: &str) -> String {
    let public = public.trim_end_matches('/');
    let place = public.split_once("://").map(|(_, place)| place);
    let named = place.and_then(|place| place.split('/').next());
    match named.is_some_and(|named| named.eq_ignore_ascii_case(host)) {
        true => public.to_owned(),
        false => format!("http://{host}"),
    }
}

/// The accepted host names.
pub(super) fn hosts(address: SocketAddr, more: &[String]) -> Vec<String> {
    let own = match address {
        SocketAddr::V4(v4) => v4.ip().to_string(),
        SocketAddr::V6(v6) => format!("[{}]", v6.ip()),
    };
    let mut hosts = vec![own, "localhost".to_owned()];
    if address.ip().is_loopback() || address.ip().is_unspecified() {
        hosts.extend(["127.0.0.1".to_owned(), "[::1]".to_owned()]);
    }
    hosts.extend(more.iter().map(|host| match host.parse::<Ipv6Addr>() {
        // As requests have it.
        Ok(ip) => format!("[{ip}]"),
        Err(_) => host.to_ascii_lowercase(),
    }));
    hosts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_asked_by_its_address_and_from_this_machine_where_that_leads_to_it() {
        let named = |address: &str| hosts(address.parse().unwrap(), &["Unisono".to_owned()]);
        let own = ["localhost", "127.0.0.1", "[::1]", "unisono"];
        for (address, first) in [
            ("127.0.0.1:7007", "127.0.0.1"),
            ("[::1]:7007", "[::1]"),
            ("0.0.0.0:7007", "0.0.0.0"),
            ("[::]:7007", "[::]"),
        ] {
            let named = named(address);
            assert_eq!(named[0], first);
            assert!(own.iter().all(|own| named.iter().any(|name| name == own)));
        }
        assert_eq!(named("192.0.2.1:80"), ["192.0.2.1", "localhost", "unisono"]);
        let listed = ["FD00::5", "[fd00::6]"].map(str::to_owned);
        let named = hosts("192.0.2.1:80".parse().unwrap(), &listed);
        assert_eq!(named[2..], ["[fd00::5]", "[fd00::6]"]);
    }

    #[test]
    fn behind_a_proxy_with_tls_addresses_begin_as_its_own() {
        let public = "https://agents.example.com/";
        for (host, public, expected) in [
            ("agents.example.com", public, "https://agents.example.com"),
            ("AGENTS.example.com", public, "https://agents.example.com"),
            ("localhost:7007", public, "http://localhost:7007"),
            ("localhost:7007", "", "http://localhost:7007"),
            ("a:1", "https://a:1/b", "https://a:1/b"),
        ] {
            assert_eq!(origin(host, public), expected, "{host}");
        }
    }

    #[test]
    fn programs_of_this_machine_are_sent_to_an_address_that_they_can_go_to() {
        for (address, host) in [
            ("127.0.0.1:7007", "127.0.0.1:7007"),
            ("[::1]:7007", "[::1]:7007"),
            ("0.0.0.0:7007", "localhost:7007"),
            ("[::]:7007", "localhost:7007"),
        ] {
            assert_eq!(authority(address.parse().unwrap()), host);
        }
    }
}
