//! Where the password of the database is. It is read for each connection: it may change.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tokio_postgres::Config;
use tokio_postgres::config::Host;

use crate::error::{Error, Result};

/// Where the password is, if the address has none.
#[derive(Clone)]
pub(super) enum PasswordSource {
    /// A file that has only the password.
    File(PathBuf),
    /// The value of a variable.
    Variable(String),
    /// A password file of libpq, and the variable that names it.
    Lines(PathBuf, Option<&'static str>),
    Nowhere,
}

impl PasswordSource {
    /// The given file, or what the variables of the process name. Warns of a file that others may read.
    pub(super) fn find(file: Option<&Path>) -> PasswordSource {
        const FILE: &str = "PGPASSFILE";
        if let Some(file) = file {
            return PasswordSource::File(file.to_owned());
        }
        // As with libpq, an empty variable is one that is not set.
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        if let Some(Ok(password)) = variable("PGPASSWORD").map(OsString::into_string) {
            return PasswordSource::Variable(password);
        }
        let home = || Some((PathBuf::from(variable("HOME")?).join(".pgpass"), None));
        let named = variable(FILE).map(|file| (PathBuf::from(file), Some(FILE)));
        let lines = named.or_else(|| home().filter(|(file, _)| file.exists()));
        let Some((file, named_by)) = lines else {
            return PasswordSource::Nowhere;
        };
        if let Some(warning) = exposed(&file) {
            tracing::warn!("{warning}");
        }
        PasswordSource::Lines(file, named_by)
    }

    /// The password, or where it was looked for in vain: empty, or it begins with a space.
    pub(super) fn read(&self, config: &Config) -> Result<Result<String, String>> {
        match self {
            PasswordSource::File(file) => {
                let text = fs::read_to_string(file).map_err(|source| Error::Io {
                    doing: "read the password file",
                    path: file.clone(),
                    source,
                })?;
                Ok(Ok(text.trim_end_matches(['\r', '\n']).to_owned()))
            }
            PasswordSource::Variable(password) => Ok(Ok(password.clone())),
            PasswordSource::Lines(file, named_by) => {
                Ok(of_file(file, config).map_err(|why| match named_by {
                    Some(variable) => format!(" (`{variable}`: {why})"),
                    None => format!(" ({why})"),
                }))
            }
            PasswordSource::Nowhere => Ok(Err(String::new())),
        }
    }
}

/// The password in a password file, or why it has none.
fn of_file(file: &Path, config: &Config) -> Result<String, String> {
    let place = file.display();
    let text = fs::read_to_string(file);
    let text = text.map_err(|error| format!("{place} cannot be read: {error}"))?;
    passed(&text, config).ok_or_else(|| format!("no line of {place} fits `store.url`"))
}

/// A warning about a password file that others may read.
fn exposed(file: &Path) -> Option<String> {
    let mode = fs::metadata(file).ok()?.permissions().mode() & 0o777;
    let place = file.display();
    (mode & 0o077 != 0).then(|| {
        format!(
            "others may read the password file {place} (mode {mode:o}), so the programs of PostgreSQL \
             ignore it; run chmod 600 on it"
        )
    })
}

/// The password in the first matching line of a password file: `host:port:database:user:password`,
/// where `*` matches everything, and a backslash escapes `:` and itself. Of several hosts, the first one
/// with such a line decides. A socket is named by its directory or as `localhost`.
fn passed(text: &str, config: &Config) -> Option<String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let lines = lines.filter_map(|line| <[String; 5]>::try_from(fields(line)).ok());
    let lines: Vec<[String; 5]> = lines.collect();
    let ports = config.get_ports();
    let database = config.get_dbname().unwrap_or_default();
    let user = config.get_user().unwrap_or_default();
    let mut hosts = config.get_hosts().iter().enumerate();
    hosts.find_map(|(n, host)| {
        let port = ports.get(n).or(ports.first()).copied().unwrap_or(5432);
        let port = port.to_string();
        let is_host = |has: &str| match host {
            Host::Tcp(name) => has == name,
            Host::Unix(directory) => has == "localhost" || Path::new(has) == directory,
        };
        let mut lines = lines.iter();
        let line = lines.find(|[of_host, of_port, of_database, of_user, _]| {
            let fits = |has: &str, wanted: &str| has == "*" || has == wanted;
            (of_host == "*" || is_host(of_host))
                && fits(of_port, &port)
                && fits(of_database, database)
                && fits(of_user, user)
        });
        line.map(|[.., password]| password.clone())
    })
}

fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut chars) = (vec![String::new()], line.chars());
    while let Some(c) = chars.next() {
        match c {
            ':' if fields.len() < 5 => fields.push(String::new()),
            _ => {
                let kept = if c == '\\' { chars.next() } else { Some(c) };
                if let (Some(field), Some(kept)) = (fields.last_mut(), kept) {
                    field.push(kept);
                }
            }
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_file_is_read_as_libpq_does() {
        let config: Config = "postgres://me@db.example/talks".parse().unwrap();
        let rows = [
            ("db.example:5432:talks:me:one", Some("one")),
            (
                "# db.example:5432:talks:me:no\n*:*:*:me:a\\:b\\\\c",
                Some("a:b\\c"),
            ),
            ("*:*:*:*:with:colon", Some("with:colon")),
            ("db.example:5433:talks:me:no\nother:*:*:*:no", None),
            ("broken\n\n*:*:*", None),
        ];
        for (text, password) in rows {
            assert_eq!(passed(text, &config).as_deref(), password, "{text}");
        }
    }

    #[test]
    fn the_line_of_a_socket_or_of_one_of_several_hosts_is_found() {
        let socket = "postgres:///talks?host=/run/db&port=5433&user=me";
        let hosts = "postgres://me@one,two:5433,[::1]/talks";
        let rows = [
            (socket, "/run/db:5433:talks:me:one", Some("one")),
            (socket, "localhost:*:*:*:one", Some("one")),
            (socket, "/run/other:*:*:*:no\n/run/db:5432:*:*:no", None),
            (hosts, "two:5433:talks:me:two", Some("two")),
            (hosts, "two:5433:*:*:two\none:5432:*:*:one", Some("one")),
            (hosts, "two:5432:*:*:no", None),
            (hosts, "\\:\\:1:5432:*:*:six", Some("six")),
        ];
        for (url, text, password) in rows {
            let config: Config = url.parse().unwrap();
            assert_eq!(passed(text, &config).as_deref(), password, "{url} {text}");
        }
    }

    #[test]
    fn a_password_file_without_the_password_is_said_and_one_that_others_may_read_is_warned_of() {
        let config: Config = "postgres://me@db.example/talks".parse().unwrap();
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("passwords");
        let missing = of_file(&file, &config).unwrap_err();
        assert!(missing.contains("passwords cannot be read"), "{missing}");
        fs::write(&file, "other:*:*:*:s3cret").unwrap();
        let none = of_file(&file, &config).unwrap_err();
        assert!(
            none.contains("no line of") && !none.contains("s3cret"),
            "{none}"
        );
        fs::write(&file, "*:*:*:*:s3cret").unwrap();
        assert_eq!(of_file(&file, &config).as_deref(), Ok("s3cret"));
        for (mode, is_exposed) in [(0o600, false), (0o400, false), (0o644, true), (0o640, true)] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(exposed(&file).is_some(), is_exposed, "{mode:o}");
        }
    }
}
