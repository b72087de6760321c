-- apisix.core.ip: addresses and networks.
local matcher = require("resty.ipmatcher")
local log, json = require("apisix.core.log"), require("apisix.core.json")
local find, sub, tonumber = string.find, string.sub, tonumber

local M = {}

function M.create_ip_matcher(list)
    local made, reason = matcher.new(list)
    if not made then
        log.error("failed to create ip matcher: ", reason, " ip list: ", json.delay_encode(list))
        return nil
    end
    return made
end

-- Whether `text` is an address or a network. For an address of IPv6 it is the parsed address.
function M.validate_cidr_or_ip(text)
    local slash, bits = find(text, "/", 1, true), 0
    if slash then
        bits = tonumber(sub(text, slash + 1))
        if not bits or bits < 0 or bits > 128 then
            return false
        end
        text = sub(text, 1, slash - 1)
    end
    if matcher.parse_ipv4(text) then
        return bits <= 32
    end
    return matcher.parse_ipv6(text)
end

return M
