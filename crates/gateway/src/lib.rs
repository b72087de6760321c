//! (opened by its first tenant)
