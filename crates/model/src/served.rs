//! The properties of a model according to the user's own server: its window, and the number of
//! caches. Pure: [`Client::query_model`](crate::client::Client::query_model) receives the
//! documents.
//!
//! | server | query | window |
//! |---|---|---|
//! | vLLM and others | `GET /v1/models` | `max_model_len` of the model |
//! | llama.cpp | `GET /props` | `default_generation_settings.n_ctx`, that of a slot |
//! | Ollama | `POST /api/show`, `GET /api/ps` | `num_ctx` of its parameters, else what is loaded |

use serde_json::Value;
use unisono_context::Tokens;

/// The plausible windows.
const WINDOWS: std::ops::RangeInclusive<u64> = 256..=100_000_000;
/// The keys of the window in a list of models, in order of preference.
const LISTED: [&str; 4] = [
    "/max_model_len",
    "/meta/n_ctx",
    "/loaded_context_length",
    "/context_length",
];

/// The properties of a model on its server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServedModel {
    /// The configured window, which may be smaller than the model's.
    pub window: Option<Tokens>,
    /// The number of parallel requests on the server, each with a separate cache; `None` if
    /// unknown.
    pub slots: Option<u32>,
}

/// The documents of a server; `None` if it has no such endpoint.
#[derive(Clone, Debug, Default)]
pub struct ServerDocuments {
    /// Of `GET /v1/models`.
    pub models: Option<Value>,
    /// Of llama.cpp's `GET /props`.
    pub props: Option<Value>,
    /// Of Ollama's `POST /api/show`.
    pub show: Option<Value>,
    /// Of Ollama's `GET /api/ps`.
    pub loaded: Option<Value>,
}

impl ServerDocuments {
    /// The properties of a model in these documents.
    pub fn read(&self, model: &str) -> ServedModel {
        let slot = self.props.as_ref().and_then(|props| {
            let window = window(props.pointer("/default_generation_settings/n_ctx"));
            Some((window, props.get("total_slots")?.as_u64()?))
        });
        let (of_slot, slots) = slot.unzip();
        let listed = || listed_window(self.models.as_ref()?, model);
        let set = || parameter_window(self.show.as_ref()?);
        let loaded = || loaded_window(self.loaded.as_ref()?, model);
        ServedModel {
            window: of_slot
                .flatten()
                .or_else(listed)
                .or_else(set)
                .or_else(loaded),
            slots: slots.and_then(|slots| u32::try_from(slots).ok()),
        }
    }
}

/// The window in a list of models: of the model with this name, or of the file with it, as
/// llama.cpp lists models.
fn listed_window(models: &Value, model: &str) -> Option<Tokens> {
    let all = models.get("data")?.as_array()?;
    let named = all.iter().find(|one| one["id"] == model);
    let in_file = |one: &&Value| one["id"].as_str().is_some_and(|id| file_stem(id) == model);
    let one = named.or_else(|| all.iter().find(in_file))?;
    LISTED.iter().find_map(|key| window(one.pointer(key)))
}

/// The name of a model's file, without its directory and its ending.
fn file_stem(path: &str) -> &str {
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    name.strip_suffix(".gguf").unwrap_or(name)
}

/// The window in the parameters of a model: lines with a name and a value.
fn parameter_window(show: &Value) -> Option<Tokens> {
    let lines = show.get("parameters")?.as_str()?.lines();
    let mut words = lines.map(str::split_whitespace);
    let value = words.find_map(|mut line| (line.next()? == "num_ctx").then(|| line.next())?);
    plausible_window(value?.parse().ok()?)
}

fn loaded_window(models: &Value, model: &str) -> Option<Tokens> {
    let all = models.get("models")?.as_array()?;
    let latest = format!("{model}:latest");
    let named = |one: &&Value| one["name"] == model || one["name"] == latest.as_str();
    window(all.iter().find(named)?.get("context_length"))
}

fn window(value: Option<&Value>) -> Option<Tokens> {
    plausible_window(value?.as_u64()?)
}

fn plausible_window(tokens: u64) -> Option<Tokens> {
    WINDOWS.contains(&tokens).then_some(Tokens(tokens))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(documents: &ServerDocuments) -> (Option<u64>, Option<u32>) {
        let served = documents.read("mine");
        (served.window.map(|window| window.0), served.slots)
    }

    #[test]
    fn windows_are_read_from_each_servers_documents() {
        let models = |data: Value| ServerDocuments {
            models: Some(json!({"object": "list", "data": data})),
            ..ServerDocuments::default()
        };
        let cases = rows! {
            (models(json!([{"id": "mine", "max_model_len": 32_768}])), Some(32_768)),
            (
                models(
                    json!([{"id": "x", "max_model_len": 1_000}, {"id": "mine", "meta": {"n_ctx": 8_192}}]),
                ),
                Some(8_192),
            ),
            (models(json!([{"id": "/models/mine.gguf", "meta": {"n_ctx": 4_096}}])), Some(4_096)),
            // The only one, and another model.
            (models(json!([{"id": "x", "max_model_len": 1_000}])), None),
            (models(json!([{"id": "mine", "object": "model"}])), None),
            // A value that is not plausible.
            (models(json!([{"id": "mine", "max_model_len": 0}])), None),
            (models(json!([{"id": "mine", "max_model_len": "many"}])), None),
            (models(json!("no list")), None),
        };
        for (documents, window) in cases {
            assert_eq!(read(&documents), (window, None), "{documents:?}");
        }
    }

    #[test]
    fn llama_cpp_reports_the_window_of_a_slot_and_the_slots() {
        let documents = ServerDocuments {
            models: Some(json!({"data": [{"id": "mine", "meta": {"n_ctx": 32_768}}]})),
            props: Some(json!({"total_slots": 4, "default_generation_settings": {"n_ctx": 8_192}})),
            ..ServerDocuments::default()
        };
        assert_eq!(read(&documents), (Some(8_192), Some(4)));
        // The page of another kind of server.
        let other = ServerDocuments {
            props: Some(json!({"default_generation_settings": {"n_ctx": 8_192}})),
            ..ServerDocuments::default()
        };
        assert_eq!(read(&other), (None, None));
    }

    #[test]
    fn ollama_reports_the_set_or_the_loaded_window() {
        let show = json!({"parameters": "stop \"<|im_end|>\"\nnum_ctx                        16384",
                          "model_info": {"qwen3.context_length": 40_960}});
        let loaded = json!({"models": [{"name": "other", "context_length": 1_024},
                                       {"name": "mine:latest", "context_length": 4_096}]});
        let documents = ServerDocuments {
            show: Some(show),
            loaded: Some(loaded.clone()),
            ..ServerDocuments::default()
        };
        assert_eq!(read(&documents), (Some(16_384), None));
        let documents = ServerDocuments {
            show: Some(json!({"model_info": {"qwen3.context_length": 40_960}})),
            loaded: Some(loaded),
            ..ServerDocuments::default()
        };
        // The model's maximum is not the window with which it is served.
        assert_eq!(read(&documents), (Some(4_096), None));
    }
}
