//! Functions of Rust that the embedded modules call. The chunk of a module gets its name and the table of
//! these functions: `local _, native = ...`. They know no request.

mod codec;
mod digest;
mod host;
mod network;
mod schema;
mod signature;

use std::rc::Rc;

use mlua::{IntoLuaMulti, Lua, MultiValue, Table, Value};

pub use host::Host;
pub(crate) use schema::schema_json;

/// Charges steps to the call in progress. The runtime puts one into the application data of its interpreter,
/// so that functions of Rust which do much work for one instruction count.
pub struct Charge(Rc<dyn Fn(u64) -> mlua::Result<()>>);

impl Charge {
    /// Charges through `charge`.
    pub fn new(charge: impl Fn(u64) -> mlua::Result<()> + 'static) -> Charge {
        Charge(Rc::new(charge))
    }
}

/// Charges `steps` to the call in progress; free where the interpreter has no [`Charge`].
///
/// # Errors
/// The call has exceeded a limit.
fn charge(lua: &Lua, steps: u64) -> mlua::Result<()> {
    let charge = lua.app_data_ref::<Charge>().map(|charge| charge.0.clone());
    charge.map_or(Ok(()), |charge| charge(steps))
}

/// Adds the functions to `native`.
///
/// # Errors
/// There is no memory for them.
pub fn install_natives(lua: &Lua, native: &Table) -> mlua::Result<()> {
    codec::install_codecs(lua, native)?;
    digest::install_digests(lua, native)?;
    host::install_host_facts(lua, native)?;
    network::install_networks(lua, native)?;
    schema::install_schemas(lua, native)?;
    signature::install_signatures(lua, native)?;
    // Copies of objects of the library have their methods, and scripts do not see the metatables.
    let copy = lua.create_function(|_, (from, to): (Table, Table)| to.set_metatable(from.metatable()))?;
    native.raw_set("copy_metatable", copy)?;
    lua.load(include_str!("natives/support.lua")).set_name("=support").call(native)
}

/// The two results of Lua functions that can fail: the value, or nothing and the reason.
fn result<T: mlua::IntoLua>(lua: &Lua, result: Result<T, String>) -> mlua::Result<MultiValue> {
    match result {
        Ok(value) => value.into_lua(lua)?.into_lua_multi(lua),
        Err(reason) => (Value::Nil, reason).into_lua_multi(lua),
    }
}
