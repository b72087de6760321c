-- apisix.utils.log-sanitize: parameters of calls without secrets, for the log.
local deepcopy = require("apisix.core.table").deepcopy

local SECRET_HEADERS = {
    authorization = true, ["x-api-key"] = true, ["api-key"] = true, cookie = true,
    ["proxy-authorization"] = true, ["x-amz-security-token"] = true,
}

local M = {}

function M.redact_params(params)
    local shown = {
        method = params.method, scheme = params.scheme, host = params.host, port = params.port, path = params.path,
        ssl_server_name = params.ssl_server_name,
    }
    if params.headers then
        shown.headers = {}
        for name, value in pairs(params.headers) do
            shown.headers[name] = SECRET_HEADERS[name:lower()] and "[REDACTED]" or value
        end
    end
    return shown
end

function M.redact_extra_opts(options)
    local shown = deepcopy(options)
    shown.auth = nil
    return shown
end

return M
