//! The cookies that log browsers in.
//!
//! A browser sends the cookies of a host to all of its ports. The name of a cookie therefore has the port:
//! with one name for all, a login at one daemon would replace the login at another daemon of the same host.

use axum::http::{HeaderMap, header};

/// The beginning of the name; the port follows.
const NAME: &str = "unisono";
const ATTRIBUTES: &str = "Path=/; HttpOnly; SameSite=Strict";

/// A cookie of a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LoginCookie<'r> {
    pub(super) name: &'r str,
    pub(super) secret: &'r str,
}

/// The cookies of all daemons of the host, the one with the port of the request first. Other programs of the
/// host may have set cookies too, of any bytes.
pub(super) fn from_headers(headers: &HeaderMap) -> Vec<LoginCookie<'_>> {
    let lines = headers.get_all(header::COOKIE).iter();
    let pairs = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b';'));
    let found = pairs.filter_map(|pair| {
        let (name, secret) = std::str::from_utf8(pair).ok()?.trim().split_once('=')?;
        let rest = name.strip_prefix(NAME)?;
        (rest.is_empty() || rest.starts_with('-')).then_some(LoginCookie { name, secret })
    });
    let mut found: Vec<LoginCookie<'_>> = found.collect();
    let own = name_for(headers);
    found.sort_by_key(|cookie| cookie.name != own);
    found
}

/// The cookie name for the address of a request.
pub(super) fn name_for(headers: &HeaderMap) -> String {
    let host = headers.get(header::HOST);
    let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
    let port = host.rsplit_once(':').map_or("", |(_, port)| port);
    match port.parse::<u16>() {
        Ok(port) => format!("{NAME}-{port}"),
        Err(_) => NAME.to_owned(),
    }
}

/// The header value that sets a cookie until the browser is closed. With TLS the browser never sends it
/// without TLS.
pub(super) fn set(name: &str, secret: &str, has_tls: bool) -> String {
    let secure = if has_tls { "; Secure" } else { "" };
    format!("{name}={secret}; {ATTRIBUTES}{secure}")
}

/// The header value that removes a cookie.
pub(super) fn removed(name: &str) -> String {
    format!("{name}=; {ATTRIBUTES}; Max-Age=0")
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(host: &'static str, cookies: &'static [u8]) -> HeaderMap {
        let host = (header::HOST, HeaderValue::from_static(host));
        let cookies = HeaderValue::from_bytes(cookies).unwrap();
        [host, (header::COOKIE, cookies)].into_iter().collect()
    }

    #[test]
    fn the_cookie_of_the_own_port_is_first_and_other_programs_hide_none() {
        let all = b"unisono-7008=b; theme=\xff\xe9; unisono-7007=a; unisonous=x; unisono=c";
        for (host, secrets) in [
            ("127.0.0.1:7007", ["a", "b", "c"]),
            ("localhost:7008", ["b", "a", "c"]),
            ("unisono.example", ["c", "b", "a"]),
            ("[::1]", ["c", "b", "a"]),
        ] {
            let headers = headers(host, all);
            let found = from_headers(&headers).into_iter();
            let found: Vec<&str> = found.map(|cookie| cookie.secret).collect();
            assert_eq!(found, secrets, "{host}");
        }
        assert!(from_headers(&headers("localhost", b"a=b; unisono")).is_empty());
    }

    #[test]
    fn daemons_of_one_host_have_cookies_of_their_own() {
        for (host, name) in [
            ("127.0.0.1:7007", "unisono-7007"),
            ("[::1]:7008", "unisono-7008"),
            ("[::1]", "unisono"),
            ("unisono.example", "unisono"),
            ("unisono.example:x", "unisono"),
        ] {
            assert_eq!(name_for(&headers(host, b"")), name, "{host}");
        }
    }
}
