//! Compresses responses for clients that accept it.
//!
//! A page or a resource is complete before it is sent, so it is compressed as a whole. Three
//! kinds are not compressed: bodies of unknown length (event streams), long ones, and content whose
//! format is compressed already.

use std::io::Write as _;

use axum::body::{Body, HttpBody as _, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;

/// Shorter responses are not compressed, in bytes.
const MIN_BYTES: u64 = 1024;
/// Longer ones are not, because compressing them would hold up other responses.
const MAX_BYTES: u64 = 2 << 20;
/// Between fast and small: twice as fast as the usual level, and hardly larger.
const LEVEL: u32 = 4;

/// Compresses a long response if the client accepts gzip.
pub async fn compress(request: Request, next: Next) -> Response {
    let taken = takes_gzip(request.headers());
    let mut response = next.run(request).await;
    let vary = HeaderValue::from_static("accept-encoding");
    response.headers_mut().insert(header::VARY, vary);
    let large = (MIN_BYTES..=MAX_BYTES).contains(&response.body().size_hint().lower());
    let encoded = response.headers().contains_key(header::CONTENT_ENCODING);
    if !taken || !large || encoded || is_compressed(response.headers()) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(bytes) = to_bytes(body, usize::MAX).await else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let Some(smaller) = gzip(&bytes) else {
        return Response::from_parts(parts, Body::from(bytes));
    };
    parts.headers.remove(header::CONTENT_LENGTH);
    let gzip = HeaderValue::from_static("gzip");
    parts.headers.insert(header::CONTENT_ENCODING, gzip);
    Response::from_parts(parts, Body::from(smaller))
}

/// Whether the content is compressed by its own format.
fn is_compressed(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_image = kind.starts_with("image/") && !kind.starts_with("image/svg");
    is_image || kind == "application/pdf"
}

fn gzip(bytes: &[u8]) -> Option<Vec<u8>> {
    let room = Vec::with_capacity(bytes.len() / 4);
    let mut encoder = GzEncoder::new(room, Compression::new(LEVEL));
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok()
}

/// Whether `Accept-Encoding` accepts gzip with a weight above 0.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter();
    let codings = values.filter_map(|value| value.to_str().ok());
    codings.flat_map(|value| value.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, "q=1"));
        let weight = weight.trim().trim_start_matches("q=").parse::<f32>();
        name.trim().eq_ignore_ascii_case("gzip") && weight.is_ok_and(|weight| weight > 0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn only_those_who_take_gzip_are_sent_it() {
        for (said, taken) in [
            ("gzip, deflate, br, zstd", true),
            ("br;q=1.0, GZIP;q=0.8", true),
            ("gzip;q=0", false),
            ("gzip; q=0.0", false),
            ("br", false),
            ("*;q=0", false),
            ("gzip;q=much", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, said.parse().unwrap());
            assert_eq!(takes_gzip(&headers), taken, "{said}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }

    #[test]
    fn what_is_compressed_is_the_same_again() {
        let text = "The move is on Friday. ".repeat(1000);
        let small = gzip(text.as_bytes()).unwrap();
        assert!(small.len() < text.len() / 10);
        let mut again = String::new();
        flate2::read::GzDecoder::new(&small[..])
            .read_to_string(&mut again)
            .unwrap();
        assert_eq!(again, text);
    }
}
