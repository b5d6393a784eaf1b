//! Ranks that are processes.
