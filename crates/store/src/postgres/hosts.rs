//! The hosts of an address, and the addresses of their names, one after the other.
//!
//! The client limits only the time until a host accepts the connection. One that accepts it and then hangs
//! would take the time of all others.

use std::net::IpAddr;

use tokio::net::lookup_host;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, LoadBalanceHosts};
use uuid::Uuid;

/// One configuration for each host, in the order in which they are tried. Where the numbers of hosts,
/// addresses and ports differ it is the given one, which the client refuses.
pub(super) fn each_host(config: &Config) -> Vec<Config> {
    let hosts = config.get_hosts().len();
    let (addresses, ports) = (config.get_hostaddrs().len(), config.get_ports().len());
    let is_even = (addresses == 0 || addresses == hosts) && (ports <= 1 || ports == hosts);
    if hosts < 2 || !is_even {
        return vec![config.clone()];
    }
    let all = (0..hosts).map(|n| of_host(config, n)).collect();
    in_order(config, all)
}

/// One configuration for each address of a host whose name has several, in the order in which they are tried.
/// Any other host is left as it is: the client says why a name has no address.
pub(super) async fn each_address(config: &Config) -> Vec<Config> {
    let ([Host::Tcp(name)], []) = (config.get_hosts(), config.get_hostaddrs()) else {
        return vec![config.clone()];
    };
    let port = config.get_ports().first().copied();
    let found = lookup_host((name.as_str(), port.unwrap_or(5432))).await;
    let addresses: Vec<IpAddr> = match found {
        Ok(found) => found.map(|place| place.ip()).collect(),
        Err(_) => Vec::new(),
    };
    of_addresses(config, &addresses)
}

fn of_addresses(config: &Config, addresses: &[IpAddr]) -> Vec<Config> {
    if addresses.len() < 2 {
        return vec![config.clone()];
    }
    let of_address = |address: &IpAddr| {
        let mut one = config.clone();
        one.hostaddr(*address);
        one
    };
    in_order(config, addresses.iter().map(of_address).collect())
}

/// Begins with a random one, if the configuration says so.
fn in_order(config: &Config, mut all: Vec<Config>) -> Vec<Config> {
    if config.get_load_balance_hosts() == LoadBalanceHosts::Random {
        let random = Uuid::now_v7().as_u128() % all.len().max(1) as u128;
        all.rotate_left(random as usize);
    }
    all
}

/// The same configuration for the host with that number.
fn of_host(config: &Config, n: usize) -> Config {
    let mut one = common_settings(config);
    if let Some(host) = config.get_hosts().get(n) {
        match host {
            Host::Tcp(name) => one.host(name),
            Host::Unix(directory) => one.host_path(directory),
        };
    }
    if let Some(address) = config.get_hostaddrs().get(n) {
        one.hostaddr(*address);
    }
    let ports = config.get_ports();
    if let Some(port) = ports.get(n).or(ports.first()) {
        one.port(*port);
    }
    one
}

/// A configuration without hosts and ports: the client can add hosts, and remove none.
fn common_settings(config: &Config) -> Config {
    let mut one = Config::new();
    one.ssl_mode(config.get_ssl_mode())
        .ssl_negotiation(config.get_ssl_negotiation())
        .channel_binding(config.get_channel_binding())
        .target_session_attrs(config.get_target_session_attrs())
        .load_balance_hosts(config.get_load_balance_hosts())
        .keepalives(config.get_keepalives())
        .keepalives_idle(config.get_keepalives_idle());
    if let Some(user) = config.get_user() {
        one.user(user);
    }
    if let Some(password) = config.get_password() {
        one.password(password);
    }
    if let Some(name) = config.get_dbname() {
        one.dbname(name);
    }
    if let Some(options) = config.get_options() {
        one.options(options);
    }
    if let Some(name) = config.get_application_name() {
        one.application_name(name);
    }
    if let Some(timeout) = config.get_connect_timeout() {
        one.connect_timeout(*timeout);
    }
    if let Some(timeout) = config.get_tcp_user_timeout() {
        one.tcp_user_timeout(*timeout);
    }
    if let Some(interval) = config.get_keepalives_interval() {
        one.keepalives_interval(interval);
    }
    if let Some(retries) = config.get_keepalives_retries() {
        one.keepalives_retries(retries);
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An address whose hosts are those, with a value for each parameter that the client supports.
    fn address(hosts: &str, more: &str) -> Config {
        let url = format!(
            "postgres://me:s3cret@{hosts}/talks?application_name=a&channel_binding=require\
             &connect_timeout=7&keepalives=0&keepalives_idle=8&keepalives_interval=9\
             &keepalives_retries=3&options=-crole%3Db&sslmode=require&sslnegotiation=direct\
             &target_session_attrs=read-write&tcp_user_timeout=11{more}"
        );
        url.parse().unwrap()
    }

    #[test]
    fn each_host_has_all_settings_of_the_address() {
        let each = ["one:5432", "two:1", "[::1]:2"].map(|host| address(host, ""));
        assert_eq!(each_host(&address("one,two:1,[::1]:2", "")), each);
        let addresses = "&hostaddr=127.0.0.1,127.0.0.2";
        let each = ["127.0.0.1", "127.0.0.2"].map(|address| format!("&hostaddr={address}"));
        let each = [address("one:1", &each[0]), address("two:2", &each[1])];
        assert_eq!(each_host(&address("one:1,two:2", addresses)), each);
        let written = |hosts: &str| -> Config {
            let text = format!("host={hosts} port=7 user=me dbname=talks");
            text.parse().unwrap()
        };
        let each = ["one", "/run/db"].map(written);
        assert_eq!(each_host(&written("one,/run/db")), each);
    }

    #[test]
    fn each_address_of_a_name_has_the_name_and_all_settings() {
        let config = address("one:7", "");
        let addresses = ["127.0.0.1", "::1"];
        let each = addresses.map(|place| address("one:7", &format!("&hostaddr={place}")));
        let addresses: [IpAddr; 2] = addresses.map(|place| place.parse().unwrap());
        assert_eq!(of_addresses(&config, &addresses), each);
        for addresses in [&addresses[..1], &[]] {
            assert_eq!(
                of_addresses(&config, addresses),
                std::slice::from_ref(&config)
            );
        }
    }

    #[tokio::test]
    async fn a_host_that_is_an_address_is_left_to_the_client() {
        for (host, more) in [("[::1]:7", ""), ("one:7", "&hostaddr=127.0.0.1")] {
            let config = address(host, more);
            assert_eq!(each_address(&config).await, [config]);
        }
        let socket: Config = "host=/run/db user=me dbname=talks".parse().unwrap();
        assert_eq!(each_address(&socket).await, [socket]);
    }

    #[test]
    fn one_host_and_hosts_that_do_not_fit_are_left_to_the_client() {
        for (hosts, more) in [("one:1", ""), ("one:1,two:2", "&hostaddr=127.0.0.1")] {
            let config = address(hosts, more);
            assert_eq!(each_host(&config), [config]);
        }
    }

    #[test]
    fn the_first_host_is_a_random_one_if_the_address_says_so() {
        let config = address("one:1,two:2", "&load_balance_hosts=random");
        let firsts = (0..200).map(|_| each_host(&config)[0].get_ports()[0]);
        let firsts: std::collections::BTreeSet<u16> = firsts.collect();
        assert_eq!(firsts, [1, 2].into());
    }
}
