//! Style, scripts and the icon. Their address contains a digest of their content, so browsers cache
//! them without a time limit.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

const START: &str = "/static/";

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Name, type and content of each.
const FILES: [(&str, &str, &str); 11] = [
    (
        "page.css",
        "text/css; charset=utf-8",
        include_str!("../assets/page.css"),
    ),
    ("calls.js", SCRIPT, include_str!("../assets/calls.js")),
    ("live.js", SCRIPT, include_str!("../assets/live.js")),
    ("morph.js", SCRIPT, include_str!("../assets/morph.js")),
    ("harmless.js", SCRIPT, include_str!("../assets/harmless.js")),
    ("unsent.js", SCRIPT, include_str!("../assets/unsent.js")),
    ("keys.js", SCRIPT, include_str!("../assets/keys.js")),
    ("files.js", SCRIPT, include_str!("../assets/files.js")),
    ("drop.js", SCRIPT, include_str!("../assets/drop.js")),
    ("dialog.js", SCRIPT, include_str!("../assets/dialog.js")),
    (
        "icon.svg",
        "image/svg+xml",
        include_str!("../assets/icon.svg"),
    ),
];

/// A digest of all assets: scripts import each other by relative paths.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut hasher = DefaultHasher::new();
    FILES.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
});

/// Whether a path is an asset. Assets need no login.
pub fn is_asset(path: &str) -> bool {
    path.starts_with(START)
}

pub(crate) fn href(file: &str) -> String {
    format!("{START}{}/{file}", *VERSION)
}

/// An asset. It is not cacheable under the address of another version.
pub(crate) async fn show(Path((version, file)): Path<(String, String)>) -> Response {
    let Some((_, kind, text)) = FILES.iter().find(|(name, ..)| *name == file) else {
        return (StatusCode::NOT_FOUND, "the page has no such part").into_response();
    };
    let keep = match version == *VERSION {
        true => "public, max-age=31536000, immutable",
        false => "no-cache",
    };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CACHE_CONTROL, HeaderValue::from_static(keep)),
    ];
    (headers, *text).into_response()
}
