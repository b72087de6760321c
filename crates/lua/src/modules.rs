//! The modules of Lua that plugins of APISIX require, as texts that are part of the program; one file each.
//! Modules that are not there are listed with the reason.

/// The modules by name, in order.
const SOURCES: &[(&str, &str)] = &[
    ("apisix.constants", include_str!("modules/apisix/constants.lua")),
    ("apisix.consumer", include_str!("modules/apisix/consumer.lua")),
    ("apisix.core", include_str!("modules/apisix/core.lua")),
    ("apisix.core.config_local", include_str!("modules/apisix/core/config_local.lua")),
    ("apisix.core.ctx", include_str!("modules/apisix/core/ctx.lua")),
    ("apisix.core.env", include_str!("modules/apisix/core/env.lua")),
    ("apisix.core.event", include_str!("modules/apisix/core/event.lua")),
    ("apisix.core.id", include_str!("modules/apisix/core/id.lua")),
    ("apisix.core.io", include_str!("modules/apisix/core/io.lua")),
    ("apisix.core.ip", include_str!("modules/apisix/core/ip.lua")),
    ("apisix.core.json", include_str!("modules/apisix/core/json.lua")),
    ("apisix.core.log", include_str!("modules/apisix/core/log.lua")),
    ("apisix.core.lrucache", include_str!("modules/apisix/core/lrucache.lua")),
    ("apisix.core.math", include_str!("modules/apisix/core/math.lua")),
    ("apisix.core.os", include_str!("modules/apisix/core/os.lua")),
    ("apisix.core.request", include_str!("modules/apisix/core/request.lua")),
    ("apisix.core.resolver", include_str!("modules/apisix/core/resolver.lua")),
    ("apisix.core.response", include_str!("modules/apisix/core/response.lua")),
    ("apisix.core.schema", include_str!("modules/apisix/core/schema.lua")),
    ("apisix.core.string", include_str!("modules/apisix/core/string.lua")),
    ("apisix.core.table", include_str!("modules/apisix/core/table.lua")),
    ("apisix.core.timer", include_str!("modules/apisix/core/timer.lua")),
    ("apisix.core.utils", include_str!("modules/apisix/core/utils.lua")),
    ("apisix.core.version", include_str!("modules/apisix/core/version.lua")),
    ("apisix.plugin", include_str!("modules/apisix/plugin.lua")),
    ("apisix.schema_def", include_str!("modules/apisix/schema_def.lua")),
    ("apisix.secret", include_str!("modules/apisix/secret.lua")),
    ("apisix.upstream", include_str!("modules/apisix/upstream.lua")),
    ("apisix.utils.auth", include_str!("modules/apisix/utils/auth.lua")),
    ("apisix.utils.batch-processor", include_str!("modules/apisix/utils/batch-processor.lua")),
    (
        "apisix.utils.batch-processor-manager",
        include_str!("modules/apisix/utils/batch-processor-manager.lua"),
    ),
    ("apisix.utils.content-decode", include_str!("modules/apisix/utils/content-decode.lua")),
    ("apisix.utils.log-sanitize", include_str!("modules/apisix/utils/log-sanitize.lua")),
    ("apisix.utils.log-util", include_str!("modules/apisix/utils/log-util.lua")),
    ("apisix.utils.rfc5424", include_str!("modules/apisix/utils/rfc5424.lua")),
    ("bit", include_str!("modules/bit.lua")),
    ("cjson", include_str!("modules/cjson.lua")),
    ("cjson.safe", include_str!("modules/cjson/safe.lua")),
    ("inspect", include_str!("modules/inspect.lua")),
    ("net.url", include_str!("modules/net/url.lua")),
    ("ngx.base64", include_str!("modules/ngx/base64.lua")),
    ("ngx.errlog", include_str!("modules/ngx/errlog.lua")),
    ("ngx.process", include_str!("modules/ngx/process.lua")),
    ("ngx.re", include_str!("modules/ngx/re.lua")),
    ("ngx.req", include_str!("modules/ngx/req.lua")),
    ("ngx.resp", include_str!("modules/ngx/resp.lua")),
    ("pl.path", include_str!("modules/pl/path.lua")),
    ("pl.stringx", include_str!("modules/pl/stringx.lua")),
    ("resty.cookie", include_str!("modules/resty/cookie.lua")),
    ("resty.core", include_str!("modules/resty/core.lua")),
    ("resty.core.base", include_str!("modules/resty/core/base.lua")),
    ("resty.core.regex", include_str!("modules/resty/core/regex.lua")),
    ("resty.expr.v1", include_str!("modules/resty/expr/v1.lua")),
    ("resty.hmac", include_str!("modules/resty/hmac.lua")),
    ("resty.http", include_str!("modules/resty/http.lua")),
    ("resty.http_headers", include_str!("modules/resty/http_headers.lua")),
    ("resty.ipmatcher", include_str!("modules/resty/ipmatcher.lua")),
    ("resty.jit-uuid", include_str!("modules/resty/jit-uuid.lua")),
    ("resty.jwt", include_str!("modules/resty/jwt.lua")),
    ("resty.lock", include_str!("modules/resty/lock.lua")),
    ("resty.lrucache", include_str!("modules/resty/lrucache.lua")),
    ("resty.md5", include_str!("modules/resty/md5.lua")),
    ("resty.random", include_str!("modules/resty/random.lua")),
    ("resty.redis", include_str!("modules/resty/redis.lua")),
    ("resty.sha1", include_str!("modules/resty/sha1.lua")),
    ("resty.sha224", include_str!("modules/resty/sha224.lua")),
    ("resty.sha256", include_str!("modules/resty/sha256.lua")),
    ("resty.sha384", include_str!("modules/resty/sha384.lua")),
    ("resty.sha512", include_str!("modules/resty/sha512.lua")),
    ("resty.string", include_str!("modules/resty/string.lua")),
    ("socket.url", include_str!("modules/socket/url.lua")),
    ("table.clear", include_str!("modules/table/clear.lua")),
    ("table.clone", include_str!("modules/table/clone.lua")),
    ("table.isarray", include_str!("modules/table/isarray.lua")),
    ("table.isempty", include_str!("modules/table/isempty.lua")),
    ("table.new", include_str!("modules/table/new.lua")),
    ("table.nkeys", include_str!("modules/table/nkeys.lua")),
    ("tablepool", include_str!("modules/tablepool.lua")),
    ("weir.digest", include_str!("modules/weir/digest.lua")),
    ("weir.http_reader", include_str!("modules/weir/http_reader.lua")),
];

