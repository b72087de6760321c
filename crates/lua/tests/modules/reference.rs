//! Makes the page `docs/reference/lua.md` of what the interpreter has, and checks that it has what plugins of
//! APISIX use.

use std::fmt::Write;
use std::path::Path;

use lua::modules::{absent, names, source};
use lua::testing::Engine;

/// Names that three or more plugins of APISIX 3.18 use, by the part that they lie in.
const USED: &[(&str, &str)] = &[
    ("core.schema", "check uri_def TYPE_CONSUMER TYPE_METADATA method_schema ip_def host_def"),
    ("core.log", "error warn notice info debug"),
    ("core.json", "encode decode delay_encode array_mt canonical_encode stably_encode null"),
    (
        "core.response",
        "set_header add_header exit say get_response_source hold_body_chunk clear_header_as_body_modified",
    ),
    (
        "core.request",
        "header headers set_header add_header get_body get_method get_uri_args set_uri_args get_post_args get_host get_scheme \
         get_json_request_body_table get_remote_client_ip get_remote_client_port get_http_version",
    ),
    ("core.lrucache", "new plugin_ctx plugin_ctx_id global"),
    (
        "core.table",
        "insert concat clone deepcopy new clear insert_tail try_read_attr isempty isarray array_find sort deep_eq nkeys",
    ),
    (
        "core.utils",
        "check_https check_tls_bool resolve_var gethostname parse_addr uri_safe_encode parse_ipv4 parse_ipv6 \
         escape_uri_control_chars validate_header_value",
    ),
    (
        "core.string",
        "has_prefix has_suffix find format decode_args encode_args compress_script sub rfind_char",
    ),
    ("core.tablepool", "fetch release"),
    ("core.config", "local_conf"),
    ("core.id", "get"),
    ("core.io", "get_file"),
    ("core.ip", "validate_cidr_or_ip create_ip_matcher"),
    ("core.resolver", "parse_domain parse_domain_all"),
    ("core.ctx", "register_var"),
    (
        "ngx",
        "now time re shared arg header timer encode_args decode_args var socket sleep escape_uri unescape_uri thread worker \
         config null flush update_time print say exit parse_http_time get_phase req resp log HTTP_OK HTTP_BAD_REQUEST ERR",
    ),
    ("ngx.re", "match gmatch gsub find sub"),
    (
        "ngx.req",
        "set_body_data get_method get_headers get_uri_args set_uri start_time read_body set_method get_post_args set_header \
         get_body_data http_version",
    ),
    ("ngx.resp", "get_headers add_header"),
    ("ngx.timer", "at every"),
    ("ngx.thread", "spawn wait kill"),
    ("ngx.worker", "exiting id pid count"),
    ("ngx.socket", "tcp udp"),
];

/// Modules that three or more plugins of APISIX 3.18 require.
const REQUIRED: &[&str] = &[
    "apisix.core",
    "resty.http",
    "apisix.plugin",
    "apisix.utils.log-util",
    "apisix.utils.batch-processor-manager",
    "resty.string",
    "ngx.re",
    "apisix.secret",
    "apisix.consumer",
    "apisix.schema_def",
    "resty.sha256",
    "resty.expr.v1",
    "bit",
    "apisix.http.service",
    "resty.jit-uuid",
    "ngx.process",
    "apisix.utils.auth",
    "resty.core.regex",
    "ffi",
    "net.url",
    "pb",
    "table.new",
    "apisix.upstream",
    "apisix.router",
    "cjson",
    "cjson.safe",
    "resty.redis",
    "resty.lrucache",
];

