//! The address of a provider: the base URL of its settings, and the URL of one request.

use std::fmt;

use reqwest::Url;

/// The address of a provider. It has no credentials: URLs with a user are rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    base: Url,
    /// Azure's `api-version`, added to each request if set.
    pub api_version: Option<String>,
    /// Whether requests go to `/openai/deployments/<model>` below the base URL, Azure's older form;
    /// those for Responses to `/openai`. The newer form, a base URL that ends with `/openai/v1`, is
    /// like OpenAI's.
    pub deployments: bool,
}

/// Why a text is not a valid address. Does not show a user or password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the address `{shown}` {reason}")]
pub struct Error {
    shown: String,
    reason: Reason,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Reason {
    NoScheme,
    Scheme(String),
    Malformed(String),
    Credentials,
    QueryOrFragment,
    Endpoint(&'static str),
}

/// Path endings that belong to a request, not to the base URL.
const ENDPOINTS: &[&str] = &["/chat/completions", "/responses", "/messages"];

impl Address {
    /// Parses a base URL. A trailing slash is ignored.
    ///
    /// # Errors
    /// It has no scheme or one other than http and https, contains credentials, a query or a
    /// fragment, names a single endpoint, or is not a URL.
    pub fn parse(text: &str) -> Result<Address, Error> {
        let mut base = Address::endpoint(text)?.base;
        let error = |reason| Error {
            shown: redacted_url(text.trim()),
            reason,
        };
        if base.query().is_some() || base.fragment().is_some() {
            return Err(error(Reason::QueryOrFragment));
        }
        let path = base.path().trim_end_matches('/').to_owned();
        if let Some(endpoint) = ENDPOINTS.iter().find(|end| path.ends_with(**end)) {
            return Err(error(Reason::Endpoint(endpoint)));
        }
        base.set_path(&path);
        Ok(Address {
            base,
            api_version: None,
            deployments: false,
        })
    }

    /// Parses the address of one endpoint, which is used verbatim.
    ///
    /// # Errors
    /// It has no scheme or one other than http and https, contains credentials, or is not a URL.
    pub fn endpoint(text: &str) -> Result<Address, Error> {
        let text = text.trim();
        let error = |reason| Error {
            shown: redacted_url(text),
            reason,
        };
        if !text.contains("://") {
            return Err(error(Reason::NoScheme));
        }
        let base =
            Url::parse(text).map_err(|problem| error(Reason::Malformed(problem.to_string())))?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(error(Reason::Scheme(base.scheme().to_owned())));
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(error(Reason::Credentials));
        }
        Ok(Address {
            base,
            api_version: None,
            deployments: false,
        })
    }

    /// The URL of a request: `path` is the dialect's, with a leading slash, and may have a query. A
    /// version in both base and path (`/v1`) is not repeated.
    pub(crate) fn url(&self, model: &str, path: &str) -> Url {
        let (path, query) = match path.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (path, None),
        };
        let mut url = self.base.clone();
        if self.deployments
            && last_segment(&url) != "v1"
            && let Ok(mut segments) = url.path_segments_mut()
        {
            segments.pop_if_empty().push("openai");
            if !path.starts_with("/responses") {
                segments.extend(["deployments", model]);
            }
        }
        let path = path
            .strip_prefix('/')
            .and_then(|path| path.strip_prefix(last_segment(&url)))
            .filter(|rest| is_version(last_segment(&url)) && rest.starts_with('/'))
            .unwrap_or(path);
        let base = url.path().trim_end_matches('/').to_owned();
        url.set_path(&format!("{base}{path}"));
        url.set_query(query);
        if let Some(version) = &self.api_version {
            url.query_pairs_mut().append_pair("api-version", version);
        }
        url
    }

    /// The URL of a path next to OpenAI's API, which is usually below `/v1`.
    pub(crate) fn sibling_url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        let base = url.path().trim_end_matches('/');
        let base = base.strip_suffix("/v1").unwrap_or(base);
        let path = format!("{base}{path}");
        url.set_path(&path);
        url
    }

    /// The whole URL, for the address of one endpoint.
    pub(crate) fn full_url(&self) -> Url {
        self.base.clone()
    }

    /// Whether requests are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.base.scheme() == "https"
    }

    /// Whether the host is this machine.
    pub fn is_loopback(&self) -> bool {
        let Some(host) = self.base.host_str() else {
            return false;
        };
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        host.eq_ignore_ascii_case("localhost")
            || host.ends_with(".localhost")
            || bare
                .parse::<std::net::IpAddr>()
                .is_ok_and(|ip| ip.is_loopback())
    }

    /// Scheme, host and port, for errors.
    pub fn origin(&self) -> String {
        self.base.origin().ascii_serialization()
    }
}

/// The last segment of a URL's path; empty without one.
fn last_segment(url: &Url) -> &str {
    let path = url.path().trim_end_matches('/');
    path.rsplit_once('/').map_or("", |(_, last)| last)
}

/// Whether a segment is a version, such as `v1beta`.
fn is_version(segment: &str) -> bool {
    let rest = segment.strip_prefix('v');
    rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

/// The base URL.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.base.as_str().trim_end_matches('/'))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NoScheme => f.write_str("has no scheme; write http://… or https://…"),
            Reason::Scheme(scheme) => {
                write!(f, "has the scheme `{scheme}`; it must be http or https")
            }
            Reason::Malformed(problem) => write!(f, "cannot be read: {problem}"),
            Reason::Credentials => f.write_str(
                "contains a user or password; remove it and set a key or a header instead",
            ),
            Reason::QueryOrFragment => {
                f.write_str("has a query or fragment (`?` or `#`); it must end before that")
            }
            Reason::Endpoint(endpoint) => {
                write!(
                    f,
                    "ends in `{endpoint}`, which is added to it; leave that out"
                )
            }
        }
    }
}

/// The text without a possible user, password, or secret in a query.
fn redacted_url(text: &str) -> String {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    match (text.find("://"), text.rfind('@')) {
        (Some(scheme), Some(at)) if scheme < at => {
            format!("{}://[redacted]{}", &text[..scheme], &text[at..])
        }
        (None, Some(at)) => format!("[redacted]{}", &text[at..]),
        _ => text.to_owned(),
    }
}
