-- Sends an entry for each request to an HTTP service, in batches.
local core = require("apisix.core")
local http = require("resty.http")
local log_util = require("apisix.utils.log-util")
local bp_manager_mod = require("apisix.utils.batch-processor-manager")

local plugin_name = "log-sender"
local batch_processor_manager = bp_manager_mod.new(plugin_name)

local schema = {
    type = "object",
    properties = {
        uri = core.schema.uri_def,
        auth_header = { type = "string" },
        timeout = { type = "integer", minimum = 1, default = 3000 },
        ssl_verify = { type = "boolean", default = false },
        log_format = { type = "object" },
        include_req_body = { type = "boolean", default = false },
    },
    required = { "uri" },
}

local metadata_schema = {
    type = "object",
    properties = {
        log_format = { type = "object" },
    },
}

local _M = {
    version = 0.1,
    priority = 409,
    name = plugin_name,
    schema = batch_processor_manager:wrap_schema(schema),
    metadata_schema = metadata_schema,
}

function _M.check_schema(conf, schema_type)
    if schema_type == core.schema.TYPE_METADATA then
        return core.schema.check(metadata_schema, conf)
    end
    core.utils.check_https({ "uri" }, conf, plugin_name)
    return core.schema.check(schema, conf)
end

local function send(conf, body)
    local client = http.new()
    client:set_timeout(conf.timeout)
    local res, err = client:request_uri(conf.uri, {
        method = "POST",
        body = body,
        headers = {
            ["Content-Type"] = "application/json",
            ["Authorization"] = conf.auth_header,
        },
        ssl_verify = conf.ssl_verify,
    })
    if not res then
        return false, "failed to send entries: " .. err
    end
    if res.status >= 400 then
        return false, "the service answers " .. res.status
    end
    return true
end

function _M.access(conf, ctx)
    if conf.include_req_body then
        log_util.check_and_read_req_body(conf, ctx)
    end
end

function _M.log(conf, ctx)
    local entry = log_util.get_log_entry(plugin_name, conf, ctx)
    if not entry then
        return
    end
    if batch_processor_manager:add_entry(conf, entry) then
        return
    end

    batch_processor_manager:add_entry_to_new_processor(conf, entry, ctx, function(entries)
        local body, err = core.json.encode(entries)
        if not body then
            return false, "failed to encode entries: " .. err
        end
        return send(conf, body)
    end)
end

return _M
