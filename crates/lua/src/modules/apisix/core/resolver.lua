-- apisix.core.resolver: addresses of machines. Names are looked up by sockets when they connect, so that a script looks up none.
local _, native = ...

local M = {}

-- `host` if it is an address, otherwise nothing and the reason.
function M.parse_domain(host)
    if native.parse_ip(host) then
        return host
    end
    return nil, "not available in Weir: the lookup of " .. tostring(host) .. "; connect to the name instead"
end

-- As `parse_domain`, with a list.
function M.parse_domain_all(host)
    local address, reason = M.parse_domain(host)
    if not address then
        return nil, reason
    end
    return { address }
end

return M
