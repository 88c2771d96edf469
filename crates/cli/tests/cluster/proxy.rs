//! Between a daemon and its database: passes bytes on, and cuts connections when it is told to.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// A proxy in front of a server on loopback.
#[derive(Clone, Debug)]
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    /// Messages of the server until one is lost with its connection; 0: none is.
    until_cut: Arc<AtomicU64>,
}

impl Proxy {
    pub(crate) fn start(port: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Proxy {
            address: listener.local_addr().unwrap(),
            until_cut: Arc::default(),
        };
        let until_cut = proxy.until_cut.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // A server that is away takes none.
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else {
                    continue;
                };
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                thread::spawn(move || pass(from, to, None));
                let until_cut = until_cut.clone();
                thread::spawn(move || pass(server, client, Some(&until_cut)));
            }
        });
        proxy
    }

    /// Loses the message of the server that comes after so many more, and its connection.
    pub(crate) fn cut(&self, after: u64) {
        self.until_cut.store(after + 1, Ordering::SeqCst);
    }

    pub(crate) fn has_cut(&self) -> bool {
        self.until_cut.load(Ordering::SeqCst) == 0
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, until_cut: Option<&AtomicU64>) {
    let mut bytes = [0; 64 * 1024];
    while let Ok(read) = from.read(&mut bytes) {
        let is_cut = until_cut.is_some_and(|left| {
            let before = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                left.checked_sub(1)
            });
            before == Ok(1)
        });
        if read == 0 || is_cut || to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
