//! The common parts of the API description (OpenAPI 3.1): unique operation ids, possible problems,
//! formats of ids, and authentication.
//!
//! A route describes only its own responses. Common problems are added here, to the routes for
//! which [`Route::can_be_answered`] permits them.

mod parameters;

use std::collections::{BTreeMap, BTreeSet};

use unisono_api::openai::Failure;
use unisono_api::{Code, Problem};
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::{ArrayItems, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    Components, Content, Info, License, ObjectBuilder, OpenApi, OpenApiBuilder, Ref, RefOr,
    Response, Schema, Server,
};
use utoipa::{PartialSchema, ToSchema};
use utoipa_axum::router::OpenApiRouter;

use super::{openai, scopes};

/// The authentication scheme.
const TOKEN: &str = "token";
/// The same of a trigger.
const TRIGGER: &str = "trigger";
const PROBLEM_JSON: &str = "application/problem+json";
const JSON: &str = "application/json";

/// The description before any route.
pub(super) fn blank() -> OpenApi {
    let mut license = License::new("MIT OR Apache-2.0");
    license.identifier = Some("MIT OR Apache-2.0".to_owned());
    let mut info = Info::new("unisono", env!("CARGO_PKG_VERSION"));
    info.license = Some(license);
    info.description = Some(
        "Sessions, their compacted contexts, and the agents that work on them. A request that is \
         not carried out is answered with a problem (RFC 9457) whose `code` is stable."
            .to_owned(),
    );
    let mut server = Server::new("/");
    server.description = Some("The daemon that gives this description".to_owned());
    OpenApiBuilder::new()
        .info(info)
        .servers(Some([server]))
        .security(Some([SecurityRequirement::new::<_, [&str; 0], _>(
            TOKEN,
            [],
        )]))
        .build()
}

/// Puts a resource's name before the ids of its operations.
pub(super) fn named<S: Clone + Send + Sync + 'static>(
    resource: &str,
    mut routes: OpenApiRouter<S>,
) -> OpenApiRouter<S> {
    for item in routes.get_openapi_mut().paths.paths.values_mut() {
        for (_, operation) in operations(item) {
            let own = operation.operation_id.take().unwrap_or_default();
            operation.operation_id = Some(format!("{resource}_{own}"));
        }
    }
    routes
}

/// Adds the common parts to every route.
pub(super) fn complete(api: &mut OpenApi) {
    for (path, item) in &mut api.paths.paths {
        for (method, operation) in operations(item) {
            let route = Route::new(path, method, operation);
            for code in Code::ALL
                .into_iter()
                .filter(|code| route.can_be_answered(*code))
            {
                let at = Ref::from_response_name(route.response_name(code.status()));
                let responses = &mut operation.responses.responses;
                responses.insert(code.status().to_string(), RefOr::Ref(at));
            }
            operation.responses.responses.remove("default");
            if route.is_open {
                operation.security = Some(Vec::new());
            } else if let Some(scope) = scopes::listed(&method.to_uppercase(), path) {
                let needed = SecurityRequirement::new(TOKEN, [scope.name()]);
                operation.security = Some(vec![needed]);
            }
            for parameter in operation.parameters.iter_mut().flatten() {
                if let RefOr::T(parameter) = parameter {
                    parameters::describe(parameter, path);
                }
            }
        }
    }
    let components = api.components.get_or_insert_default();
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(
            "The daemon's token, or a token with at least the scope of the route: read, ask, \
             approve, admin",
        ))
        .build();
    components.add_security_scheme(TOKEN, SecurityScheme::Http(bearer));
    let secret = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(
            "The secret of the trigger itself, or a signature made with it",
        ))
        .build();
    components.add_security_scheme(TRIGGER, SecurityScheme::Http(secret));
    add_responses(components);
    refer_to_items(components);
}

