//! Describes parameters by name: a name has the same meaning at every route.

use serde_json::Value;
use unisono::conversation::{format_names, written_format_names};
use unisono_session::trace::RunStatus;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::openapi::schema::{SchemaFormat, SchemaType, Type};
use utoipa::openapi::{Content, Object, ObjectBuilder, RefOr, Schema};

/// A number from 1, or a UUID.
const NUMBER_OR_ID: &str = "^([1-9][0-9]{0,8}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$";
const DIGEST: &str = "^[0-9a-f]{64}$";
/// ASCII without spaces.
const KEY: &str = "^[!-~]+$";

/// A name, and perhaps a value.
const LABEL: &str = r"^\s*[^\s=]";

/// Adds the allowed values of a parameter of a route.
pub(super) fn describe(parameter: &mut Parameter, path: &str) {
    if parameter.name == "settings" {
        // JSON in an address.
        let object = ObjectBuilder::new().schema_type(Type::Object).build();
        parameter.schema = None;
        let content = RefOr::T(Content::new(Some(Schema::Object(object))));
        parameter.content = [("application/json".to_owned(), content)].into();
        return;
    }
    let Some(RefOr::T(Schema::Object(schema))) = &mut parameter.schema else {
        return;
    };
    not_null(schema);
    match parameter.name.as_str() {
        "session" | "turn" | "run" | "against" | "call" | "X-Unisono-Session" => {
            schema.format = Some(SchemaFormat::Custom("uuid".to_owned()));
        }
        "number" | "message" => schema.pattern = Some(NUMBER_OR_ID.to_owned()),
        "snapshot" => schema.pattern = Some(DIGEST.to_owned()),
        "state" => {
            let names = RunStatus::ALL.map(|status| status.name().into());
            schema.enum_values = Some(names.to_vec());
        }
        "format" => schema.enum_values = Some(formats(path)),
        "Idempotency-Key" => {
            (schema.min_length, schema.max_length) = (Some(1), Some(255));
            schema.pattern = Some(KEY.to_owned());
        }
        // Without words the newest messages of a session are found.
        "q" if path.starts_with("/v1/sessions/") => {}
        "cursor" | "agent" | "lead" | "name" | "q" => schema.min_length = Some(1),
        "label" => schema.pattern = Some(LABEL.to_owned()),
        _ if parameter.parameter_in == ParameterIn::Path => schema.min_length = Some(1),
        _ => {}
    }
}

/// The names of the formats that a route reads, or writes.
fn formats(path: &str) -> Vec<Value> {
    match path.ends_with("/export") {
        true => written_format_names().map(Value::from).collect(),
        false => format_names().map(Value::from).collect(),
    }
}

/// Removes `null` from a schema: an omitted parameter is absent, not null.
fn not_null(schema: &mut Object) {
    if let SchemaType::Array(kinds) = &mut schema.schema_type {
        kinds.retain(|kind| *kind != Type::Null);
        if let [kind] = &kinds[..] {
            schema.schema_type = SchemaType::Type(kind.clone());
        }
    }
}
