-- inspect: values as text for people.
local format, pairs, rep, sort = string.format, pairs, string.rep, table.sort
local tostring, type = tostring, type

-- Tables inside each other that are shown.
local DEPTH_MAX = 32

local function show(value, indent, met, depth_max)
    if type(value) == "string" then
        return format("%q", value)
    elseif type(value) ~= "table" then
        return tostring(value)
    elseif met[value] then
        return "<table>"
    elseif indent >= depth_max then
        return "{...}"
    end
    met[value] = true
    local parts, keys, length = {}, {}, #value
    for index = 1, length do
        parts[index] = show(value[index], indent + 1, met, depth_max)
    end
    for key in pairs(value) do
        if not (type(key) == "number" and key >= 1 and key <= length and key % 1 == 0) then
            keys[#keys + 1] = key
        end
    end
    sort(keys, function(left, right) return tostring(left) < tostring(right) end)
    local inner = "\n" .. rep("  ", indent + 1)
    for _, key in pairs(keys) do
        local name = type(key) == "string" and key:match("^[%a_][%w_]*$")
        name = name or "[" .. show(key, indent + 1, met, depth_max) .. "]"
        parts[#parts + 1] = inner .. name .. " = " .. show(value[key], indent + 1, met, depth_max)
    end
    met[value] = nil
    if #parts == 0 then
        return "{}"
    elseif #keys == 0 then
        return "{ " .. table.concat(parts, ", ") .. " }"
    end
    return "{" .. (length > 0 and " " or "") .. table.concat(parts, ", "):gsub(", \n", ",\n") .. "\n" .. rep("  ", indent) .. "}"
end

local function inspect(value, options)
    return show(value, 0, {}, options and options.depth or DEPTH_MAX)
end

return setmetatable({ inspect = inspect, _VERSION = "inspect.lua 3.1.0" }, {
    __call = function(_, value, options) return inspect(value, options) end,
})
