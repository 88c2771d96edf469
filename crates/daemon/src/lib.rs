//! Configuration, agent definitions, transcripts and the wiring of a running daemon.
