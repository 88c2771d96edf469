//! The properties of a model according to the user's own server: its window, and the number of
//! caches. Pure: the documents are those that [`Client::served`](crate::client::Client::served)
//! received.
//!
//! | server | query | window |
//! |---|---|---|
//! | vLLM and others | `GET /v1/models` | `max_model_len` of the model |
//! | llama.cpp | `GET /props` | `default_generation_settings.n_ctx`, that of a slot |
//! | Ollama | `POST /api/show`, `GET /api/ps` | `num_ctx` of its parameters, else what is loaded |

use serde_json::Value;
use unisono_context::Tokens;

/// Windows that are believed.
const WINDOWS: std::ops::RangeInclusive<u64> = 256..=100_000_000;
/// Keys of a model in a list of models that hold its window, the first one first.
const LISTED: [&str; 4] = [
    "/max_model_len",
    "/meta/n_ctx",
    "/loaded_context_length",
    "/context_length",
];

/// What is known of a model where it is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Its window as it is served, which may be less than the model could have.
    pub window: Option<Tokens>,
    /// Requests that the server works on at once, each with a cache of its own that no other
    /// request reads from; none: not known to be so.
    pub slots: Option<u32>,
}

/// The documents that a server answered with; none where it has no such thing.
#[derive(Clone, Debug, Default)]
pub struct Documents {
    /// Of `GET /v1/models`.
    pub models: Option<Value>,
    /// Of llama.cpp's `GET /props`.
    pub props: Option<Value>,
    /// Of Ollama's `POST /api/show`.
    pub show: Option<Value>,
    /// Of Ollama's `GET /api/ps`.
    pub loaded: Option<Value>,
}

impl Documents {
    /// What they say of a model of that name.
    pub fn read(&self, model: &str) -> Served {
        let slot = self.props.as_ref().and_then(|props| {
            let window = window(props.pointer("/default_generation_settings/n_ctx"));
            Some((window, props.get("total_slots")?.as_u64()?))
        });
        let (of_slot, slots) = slot.unzip();
        let listed = || listed(self.models.as_ref()?, model);
        let set = || set(self.show.as_ref()?);
        let loaded = || loaded(self.loaded.as_ref()?, model);
        Served {
            window: of_slot
                .flatten()
                .or_else(listed)
                .or_else(set)
                .or_else(loaded),
            slots: slots.and_then(|slots| u32::try_from(slots).ok()),
        }
    }
}

/// Of a list of models that of the one of that name, or of the only one there is.
fn listed(models: &Value, model: &str) -> Option<Tokens> {
    let all = models.get("data")?.as_array()?;
    let named = all.iter().find(|one| one["id"] == model);
    let one = named.or(match &all[..] {
        [only] => Some(only),
        _ => None,
    })?;
    LISTED.iter().find_map(|key| window(one.pointer(key)))
}

/// What the parameters of a model set: lines of a name and a value.
fn set(show: &Value) -> Option<Tokens> {
    let lines = show.get("parameters")?.as_str()?.lines();
    let mut words = lines.map(str::split_whitespace);
    let value = words.find_map(|mut line| (line.next()? == "num_ctx").then(|| line.next())?);
    believed(value?.parse().ok()?)
}

/// What a model was loaded with.
fn loaded(models: &Value, model: &str) -> Option<Tokens> {
    let all = models.get("models")?.as_array()?;
    let latest = format!("{model}:latest");
    let named = |one: &&Value| one["name"] == model || one["name"] == latest.as_str();
    window(all.iter().find(named)?.get("context_length"))
}

fn window(value: Option<&Value>) -> Option<Tokens> {
    believed(value?.as_u64()?)
}

fn believed(tokens: u64) -> Option<Tokens> {
    WINDOWS.contains(&tokens).then_some(Tokens(tokens))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(documents: &Documents) -> (Option<u64>, Option<u32>) {
        let served = documents.read("mine");
        (served.window.map(|window| window.0), served.slots)
    }

    #[test]
    fn each_server_tells_it_in_its_own_way() {
        let models = |data: Value| Documents {
            models: Some(json!({"object": "list", "data": data})),
            ..Documents::default()
        };
        let cases = [
            (
                models(json!([{"id": "mine", "max_model_len": 32_768}])),
                Some(32_768),
            ),
            (
                models(
                    json!([{"id": "x", "max_model_len": 1_000}, {"id": "mine", "meta": {"n_ctx": 8_192}}]),
                ),
                Some(8_192),
            ),
            (
                models(json!([{"id": "/models/mine.gguf", "meta": {"n_ctx": 4_096}}])),
                Some(4_096),
            ),
            (
                models(
                    json!([{"id": "x", "max_model_len": 1_000}, {"id": "y", "max_model_len": 2_000}]),
                ),
                None,
            ),
            (models(json!([{"id": "mine", "object": "model"}])), None),
            // Nothing that is believed.
            (models(json!([{"id": "mine", "max_model_len": 0}])), None),
            (
                models(json!([{"id": "mine", "max_model_len": "many"}])),
                None,
            ),
            (models(json!("no list")), None),
        ];
        for (documents, window) in cases {
            assert_eq!(read(&documents), (window, None), "{documents:?}");
        }
    }

    #[test]
    fn a_slot_of_llama_cpp_has_its_part_and_a_cache_of_its_own() {
        let documents = Documents {
            models: Some(json!({"data": [{"id": "mine", "meta": {"n_ctx": 32_768}}]})),
            props: Some(json!({"total_slots": 4, "default_generation_settings": {"n_ctx": 8_192}})),
            ..Documents::default()
        };
        assert_eq!(read(&documents), (Some(8_192), Some(4)));
        // Of another server that has such a page.
        let other = Documents {
            props: Some(json!({"default_generation_settings": {"n_ctx": 8_192}})),
            ..Documents::default()
        };
        assert_eq!(read(&other), (None, None));
    }

    #[test]
    fn ollama_tells_what_is_set_and_else_what_is_loaded() {
        let show = json!({"parameters": "stop \"<|im_end|>\"\nnum_ctx                        16384",
                          "model_info": {"qwen3.context_length": 40_960}});
        let loaded = json!({"models": [{"name": "other", "context_length": 1_024},
                                       {"name": "mine:latest", "context_length": 4_096}]});
        let documents = Documents {
            show: Some(show),
            loaded: Some(loaded.clone()),
            ..Documents::default()
        };
        assert_eq!(read(&documents), (Some(16_384), None));
        let documents = Documents {
            show: Some(json!({"model_info": {"qwen3.context_length": 40_960}})),
            loaded: Some(loaded),
            ..Documents::default()
        };
        // What it could have is not what it is served with.
        assert_eq!(read(&documents), (Some(4_096), None));
    }
}
