//! The environment variables that every program inherits: those for locating files and reaching the
//! network. Others are passed on by name.

use std::ffi::OsString;
use std::sync::Arc;

/// Passed on if they are set.
const NAMES: [&str; 31] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TZ",
    "TMPDIR",
    "TMP",
    "TEMP",
    // Locale and terminal.
    "LANG",
    "LANGUAGE",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    // Proxies.
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "FTP_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "ftp_proxy",
    // Certificates.
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    "AWS_CA_BUNDLE",
];
/// Prefixes of variables that are passed on.
const PREFIXES: [&str; 2] = ["LC_", "XDG_"];

/// Whether every program inherits this variable.
fn is_inherited(name: &str) -> bool {
    NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// The inherited ones of these variables, and those that are passed on by name.
pub(super) fn inherit(
    variables: impl Iterator<Item = (OsString, OsString)>,
    passed: &[Arc<str>],
) -> impl Iterator<Item = (OsString, OsString)> {
    variables.filter(|(name, _)| {
        name.to_str()
            .is_some_and(|name| is_inherited(name) || passed.iter().any(|own| &**own == name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_inherited_only_by_name() {
        let variables = rows! {
            "PATH", "LC_ALL", "XDG_CACHE_HOME", "HTTPS_PROXY", "SSL_CERT_FILE",
            "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "GITHUB_TOKEN", "OPENAI_API_KEY",
            "OTEL_EXPORTER_OTLP_HEADERS", "UNISONO__SERVER__BIND", "LD_PRELOAD", "PATHS", "path",
        };
        let inherited = |passed: &[&str]| {
            let passed: Vec<Arc<str>> = passed.iter().map(|name| Arc::from(*name)).collect();
            let set = variables.iter().map(|name| (name.into(), "x".into()));
            let kept = super::inherit(set, &passed).map(|(name, _)| name.into_string().unwrap());
            kept.collect::<Vec<_>>()
        };
        let all = [
            "PATH",
            "LC_ALL",
            "XDG_CACHE_HOME",
            "HTTPS_PROXY",
            "SSL_CERT_FILE",
        ];
        assert_eq!(inherited(&[]), all);
        let with = inherited(&["GITHUB_TOKEN", "NOT_SET"]);
        assert_eq!(with[..5], all);
        assert_eq!(with[5..], ["GITHUB_TOKEN"]);
    }
}
