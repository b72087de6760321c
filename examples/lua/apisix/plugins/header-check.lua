-- Lets requests pass whose headers match patterns, and removes headers that clients must not send.
local core = require("apisix.core")
local ngx_re_find = ngx.re.find
local ipairs = ipairs

local plugin_name = "header-check"

local schema = {
    type = "object",
    properties = {
        rules = {
            type = "array",
            minItems = 1,
            items = {
                type = "object",
                properties = {
                    header = { type = "string", minLength = 1 },
                    pattern = { type = "string", minLength = 1 },
                },
                required = { "header", "pattern" },
            },
        },
        remove = {
            type = "array",
            items = { type = "string", minLength = 1 },
            default = {},
        },
        rejected_code = { type = "integer", minimum = 400, maximum = 599, default = 403 },
        rejected_msg = { type = "string", minLength = 1, default = "a header is missing or has a wrong value" },
    },
    required = { "rules" },
}

local _M = {
    version = 0.1,
    priority = 2100,
    name = plugin_name,
    schema = schema,
}

function _M.check_schema(conf)
    local ok, err = core.schema.check(schema, conf)
    if not ok then
        return false, err
    end

    for _, rule in ipairs(conf.rules) do
        local _, _, re_err = ngx_re_find("", rule.pattern, "jo")
        if re_err then
            return false, "invalid pattern " .. rule.pattern .. ": " .. re_err
        end
    end

    return true
end

function _M.rewrite(conf, ctx)
    for _, name in ipairs(conf.remove) do
        core.request.set_header(ctx, name, nil)
    end
end

function _M.access(conf, ctx)
    for _, rule in ipairs(conf.rules) do
        local value = core.request.header(ctx, rule.header)
        if not value or not ngx_re_find(value, rule.pattern, "jo") then
            core.log.info("request rejected by the header ", rule.header)
            return conf.rejected_code, { message = conf.rejected_msg }
        end
    end

    core.request.set_header(ctx, "X-Header-Check", "passed")
end

return _M
