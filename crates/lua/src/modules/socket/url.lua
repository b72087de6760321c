-- socket.url: parses and builds URLs; no part is decoded.
local byte, char, format, tonumber = string.byte, string.char, string.format, tonumber

local M = { _VERSION = "URL 1.0.3" }

function M.escape(text)
    return (text:gsub("([^A-Za-z0-9_])", function(one) return format("%%%02x", byte(one)) end))
end

function M.unescape(text)
    return (text:gsub("%%(%x%x)", function(hex) return char(tonumber(hex, 16)) end))
end

function M.parse(text, default)
    local url = {}
    for name, value in pairs(default or {}) do
        url[name] = value
    end
    if not text or text == "" then
        return nil, "invalid url"
    end
    local function take(pattern, field)
        text = text:gsub(pattern, function(value)
            url[field] = value
            return ""
        end, 1)
    end
    take("#(.*)$", "fragment")
    take("^([%w][%w%+%-%.]*):", "scheme")
    take("^//([^/%?]*)", "authority")
    take("%?(.*)$", "query")
    take(";(.*)$", "params")
    if text ~= "" then
        url.path = text
    end
    local authority = url.authority
    if not authority then
        return url
    end
    authority = authority:gsub("^([^@]*)@", function(user)
        url.userinfo = user
        return ""
    end)
    authority = authority:gsub(":([^:%]]*)$", function(port)
        url.port = port
        return ""
    end)
    if authority ~= "" then
        url.host = authority:match("^%[(.+)%]$") or authority
    end
    if url.userinfo then
        url.user, url.password = url.userinfo:match("^([^:]*):(.*)$")
        url.user = url.user or url.userinfo
    end
    return url
end

function M.build(url)
    local text = url.path or ""
    if url.params then
        text = text .. ";" .. url.params
    end
    if url.query then
        text = text .. "?" .. url.query
    end
    local authority = url.authority
    if url.host then
        authority = url.host:find(":", 1, true) and "[" .. url.host .. "]" or url.host
        if url.port then
            authority = authority .. ":" .. url.port
        end
        local user = url.userinfo or (url.user and url.user .. (url.password and ":" .. url.password or ""))
        authority = user and user .. "@" .. authority or authority
    end
    if authority then
        text = "//" .. authority .. text
    end
    if url.scheme then
        text = url.scheme .. ":" .. text
    end
    return url.fragment and text .. "#" .. url.fragment or text
end

function M.parse_path(path)
    local parsed = {}
    for segment in (path or ""):gmatch("[^/]+") do
        parsed[#parsed + 1] = M.unescape(segment)
    end
    parsed.is_absolute = (path or ""):sub(1, 1) == "/" and 1 or nil
    parsed.is_directory = (path or ""):sub(-1) == "/" and 1 or nil
    return parsed
end

return M
