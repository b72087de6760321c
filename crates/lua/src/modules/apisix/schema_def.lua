-- apisix.schema_def: parts of schemas that plugins share.
local M = { version = 0.5 }

M.anonymous_consumer_schema = { type = "string", minLength = 1 }

-- The realm of a challenge: printable text without quotes and backslashes.
function M.get_realm_schema(default)
    return {
        type = "string", pattern = "^[ -!#-\\[\\]-~]+$", minLength = 1, maxLength = 128, default = default,
    }
end

M.host_def = { type = "string", pattern = "^\\*$|^\\*?[0-9a-zA-Z-._\\[\\]:]+$" }

local number = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
M.ip_def = {
    { title = "IPv4", type = "string", format = "ipv4" },
    {
        title = "IPv4/CIDR", type = "string",
        pattern = "^(" .. number .. "\\.){3}" .. number .. "/(3[0-2]|[12]?[0-9])$",
    },
    { title = "IPv6", type = "string", format = "ipv6" },
    {
        title = "IPv6/CIDR", type = "string",
        pattern = "^([a-fA-F0-9]{0,4}:){1,8}(:[a-fA-F0-9]{0,4}){0,8}([a-fA-F0-9]{0,4})?/[0-9]{1,3}$",
    },
}

M.uri_def = { type = "string", pattern = "^[^/]+://([0-9a-zA-Z.-]+|\\[[0-9a-fA-F:]+\\])(:[0-9]+)?" }

M.label_value_def = {
    description = "value of label", type = "string", pattern = "^\\S+$", minLength = 1, maxLength = 256,
}

M.id_schema = {
    anyOf = {
        { type = "string", minLength = 1, maxLength = 64, pattern = "^[a-zA-Z0-9-_.]+$" },
        { type = "integer", minimum = 1 },
    },
}

M.method_schema = {
    description = "HTTP method", type = "string",
    enum = { "GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "CONNECT", "TRACE", "PURGE" },
}

M.upstream_hash_vars_schema = {
    type = "string",
    pattern = "^((uri|server_name|server_addr|request_uri|remote_port|remote_addr|query_string|host|hostname|mqtt_client_id)"
        .. "|arg_[0-9a-zA-z_-]+)$",
}
M.upstream_hash_header_schema = { type = "string", pattern = "^[a-zA-Z0-9-_]+$" }

M.plugins = { type = "object" }

-- Fields of each configuration of a plugin.
M.plugin_injected_schema = {
    ["$comment"] = "this is a mark for our injected plugin schema",
    _meta = {
        type = "object",
        properties = {
            disable = { type = "boolean", description = "If set to true, the plugin will be disabled." },
            error_response = { oneOf = { { type = "string" }, { type = "object" } } },
            priority = { type = "integer", description = "priority of plugins by customized order" },
            filter = { type = "array", description = "filter determines whether the plugin needs to be executed at runtime" },
            pre_function = { type = "string", description = "function to be executed in each phase before execution of plugins." },
        },
        additionalProperties = false,
    },
}

return M
