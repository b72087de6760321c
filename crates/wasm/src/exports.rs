//! The functions of a guest that the gateway calls. All but the memory are optional; one of another type is
//! refused.

use wasmtime::{Instance, Memory, Store, TypedFunc, WasmParams, WasmResults};

use crate::abi::AbiVersion;
use crate::host::Host;

type Func<P, R> = Option<TypedFunc<P, R>>;

/// A callback of a head: from ABI 0.2.0 on it is told whether a body follows.
#[derive(Clone)]
pub(crate) enum HeadCallback {
    Old(TypedFunc<(i32, i32), i32>),
    New(TypedFunc<(i32, i32, i32), i32>),
}

/// See the module.
#[derive(Clone)]
pub(crate) struct Exports {
    pub memory: Memory,
    pub allocate: Func<i32, i32>,
    pub initialize: Func<(), ()>,
    pub start: Func<(), ()>,
    pub main: Func<(i32, i32), i32>,
    pub on_context_create: Func<(i32, i32), ()>,
    pub on_vm_start: Func<(i32, i32), i32>,
    pub on_configure: Func<(i32, i32), i32>,
    pub on_tick: Func<i32, ()>,
    pub on_done: Func<i32, i32>,
    pub on_log: Func<i32, ()>,
    pub on_delete: Func<i32, ()>,
    pub on_request_headers: Option<HeadCallback>,
    pub on_request_body: Func<(i32, i32, i32), i32>,
    pub on_request_trailers: Func<(i32, i32), i32>,
    pub on_response_headers: Option<HeadCallback>,
    pub on_response_body: Func<(i32, i32, i32), i32>,
    pub on_response_trailers: Func<(i32, i32), i32>,
    pub on_new_connection: Func<i32, i32>,
    pub on_downstream_data: Func<(i32, i32, i32), i32>,
    pub on_downstream_close: Func<(i32, i32), ()>,
    pub on_http_call_response: Func<(i32, i32, i32, i32, i32), ()>,
    pub on_grpc_receive: Func<(i32, i32, i32), ()>,
    pub on_grpc_close: Func<(i32, i32, i32), ()>,
    pub on_queue_ready: Func<(i32, i32), ()>,
}

impl Exports {
    /// Whether it has a function that decides about sessions of layer 4.
    pub(crate) fn serves_sessions(&self) -> bool {
        self.on_new_connection.is_some() || self.on_downstream_data.is_some()
    }

    /// Whether it has a function for requests or responses.
    pub(crate) fn serves_requests(&self) -> bool {
        self.on_request_headers.is_some()
            || self.on_request_body.is_some()
            || self.on_response_headers.is_some()
            || self.on_response_body.is_some()
    }

    /// The functions of `instance`.
    ///
    /// # Errors
    /// The name of a missing memory, or of a function of another type.
    pub(crate) fn of(
        instance: &Instance,
        store: &mut Store<Host>,
        abi: AbiVersion,
    ) -> Result<Exports, String> {
        let memory = instance.get_memory(&mut *store, "memory").ok_or("it exports no memory")?;
        let allocate = match find(instance, store, "proxy_on_memory_allocate")? {
            None => find(instance, store, "malloc")?,
            found => found,
        };
        Ok(Exports {
            memory,
            allocate,
            initialize: find(instance, store, "_initialize")?,
            start: find(instance, store, "_start")?,
            main: find(instance, store, "main").unwrap_or_default(),
            on_context_create: find(instance, store, "proxy_on_context_create")?,
            on_vm_start: find(instance, store, "proxy_on_vm_start")?,
            on_configure: find(instance, store, "proxy_on_configure")?,
            on_tick: find(instance, store, "proxy_on_tick")?,
            on_done: find(instance, store, "proxy_on_done")?,
            on_log: find(instance, store, "proxy_on_log")?,
            on_delete: find(instance, store, "proxy_on_delete")?,
            on_request_headers: head(instance, store, "proxy_on_request_headers", abi)?,
            on_request_body: find(instance, store, "proxy_on_request_body")?,
            on_request_trailers: find(instance, store, "proxy_on_request_trailers")?,
            on_response_headers: head(instance, store, "proxy_on_response_headers", abi)?,
            on_response_body: find(instance, store, "proxy_on_response_body")?,
            on_response_trailers: find(instance, store, "proxy_on_response_trailers")?,
            on_new_connection: find(instance, store, "proxy_on_new_connection")?,
            on_downstream_data: find(instance, store, "proxy_on_downstream_data")?,
            on_downstream_close: find(instance, store, "proxy_on_downstream_connection_close")?,
            on_http_call_response: find(instance, store, "proxy_on_http_call_response")?,
            on_grpc_receive: find(instance, store, "proxy_on_grpc_receive")?,
            on_grpc_close: find(instance, store, "proxy_on_grpc_close")?,
            on_queue_ready: find(instance, store, "proxy_on_queue_ready")?,
        })
    }
}

fn find<P: WasmParams, R: WasmResults>(
    instance: &Instance,
    store: &mut Store<Host>,
    name: &str,
) -> Result<Func<P, R>, String> {
    let Some(function) = instance.get_func(&mut *store, name) else { return Ok(None) };
    match function.typed(&*store) {
        Ok(typed) => Ok(Some(typed)),
        Err(error) => Err(format!("its function {name} has another type: {error}")),
    }
}

fn head(
    instance: &Instance,
    store: &mut Store<Host>,
    name: &str,
    abi: AbiVersion,
) -> Result<Option<HeadCallback>, String> {
    Ok(if abi.tells_end_of_stream() {
        find(instance, store, name)?.map(HeadCallback::New)
    } else {
        find(instance, store, name)?.map(HeadCallback::Old)
    })
}
