//! Doors into private parts for the benchmarks. Not part of the public interface.

pub mod arena;
