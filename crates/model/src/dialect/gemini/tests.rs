//! Tests of the Gemini dialect.
