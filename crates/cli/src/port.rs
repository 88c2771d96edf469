//! Finds the process that uses an address, and a free port.

use std::fs;
use std::net::{IpAddr, SocketAddr, TcpListener};

/// Maximum ports that are tried after a used one.
const TRIED: u16 = 50;
/// The state of a socket that listens, as the kernel writes it.
const LISTENS: &str = "0A";

/// The process that listens on an address: its program and id; none if it cannot be determined, as
/// for processes of other people.
pub(crate) fn owner(address: SocketAddr) -> Option<(String, u32)> {
    let sockets = ["/proc/net/tcp", "/proc/net/tcp6"].map(fs::read_to_string);
    let sockets = sockets.iter().flatten();
    let inode = sockets
        .flat_map(|text| text.lines())
        .find_map(|line| listening(line, address))?;
    let link = format!("socket:[{inode}]");
    let processes = fs::read_dir("/proc").ok()?.flatten();
    processes.into_iter().find_map(|process| {
        let id: u32 = process.file_name().to_str()?.parse().ok()?;
        let files = fs::read_dir(process.path().join("fd")).ok()?.flatten();
        let mut files = files.filter_map(|file| fs::read_link(file.path()).ok());
        files.find(|file| file.as_os_str() == link.as_str())?;
        let program = fs::read_to_string(process.path().join("comm")).ok()?;
        Some((program.trim().to_owned(), id))
    })
}

/// The inode of the socket of a line of `/proc/net/tcp`, if it listens there.
fn listening(line: &str, address: SocketAddr) -> Option<&str> {
    let mut fields = line.split_whitespace();
    let (local, state) = (fields.nth(1)?, fields.nth(1)?);
    let (host, port) = local.split_once(':')?;
    let all = host.chars().all(|c| c == '0');
    let here = host.eq_ignore_ascii_case(&kernel_form(address.ip()));
    let port = u16::from_str_radix(port, 16).ok()?;
    let is_meant = state == LISTENS && port == address.port() && (all || here);
    is_meant.then(|| fields.nth(5)).flatten()
}

/// An address as the kernel writes it: words of four bytes, each in the order of the machine.
fn kernel_form(ip: IpAddr) -> String {
    let bytes = match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let words = bytes.chunks_exact(4).map(|word| {
        let word = [word[0], word[1], word[2], word[3]];
        format!("{:08X}", u32::from_ne_bytes(word))
    });
    words.collect()
}

pub(crate) fn next_free(address: SocketAddr) -> Option<SocketAddr> {
    let after = (1..=TRIED).filter_map(|more| address.port().checked_add(more));
    let mut after = after.map(|port| SocketAddr::new(address.ip(), port));
    after.find(|address| TcpListener::bind(address).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_of_a_taken_port_is_found_and_a_free_one_is_named() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            // The machine may not have this address.
            let Ok(listener) = TcpListener::bind(host) else {
                continue;
            };
            let address = listener.local_addr().unwrap();
            let (_, id) = owner(address).unwrap();
            assert_eq!(id, std::process::id(), "{host}");
            let free = next_free(address).unwrap();
            assert!(free.port() > address.port() && free.ip() == address.ip());
            drop(listener);
            assert_eq!(owner(address), None, "{host}");
        }
    }
}