/// Replaces the copied schema of list items by a reference.
fn refer_to_items(components: &mut Components) {
    let known: BTreeSet<String> = components.schemas.keys().cloned().collect();
    for (name, schema) in &mut components.schemas {
        let item = name
            .strip_prefix("Page_")
            .filter(|item| known.contains(*item));
        if let (Some(item), RefOr::T(Schema::Object(page))) = (item, schema)
            && let Some(RefOr::T(Schema::Array(items))) = page.properties.get_mut("items")
        {
            items.items = ArrayItems::RefOrSchema(Box::new(Ref::from_schema_name(item).into()));
        }
    }
}

/// The operations of a path, with their methods.
fn operations(item: &mut PathItem) -> impl Iterator<Item = (&'static str, &mut Operation)> {
    let all = [
        ("get", &mut item.get),
        ("put", &mut item.put),
        ("post", &mut item.post),
        ("patch", &mut item.patch),
        ("delete", &mut item.delete),
    ];
    all.into_iter()
        .filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

/// The properties of a route that determine its possible problems.
struct Route {
    changes: bool,
    has_body: bool,
    has_input: bool,
    has_place: bool,
    is_keyed: bool,
    /// Whether the route needs no token.
    is_open: bool,
    /// Whether the route is answered under any load.
    is_health: bool,
    is_openai: bool,
}

impl Route {
    fn new(path: &str, method: &str, operation: &Operation) -> Route {
        let is_health = super::guard::OPEN.contains(&path);
        let mut keyed = operation.parameters.iter().flatten();
        Route {
            changes: method != "get",
            has_body: operation.request_body.is_some(),
            has_input: operation.request_body.is_some() || operation.parameters.is_some(),
            has_place: path.contains('{'),
            is_keyed: keyed.any(
                |parameter| matches!(parameter, RefOr::T(own) if own.name == "Idempotency-Key"),
            ),
            is_open: is_health || path.starts_with("/problems/"),
            is_health,
            is_openai: path.starts_with(openai::BASE),
        }
    }

    /// Whether a request to it can be answered with that problem.
    fn can_be_answered(&self, code: Code) -> bool {
        match code {
            // The guard's: the host, the origin.
            Code::InvalidRequest | Code::Forbidden => true,
            Code::Unauthorized => !self.is_open,
            // A branch or a model that a parameter or a body names, too.
            Code::NotFound => self.has_place || self.has_input,
            // Of an address, not of an operation.
            Code::MethodNotAllowed => false,
            Code::Conflict => self.changes && !self.is_open,
            Code::TooLarge | Code::UnsupportedMediaType => self.has_body,
            Code::Refused => self.has_input && !self.is_open,
            Code::KeyReused => self.is_keyed,
            // A turn whose end the request waits for.
            Code::BudgetExceeded | Code::ProviderRejected | Code::DiskFull => {
                self.changes && !self.is_open
            }
            Code::Busy => !self.is_health,
            Code::Failed => !self.is_open,
            Code::Unavailable => true,
        }
    }

    fn response_name(&self, status: u16) -> String {
        response_name(status, self.is_openai)
    }
}

fn response_name(status: u16, is_openai: bool) -> String {
    let shape = if is_openai { "Failure" } else { "Problem" };
    format!("{shape}{status}")
}

/// Every answer that says why not, in both shapes.
fn add_responses(components: &mut Components) {
    let mut titles: BTreeMap<u16, Vec<&'static str>> = BTreeMap::new();
    for code in Code::ALL
        .into_iter()
        .filter(|code| *code != Code::MethodNotAllowed)
    {
        titles.entry(code.status()).or_default().push(code.title());
    }
    for (name, schema) in [
        (Problem::name(), Problem::schema()),
        (Failure::name(), Failure::schema()),
    ] {
        components.schemas.insert(name.into_owned(), schema);
    }
    let mut nested = Vec::new();
    Problem::schemas(&mut nested);
    Failure::schemas(&mut nested);
    components.schemas.extend(nested);
    for (status, titles) in titles {
        for is_openai in [false, true] {
            let name = response_name(status, is_openai);
            let response = response(status, &titles.join("; or: "), is_openai);
            components.responses.insert(name, RefOr::T(response));
        }
    }
}

fn response(status: u16, title: &str, is_openai: bool) -> Response {
    let (kind, schema) = match is_openai {
        true => (JSON, Failure::name()),
        false => (PROBLEM_JSON, Problem::name()),
    };
    let content = Content::new(Some(Ref::from_schema_name(schema)));
    let header = |about: &str, kind: Type| {
        let schema = ObjectBuilder::new().schema_type(kind).build();
        HeaderBuilder::new()
            .schema(Some(Schema::Object(schema)))
            .description(Some(about))
            .build()
    };
    let response = ResponseBuilder::new()
        .description(title)
        .content(kind, content);
    match status {
        401 => response.header("WWW-Authenticate", header("`Bearer`", Type::String)),
        429 | 503 => response.header(
            "Retry-After",
            header(
                "seconds after which it is worth asking again",
                Type::Integer,
            ),
        ),
        _ => response,
    }
    .build()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    fn described() -> Value {
        serde_json::from_str(&crate::http::description()).unwrap()
    }

    /// Every operation with its path.
    fn operations(described: &Value) -> Vec<(String, &Value)> {
        let mut all = Vec::new();
        for (path, methods) in described["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                all.push((format!("{method} {path}"), operation));
            }
        }
        all
    }

    #[test]
    fn no_two_operations_have_one_id() {
        let described = described();
        let mut seen = BTreeSet::new();
        for (route, operation) in operations(&described) {
            let id = operation["operationId"].as_str().unwrap();
            assert!(seen.insert(id), "{route} has the id of another: {id}");
            assert!(
                id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'),
                "{id}"
            );
        }
        assert!(seen.contains("sessions_list") && seen.contains("turns_create"));
    }

    #[test]
    fn every_operation_says_how_it_is_refused_and_in_which_shape() {
        let described = described();
        assert_eq!(described["security"][0]["token"], serde_json::json!([]));
        assert!(described["servers"][0]["url"].is_string());
        for (route, operation) in operations(&described) {
            let responses = operation["responses"].as_object().unwrap();
            assert!(!responses.contains_key("default"), "{route}");
            for status in ["400", "403", "503"] {
                let at = responses[status]["$ref"].as_str().unwrap();
                let response = described.pointer(at.trim_start_matches('#')).unwrap();
                let shape = match route.contains("/openai/") {
                    true => "application/json",
                    false => "application/problem+json",
                };
                assert!(
                    response["content"][shape]["schema"]["$ref"].is_string(),
                    "{route}"
                );
            }
            let open = ["/healthz", "/readyz", "/problems/"]
                .iter()
                .any(|path| route.contains(path));
            assert_eq!(responses.contains_key("401"), !open, "{route}");
            assert_eq!(
                operation["security"] == serde_json::json!([]),
                open,
                "{route}"
            );
            let scope = &operation["security"][0]["token"][0];
            let has_scope = !open && !route.contains("/v1/triggers/");
            assert_eq!(scope.is_string(), has_scope, "{route}");
        }
    }

    #[test]
    fn an_export_has_the_formats_that_are_written() {
        let described = described();
        let export = &described["paths"]["/v1/sessions/{session}/export"]["get"];
        let mut parameters = export["parameters"].as_array().unwrap().iter();
        let format = parameters.find(|one| one["name"] == "format").unwrap();
        let written = serde_json::json!(["unisono", "openai", "sharegpt", "anthropic"]);
        assert_eq!(format["schema"]["enum"], written);
    }

    #[test]
    fn ids_in_paths_have_a_format_or_a_length() {
        let described = described();
        for (route, operation) in operations(&described) {
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                if parameter["in"] == "path" {
                    let schema = &parameter["schema"];
                    let bounds = ["format", "pattern", "minLength", "enum"];
                    let is_bounded = bounds.iter().any(|bound| !schema[*bound].is_null());
                    assert!(is_bounded, "{route}: {}", parameter["name"]);
                }
            }
        }
    }
}
