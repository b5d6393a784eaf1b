//! Groups that do not form, or fail later.
