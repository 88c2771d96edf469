//! Actors that carry out what a session decides: supervisor, session, compactor, tokenizer, agent pools and workers.
