//! A module that is compiled and linked: its version of the ABI, its imports and its exports are known to
//! fit.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wasmtime::{Engine, InstancePre, Module, Store};

use crate::abi::AbiVersion;
use crate::cache::CodeCache;
use crate::compile::compile;
use crate::engine::engine;
use crate::functions;
use crate::host::{Home, Host, Loan, PluginIdentity};
use crate::limits::MODULE_BYTES_MAX;
use crate::shared::SharedStore;
use crate::vm::Vm;

/// Why there is no code of `content`: it is no module, or the system does not let the process make code.
fn refusal(engine: &Engine, content: &[u8], error: &wasmtime::Error) -> String {
    let cause = error.root_cause();
    match Module::validate(engine, content) {
        Err(_) => format!("it is no valid module of WebAssembly: {cause}"),
        Ok(()) => format!(
            "its code cannot be made executable: {cause}; a unit of systemd with MemoryDenyWriteExecute=yes forbids this, and \
             the drop-in plugin-runner.conf of the package allows it"
        ),
    }
}

/// See the module.
pub(crate) struct CompiledModule {
    /// A number that no other module of the process has.
    pub number: u64,
    pub identity: Arc<PluginIdentity>,
    pub pre: InstancePre<Host>,
    pub has_request_body: bool,
    pub has_response_body: bool,
    /// It has functions for sessions of layer 4.
    pub has_sessions: bool,
    /// One of these is for first bytes.
    pub has_first_bytes: bool,
    /// It has functions for requests or responses.
    pub has_requests: bool,
}

impl CompiledModule {
    /// Compiles `content` for the plugin `name`, or takes its code from the cache.
    ///
    /// # Errors
    /// Why it is no guest for this host, a sentence.
    pub(crate) fn new(
        name: &'static str,
        content: &[u8],
        shared: &Arc<SharedStore>,
        cache: Option<&CodeCache>,
    ) -> Result<CompiledModule, String> {
        if content.len() > MODULE_BYTES_MAX {
            return Err(format!("the module has {} bytes; {MODULE_BYTES_MAX} are allowed", content.len()));
        }
        if !content.starts_with(b"\0asm") {
            return Err(
                "it is no module of WebAssembly: it does not begin with the bytes 00 61 73 6D".to_owned()
            );
        }
        let engine = engine()?;
        let module = match cache.and_then(|cache| cache.get(&engine, content)) {
            Some(module) => module,
            None => {
                let module = compile(&engine, content, refusal)?;
                if let Some(cache) = cache {
                    cache.put(content, &module);
                }
                module
            }
        };
        let abi = abi_of(&module)?;
        let identity =
            Arc::new(PluginIdentity { name, abi, shared: shared.clone(), data: shared.data(name) });
        let mut linker = functions::linker(&engine).map_err(|error| error.to_string())?;
        let mut store = Store::new(&engine, Host::new(identity.clone(), Default::default(), None));
        functions::add_refusing(&mut linker, &mut store, &module)?;
        let pre = linker.instantiate_pre(&module).map_err(|error| error.root_cause().to_string())?;
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let mut compiled = CompiledModule {
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            identity,
            pre,
            has_request_body: false,
            has_response_body: false,
            has_sessions: false,
            has_first_bytes: false,
            has_requests: false,
        };
        let vm = compiled.trial()?;
        compiled.has_request_body = vm.exports().on_request_body.is_some();
        compiled.has_sessions = vm.exports().serves_sessions();
        compiled.has_first_bytes = vm.exports().on_downstream_data.is_some();
        compiled.has_requests = vm.exports().serves_requests();
        compiled.has_response_body = vm.exports().on_response_body.is_some();
        Ok(compiled)
    }

    /// An instance that serves no request and reaches nothing: data, queues and metrics are its own.
    pub(crate) fn trial(&self) -> Result<Vm, String> {
        let shared = Arc::new(SharedStore::default());
        let identity = PluginIdentity {
            name: self.identity.name,
            abi: self.identity.abi,
            data: shared.data(self.identity.name),
            shared,
        };
        Vm::start(self, Host::new(Arc::new(identity), Default::default(), None))
            .map_err(|fault| format!("it cannot be started: {}", fault.text))
    }

    /// The state of an instance on a worker.
    pub(crate) fn host(&self, lent: Rc<Loan>, home: Home) -> Host {
        Host::new(self.identity.clone(), lent, Some(home))
    }
}

/// The newest version of the ABI that the module names.
fn abi_of(module: &Module) -> Result<AbiVersion, String> {
    let named = AbiVersion::ALL.iter().filter(|(export, _)| module.get_export(export).is_some());
    if let Some((_, version)) = named.max_by_key(|(_, version)| *version) {
        return Ok(*version);
    }
    let others: Vec<&str> = module
        .exports()
        .map(|export| export.name())
        .filter(|name| name.starts_with("proxy_abi_version_"))
        .collect();
    let served = "0.1.0, 0.2.0 and 0.2.1 are served";
    Err(if others.is_empty() {
        format!("it is no filter of proxy-wasm: it exports no proxy_abi_version_…; {served}")
    } else {
        format!("it is made for {}; {served}", others.join(", "))
    })
}
