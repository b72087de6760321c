//! Security schemes of a document as plugins that authenticate. A scheme without a plugin is a fault: an
//! operation that asks for credentials is never open.

use std::collections::BTreeMap;

use contract::document::pointer_step;
use contract::operation::SchemeUse;
use contract::{ContractDocument, ContractOperation, DocumentFault};
use serde_json::{Value, json};

use crate::resource::{Plugin, Plugins};

/// The plugin that lets a request pass if one of several others does.
const EITHER_PLUGIN: &str = "multi-auth";
/// The plugin that can ask for scopes.
const SCOPES_PLUGIN: &str = "openid-connect";

/// The plugins that check what an operation asks of a caller. `written` has those of the contract object, by
/// the names of schemes.
///
/// # Errors
/// No plugin can check it.
pub(super) fn security_plugins(
    document: &ContractDocument,
    operation: &ContractOperation<'_>,
    written: &BTreeMap<Box<str>, Plugins>,
) -> Result<Vec<Plugin>, DocumentFault> {
    let fault = |reason: String| document.fault(&format!("{}/security", operation.place), reason);
    let mut alternatives: Vec<Vec<Plugin>> = Vec::new();
    for requirement in &operation.security {
        let mut all: Vec<Plugin> = Vec::new();
        for scheme in requirement {
            let Some(plugin) = plugin_of(document, scheme, written).map_err(fault)? else { continue };
            if all.iter().any(|other| other.name == plugin.name) {
                let reason = format!(
                    "two schemes of one requirement are checked by plugin {}; write `auth` for the operation",
                    plugin.name
                );
                return Err(fault(reason));
            }
            all.push(plugin);
        }
        alternatives.push(all);
    }
    match alternatives.as_mut_slice() {
        [] => Ok(Vec::new()),
        [all] => Ok(std::mem::take(all)),
        several if several.iter().all(Vec::is_empty) => Ok(Vec::new()),
        several if several.iter().any(|all| all.len() != 1) => Err(fault(
            "of several requirements each has to name one scheme that a plugin checks; write the plugins as `auth` of \
             the operation, or as `x-weir-auth`"
                .to_owned(),
        )),
        several => {
            let each: Vec<Value> =
                several.iter().flatten().map(|plugin| json!({ &*plugin.name: plugin.config })).collect();
            Ok(vec![Plugin { name: EITHER_PLUGIN.into(), config: json!({ "auth_plugins": each }) }])
        }
    }
}

/// The plugin of a scheme; none where the contract says that nodes check it.
fn plugin_of(
    document: &ContractDocument,
    scheme: &SchemeUse<'_>,
    written: &BTreeMap<Box<str>, Plugins>,
) -> Result<Option<Plugin>, String> {
    let name = scheme.name;
    let place = format!("/components/securitySchemes/{}", pointer_step(name));
    let at = document.value.pointer(&place).ok_or_else(|| {
        format!("the document has no security scheme {name:?}; it belongs to components/securitySchemes")
    })?;
    let (found, _) = document.resolve(at, &place).map_err(|fault| fault.to_string())?;
    let mut plugin = match written.get(name) {
        Some(plugins) => match plugins.iter().next() {
            Some(plugin) => plugin.clone(),
            None => return Ok(None),
        },
        None => implied_plugin(name, found)?,
    };
    if !scheme.scopes.is_empty() {
        if &*plugin.name != SCOPES_PLUGIN {
            return Err(format!(
                "plugin {} cannot ask for the scopes of scheme {name:?}; write `security: {{{name}: {{{SCOPES_PLUGIN}: {{...}}}}}}`",
                plugin.name
            ));
        }
        plugin.config["required_scopes"] = json!(scheme.scopes);
    }
    Ok(Some(plugin))
}

/// The plugin of a scheme by its type.
fn implied_plugin(name: &str, scheme: &Value) -> Result<Plugin, String> {
    let text = |field: &str| scheme.get(field).and_then(Value::as_str).unwrap_or_default();
    let plugin = |plugin: &str, config: Value| Ok(Plugin { name: plugin.into(), config });
    match (text("type"), text("in"), text("scheme").to_ascii_lowercase().as_str()) {
        ("apiKey", "header", _) if !text("name").is_empty() => {
            plugin("key-auth", json!({ "header": text("name") }))
        }
        ("apiKey", "query", _) if !text("name").is_empty() => {
            plugin("key-auth", json!({ "query": text("name") }))
        }
        ("http", _, "basic") => plugin("basic-auth", json!({})),
        ("http", _, "bearer") => plugin("jwt-auth", json!({})),
        (kind, place, detail) => {
            let detail = [place, detail].into_iter().find(|detail| !detail.is_empty()).unwrap_or_default();
            Err(format!(
                "no plugin is known for security scheme {name:?} ({}); write the one that checks it, \
                 `security: {{{name}: {{PLUGIN: {{...}}}}}}`, or `security: {{{name}: {{}}}}` where the nodes check it",
                format!("{kind} {detail}").trim()
            ))
        }
    }
}
