-- apisix.core.resolver: looks names of machines up, as the gateway does for its upstreams.
local _, native = ...
local log = require("apisix.core.log")

local M = {}

-- The first address of `name`, or nothing and the reason.
function M.parse_domain(name)
    local addresses, reason = native.resolve(name)
    if not addresses or not addresses[1] then
        reason = reason or "failed to parse domain"
        log.error("failed to parse domain: ", name, ", error: ", reason)
        return nil, reason
    end
    return addresses[1]
end

-- All addresses of `name` in order, or nothing and the reason.
function M.parse_domain_all(name)
    local addresses, reason = native.resolve(name)
    if not addresses or not addresses[1] then
        reason = reason or "failed to parse domain"
        log.error("failed to parse domain: ", name, ", error: ", reason)
        return nil, reason
    end
    table.sort(addresses)
    return addresses
end

return M
