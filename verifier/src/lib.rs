//! Judges completions: library and the rapid-verifier service.
