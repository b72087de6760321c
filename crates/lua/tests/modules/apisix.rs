//! Tests of `apisix.core` and of the modules of APISIX beside it.

use super::check_all;

const CORE: &str = "local core = require('apisix.core')";

#[test]
fn string_functions_compare_without_patterns() {
    check_all(
        CORE,
        &[
            ("return core.string.find('a.b', '.')", "2"),
            ("return core.string.has_prefix('abc', 'ab')", "true"),
            ("return core.string.has_prefix('a', 'ab')", "false"),
            (
                "return select(2, pcall(core.string.has_prefix, nil, 'a')):match('unexpected type.*')",
                "unexpected type: s:nil, prefix:string",
            ),
            ("return core.string.has_suffix('abc', 'bc')", "true"),
            ("return core.string.rfind_char('a/b/c', '/')", "4"),
            ("return core.string.rfind_char('a/b/c', '/', 3)", "2"),
            ("return core.string.compress_script('  a,\\n  b')", "a,b"),
            ("return core.string.format('%d-%s', 1, 'x')", "1-x"),
            ("return core.string.decode_args('a=1&a=2').a[2]", "2"),
        ],
    );
}

#[test]
fn table_functions_copy_merge_and_compare() {
    check_all(
        CORE,
        &[
            ("return core.table.insert_tail({1}, 2, 3)", "3"),
            ("return core.table.try_read_attr({a = {b = 5}}, 'a', 'b')", "5"),
            ("return core.table.try_read_attr({a = 1}, 'a', 'b')", "nil"),
            ("return core.table.array_find({'x', 'y'}, 'y')", "2"),
            ("local t = {a = {1}} local c = core.table.deepcopy(t) c.a[1] = 2 return t.a[1]", "1"),
            (
                "local t = {a = {1}} local c = core.table.deepcopy(t, {shallows = {'self.a'}}) return c.a == t.a",
                "true",
            ),
            ("local t = {} t.own = t local c = core.table.deepcopy(t) return c.own == c", "true"),
            ("return core.table.merge({a = {b = 1}, l = {1}}, {a = {c = 2}, l = {9, 8}}).a.b", "1"),
            ("return #core.table.merge({l = {1}}, {l = {9, 8}}).l", "2"),
            ("return core.table.merge({a = 1}, {a = ngx.null}).a", "nil"),
            ("return core.table.deep_eq({a = {1, 2}}, {a = {1, 2}})", "true"),
            ("return core.table.deep_eq({a = 1}, {a = 1, b = 2})", "false"),
            ("return core.table.isarray({1, 2})", "true"),
            ("return core.table.isarray({a = 1})", "false"),
            ("return core.table.nkeys({a = 1, 2})", "2"),
            ("local _, e = core.table.patch({a = 1}, 'a/b', 2) return e", "invalid sub-path: /a"),
            ("local _, _, v = core.table.patch({a = {}}, 'a/b', 2) return v.a.b", "2"),
            ("return core.table.concat({'a', 'b'}, ',')", "a,b"),
        ],
    );
}