/// Modules that plugins of APISIX require and that are not there, in order, with the reason.
const ABSENT: &[(&str, &str)] = &[
    ("apisix.core.config_util", "objects of the configuration are compiled outside of interpreters"),
    ("apisix.core.etcd", "a script does not write to the configuration"),
    ("apisix.core.pubsub", "WebSocket messages are passed on, not read"),
    ("apisix.http.service", "services are compiled outside of interpreters"),
    ("apisix.router", "routes are compiled outside of interpreters"),
    ("ffi", "foreign functions would reach all memory of the gateway"),
    ("graphql", "the variables `graphql_*` hold the parts of a query"),
    ("jit", "the compiler of LuaJIT works by itself, within limits of memory"),
    ("jsonpath", "the variables `post_arg.*` take paths into a body"),
    ("lfs", "a script has no files"),
    ("ngx.pipe", "a script starts no processes"),
    ("ngx.semaphore", "`ngx.thread.wait` and `resty.lock` wait for other code"),
    ("ngx.ssl", "certificates belong to the gateway"),
    ("pb", "the plugin `grpc-transcode` reads and writes messages of gRPC"),
    ("resty.kafka.producer", "the plugin `kafka-logger` sends to Kafka"),
    ("resty.openssl.pkey", "`resty.jwt` signs and verifies with keys"),
    ("resty.session", "the plugin `openid-connect` keeps sessions"),
    ("resty.signal", "a script sends no signals"),
    ("resty.template", "the plugin `body-transformer` renders templates"),
    ("xml2lua", "the plugin `body-transformer` reads XML"),
];

/// The text of the module `name`.
pub fn source(name: &str) -> Option<&'static str> {
    let index = SOURCES.binary_search_by_key(&name, |(known, _)| known).ok()?;
    Some(SOURCES[index].1)
}

/// The names of the modules, in order.
pub fn names() -> impl Iterator<Item = &'static str> {
    SOURCES.iter().map(|(name, _)| *name)
}

/// The names of modules that plugins of APISIX require and that are not there, with the reason.
pub fn absent() -> &'static [(&'static str, &'static str)] {
    ABSENT
}

/// The error of `require` for a module that is not there.
pub fn missing(name: &str) -> String {
    let reason = match ABSENT.binary_search_by_key(&name, |(known, _)| known) {
        Ok(index) => format!(" ({})", ABSENT[index].1),
        Err(_) => String::new(),
    };
    format!(
        "not available in Weir: {name}{reason}, module '{name}' not found; the page docs/reference/lua.md lists what is there"
    )
}
