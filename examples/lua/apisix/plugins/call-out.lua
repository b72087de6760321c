-- Asks an HTTP service whether a request may pass, and gives headers of its answer to the upstream.
local core = require("apisix.core")
local http = require("resty.http")
local ipairs = ipairs

local plugin_name = "call-out"

local schema = {
    type = "object",
    properties = {
        uri = core.schema.uri_def,
        timeout = { type = "integer", minimum = 1, maximum = 60000, default = 3000 },
        ssl_verify = { type = "boolean", default = true },
        request_headers = {
            type = "array",
            items = { type = "string", minLength = 1 },
            default = { "Authorization" },
        },
        upstream_headers = {
            type = "array",
            items = { type = "string", minLength = 1 },
            default = {},
        },
        allow_degradation = { type = "boolean", default = false },
        cache_ttl = { type = "integer", minimum = 0, default = 0 },
    },
    required = { "uri" },
}

local _M = {
    version = 0.1,
    priority = 2050,
    name = plugin_name,
    schema = schema,
}

function _M.check_schema(conf)
    local ok, err = core.schema.check(schema, conf)
    if not ok then
        return false, err
    end

    core.utils.check_https({ "uri" }, conf, plugin_name)
    core.utils.check_tls_bool({ "ssl_verify" }, conf, plugin_name)
    return true
end

local function ask(conf, headers)
    local client = http.new()
    client:set_timeout(conf.timeout)
    local res, err = client:request_uri(conf.uri, {
        method = "GET",
        headers = headers,
        ssl_verify = conf.ssl_verify,
        keepalive_timeout = 60000,
        keepalive_pool = 5,
    })
    if not res then
        return nil, err
    end
    return { status = res.status, headers = res.headers, body = res.body }
end

-- One cache for each configuration, so that a change of the configuration forgets old answers.
local function answer(conf, ctx, headers)
    if conf.cache_ttl == 0 then
        return ask(conf, headers)
    end

    if not conf._answers then
        conf._answers = core.lrucache.new({ ttl = conf.cache_ttl, count = 1000, invalid_stale = true })
    end

    local key = core.json.stably_encode(headers)
    return conf._answers(key, "", ask, conf, headers)
end

function _M.access(conf, ctx)
    local headers = {
        ["X-Forwarded-Method"] = core.request.get_method(),
        ["X-Forwarded-Uri"] = ctx.var.request_uri,
        ["X-Forwarded-For"] = core.request.get_remote_client_ip(ctx),
    }
    for _, name in ipairs(conf.request_headers) do
        headers[name] = core.request.header(ctx, name)
    end

    local res, err = answer(conf, ctx, headers)
    if not res then
        core.log.error("failed to ask ", conf.uri, ": ", err)
        if conf.allow_degradation then
            return
        end
        return 503, { message = "the decision service does not answer" }
    end

    if res.status >= 300 then
        return res.status, res.body
    end

    for _, name in ipairs(conf.upstream_headers) do
        core.request.set_header(ctx, name, res.headers[name])
    end
end

return _M
