//! The address of the database, and how to log in.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use super::password::PasswordSource;
use crate::error::{Error, Result};

/// How long a write or a read waits for a database that is away.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection on which nothing is received for this long is closed.
const SILENT_AFTER: Duration = Duration::from_secs(30);

/// The options of a connection.
#[derive(Clone)]
pub struct Options {
    place: String,
    pub(super) config: Config,
    password: PasswordSource,
    /// Whether the server's certificate is verified.
    pub(super) is_verified: bool,
    /// How long a write or a read waits for a database that is away.
    pub(super) patience: Duration,
    /// The directory that the program on this machine locks.
    pub(super) directory: Option<PathBuf>,
    /// The time without a beat after which a member counts as gone; set if other programs use the
    /// database, too.
    pub(super) takeover_after: Option<Duration>,
}

/// Omits the password.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("place", &self.place)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}

impl Options {
    /// Parses an address such as `postgres://unisono@db.example/unisono?sslmode=verify-full`. A
    /// password that is not in it is read from `password_file`, from `PGPASSWORD`, or from the file
    /// `PGPASSFILE` (`~/.pgpass`), in this order. `options=-csearch_path=NAME` puts the tables into
    /// a schema of their own.
    ///
    /// # Errors
    /// The address cannot be parsed, names no database, or the password's file cannot be read. No
    /// error contains the password.
    pub fn new(url: &str, password_file: Option<&Path>) -> Result<Options> {
        if has_stray_at(url) {
            return Err(wrong(
                "an `@` in the user or the password has to be written as `%40`",
            ));
        }
        let (url, is_verified) = verified(url);
        // The parser's own message could contain a part of the address.
        let mut config: Config = url.parse().map_err(|_| wrong(&unreadable(&url)))?;
        if config.get_dbname().is_none_or(str::is_empty) {
            return Err(wrong("it names no database"));
        }
        if config.get_hosts().is_empty() {
            return Err(wrong("it names no host"));
        }
        if is_verified {
            config.ssl_mode(SslMode::Require);
        }
        if config.get_application_name().is_none() {
            let host = rustix::system::uname();
            let host = host.nodename().to_string_lossy();
            config.application_name(format!("unisono on {host}, pid {}", std::process::id()));
        }
        prepare_for_hosts(&mut config);
        // Detects a machine that disappeared without closing the connection.
        if !url.contains("keepalives_idle=") {
            config.keepalives_idle(SILENT_AFTER);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(SILENT_AFTER);
        }
        if config.get_user().is_none() {
            config.user(std::env::var("USER").unwrap_or_else(|_| "unisono".to_owned()));
        }
        let password = match config.get_password() {
            Some(_) => PasswordSource::Nowhere,
            None => PasswordSource::find(password_file),
        };
        let options = Options {
            place: place(&url),
            config,
            password,
            is_verified,
            patience: PATIENCE,
            directory: None,
            takeover_after: None,
        };
        options.login()?;
        Ok(options)
    }

    /// The configuration of a new connection, with the password as it is now. Without one, also where it
    /// was looked for in vain: empty, or it begins with a space.
    pub(super) fn login(&self) -> Result<(Config, String)> {
        let mut config = self.config.clone();
        let mut hint = String::new();
        match self.password.read(&config)? {
            Ok(password) => {
                config.password(password);
            }
            Err(why) => hint = why,
        }
        Ok((config, hint))
    }

    /// Sets the time that a write or a read waits for a database that is unavailable.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Options {
        self.patience = patience;
        self
    }

    /// Sets a directory that is locked while the store is open, so that only one program on this
    /// machine uses the store.
    #[must_use]
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Options {
        self.directory = Some(directory.into());
        self
    }

    /// The search path that the address sets, if it has no escaped characters.
    pub(super) fn search_path(&self) -> Option<&str> {
        let (_, path) = self.config.get_options()?.rsplit_once("search_path=")?;
        let path = path.split_whitespace().next()?;
        (!path.contains('\\')).then_some(path)
    }

    /// Makes this program a member of those that share the database. A member without a beat for
    /// this long counts as gone, and its sessions may be claimed.
    #[must_use]
    pub fn member(mut self, takeover_after: Duration) -> Options {
        self.takeover_after = Some(takeover_after);
        self
    }
}

