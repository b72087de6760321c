-- Adds fields to JSON bodies of requests, and replaces text in bodies of responses.
local core = require("apisix.core")
local ipairs = ipairs
local pairs = pairs
local type = type

local plugin_name = "body-edit"

local schema = {
    type = "object",
    properties = {
        add_fields = { type = "object", minProperties = 1 },
        max_body_size = { type = "integer", minimum = 1, default = 1048576 },
        replace = {
            type = "array",
            minItems = 1,
            items = {
                type = "object",
                properties = {
                    pattern = { type = "string", minLength = 1 },
                    with = { type = "string" },
                },
                required = { "pattern", "with" },
            },
        },
    },
    anyOf = {
        { required = { "add_fields" } },
        { required = { "replace" } },
    },
}

local _M = {
    version = 0.1,
    priority = 900,
    name = plugin_name,
    schema = schema,
}

function _M.check_schema(conf)
    return core.schema.check(schema, conf)
end

function _M.rewrite(conf, ctx)
    if not conf.add_fields then
        return
    end

    local body, err = core.request.get_body(conf.max_body_size, ctx)
    if err then
        return 413, { message = err }
    end
    if not body then
        return
    end

    local data = core.json.decode(body)
    if type(data) ~= "table" then
        return 400, { message = "the body is no JSON object" }
    end

    for name, value in pairs(conf.add_fields) do
        if type(value) == "string" then
            value = core.utils.resolve_var(value, ctx.var)
        end
        data[name] = value
    end

    ngx.req.set_body_data(core.json.encode(data))
end

function _M.header_filter(conf, ctx)
    if conf.replace then
        core.response.clear_header_as_body_modified()
    end
end

function _M.body_filter(conf, ctx)
    if not conf.replace then
        return
    end

    local body = core.response.hold_body_chunk(ctx)
    if not body then
        return
    end

    for _, rule in ipairs(conf.replace) do
        local changed, _, err = ngx.re.gsub(body, rule.pattern, rule.with, "jo")
        if changed then
            body = changed
        else
            core.log.error("failed to replace ", rule.pattern, ": ", err)
        end
    end

    ngx.arg[1] = body
end

return _M
