-- pl.stringx: texts without patterns.
local _, native = ...
local find, sub = string.find, string.sub

local M = {}

-- Parts of one text.
local PARTS_MAX = 100000

local function class(chars)
    if not chars then
        return "%s"
    end
    return "[" .. chars:gsub("[%]%^%%%-]", "%%%0") .. "]"
end

function M.lstrip(text, chars)
    return (text:gsub("^" .. class(chars) .. "+", ""))
end

function M.rstrip(text, chars)
    local one, last = class(chars), #text
    while last > 0 and find(sub(text, last, last), one) do
        last = last - 1
    end
    return sub(text, 1, last)
end

function M.strip(text, chars)
    return M.rstrip(M.lstrip(text, chars), chars)
end

function M.startswith(text, prefix)
    return sub(text, 1, #prefix) == prefix
end

function M.endswith(text, suffix)
    return suffix == "" or sub(text, -#suffix) == suffix
end

-- The parts between `separator`, by default between white space; at most `count` cuts.
function M.split(text, separator, count)
    local parts, from = {}, 1
    if not separator or separator == "" then
        for part in text:gmatch("%S+") do
            parts[#parts + 1] = part
        end
        return parts
    end
    while #parts < (count or PARTS_MAX) do
        local first, last = find(text, separator, from, true)
        if not first then
            break
        end
        parts[#parts + 1] = sub(text, from, first - 1)
        from = last + 1
    end
    parts[#parts + 1] = sub(text, from)
    return parts
end

function M.join(separator, parts)
    return table.concat(parts, separator)
end

function M.replace(text, old, new, count)
    local parts = M.split(text, old, count)
    return table.concat(parts, new)
end

function M.count(text, part)
    return #M.split(text, part) - 1
end

function M.isalpha(text) return find(text, "^%a+$") == 1 end
function M.isdigit(text) return find(text, "^%d+$") == 1 end
function M.isalnum(text) return find(text, "^%w+$") == 1 end
function M.isspace(text) return find(text, "^%s+$") == 1 end

return native.complete("pl.stringx", M)