/// Settings that depend on the hosts of an address.
fn prepare_for_hosts(config: &mut Config) {
    let is_socket = |host: &Host| matches!(host, Host::Unix(_));
    if config.get_hosts().iter().all(is_socket) {
        // Sockets are not encrypted: as with libpq, the mode does not concern them.
        config.ssl_mode(SslMode::Disable);
    }
    let hosts = config.get_hosts().len();
    if hosts > 1 {
        // The first one that answers may be a replica.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
    if config.get_connect_timeout().is_none() {
        // A machine that is gone leaves time for the next host, or the next address of its name.
        let addresses = u32::try_from(hosts + 1).unwrap_or(u32::MAX);
        config.connect_timeout(PATIENCE / addresses);
    }
}

/// The address of a database for display, without user, password and options.
#[must_use]
pub fn place(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let (address, _) = split_query(rest);
            format!("{scheme}://{address}")
        }
        None => "a database".to_owned(),
    }
}

/// The part of an address between the credentials and the query, and the query. A password may contain
/// any character.
fn split_query(address: &str) -> (&str, &str) {
    let rest = address.split_once('@').map_or(address, |(_, rest)| rest);
    let (host, query) = rest.split_once(['?', '#']).unwrap_or((rest, ""));
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    (host, query)
}

/// Whether there is another `@` behind the one that ends the credentials: the client would take what is
/// between them for a part of the host.
fn has_stray_at(url: &str) -> bool {
    // What is not an address but a list of `name=value` has nothing to end.
    let address = url.split_once("://").map_or("", |(_, address)| address);
    let rest = address.split_once('@').map_or("", |(_, rest)| rest);
    let place = rest.split_once('?').map_or(rest, |(place, _)| place);
    place.contains('@')
}

fn wrong(why: &str) -> Error {
    Error::DatabaseUrl {
        reason: why.to_owned(),
    }
}

/// The parameters of an address that the client supports.
const PARAMETERS: [&str; 19] = [
    "application_name",
    "channel_binding",
    "connect_timeout",
    "dbname",
    "host",
    "hostaddr",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_retries",
    "load_balance_hosts",
    "options",
    "password",
    "port",
    "sslmode",
    "sslnegotiation",
    "target_session_attrs",
    "tcp_user_timeout",
    "user",
];

/// Why an address cannot be read. Names parameters, never values.
fn unreadable(url: &str) -> String {
    let (_, query) = split_query(url);
    let keys = query
        .split('&')
        .filter_map(|pair| Some(pair.split_once('=')?.0));
    // Whatever is no name may be a part of a value.
    let is_name = |key: &&str| {
        let is_of_a_name = |c: char| c.is_ascii_lowercase() || c == '_';
        !key.is_empty() && key.len() <= 40 && key.chars().all(is_of_a_name)
    };
    let names: Vec<&str> = keys.filter(is_name).collect();
    if let Some(unknown) = names.iter().find(|name| !PARAMETERS.contains(name)) {
        let instead = match *unknown {
            "sslcert" | "sslkey" | "sslpassword" => {
                ", nor is a certificate of the client: let the role log in with a password"
            }
            "sslrootcert" => {
                ": name the authorities in the variable SSL_CERT_FILE, and set sslmode=verify-full"
            }
            _ => "",
        };
        return format!("the parameter `{unknown}` is not supported{instead}");
    }
    let modes = ["disable", "prefer", "require"].map(|mode| format!("sslmode={mode}"));
    let is_mode = |pair: &str| modes.iter().any(|mode| mode == pair);
    let mut pairs = query.split('&').filter(|pair| pair.starts_with("sslmode="));
    match pairs.any(|pair| !is_mode(pair)) {
        true => {
            let modes = "`sslmode` is one of disable, prefer, require, verify-ca and verify-full; \
                         verify-ca checks the server's name, too";
            modes.to_owned()
        }
        false => "it cannot be read".to_owned(),
    }
}

