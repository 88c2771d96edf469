//! How much a schema asks of a check: its parts with all references replaced by their targets.
//!
//! Schemas come from clients and tool servers. A short one whose parts refer to the next one twice, 30
//! times in a row, takes a billion steps, and as many errors in memory.

use serde_json::{Map, Value};

/// The maximum number of schemas in an expansion.
const MAX_PARTS: u32 = 20_000;
/// The maximum number of levels of an expansion.
const MAX_DEPTH: usize = 256;
/// The maximum number of references that are not JSON pointers into the schema: they are not followed.
const MAX_NAMED: u32 = 16;
/// The maximum number of errors that are collected.
const MAX_ERRORS: u64 = 200_000;

/// The size of a schema with its references. A reference within its own target is not followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Expansion {
    /// The number of schemas.
    parts: u32,
    /// The number of levels.
    depth: usize,
    /// The number of references that may lead back to a schema around them.
    cycles: u32,
}

impl Expansion {
    /// The expansion of a schema.
    ///
    /// # Errors
    /// It is too large to be checked, or it has schemas with an address of their own.
    pub(super) fn new(schema: &Value) -> Result<Expansion, String> {
        let dialect = schema.get("$schema").and_then(Value::as_str);
        let mut walk = Walk {
            schema,
            has_old_ids: dialect.is_some_and(|dialect| dialect.contains("draft-04")),
            path: vec!["#"],
            named: 0,
            of_definitions: 0,
            found: Expansion::default(),
        };
        walk.value(schema, 1)?;
        // What a pointer reaches there is counted at the reference, too; a name is not followed.
        if walk.named == 0 {
            walk.found.cycles -= walk.of_definitions;
        }
        Ok(walk.found)
    }

    /// The maximum number of levels that a check of this value has on its stack.
    pub(super) fn levels_for(&self, value: &Value) -> usize {
        match self.cycles {
            0 => self.depth,
            _ => self.depth.saturating_mul(extent(value).1),
        }
    }

    /// Whether the errors of this value can be collected.
    pub(super) fn has_few_errors_for(&self, value: &Value) -> bool {
        let (values, depth) = extent(value);
        let branches = u64::from(self.cycles.max(1));
        let repeated = branches.saturating_pow(u32::try_from(depth).unwrap_or(u32::MAX));
        let most = u64::from(self.parts).saturating_mul(values);
        most.saturating_mul(repeated) <= MAX_ERRORS
    }
}

/// The number of values in a value, itself included, and of their levels.
fn extent(value: &Value) -> (u64, usize) {
    let children: Vec<(u64, usize)> = match value {
        Value::Object(members) => members.values().map(extent).collect(),
        Value::Array(items) => items.iter().map(extent).collect(),
        _ => Vec::new(),
    };
    let values = children.iter().map(|(values, _)| values).sum::<u64>();
    let depth = children.iter().map(|(_, depth)| *depth).max();
    (values + 1, depth.unwrap_or_default() + 1)
}

struct Walk<'s> {
    schema: &'s Value,
    /// Whether `id` is the address of a schema.
    has_old_ids: bool,
    /// The references that are being followed.
    path: Vec<&'s str>,
    named: u32,
    /// The cycles that were counted in the definitions.
    of_definitions: u32,
    found: Expansion,
}

impl<'s> Walk<'s> {
    fn value(&mut self, value: &'s Value, depth: usize) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err(format!("it has more than {MAX_DEPTH} levels"));
        }
        self.found.depth = self.found.depth.max(depth);
        match value {
            Value::Object(members) => self.object(members, depth),
            Value::Array(items) => {
                let mut items = items.iter();
                items.try_for_each(|item| self.value(item, depth + 1))
            }
            _ => Ok(()),
        }
    }

    fn object(&mut self, members: &'s Map<String, Value>, depth: usize) -> Result<(), String> {
        self.found.parts += 1;
        if self.found.parts > MAX_PARTS {
            return Err(format!(
                "it has more than {MAX_PARTS} parts with the targets of its references"
            ));
        }
        let text = |key: &str| members.get(key).and_then(Value::as_str);
        // An id such as `#name` is a name within the same address.
        let is_address = |key: &str| text(key).is_some_and(|id| !id.starts_with('#'));
        let has_address = is_address("$id") || self.has_old_ids && is_address("id");
        if depth > 1 && (has_address || text("$schema").is_some()) {
            return Err("a schema in it has an address of its own".to_owned());
        }
        if let Some(target) = text("$ref") {
            self.reference(target, depth)?;
        }
        for key in ["$dynamicRef", "$recursiveRef"] {
            if text(key).is_some() {
                self.named()?;
            }
        }
        for (key, member) in members {
            let before = self.found.cycles;
            self.value(member, depth + 1)?;
            if depth == 1 && matches!(&**key, "$defs" | "definitions") {
                self.of_definitions += self.found.cycles - before;
            }
        }
        Ok(())
    }

    fn reference(&mut self, target: &'s str, depth: usize) -> Result<(), String> {
        if self.path.contains(&target) {
            self.found.cycles += 1;
            return Ok(());
        }
        let schema = self.schema;
        let pointer = target.strip_prefix('#').and_then(decoded);
        match pointer.and_then(|pointer| schema.pointer(&pointer)) {
            Some(found) => {
                self.path.push(target);
                self.value(found, depth + 1)?;
                self.path.pop();
                Ok(())
            }
            None => self.named(),
        }
    }

    /// A reference by name may lead anywhere.
    fn named(&mut self) -> Result<(), String> {
        self.named += 1;
        self.found.cycles += 1;
        match self.named > MAX_NAMED {
            true => Err(format!("it has more than {MAX_NAMED} references by name")),
            false => Ok(()),
        }
    }
}

