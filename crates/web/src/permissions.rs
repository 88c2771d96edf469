//! What a viewer may not do is said where the control would be.
//!
//! Pages are rendered without the viewer. This goes through the finished page: in place of a form that
//! the viewer may not send stands the reason, and a link to a page that the viewer may not open is text.

use std::fmt;
use std::sync::Arc;

use axum::http::Method;
use unisono_api::token::Scope;

/// The person who looks at the page.
#[derive(Clone)]
pub struct Viewer {
    /// The name, if known.
    pub name: Option<Arc<str>>,
    /// The viewer's rights.
    pub scope: Scope,
    /// Whether a logout ends the viewer's access: a person whom a proxy names has no login.
    pub logs_out: bool,
    /// The scope that a route needs, by its method and path; none for an unknown route.
    pub needed: fn(&Method, &str) -> Option<Scope>,
}

impl fmt::Debug for Viewer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Viewer")
            .field("name", &self.name)
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}

impl Viewer {
    /// The scope that the viewer lacks for an address of the page.
    fn lacks(&self, method: &Method, address: &str) -> Option<Scope> {
        let path = address.split(['?', '#']).next().unwrap_or_default();
        let needed = (self.needed)(method, path)?;
        (needed > self.scope).then_some(needed)
    }

    /// A finished page, with the forms and links that the viewer may use.
    pub(crate) fn allow(&self, page: &str) -> String {
        let mut allowed = String::with_capacity(page.len());
        let mut rest = page;
        while let Some(at) = next_control(rest) {
            allowed.push_str(&rest[..at]);
            rest = &rest[at..];
            let Some(end) = rest.find('>') else { break };
            let (tag, after) = rest.split_at(end + 1);
            let (end_tag, lacks) = match tag.starts_with("<a ") {
                true => ("</a>", self.lacks_link(tag)),
                false => ("</form>", self.lacks_form(tag)),
            };
            match (lacks, after.find(end_tag)) {
                (Some(needs), Some(end)) => {
                    let (inner, after) = after.split_at(end);
                    allowed.push_str(&self.instead(tag, inner, needs));
                    rest = &after[end_tag.len()..];
                }
                _ => {
                    allowed.push_str(tag);
                    rest = after;
                }
            }
        }
        allowed.push_str(rest);
        allowed
    }

    fn lacks_form(&self, tag: &str) -> Option<Scope> {
        let method = match attribute(tag, "method") {
            Some("post") => Method::POST,
            _ => Method::GET,
        };
        self.lacks(&method, attribute(tag, "action")?)
    }

    fn lacks_link(&self, tag: &str) -> Option<Scope> {
        let address = attribute(tag, "href")?;
        let is_local = address.starts_with('/') && !address.starts_with("//");
        is_local
            .then(|| self.lacks(&Method::GET, address))
            .flatten()
    }

    /// What stands for a control that the viewer may not use: its words, and the reason. Maud escapes
    /// `>` in attributes, so a tag ends at the first one.
    fn instead(&self, tag: &str, inner: &str, needs: Scope) -> String {
        let why = format!("this needs the scope {needs}; yours is {}", self.scope);
        if tag.starts_with("<a ") {
            return format!(
                "<span class=\"quiet\" data-lacks=\"{needs}\" title=\"{why}\">{inner}</span>"
            );
        }
        let says = button(inner);
        format!("<p class=\"lacks quiet\" data-lacks=\"{needs}\">{says}: {why}.</p>")
    }
}

/// The words of the first button of a form, escaped as they are.
fn button(form: &str) -> String {
    let text = form.split_once("<button").and_then(|(_, rest)| {
        let (_, rest) = rest.split_once('>')?;
        rest.split_once("</button>").map(|(text, _)| text)
    });
    let mut is_tag = false;
    let words = text.unwrap_or("This form").chars();
    let words = words.filter(|c| match c {
        '<' => {
            is_tag = true;
            false
        }
        '>' => {
            is_tag = false;
            false
        }
        _ => !is_tag,
    });
    words.collect()
}

/// The beginning of the next form or link.
fn next_control(page: &str) -> Option<usize> {
    let (form, link) = (page.find("<form "), page.find("<a "));
    match (form, link) {
        (Some(form), Some(link)) => Some(form.min(link)),
        (form, link) => form.or(link),
    }
}

fn attribute<'t>(tag: &'t str, name: &str) -> Option<&'t str> {
    let begin = format!(" {name}=\"");
    let (_, rest) = tag.split_once(&begin)?;
    rest.split_once('"').map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::HasAll as _;

    fn needed(method: &Method, path: &str) -> Option<Scope> {
        match (method.as_str(), path) {
            ("POST", "/approvals/c") => Some(Scope::Approve),
            ("POST", "/sessions/s/ask") => Some(Scope::Ask),
            ("GET", "/settings") => Some(Scope::Admin),
            ("GET", _) => Some(Scope::Read),
            _ => None,
        }
    }

    const PAGE: &str = "<a href=\"/\">Sessions</a> <a class=\"x\" href=\"/settings?q=1\">Settings</a>\
        <form method=\"get\" action=\"/\"><input></form>\
        <form method=\"post\" action=\"/approvals/c\"><button>Approve</button></form>\
        <form method=\"post\" action=\"/sessions/s/ask\"><button class=\"ask\">Ask <span>lead</span></button></form>";

    fn seen(scope: Scope) -> String {
        let viewer = Viewer {
            name: None,
            scope,
            logs_out: false,
            needed,
        };
        viewer.allow(PAGE)
    }

    #[test]
    fn in_place_of_a_control_that_would_fail_stands_the_reason() {
        assert_eq!(seen(Scope::Admin), PAGE);
        for (scope, disabled, links) in [
            (Scope::Read, 2, 1),
            (Scope::Ask, 1, 1),
            (Scope::Approve, 0, 1),
        ] {
            let page = seen(scope);
            assert_eq!(
                page.matches("<p class=\"lacks quiet\"").count(),
                disabled,
                "{page}"
            );
            assert_eq!(page.matches("<a ").count(), 2 - links, "{page}");
            page.has_all(&["data-lacks=\"admin\"", "Settings</span>"]);
        }
        let asks = seen(Scope::Ask);
        asks.has_all(&["Approve: this needs the scope approve; yours is ask."]);
        asks.has_all(&["<form method=\"post\" action=\"/sessions/s/ask\">"]);
        let reads = seen(Scope::Read);
        let asking = ">Ask lead: this needs the scope ask; yours is read.<";
        assert!(reads.contains(asking), "{reads}");
    }
}
