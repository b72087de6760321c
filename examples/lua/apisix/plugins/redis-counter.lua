-- Counts requests in Redis and rejects those above a limit in a window of time.
local core = require("apisix.core")
local redis = require("resty.redis")
local tonumber = tonumber
local tostring = tostring

local plugin_name = "redis-counter"

local schema = {
    type = "object",
    properties = {
        count = { type = "integer", exclusiveMinimum = 0 },
        time_window = { type = "integer", exclusiveMinimum = 0 },
        key = { type = "string", minLength = 1, default = "$remote_addr" },
        host = { type = "string", minLength = 1 },
        port = { type = "integer", minimum = 1, maximum = 65535, default = 6379 },
        password = { type = "string", minLength = 1 },
        timeout = { type = "integer", minimum = 1, default = 1000 },
        rejected_code = { type = "integer", minimum = 200, maximum = 599, default = 503 },
        allow_degradation = { type = "boolean", default = false },
    },
    required = { "count", "time_window", "host" },
}

local _M = {
    version = 0.1,
    priority = 1002,
    name = plugin_name,
    schema = schema,
}

function _M.check_schema(conf)
    return core.schema.check(schema, conf)
end

local function connect(conf)
    local client = redis:new()
    client:set_timeout(conf.timeout)
    local ok, err = client:connect(conf.host, conf.port)
    if not ok then
        return nil, err
    end

    if conf.password and client:get_reused_times() == 0 then
        ok, err = client:auth(conf.password)
        if not ok then
            return nil, err
        end
    end

    return client
end

-- The number of requests in this window and the seconds until it ends.
local function count(conf, key)
    local client, err = connect(conf)
    if not client then
        return nil, err
    end

    client:init_pipeline()
    client:set(key, 0, "EX", conf.time_window, "NX")
    client:incr(key)
    client:ttl(key)
    local replies
    replies, err = client:commit_pipeline()
    if not replies then
        return nil, err
    end

    local number = tonumber(replies[2])
    if not number then
        client:close()
        return nil, "unexpected reply of redis"
    end

    local ok
    ok, err = client:set_keepalive(10000, 100)
    if not ok then
        core.log.warn("failed to keep the connection: ", err)
    end

    return number, tonumber(replies[3])
end

function _M.access(conf, ctx)
    local name = core.utils.resolve_var(conf.key, ctx.var)
    local key = plugin_name .. ":" .. tostring(ctx.conf_id) .. ":" .. name
    local number, left = count(conf, key)
    if not number then
        core.log.error("failed to count in redis: ", left)
        if conf.allow_degradation then
            return
        end
        return 500, { message = "the counter is not available" }
    end

    local remaining = conf.count - number
    core.response.set_header(
        "X-RateLimit-Limit", conf.count,
        "X-RateLimit-Remaining", remaining > 0 and remaining or 0,
        "X-RateLimit-Reset", left
    )
    if remaining < 0 then
        return conf.rejected_code
    end
end

return _M
