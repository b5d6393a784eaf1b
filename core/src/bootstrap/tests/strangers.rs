//! Connections that are not ours.
