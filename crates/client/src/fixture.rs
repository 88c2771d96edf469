//! A server for tests.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread;

/// Answers requests with these bodies in order, and returns the requested addresses.
pub(crate) fn answering(bodies: Vec<String>) -> (String, thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serve = move |body: String| {
        let (mut stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        let asked = lines.next().unwrap().unwrap();
        assert!(lines.any(|line| line.unwrap().is_empty()));
        let head = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n";
        stream
            .write_all((head.to_owned() + &body).as_bytes())
            .unwrap();
        asked
    };
    let asked = thread::spawn(move || bodies.into_iter().map(serve).collect());
    (url, asked)
}
