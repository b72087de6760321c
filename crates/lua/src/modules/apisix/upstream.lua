-- apisix.upstream: checks upstreams that plugins make. Upstreams are compiled with the configuration, so that a script sets none.
local _, native = ...
local core = require("apisix.core")

local node = {
    type = "object",
    properties = {
        host = core.schema.host_def,
        port = { type = "integer", minimum = 1, maximum = 65535 },
        weight = { type = "integer", minimum = 0 },
        priority = { type = "integer", default = 0 },
    },
    required = { "host", "weight" },
}

local schema = {
    type = "object",
    properties = {
        type = { type = "string" },
        scheme = { enum = { "grpc", "grpcs", "http", "https", "tcp", "tls", "udp", "kafka" }, default = "http" },
        nodes = {
            anyOf = {
                { type = "object", patternProperties = { [".*"] = { type = "integer", minimum = 0 } } },
                { type = "array", items = node },
            },
        },
    },
}

local M = {}

function M.check_schema(conf)
    return core.schema.check(schema, conf)
end

return native.complete("apisix.upstream", M)
