-- resty.http_headers: headers that are found whatever their case, with `_` for `-`.
local gsub, lower, rawset, setmetatable, type = string.gsub, string.lower, rawset, setmetatable, type

local M = {}

local function folded(name)
    return type(name) == "string" and lower((gsub(name, "_", "-"))) or name
end

-- A table of headers; `headers` are put into it.
function M.new(headers)
    local names = {}
    local own = setmetatable({}, {
        __index = function(self, name)
            local known = names[folded(name)]
            return known and rawget(self, known) or nil
        end,
        __newindex = function(self, name, value)
            local key = folded(name)
            local known = names[key]
            if known and known ~= name then
                rawset(self, known, nil)
            end
            names[key] = name
            rawset(self, name, value)
        end,
    })
    for name, value in pairs(headers or {}) do
        own[name] = value
    end
    return own
end

return M
