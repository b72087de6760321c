-- Names the phases of a request in response headers and in the log. It shows each function that a plugin may have.
local core = require("apisix.core")
local plugin = require("apisix.plugin")

local plugin_name = "show-phases"

local schema = {
    type = "object",
    properties = {
        header = { type = "string", minLength = 1, default = "X-Phases" },
        reject_with = { type = "integer", minimum = 400, maximum = 599 },
    },
}

local metadata_schema = {
    type = "object",
    properties = {
        suffix = { type = "string" },
    },
}

local _M = {
    version = 0.1,
    priority = 1500,
    name = plugin_name,
    schema = schema,
    metadata_schema = metadata_schema,
}

function _M.check_schema(conf, schema_type)
    if schema_type == core.schema.TYPE_METADATA then
        return core.schema.check(metadata_schema, conf)
    end
    return core.schema.check(schema, conf)
end

function _M.init()
    core.log.info(plugin_name, " is loaded")
end

function _M.destroy()
    core.log.info(plugin_name, " is gone")
end

local function note(ctx, phase)
    ctx.shown_phases = ctx.shown_phases or {}
    core.table.insert(ctx.shown_phases, phase)
end

function _M.rewrite(conf, ctx)
    note(ctx, "rewrite")
end

function _M.access(conf, ctx)
    note(ctx, "access")
    if conf.reject_with then
        return conf.reject_with, { message = "rejected by " .. plugin_name }
    end
end

function _M.before_proxy(conf, ctx)
    note(ctx, "before_proxy")
end

function _M.header_filter(conf, ctx)
    note(ctx, "header_filter")
    local metadata = plugin.plugin_metadata(plugin_name)
    local suffix = metadata and metadata.value.suffix or ""
    core.response.set_header(conf.header, core.table.concat(ctx.shown_phases, ",") .. suffix)
end

function _M.body_filter(conf, ctx)
    if ngx.arg[2] then
        note(ctx, "body_filter")
    end
end

function _M.log(conf, ctx)
    note(ctx, "log")
    core.log.warn("phases of ", ctx.var.uri, ": ", core.table.concat(ctx.shown_phases, ","))
end

return _M
