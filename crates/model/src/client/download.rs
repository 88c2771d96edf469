//! Reads files from addresses that clients name, if their hosts are allowed.

use std::time::Duration;

use reqwest::header::ACCEPT;
use tokio::time::timeout;

use super::callback::DeliveryError;
use super::guarded::GuardedUrl;

const TOTAL: Duration = Duration::from_secs(20);
const SETTING: &str = "attachments.allowed_hosts";

/// The address of a file that may be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Download(GuardedUrl);

impl Download {
    /// An address whose host is one of `hosts`. It must be https, except for private IP addresses.
    ///
    /// # Errors
    /// The address is not allowed; the text continues a sentence about it.
    pub fn new(text: &str, hosts: &[String]) -> Result<Download, String> {
        GuardedUrl::new(text, hosts, SETTING).map(Download)
    }

    /// The name in its path, if it has one.
    pub fn filename(&self) -> Option<&str> {
        let mut parts = self.0.url().path_segments()?;
        parts.next_back().filter(|name| !name.is_empty())
    }

    /// Reads the file, of at most `most` bytes.
    ///
    /// # Errors
    /// The host is not found or has an address that is not allowed, or it gave no such file.
    pub async fn read(&self, most: usize) -> Result<Vec<u8>, DeliveryError> {
        let late = |_| DeliveryError::Failed(format!("no file within {} s", TOTAL.as_secs()));
        timeout(TOTAL, self.whole(most)).await.map_err(late)?
    }

    async fn whole(&self, most: usize) -> Result<Vec<u8>, DeliveryError> {
        let failed = |error: reqwest::Error| DeliveryError::Failed(error.without_url().to_string());
        let too_large = || DeliveryError::Refused(format!("the file has more than {most} bytes"));
        let http = self.0.connection().await?;
        let request = http
            .get(self.0.url().clone())
            .header(ACCEPT, "image/*, application/pdf");
        let mut response = request.send().await.map_err(failed)?;
        match response.status().as_u16() {
            200 => {}
            status @ 300..400 => {
                let why = format!("a redirection (status {status}) is not followed");
                return Err(DeliveryError::Refused(why));
            }
            status => {
                let why = format!("it was answered with status {status}");
                return Err(DeliveryError::Failed(why));
            }
        }
        // The announced length may be wrong, so received bytes are counted too.
        let said = response.content_length();
        if said.is_some_and(|said| said > most as u64) {
            return Err(too_large());
        }
        let mut bytes = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(failed)? {
            if bytes.len() + piece.len() > most {
                return Err(too_large());
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    //! Files of a real server on loopback, and addresses that must not be asked.

    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Starts a server that answers each connection with the next bytes. Returns its address.
    fn serving(answers: Vec<Vec<u8>>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 4_096];
                let _ = stream.read(&mut request);
                // A client that has read enough closes the connection.
                let _ = stream.write_all(&answer);
            }
        });
        format!("http://{address}/images/cat.png?size=1")
    }

    fn hosts(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[tokio::test]
    async fn a_file_is_read_up_to_its_limit() {
        let plain = |body: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{body}");
        let lies = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n0123456789".to_vec();
        let large = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n".to_vec();
        let moved =
            b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n";
        let missing = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec();
        let answers = vec![plain("bytes").into(), lies, large, moved.to_vec(), missing];
        let url = serving(answers);
        let download = Download::new(&url, &hosts(&["127.0.0.1"])).unwrap();
        assert_eq!(download.filename(), Some("cat.png"));
        assert_eq!(download.read(5).await, Ok(b"bytes".to_vec()));
        for why in [
            "more than 5 bytes",
            "more than 5 bytes",
            "a redirection (status 302) is not followed",
            "status 404",
        ] {
            let refused = download.read(5).await.unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[tokio::test]
    async fn hosts_that_are_not_listed_and_private_addresses_are_not_asked() {
        let listed = hosts(&["images.example.com", "localhost", "1.1.1.1"]);
        for (url, why) in rows! {
            ("https://other.example.com/a.png", "attachments.allowed_hosts"),
            ("https://169.254.169.254/latest", "attachments.allowed_hosts"),
            ("http://127.0.0.1/a.png", "attachments.allowed_hosts"),
            ("http://[::1]/a.png", "attachments.allowed_hosts"),
            ("file:///etc/passwd", "attachments.allowed_hosts"),
            ("http://images.example.com/a.png", "must use https"),
            ("ftp://images.example.com/a.png", "must be https"),
            ("https://a:b@images.example.com/a.png", "contains a user"),
        } {
            let refused = Download::new(url, &listed).unwrap_err();
            assert!(refused.contains(why), "{url}: {refused}");
        }
        let local = Download::new("https://localhost:9/a.png", &listed).unwrap();
        let refused = local.read(5).await.unwrap_err();
        assert!(
            matches!(&refused, DeliveryError::Refused(why) if why.contains("a private address")),
            "{refused}"
        );
    }
}
