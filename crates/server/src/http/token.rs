//! The secret that every request carries.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};

use unisono_store::private;

use super::Error;

/// Random bytes of a token.
const BYTES: usize = 32;

/// The variable in which systemd names the directory of a service's credentials.
const CREDENTIALS: &str = "CREDENTIALS_DIRECTORY";

/// The permissions that a token file must not give: any to group and others.
const OTHERS: u32 = 0o077;

/// Those that a credential must not give. From version 254 on, systemd lets the service read it by an access
/// control list, whose mask is shown as the permission of the group.
const OTHERS_THAN_SERVICE: u32 = 0o037;

/// The digest of the token: the token itself is in its file only.
pub(super) struct Token(blake3::Hash);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// Reads the token of a file, or makes both.
    pub(super) fn open(path: &Path) -> Result<Token, Error> {
        read_or_make(path)
            .map(|text| Token(digest(&text)))
            .map_err(|error| Error::Token {
                path: path.to_owned(),
                error,
            })
    }

    /// A public digest by which daemons compare their tokens.
    pub(super) fn public(&self) -> [u8; 32] {
        blake3::derive_key("unisono 2026 daemons with one token", self.0.as_bytes())
    }

    /// A key that follows from it.
    pub(super) fn key(&self) -> [u8; 32] {
        blake3::derive_key("unisono 2026 browsers that were let in", self.0.as_bytes())
    }

    /// Whether `presented` is the token. The time is independent of the input: digests are compared
    /// in constant time.
    pub(super) fn matches(&self, presented: &str) -> bool {
        self.0 == digest(presented)
    }
}

/// A new secret: 256 bits, hexadecimal.
pub(super) fn random() -> io::Result<String> {
    let mut bytes = [0u8; BYTES];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The digest by which a secret is identified.
pub(super) fn digest(text: &str) -> blake3::Hash {
    blake3::hash(text.as_bytes())
}

fn read_or_make(path: &Path) -> io::Result<String> {
    match File::open(path) {
        Ok(file) => read(path, file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(path),
        Err(error) => Err(error),
    }
}

pub(super) fn text(path: &Path) -> io::Result<String> {
    read(path, File::open(path)?)
}

/// Whether the file exists and holds a sufficiently long token.
pub(crate) fn check(path: &Path) -> io::Result<bool> {
    match File::open(path) {
        Ok(file) => read(path, file).map(|_| true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The permissions that a file must not give. Only systemd writes below the directory of `credentials`.
fn refused_permissions(path: &Path, credentials: Option<&Path>) -> u32 {
    let leaves = path.components().any(|part| part == Component::ParentDir);
    let is_credential =
        credentials.is_some_and(|directory| directory.is_absolute() && path.starts_with(directory));
    match is_credential && !leaves {
        true => OTHERS_THAN_SERVICE,
        false => OTHERS,
    }
}

fn read(path: &Path, file: File) -> io::Result<String> {
    let mode = file.metadata()?.mode() & 0o777;
    let credentials = std::env::var_os(CREDENTIALS);
    let refused = refused_permissions(path, credentials.as_deref().map(Path::new));
    if mode & refused != 0 {
        let problem = format!("others may read it (mode {mode:o}); run chmod 600 on it");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
    }
    let mut text = String::new();
    file.take(4_096).read_to_string(&mut text)?;
    let token = text.trim();
    if token.len() < BYTES {
        let problem = format!("it holds fewer than {BYTES} characters; delete it for a new one");
        return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
    }
    Ok(token.to_owned())
}

fn make(path: &Path) -> io::Result<String> {
    if let Some(directory) = path.parent() {
        private::create_dir_all(directory)?;
    }
    let token = random()?;
    match private::create_new(path) {
        Ok(mut file) => {
            writeln!(file, "{token}")?;
            file.sync_all()?;
            Ok(token)
        }
        // Another process created the file first.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => text(path),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_is_made_once_and_is_its_owners_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/token");
        let token = Token::open(&path).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.trim().len(), 64);
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert!(token.matches(text.trim()));
        assert!(!token.matches("") && !token.matches(&text.trim()[1..]) && !token.matches(&text));
        assert!(Token::open(&path).unwrap().matches(text.trim()));
    }

    #[test]
    fn a_credential_of_systemd_may_be_read_by_the_group() {
        let directory = Some(Path::new("/run/credentials/unisono@1.service"));
        let rows = rows! {
            ("/run/credentials/unisono@1.service/token", directory, 0o440, true),
            ("/run/credentials/unisono@1.service/token", directory, 0o444, false),
            ("/run/credentials/unisono@1.service/token", directory, 0o460, false),
            ("/run/credentials/unisono@1.service/token", None, 0o440, false),
            ("/run/credentials/unisono@2.service/token", directory, 0o440, false),
            ("/run/credentials/unisono@1.service/../token", directory, 0o440, false),
            ("/etc/unisono/token", directory, 0o440, false),
            ("/etc/unisono/token", Some(Path::new("")), 0o440, false),
            ("/etc/unisono/token", None, 0o600, true),
        };
        for (path, credentials, mode, is_accepted) in rows {
            let refused = refused_permissions(Path::new(path), credentials);
            assert_eq!(
                mode & refused == 0,
                is_accepted,
                "{path} {credentials:?} {mode:o}"
            );
        }
    }

    #[test]
    fn a_token_that_others_can_read_or_that_is_short_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        fs::write(&path, "0".repeat(64)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(
            Token::open(&path)
                .unwrap_err()
                .to_string()
                .contains("chmod 600")
        );
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        Token::open(&path).unwrap();
        fs::write(&path, "short").unwrap();
        assert!(
            Token::open(&path)
                .unwrap_err()
                .to_string()
                .contains("fewer than 32")
        );
    }
}