/// Makes texts of Lua values: `names_of(value)` lists the names of a table in order.
const LIBRARY: &str = "local core = require('apisix.core')
    local function names_of(value)
        local list = {}
        for name in pairs(value) do
            if type(name) == 'string' and not name:find('^_') and not name:find('^HTTP_') then list[#list + 1] = name end
        end
        table.sort(list)
        return table.concat(list, ' ')
    end ";

#[test]
fn names_that_plugins_use_exist() {
    let engine = Engine::open().unwrap();
    for (part, used) in USED {
        for name in used.split_whitespace() {
            let found = engine.run(&format!("{LIBRARY} local value = {part}['{name}'] return value ~= nil"));
            assert_eq!(found.as_deref(), Ok("true"), "{part}.{name}");
        }
    }
    for name in REQUIRED {
        let is_listed = source(name).is_some() || absent().iter().any(|(other, _)| other == name);
        assert!(is_listed, "{name}");
    }
}

#[test]
fn page_lists_the_names_of_the_interpreter() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/lua.md");
    let expected = page(&Engine::open().unwrap());
    if std::env::var_os("UPDATE").is_some_and(|value| value == "1") {
        std::fs::write(&path, &expected).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let hint =
        "docs/reference/lua.md is out of date: `UPDATE=1 cargo test --workspace --test modules` writes it";
    assert!(written == expected, "{hint}");
}

fn quoted<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn page(engine: &Engine) -> String {
    let list = |code: &str| {
        quoted(engine.run(&format!("{LIBRARY} return names_of({code})")).unwrap().split_whitespace())
    };
    let methods =
        |code: &str| quoted(engine.methods_of(&format!("return {code}")).unwrap().iter().map(String::as_str));
    let mut page = String::from(
        "# Lua API\n\n\
         <!-- Made by crates/lua/tests/modules/reference.rs with `UPDATE=1 cargo test --workspace --test modules`. -->\n\n\
         The functions and modules that plugins in Lua have. [Write plugins in Lua](../guide/lua-plugins.md) shows how to use \
         them. A name that is not listed here fails with `not available in Weir: NAME`.\n\n## Limits\n\n\
         | limit | value | of |\n|---|---|---|\n",
    );
    for (name, value, meaning) in lua::LIMITS {
        writeln!(page, "| `{name}` | {value} | {meaning} |").unwrap();
    }
    page.push_str("\n## ngx\n\n| table | names |\n|---|---|\n");
    let constants = "; the constants `HTTP_*`; the fields `status`, `ctx` and `headers_sent`";
    writeln!(page, "| `ngx` | {}{constants} |", list("ngx")).unwrap();
    for part in
        ["ngx.re", "ngx.req", "ngx.resp", "ngx.timer", "ngx.thread", "ngx.socket", "ngx.worker", "ngx.config"]
    {
        writeln!(page, "| `{part}` | {} |", list(part)).unwrap();
    }
    writeln!(page, "| dictionaries of `ngx.shared` | {} |", methods("ngx.shared.lua_page")).unwrap();
    writeln!(page, "| sockets of `ngx.socket.tcp()` | {} |", methods("ngx.socket.tcp()")).unwrap();
    page.push_str(
        "\n## Sessions of layer 4\n\n\
         `preread` and `log` of a plugin have these in a session, and everything above that belongs to no request:\n\n\
         | name | there |\n|---|---|\n\
         | `ctx.var`, `ngx.var` | the [variables of sessions](settings.md#stream_access_log_format), and `ssl_preread_server_name` and \
         `ssl_preread_alpn_protocols` as nginx names them; other names may be set in `preread` |\n\
         | `ctx` | `route_id`, `route_name`, `service_id`, `conf_type`, `conf_id`, `conf_version`; in `log` \
         `stream_rejected_code`, with which a plugin has refused the session |\n\
         | `ctx.upstream_id`, `ctx.mqtt_client_id` | set in `preread`, the upstream of the session and a key of balancers |\n\
         | `ngx.req.socket()` | in `preread`: `peek(SIZE)`, `settimeout`, `settimeouts`; `receive` and `send` are not there, because \
         the bytes go to the node |\n\
         | `ngx.exit(CODE)`, `core.response.exit(CODE)` | close the session; `ngx.OK` and `ngx.DECLINED` end the function only |\n\n\
         Functions of requests and responses, such as `ngx.req.get_headers`, `ngx.header` and `ngx.status`, fail with `not available in \
         sessions of layer 4`, `ngx.print` and `ngx.say` with `API disabled in the context of preread`.\n",
    );
    page.push_str("\n## apisix.core\n\n| part | names |\n|---|---|\n");
    let parts = engine.run(&format!("{LIBRARY} return names_of(core)")).unwrap();
    for part in parts.split_whitespace().filter(|part| !["empty_tab", "sleep"].contains(part)) {
        writeln!(page, "| `core.{part}` | {} |", list(&format!("core.{part}"))).unwrap();
    }
    page.push_str(
        "\n`core.sleep` is a function. `core.string` and `core.table` have the functions of `string` and `table` as well, and `core.schema` the names of \
         `apisix.schema_def`.\n\n## Modules\n\n| module | about |\n|---|---|\n",
    );
    for name in names().filter(|name| !name.starts_with("apisix.core.") && !name.starts_with("weir.")) {
        let first = source(name).unwrap_or_default().lines().next().unwrap_or_default();
        let about = first.split_once(": ").map_or("", |(_, about)| about).trim_end_matches('.');
        writeln!(page, "| `{name}` | {about} |").unwrap();
    }
    page.push_str(
        "\nThe tables `string`, `table`, `math`, `bit` and `coroutine` are those of Lua 5.1 with LuaJIT's `bit` \
         and what OpenResty's LuaJIT has of Lua 5.2 (`table.pack`, `string.rep` with a separator, `rawlen`, \
         `__len` and `__pairs` of tables, `goto`, empty statements). Each program has tables of its own, so that \
         a change of one reaches no other program; modules of files are shared. `os` has `clock`, `date`, \
         `difftime` and `time`. Byte code, `io`, `debug`, `dofile`, `loadfile`, `setfenv` and `getfenv` are not \
         there.\n\n\
         ## Not there\n\n| module | reason |\n|---|---|\n",
    );
    for (name, reason) in absent() {
        writeln!(page, "| `{name}` | {reason} |").unwrap();
    }
    page
}