/// A pointer as it is in an address: `%3C` is `<`.
fn decoded(pointer: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(pointer.len()), pointer.as_bytes());
    while let [byte, after @ ..] = rest {
        let hex = after.get(..2).filter(|_| *byte == b'%');
        let hex = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(hex.unwrap_or(*byte));
        rest = &after[if hex.is_some() { 2 } else { 0 }..];
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A chain of schemas, each with two references to the next one.
    fn doubling(length: usize, reference: impl Fn(usize) -> String) -> Value {
        let mut schemas = Map::new();
        for at in 0..length {
            let next = json!({"$ref": reference(at + 1)});
            let mut schema = json!({"allOf": [next, next]});
            schema["$anchor"] = format!("d{at}").into();
            schemas.insert(format!("d{at}"), schema);
        }
        let last = json!({"type": "string", "$anchor": format!("d{length}")});
        schemas.insert(format!("d{length}"), last);
        json!({"$defs": schemas, "$ref": reference(0)})
    }

    #[test]
    fn a_schema_whose_references_multiply_is_refused() {
        let pointer = |at: usize| format!("#/$defs/d{at}");
        Expansion::new(&doubling(5, pointer)).unwrap();
        let chain: Map<String, Value> = (0..300)
            .map(|at| (format!("d{at}"), json!({"$ref": pointer(at + 1)})))
            .collect();
        let parts: Vec<Value> = (0..30).map(|at| json!({"$ref": pointer(at)})).collect();
        let meshed: Map<String, Value> = (0..30)
            .map(|at| (format!("d{at}"), json!({"anyOf": parts})))
            .collect();
        for (schema, says) in rows! {
            (doubling(30, pointer), "more than 20000 parts"),
            (doubling(30, |at| format!("#d{at}")), "more than 16 references"),
            (json!({"$defs": chain}), "more than 256 levels"),
            (json!({"$defs": meshed}), "more than 20000 parts"),
            (json!({"items": {"$id": "https://example.com/a"}}), "an address of its own"),
        } {
            let refused = Expansion::new(&schema).unwrap_err();
            assert!(refused.contains(says), "{refused}");
        }
        let named = json!({"properties": {"$id": {"type": "string"}, "$ref": {}}});
        assert_eq!(Expansion::new(&named).unwrap().cycles, 0);
    }

    #[test]
    fn the_usual_forms_of_references_are_followed() {
        let row = json!({"$id": "#row", "type": "object"});
        let encoded = json!({"$ref": "#/definitions/Partial%3CRow%3E"});
        let columns = vec![encoded; 20];
        let schema = json!({"definitions": {"Partial<Row>": row}, "allOf": columns});
        assert_eq!(Expansion::new(&schema).unwrap().cycles, 0);
        let node = json!({"items": {"$ref": "#/$defs/node"}});
        let schema =
            json!({"properties": {"root": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}});
        assert_eq!(Expansion::new(&schema).unwrap().cycles, 1);
    }

    #[test]
    fn the_check_of_a_recursive_schema_grows_with_the_depth_of_the_value() {
        let mut nested = json!("leaf");
        for _ in 0..100 {
            nested = json!([nested]);
        }
        let schema = json!({"anyOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}]});
        let expansion = Expansion::new(&schema).unwrap();
        assert_eq!(expansion.cycles, 2);
        assert!(!expansion.has_few_errors_for(&nested));
        assert!(expansion.has_few_errors_for(&json!([["leaf"]])));
        assert_eq!(expansion.levels_for(&nested), expansion.depth * 101);
        assert_eq!(expansion.levels_for(&json!(["leaf"])), expansion.depth * 2);
        let flat = Expansion::new(&json!({"items": {"type": "string"}})).unwrap();
        assert_eq!(flat.levels_for(&nested), flat.depth);
    }
}
