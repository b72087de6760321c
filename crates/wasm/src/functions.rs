//! The functions that guests import, by group. A name that is in none of these lists is refused when a module
//! is loaded.

mod buffers;
mod calls;
mod context;
mod log;
mod maps;
mod metrics;
mod properties;
mod shared;
mod wasi;

use wasmtime::{Error, Extern, ExternType, FuncType, Linker, Module, Store, Val, ValType};

use crate::abi::AbiStatus;
use crate::host::Host;

/// The module of the functions of proxy-wasm.
pub(crate) const ENV: &str = "env";
/// The modules of the functions of WASI; old compilers write the second.
pub(crate) const WASI: [&str; 2] = ["wasi_snapshot_preview1", "wasi_unstable"];

/// Functions of proxy-wasm that exist and always answer UNIMPLEMENTED, with their reason.
pub(crate) const REFUSED: [(&str, &str); 4] = [
    ("proxy_grpc_stream", "streams of gRPC have no end that a request could wait for"),
    ("proxy_grpc_send", "streams of gRPC have no end that a request could wait for"),
    ("proxy_resume_upstream", "bytes of nodes pass no guest"),
    ("proxy_get_pending_metrics", "it is in no version of the ABI that is served"),
];

/// `ENOSYS` of WASI.
const WASI_NOSYS: i32 = 52;

/// A linker with all functions that do something.
pub(crate) fn linker(engine: &wasmtime::Engine) -> Result<Linker<Host>, Error> {
    let mut linker = Linker::new(engine);
    buffers::add_buffer_functions(&mut linker)?;
    calls::add_call_functions(&mut linker)?;
    context::add_context_functions(&mut linker)?;
    log::add_log_functions(&mut linker)?;
    maps::add_map_functions(&mut linker)?;
    metrics::add_metric_functions(&mut linker)?;
    properties::add_property_functions(&mut linker)?;
    shared::add_shared_functions(&mut linker)?;
    wasi::add_wasi_functions(&mut linker)?;
    Ok(linker)
}

/// Checks the imports of `module`, and adds the functions among them that only refuse.
///
/// # Errors
/// The imports that nothing here has, all of them by name.
pub(crate) fn add_refusing(
    linker: &mut Linker<Host>,
    store: &mut Store<Host>,
    module: &Module,
) -> Result<(), String> {
    let mut unknown = Vec::new();
    for import in module.imports() {
        let (space, name) = (import.module(), import.name());
        let ExternType::Func(kind) = import.ty() else {
            unknown.push(format!("{space}.{name} (no function)"));
            continue;
        };
        let answer = if WASI.contains(&space) && wasi::REFUSED.contains(&name) {
            WASI_NOSYS
        } else if space == ENV && REFUSED.iter().any(|(refused, _)| *refused == name) {
            AbiStatus::Unimplemented as i32
        } else {
            // Whether it is there, and takes what the module passes, is seen when it is linked.
            match known(linker, store, space, name) {
                Some(own) if is_same(&own, &kind) => {}
                Some(own) => unknown.push(format!("{space}.{name} (it takes {})", signature(&own))),
                None => unknown.push(format!("{space}.{name}")),
            }
            continue;
        };
        if known(linker, store, space, name).is_some() {
            continue;
        }
        let gives_status = kind.results().len() == 1 && kind.results().all(|one| matches!(one, ValType::I32));
        if !gives_status {
            unknown.push(format!("{space}.{name} (it gives a number of 32 bits)"));
            continue;
        }
        let added = linker.func_new(space, name, kind, move |_, _, results| {
            results[0] = Val::I32(answer);
            Ok(())
        });
        added.map_err(|error| error.to_string())?;
    }
    if unknown.is_empty() {
        return Ok(());
    }
    Err(format!("it imports {}, which this host does not have", unknown.join(", ")))
}

fn known(linker: &Linker<Host>, store: &mut Store<Host>, space: &str, name: &str) -> Option<FuncType> {
    match linker.get(&mut *store, space, name) {
        Ok(Extern::Func(function)) => Some(function.ty(&*store)),
        _ => None,
    }
}

fn is_same(own: &FuncType, wanted: &FuncType) -> bool {
    signature(own) == signature(wanted)
}

fn signature(kind: &FuncType) -> String {
    let list = |types: &mut dyn Iterator<Item = ValType>| {
        types.map(|one| one.to_string()).collect::<Vec<_>>().join(", ")
    };
    format!("({}) -> ({})", list(&mut kind.params()), list(&mut kind.results()))
}
