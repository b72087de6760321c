-- resty.ipmatcher: sets of addresses and networks.
local _, native = ...
local ipairs, pairs, setmetatable, type = ipairs, pairs, setmetatable, type

local Matcher = { _VERSION = "0.6.1" }
local of_matchers = { __index = Matcher, __metatable = false }

-- The address as a number, or false.
function Matcher.parse_ipv4(text)
    local kind, value = native.parse_ip(text)
    return kind == 4 and value or false
end

-- The four words of the address, or false.
function Matcher.parse_ipv6(text)
    local kind, value = native.parse_ip(text)
    return kind == 6 and value or false
end

function Matcher.new(list)
    if type(list) ~= "table" then
        return nil, "missing valid ip argument"
    end
    local contains, reason = native.networks(list)
    if not contains then
        return nil, reason
    end
    return setmetatable({ contains = contains }, of_matchers)
end

-- As `new`, with a value for each address or network.
function Matcher.new_with_value(values)
    local matcher = { values = {} }
    local list = {}
    for text, value in pairs(values) do
        local contains, reason = native.networks({ text })
        if not contains then
            return nil, reason
        end
        list[#list + 1] = text
        matcher.values[#matcher.values + 1] = { contains = contains, value = value }
    end
    local contains, reason = native.networks(list)
    if not contains then
        return nil, reason
    end
    matcher.contains = contains
    return setmetatable(matcher, of_matchers)
end

-- True (or the value), or false; false and a reason for text that is no address.
function Matcher:match(text)
    local found = self.contains(text)
    if found == nil then
        return false, "invalid ip address, not ipv4 and ipv6"
    elseif not found then
        return false
    elseif not self.values then
        return true
    end
    for _, entry in ipairs(self.values) do
        if entry.contains(text) then
            return entry.value
        end
    end
    return false
end

return Matcher
