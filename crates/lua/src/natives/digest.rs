//! Digests, authentication codes and random bytes.

use aws_lc_rs::{constant_time, digest, hmac};
use mlua::{Lua, LuaString, Table};

use super::charge;

/// Bytes of a digest for which one step is charged: it takes about as long as one instruction of the
/// interpreter.
const BYTES_PER_STEP: usize = 64;
/// Random bytes of one call.
const RANDOM_BYTES_MAX: usize = 4_096;

pub(super) fn install_digests(lua: &Lua, native: &Table) -> mlua::Result<()> {
    let digest = lua.create_function(|lua, (name, data): (String, LuaString)| {
        let data = data.as_bytes();
        charge(lua, (data.len() / BYTES_PER_STEP) as u64)?;
        let algorithm = algorithm(&name)?;
        lua.create_string(digest::digest(algorithm, &data))
    })?;
    native.raw_set("digest", digest)?;
    let code = lua.create_function(|lua, (name, key, data): (String, LuaString, LuaString)| {
        let data = data.as_bytes();
        charge(lua, (data.len() / BYTES_PER_STEP) as u64)?;
        let key = hmac::Key::new(keyed_algorithm(&name)?, &key.as_bytes());
        lua.create_string(hmac::sign(&key, &data))
    })?;
    native.raw_set("hmac", code)?;
    let equal = lua.create_function(|_, (left, right): (LuaString, LuaString)| {
        Ok(constant_time::verify_slices_are_equal(&left.as_bytes(), &right.as_bytes()).is_ok())
    })?;
    native.raw_set("equal", equal)?;
    let random = lua.create_function(|lua, count: usize| {
        if count > RANDOM_BYTES_MAX {
            return Err(mlua::Error::runtime(format!("at most {RANDOM_BYTES_MAX} random bytes at once")));
        }
        let mut bytes = vec![0; count];
        aws_lc_rs::rand::fill(&mut bytes).map_err(|_| mlua::Error::runtime("no random bytes"))?;
        lua.create_string(bytes)
    })?;
    native.raw_set("random", random)
}

fn algorithm(name: &str) -> mlua::Result<&'static digest::Algorithm> {
    Ok(match name {
        "sha1" => &digest::SHA1_FOR_LEGACY_USE_ONLY,
        "sha224" => &digest::SHA224,
        "sha256" => &digest::SHA256,
        "sha384" => &digest::SHA384,
        "sha512" => &digest::SHA512,
        _ => return Err(unknown(name)),
    })
}

fn keyed_algorithm(name: &str) -> mlua::Result<hmac::Algorithm> {
    Ok(match name {
        "sha1" => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        "sha224" => hmac::HMAC_SHA224,
        "sha256" => hmac::HMAC_SHA256,
        "sha384" => hmac::HMAC_SHA384,
        "sha512" => hmac::HMAC_SHA512,
        _ => return Err(unknown(name)),
    })
}

fn unknown(name: &str) -> mlua::Error {
    mlua::Error::runtime(format!("not available in Weir: the digest `{name}`"))
}
