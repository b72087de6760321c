//! Addresses and networks, and the check of expressions over variables.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use mlua::{Lua, LuaString, Table, Value};
use router::CidrSet;
use router::vars::Expression;

use super::result;
use super::schema::to_json;

/// Networks of one matcher.
const NETWORKS_MAX: usize = 10_000;

pub(super) fn install_networks(lua: &Lua, native: &Table) -> mlua::Result<()> {
    let parse = lua.create_function(|lua, text: LuaString| {
        let text = text.to_string_lossy();
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok((Some(4), Value::Number(f64::from(address.to_bits()))));
        }
        let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(&text);
        if let Ok(address) = inner.parse::<Ipv6Addr>() {
            let bits = address.to_bits();
            let words = [96, 64, 32, 0].map(|shift| f64::from((bits >> shift) as u32));
            return Ok((Some(6), Value::Table(lua.create_sequence_from(words)?)));
        }
        Ok((None, Value::Nil))
    })?;
    native.raw_set("parse_ip", parse)?;
    let networks = lua.create_function(|lua, list: Table| {
        let entries: Vec<String> =
            list.sequence_values::<String>().take(NETWORKS_MAX + 1).collect::<mlua::Result<_>>()?;
        if entries.len() > NETWORKS_MAX {
            return result::<Value>(lua, Err(format!("more than {NETWORKS_MAX} networks")));
        }
        let set = match CidrSet::parse(&entries) {
            Ok(set) => set,
            Err(error) => return result::<Value>(lua, Err(format!("invalid ip address: {error}"))),
        };
        let contains = lua.create_function(move |_, text: LuaString| {
            let address = text.to_string_lossy().parse::<IpAddr>().ok();
            Ok(address.map(|address| set.contains(address)))
        })?;
        result(lua, Ok(contains))
    })?;
    native.raw_set("networks", networks)?;
    let check = lua.create_function(|lua, rule: Value| {
        let checked = to_json(&rule, None)
            .and_then(|rule| Expression::compile(&rule).map_err(|error| error.to_string()));
        result(lua, checked.map(|_| true))
    })?;
    native.raw_set("check_expression", check)
}
