//! Where a configuration comes from: the embedded store or a declarative file. It refuses to know what the
//! objects mean; that is the model's.

pub mod file;
pub mod store;