#[test]
fn json_is_read_and_written_as_in_apisix() {
    check_all(
        CORE,
        &[
            ("return core.json.encode({a = '/x', l = core.json.decode('[]')}):find('%[%]') ~= nil", "true"),
            ("return core.json.encode({'/'})", r#"["/"]"#),
            ("return core.json.encode(setmetatable({}, core.json.array_mt))", "[]"),
            ("return core.json.decode('null') == core.json.null", "true"),
            ("return core.json.decode('{\"a\":null}', {null_as_nil = true}).a", "nil"),
            ("local v, e = core.json.decode('{x') return v == nil and #e > 0", "true"),
            ("return (core.json.encode({f = print}))", "nil"),
            ("return core.json.encode({f = print}, true):match('function') ", "function"),
            ("local t = {} t.t = t return core.json.encode(t, true):match('table') ", "table"),
            ("return tostring(core.json.delay_encode({a = 1}))", r#"{"a":1}"#),
            ("return core.json.stably_encode({b = 1, a = 2})", r#"{"a":2,"b":1}"#),
            ("return require('cjson').encode({1})", "[1]"),
            ("return pcall(require('cjson').decode, '{')", "false"),
            (
                "return select(2, pcall(function() return require('cjson').nothing end)):match('not available in Weir: [%w.]+')",
                "not available in Weir: cjson.nothing",
            ),
        ],
    );
}

#[test]
fn schema_check_fills_defaults_in() {
    let before = "local core = require('apisix.core')
        local schema = {type = 'object', properties = {
            a = {type = 'integer', default = 3}, l = {type = 'array', items = {type = 'object', properties = {x = {default = 1}}}},
            o = {type = 'object', properties = {y = {type = 'string', default = 'z'}}, default = {}},
        }, required = {'n'}}";
    check_all(
        before,
        &[
            ("return select(2, core.schema.check(schema, {}))", r#"property "n" is required"#),
            (
                "local c = {n = 1, l = {{}}} return tostring(core.schema.check(schema, c)) .. c.a .. c.l[1].x .. c.o.y",
                "true31z",
            ),
            ("return select(2, core.schema.check({type = 'objekt'}, {})) ~= nil", "true"),
            (
                "local c = {} core.schema.check({oneOf = {{required = {'q'}}, {properties = {w = {default = 5}}}}}, c) return c.w",
                "5",
            ),
            (
                "local c = {k = 1} core.schema.check({['if'] = {required = {'k'}}, ['then'] = {properties = {v = {default = 7}}}}, c) return c.v",
                "7",
            ),
            ("return core.schema.TYPE_CONSUMER + core.schema.TYPE_METADATA", "3"),
            ("return core.schema.check(core.schema.uri_def, 'http://a.b:80/x')", "true"),
            ("return core.schema.check(core.schema.uri_def, 'nothing')", "false"),
            ("return core.schema.check({anyOf = core.schema.ip_def}, '10.0.0.0/8')", "true"),
            ("return core.schema.check({anyOf = core.schema.ip_def}, '10.0.0.0/33')", "false"),
            ("return core.schema.check(core.schema.host_def, '*.x.y')", "true"),
            ("return pcall(function() core.schema.x = 1 end)", "false"),
        ],
    );
}

#[test]
fn cache_makes_a_value_once_for_each_version() {
    let before = "local core = require('apisix.core') local made = 0
        local function make(x) made = made + 1 return x end";
    check_all(
        before,
        &[
            ("local c = core.lrucache.new({ttl = 10, count = 2}) c('k', 1, make, 5) return c('k', 1, make, 6) .. made", "51"),
            ("local c = core.lrucache.new() c('k', 1, make, 5) return c('k', 2, make, 6) .. made", "62"),
            ("local c = core.lrucache.new({count = 1}) c('a', 1, make, 1) c('b', 1, make, 2) c('a', 1, make, 3) return made", "3"),
            ("local c = core.lrucache.new({neg_ttl = 9, neg_count = 9}) local function fail() made = made + 1 return nil, 'no' end
              c('k', 1, fail) local _, e = c('k', 1, fail) return e .. made", "no1"),
            ("local c = core.lrucache.new({ttl = 0.01, invalid_stale = true}) c('k', 1, make, 5) ngx.sleep(0.02) return c('k', 1, make, 6)", "6"),
            ("local c = core.lrucache.new({ttl = 0.01}) c('k', 1, make, 5) ngx.sleep(0.02) return c('k', 1, make, 6)", "5"),
            ("local c = core.lrucache.new({serial_creating = true}) local function slow() made = made + 1 ngx.sleep(0.02) return made end
              local t = ngx.thread.spawn(function() return c('k', 1, slow) end) local v = c('k', 1, slow) ngx.thread.wait(t) return v .. made", "11"),
            ("local c = core.lrucache.new({type = 'plugin'}) local ctx = {conf_type = 'route', conf_id = 1, conf_version = 2}
              core.lrucache.plugin_ctx(c, ctx, 'x', make, 4) return core.lrucache.plugin_ctx(c, ctx, 'x', make, 5)", "4"),
            ("return core.lrucache.plugin_ctx_id({conf_type = 'route', conf_id = 1, conf_version = 2}, 'x')", "route#1#x#2"),
        ],
    );
}

#[test]
fn utils_read_addresses_and_resolve_variables() {
    let before = "local core = require('apisix.core') local u = core.utils
        local function both(a, b) return tostring(a) .. ' ' .. tostring(b) end";
    check_all(
        before,
        &[
            ("return both(u.parse_addr('127.0.0.1:80'))", "127.0.0.1 80"),
            ("return both(u.parse_addr('127.0.0.1'))", "127.0.0.1 nil"),
            ("return both(u.parse_addr('a.b:x'))", "a.b nil"),
            ("return both(u.parse_addr('[::1]:80'))", "[::1] 80"),
            ("return both(u.parse_addr('[::1]'))", "[::1] nil"),
            ("return both(u.parse_addr('::1'))", "::1 nil"),
            ("return u.uri_safe_encode('/a b?c%')", "/a%20b%3Fc%25"),
            ("return u.escape_uri_control_chars('a\\r\\nb?')", "a%0D%0Ab?"),
            ("return both(u.validate_header_field('X-A'), u.validate_header_field('a:b'))", "true false"),
            ("return both(u.validate_header_value('x'), u.validate_header_value('a\\n'))", "true false"),
            ("return (u.resolve_var('$a-${ b }-${c ?? d}-\\\\$e-$f', {a = 1, b = 'x'}))", "1-x-d-\\$e-"),
            ("return select(3, u.resolve_var('$a$b', {a = 1}))", "1"),
            ("return (u.resolve_var('$a', {a = 'x'}, function(v) return '<' .. v .. '>' end))", "<x>"),
            ("return (u.resolve_var_with_captures('/$1/${2}$3', {'a', 'b'}))", "/a/b"),
            ("return both(u.parse_ipv4('1.2.3.4') ~= false, u.parse_ipv4('x'))", "true false"),
            ("return both(u.parse_ipv6('::1') ~= false, u.parse_ipv6('1.2.3.4'))", "true false"),
            ("return u.generate_uuid_v7():match('^%x+%-%x+%-7%x+%-[89ab]%x+%-%x+$') ~= nil", "true"),
            ("return #u.generate_uuid_v7()", "36"),
            ("return #u.gethostname() > 0", "true"),
            ("return u.split_uri('/a/b')[3]", "b"),
            (
                "return select(2, pcall(function() return u.nothing end)):match('not available in Weir: [%w.]+')",
                "not available in Weir: apisix.core.utils.nothing",
            ),
        ],
    );
}

#[test]
fn small_parts_of_core_answer() {
    check_all(
        CORE,
        &[
            ("return core.math.gcd(12, 18)", "6"),
            ("return core.ip.validate_cidr_or_ip('10.0.0.0/8')", "true"),
            ("return core.ip.validate_cidr_or_ip('10.0.0.0/33')", "false"),
            ("return core.ip.create_ip_matcher({'10.0.0.0/8'}):match('10.1.1.1')", "true"),
            ("return core.ip.create_ip_matcher({'x'})", "nil"),
            ("return (core.io.get_file('/etc/passwd'))", "nil"),
            ("return pcall(function() return core.os.setenv end)", "false"),
            (
                "local got core.event.register(1, function(x) got = x end) core.event.push(1, 7) return got",
                "7",
            ),
            (
                "local t = core.tablepool.fetch('p', 0, 1) t.a = 1 core.tablepool.release('p', t) return core.tablepool.fetch('p', 0, 1).a",
                "nil",
            ),
            ("return type(core.config.local_conf().plugin_attr)", "table"),
            ("return core.id.gen_uuid_v4():len()", "36"),
            ("return core.version.VERSION", "3.18.0"),
            ("return core.sleep == core.utils.sleep", "true"),
            (
                "local l = core.log.new('p: ') l.warn('x') core.log.error('y', core.log.delay_exec(function() return 'z' end)) return 1",
                "1",
            ),
            ("return pcall(core.ctx.register_var, 'x', 1)", "false"),
        ],
    );
}

#[test]
fn modules_beside_core_answer() {
    check_all(
        "local plugin = require('apisix.plugin') local secret = require('apisix.secret')",
        &[
            ("local c = {a = 1} return plugin.conf_version(c) == plugin.conf_version({a = 1})", "true"),
            ("return plugin.conf_version({a = 1}) == plugin.conf_version({a = 2})", "false"),
            ("return plugin.plugin_attr('x')", "nil"),
            ("return plugin.plugin_metadata('x')", "nil"),
            ("return secret.is_secret_ref('$secret://vault/1/a')", "true"),
            ("return secret.is_secret_ref('$env://A')", "true"),
            ("return secret.is_secret_ref('$env://A', {type = 'integer'})", "false"),
            ("return secret.has_secret_ref({a = {b = '$ENV://A'}})", "true"),
            ("return secret.fetch_secrets({a = {b = 'x'}}).a.b", "x"),
            (
                "return require('apisix.upstream').check_schema({type = 'roundrobin', nodes = {{host = 'a', port = 80, weight = 1}}})",
                "true",
            ),
            (
                "return select(2, pcall(function() return require('apisix.upstream').set end)):match('not available in Weir: [%w.]+')",
                "not available in Weir: apisix.upstream.set",
            ),
            ("return require('apisix.utils.auth').is_running_under_multi_auth({})", "false"),
            (
                "return require('apisix.utils.content-decode').dispatch_decoder('gzip')(ngx.decode_base64('H4sIAAAAAAACA8tIzcnJBwCGphA2BQAAAA=='))",
                "hello",
            ),
            (
                "return select(2, require('apisix.utils.content-decode').dispatch_decoder('gzip')('x')):match('^inflate gzip err')",
                "inflate gzip err",
            ),
            ("return require('apisix.utils.content-decode').dispatch_decoder('br')", "nil"),
            (
                "return (require('apisix.utils.rfc5424').encode('SYSLOG', 'INFO', 'h', 'a', 7, 'm', {{name = 'n', value = 'v'}}):gsub('%d+%-%S+', 'T'))",
                "<46>1 T h a 7 - [logservice n=\"v\"] m\n",
            ),
            (
                "return require('apisix.utils.log-sanitize').redact_params({headers = {Authorization = 'x'}}).headers.Authorization",
                "[REDACTED]",
            ),
            (
                "return require('apisix.utils.log-util').get_rfc3339_zulu_timestamp(1.5)",
                "1970-01-01T00:00:01.500Z",
            ),
            (
                "return select(2, require('apisix.utils.log-util').check_log_schema({include_req_body_expr = {{'a', '?', 1}}})):match('^[%w %p]-:')",
                "failed to validate the 'include_req_body_expr' expression:",
            ),
        ],
    );
}

#[test]
fn batches_are_processed_by_size_and_by_time() {
    let before = "local Manager = require('apisix.utils.batch-processor-manager') local seen = {}
        local function take(entries) seen[#seen + 1] = #entries return true end
        local m = Manager.new('test') local ctx = {var = {}}
        local conf = {batch_max_size = 2, inactive_timeout = 1, buffer_duration = 1, name = 't', max_retry_count = 0, retry_delay = 0}
        local function push(e) if not m:add_entry(conf, e) then m:add_entry_to_new_processor(conf, e, ctx, take) end end";
    check_all(
        before,
        &[
            ("return m:wrap_schema({type = 'object', properties = {}}).properties.name.default", "test"),
            (
                "return m:wrap_metadata_schema({properties = {}}).properties.max_pending_entries.default",
                "8192",
            ),
            ("return require('apisix.utils.batch-processor'):new(1, {})", "nil"),
            ("push(1) return m.total_pushed_entries", "1"),
            (
                "for i = 1, 9000 do m.total_pushed_entries = m.total_pushed_entries + 1 end push(1) return m.discarded_entries",
                "0",
            ),
        ],
    );
}
