-- PLUGIN_NAME: requests without the header field of its configuration are refused, others are marked.
local core = require("apisix.core")

local schema = {
    type = "object",
    properties = {
        header = { type = "string", minLength = 1, default = "X-Token" },
        status = { type = "integer", minimum = 400, maximum = 599, default = 403 },
    },
}

local _M = {
    version = 0.1,
    priority = 1000,
    name = "PLUGIN_NAME",
    schema = schema,
}

function _M.check_schema(conf)
    return core.schema.check(schema, conf)
end

function _M.access(conf, ctx)
    if not core.request.header(ctx, conf.header) then
        return conf.status, { message = "the header field " .. conf.header .. " is missing" }
    end
    core.request.set_header(ctx, "X-Checked-By", "PLUGIN_NAME")
end

function _M.header_filter(conf, ctx)
    core.response.set_header("X-Served-By", "PLUGIN_NAME")
end

return _M
