//! Finds the source of modules for `require`: those that are part of Weir, then the files of the folders of
//! the setting `extra_lua_path`, which were read at the start.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::RwLock;

use mlua::chunk::ChunkMode;
use mlua::{IntoLuaMulti, Lua, LuaString, Table, Value};

use super::limits::{MODULES_DEPTH_MAX, MODULES_MAX, MODULES_MAX_BYTES};
use crate::json::Json;
use crate::script::SOURCE_MAX_BYTES;
use crate::{describe, modules};

/// The modules of files, by name.
static FILES: RwLock<BTreeMap<String, Box<[u8]>>> = RwLock::new(BTreeMap::new());

/// Reads the modules `NAME.lua` and `NAME/init.lua` below `folder`, in place of those of the same names that
/// were read before. A module `a/b.lua` is required as `a.b`.
///
/// # Errors
/// A file that cannot be read, or a limit, as a sentence.
pub fn read_modules(folder: &Path) -> Result<usize, String> {
    let mut found = BTreeMap::new();
    let mut bytes = 0;
    read_folder(folder, "", 0, &mut bytes, &mut found)?;
    let count = found.len();
    let mut files = FILES.write().unwrap_or_else(std::sync::PoisonError::into_inner);
    files.extend(found);
    if files.len() > MODULES_MAX {
        return Err(format!("{}: there are more than {MODULES_MAX} modules", folder.display()));
    }
    Ok(count)
}

fn read_folder(
    folder: &Path,
    prefix: &str,
    depth: usize,
    bytes: &mut usize,
    found: &mut BTreeMap<String, Box<[u8]>>,
) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    if depth > MODULES_DEPTH_MAX {
        return Err(format!("{}: more than {MODULES_DEPTH_MAX} folders inside each other", folder.display()));
    }
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()) else { continue };
        if path.is_dir() {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or(stem);
            read_folder(&path, &format!("{prefix}{name}."), depth + 1, bytes, found)?;
        } else if path.extension().is_some_and(|extension| extension == "lua") {
            let text = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            *bytes += text.len();
            if text.len() > SOURCE_MAX_BYTES || *bytes > MODULES_MAX_BYTES || found.len() >= MODULES_MAX {
                return Err(format!(
                    "{}: modules have at most {SOURCE_MAX_BYTES} bytes each, {MODULES_MAX_BYTES} in all, and there are \
                     at most {MODULES_MAX}",
                    path.display()
                ));
            }
            let name = match stem {
                "init" if !prefix.is_empty() => prefix.trim_end_matches('.').to_owned(),
                _ => format!("{prefix}{stem}"),
            };
            found.insert(name, text.into());
        }
    }
    Ok(())
}

/// Adds the functions that `require` and `load` are made of.
pub(super) fn install_require(lua: &Lua, native: &Table, _: &Json) -> mlua::Result<()> {
    let find = lua.create_function(|lua, (name, globals): (LuaString, Table)| {
        let name = name.to_string_lossy();
        match modules::source(&name) {
            Some(source) => {
                compile(lua, source.as_bytes(), &format!("={name}"), globals).map(Value::Function)
            }
            None => Ok(Value::Nil),
        }
    })?;
    native.raw_set("find_own_module", find)?;
    let is_own = |_: &Lua, name: LuaString| Ok(modules::source(&name.to_string_lossy()).is_some());
    native.raw_set("is_own_module", lua.create_function(is_own)?)?;
    let find = lua.create_function(|lua, (name, globals): (LuaString, Table)| {
        let files = FILES.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        match files.get(&*name.to_string_lossy()) {
            Some(source) => {
                compile(lua, source, &format!("@{}", name.to_string_lossy()), globals).map(Value::Function)
            }
            None => Ok(Value::Nil),
        }
    })?;
    native.raw_set("find_file", find)?;
    let is_file = |_: &Lua, name: LuaString| {
        let files = FILES.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok(files.contains_key(&*name.to_string_lossy()))
    };
    native.raw_set("is_file", lua.create_function(is_file)?)?;
    native.raw_set("missing_module", lua.create_function(|_, name: String| Ok(modules::missing(&name)))?)?;
    let load = lua.create_function(|lua, (text, name, globals): (LuaString, Option<String>, Table)| {
        let text = text.as_bytes();
        if text.len() > SOURCE_MAX_BYTES {
            return (Value::Nil, format!("the text is longer than {SOURCE_MAX_BYTES} bytes"))
                .into_lua_multi(lua);
        }
        let name = name.unwrap_or_else(|| "=load".to_owned());
        match compile(lua, &text, &name, globals) {
            Ok(function) => function.into_lua_multi(lua),
            Err(error) => (Value::Nil, describe(&error)).into_lua_multi(lua),
        }
    })?;
    native.raw_set("load_text", load)
}

fn compile(lua: &Lua, source: &[u8], name: &str, globals: Table) -> mlua::Result<mlua::Function> {
    lua.load(source).set_name(name).set_mode(ChunkMode::Text).set_environment(globals).into_function()
}
