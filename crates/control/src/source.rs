//! The sources of a configuration: the embedded store, a declarative file, or etcd. They do not know the
//! meaning of the objects; `model` does.

pub mod etcd;
pub mod file;
pub mod store;
