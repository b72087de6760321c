//! Where a configuration comes from: the embedded store, a declarative file, or etcd. It refuses to know what the
//! objects mean; that is the model's.

pub mod etcd;
pub mod file;
pub mod store;
