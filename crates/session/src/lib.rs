//! The turn as a pure state machine: inputs in, journal events and effects out.
