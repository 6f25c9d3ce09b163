//! End to end, wire conformance, attacks on the sandboxes, the architecture's invariants.
