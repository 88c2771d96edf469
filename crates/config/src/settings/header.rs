//! Headers in settings. Their values may be secrets: a value is shown only if it comes from the
//! environment (`Bearer ${TOKEN}`), and then as written.

use unisono_model::provider::Header;
use unisono_runtime::agent::template::Template;

use super::Variables;

/// The fault of a header. Does not contain its value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HeaderFault {
    /// A variable of its value is not set.
    #[error(
        "header `{name}` takes its value from the variable {variable}, which is not set; set it, or \
         remove the header"
    )]
    Unset { name: String, variable: String },
    /// It cannot be sent.
    #[error("{0}")]
    Invalid(String),
}

/// The header, with the values of its variables.
///
/// # Errors
/// It cannot be sent, or a variable is not set.
pub(crate) fn read(name: &str, value: &str, variables: &Variables) -> Result<Header, HeaderFault> {
    let invalid = |wrong: String| HeaderFault::Invalid(format!("header `{name}`: {wrong}"));
    let template = Template::parse(value).map_err(invalid)?;
    let filled = template.fill(|variable| variables.text(variable));
    let value = filled.map_err(|variable| HeaderFault::Unset {
        name: name.to_owned(),
        variable,
    })?;
    Header::new(name, &value).map_err(|error| HeaderFault::Invalid(error.to_string()))
}

/// Whether a setting is a header whose value must not be shown.
pub(super) fn is_hidden(path: &[String], value: &str) -> bool {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let header = matches!(path[..], ["providers" | "mcp" | "hooks", _, "headers", _]);
    let taken = Template::parse(value).is_ok_and(|template| template.variables().next().is_some());
    header && !taken
}