/// The address in the form that the client supports, and whether the server is verified. The client
/// does not support libpq's modes that verify.
fn verified(url: &str) -> (String, bool) {
    for mode in ["verify-full", "verify-ca"] {
        let asked = format!("sslmode={mode}");
        if url.contains(&asked) {
            return (url.replace(&asked, "sslmode=require"), true);
        }
    }
    (url.to_owned(), false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_and_its_password_never_shown() {
        let options = Options::new("postgres://me:s3cret@db.example:5433/talks", None).unwrap();
        assert!(format!("{options:?}").contains("\"postgres://db.example:5433/talks\""));
        assert_eq!(options.config.get_password(), Some(&b"s3cret"[..]));
        assert!(!format!("{options:?}").contains("s3cret"));
        let written = "postgres://me:a%40b:c/d?e#f@db/talks?options=-crole%3Da@b";
        let written = Options::new(written, None).unwrap();
        assert_eq!(written.config.get_password(), Some(&b"a@b:c/d?e#f"[..]));
        let verified = Options::new("postgres://me:x@db/talks?sslmode=verify-full", None).unwrap();
        assert!(verified.is_verified && verified.config.get_ssl_mode() == SslMode::Require);
        let rows = [
            ("postgres://me:s3cret@db.example", "names no database"),
            ("postgres://me:s3cret@db.example/", "names no database"),
            (
                "postgres://me:s3cret@db.example/x?colour=red",
                "`colour` is not supported",
            ),
            (
                "postgres://me:x@db/x?sslmode=verify-full&sslrootcert=/s3cret",
                "`sslrootcert` is not supported: name the authorities in the variable SSL_CERT_FILE",
            ),
            (
                "postgres://me:x@db/x?sslcert=/s3cret&sslkey=/s3cret",
                "`sslcert` is not supported, nor is a certificate of the client",
            ),
            (
                "postgres://me:x@db/x?sslmode=allow&password=s3cret",
                "`sslmode` is one of disable, prefer, require, verify-ca",
            ),
            (
                "postgres://me:x@db/x?S3cret=1&port=s3cret",
                "cannot be read",
            ),
            (
                "postgres://me:s3?cret=1&s3cret=@db/x?port=s3cret",
                "cannot be read",
            ),
            ("postgres://me:x@s3cret@db.example/x", "written as `%40`"),
            ("postgres://me:x@s3cret/y@db.example/x", "written as `%40`"),
            ("mysql://me:s3cret@db.example/x", "cannot be read"),
            ("s3cret", "cannot be read"),
        ];
        for (url, why) in rows {
            let error = Options::new(url, None).unwrap_err().to_string();
            assert!(error.contains(why), "{url}: {error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn the_search_path_of_an_address_is_known() {
        let rows = [
            ("", None),
            ("?options=-csearch_path%3Dtalks", Some("talks")),
            (
                "?options=-c%20search_path%3Da,b%20-clock_timeout%3D1s",
                Some("a,b"),
            ),
            ("?options=-csearch_path%3Da,%5C%20b", None),
            ("?options=-clock_timeout%3D1s", None),
        ];
        for (query, path) in rows {
            let options = Options::new(&format!("postgres://me@db/x{query}"), None).unwrap();
            assert_eq!(options.search_path(), path, "{query}");
        }
    }

    #[test]
    fn several_hosts_are_tried_within_the_time_of_one_call_until_one_can_be_written() {
        let rows = [
            ("postgres://me@one/talks", TargetSessionAttrs::Any, 2_500),
            (
                "postgres://me@one,two:5433,[::1]/talks",
                TargetSessionAttrs::ReadWrite,
                1_250,
            ),
            (
                "postgres://me@one/talks?connect_timeout=3",
                TargetSessionAttrs::Any,
                3_000,
            ),
        ];
        for (url, wanted, ms) in rows {
            let config = Options::new(url, None).unwrap().config;
            let timeout = config.get_connect_timeout().map(Duration::as_millis);
            let seen = (config.get_target_session_attrs(), timeout);
            assert_eq!(seen, (wanted, Some(ms)), "{url}");
        }
    }

    #[test]
    fn a_silent_connection_is_probed_as_soon_as_the_address_says() {
        for (query, seconds) in [("", 30), ("?keepalives_idle=7", 7)] {
            let config = Options::new(&format!("postgres://me@one/talks{query}"), None);
            let idle = config.unwrap().config.get_keepalives_idle();
            assert_eq!(idle.as_secs(), seconds);
        }
    }

    #[test]
    fn a_socket_is_not_encrypted() {
        let socket = "postgres:///talks?host=/run/db&user=me&sslmode=verify-full";
        let config = Options::new(socket, None).unwrap().config;
        assert_eq!(config.get_ssl_mode(), SslMode::Disable);
    }

    #[test]
    fn the_password_of_a_file_is_the_one_that_it_has_now() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("password");
        let url = "postgres://me@db/talks";
        let missing = Options::new(url, Some(&file)).unwrap_err();
        assert!(matches!(missing, Error::Io { .. }), "{missing}");
        std::fs::write(&file, "first\n").unwrap();
        let options = Options::new(url, Some(&file)).unwrap();
        for password in ["first", "second"] {
            std::fs::write(&file, format!("{password}\n")).unwrap();
            let (config, _) = options.login().unwrap();
            assert_eq!(config.get_password(), Some(password.as_bytes()));
        }
    }

    #[test]
    fn the_place_of_a_database_has_no_part_of_its_credentials() {
        for (url, expected) in [
            ("postgres://me:x@db:1/talks?a=b@c", "postgres://db:1/talks"),
            ("postgres://me:a?b@db/talks", "postgres://db/talks"),
            ("postgres://me:a@b@db/talks?x", "postgres://db/talks"),
            ("postgres://db/talks?x", "postgres://db/talks"),
            ("talks", "a database"),
        ] {
            assert_eq!(place(url), expected);
        }
    }
}
