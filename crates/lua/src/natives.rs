//! Functions of Rust that modules call: the chunk of a module gets its name and the table of these functions.

use std::rc::Rc;
use std::sync::Arc;

use mlua::{Lua, Table};

/// Charges steps to the call in progress.
pub struct Charge(Rc<dyn Fn(u64) -> mlua::Result<()>>);

impl Charge {
    /// Charges through `charge`.
    pub fn new(charge: impl Fn(u64) -> mlua::Result<()> + 'static) -> Charge {
        Charge(Rc::new(charge))
    }
}

/// Facts of the process that modules show.
#[derive(Clone, Default)]
pub struct Host {
    /// The settings as modules see them.
    pub settings: Arc<serde_json::Value>,
    /// The identity of the instance.
    pub instance_id: Option<Arc<str>>,
}

/// Adds the functions to `native`.
///
/// # Errors
/// There is no memory for them.
pub fn install(lua: &Lua, native: &Table) -> mlua::Result<()> {
    if let Some(charge) = lua.app_data_ref::<Charge>() {
        charge.0(0)?;
    }
    native.raw_set("metadata", lua.create_table()?)
}
