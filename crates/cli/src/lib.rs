//! The unisono binary, and what an author of a custom agent needs.
