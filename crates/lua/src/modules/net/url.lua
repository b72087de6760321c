-- net.url: parses and builds URLs; the query is a table.
local concat, format, ipairs, pairs, setmetatable = table.concat, string.format, ipairs, pairs, setmetatable
local sort, tostring, type = table.sort, tostring, type

local M = { version = "1.1.0" }
local of_urls, of_queries = { __index = M, __metatable = false }, { __metatable = false }

local PORTS = { http = 80, https = 443, ftp = 21, ws = 80, wss = 443 }
-- Arguments of one query that are read.
local ARGUMENTS_MAX = 1000

local function decode(text)
    return (text:gsub("+", " "):gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end))
end

-- Characters that stay as they are in a path.
M.options = { legal_in_path = {} }
for char in ("-_.!~*'()@:&=$,;"):gmatch(".") do
    M.options.legal_in_path[char] = true
end

-- A path with the encoding that each segment needs and no other; an encoded slash stays one.
local function normal_path(path)
    local legal = M.options.legal_in_path
    return (path:gsub("[^/]+", function(segment)
        segment = segment:gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end)
        return (segment:gsub("[^%w]", function(char)
            return legal[char] and char or format("%%%02X", char:byte())
        end))
    end))
end

local function encode(text)
    return (tostring(text):gsub("[^%w%-_%.~]", function(char) return format("%%%02X", char:byte()) end))
end

-- The arguments of a query by name; a list where a name comes twice.
function M.parseQuery(text)
    local args, count = setmetatable({}, of_queries), 0
    for part in tostring(text):gmatch("[^&]+") do
        count = count + 1
        if count > ARGUMENTS_MAX then
            break
        end
        local name, value = part:match("^([^=]*)=?(.*)$")
        name, value = decode(name), decode(value)
        local known = args[name]
        if known == nil then
            args[name] = value
        elseif type(known) == "table" then
            known[#known + 1] = value
        else
            args[name] = { known, value }
        end
    end
    return args
end

-- A query of `args`, in the order of the names.
function M.buildQuery(args)
    local parts = {}
    for name, value in pairs(args) do
        for _, one in ipairs(type(value) == "table" and value or { value }) do
            parts[#parts + 1] = encode(name) .. (one == "" and "" or "=" .. encode(one))
        end
    end
    sort(parts)
    return concat(parts, "&")
end
of_queries.__tostring = M.buildQuery

function M.setAuthority(url, authority)
    url.authority = authority
    local user, rest = authority:match("^(.*)@([^@]*)$")
    if user then
        url.userinfo, authority = user, rest
        url.user, url.password = user:match("^([^:]*):?(.*)$")
        if url.password == "" then
            url.password = nil
        end
    end
    local host, port = authority:match("^(%[.*%]):?(%d*)$")
    if not host then
        host, port = authority:match("^([^:]*):?(%d*)$")
    end
    url.host = host and host:lower() or authority:lower()
    url.port = tonumber(port)
    return authority
end

function M.parse(text)
    text = tostring(text)
    local url = setmetatable({ query = M.parseQuery("") }, of_urls)
    local rest, fragment = text:match("^([^#]*)#(.*)$")
    if rest then
        text, url.fragment = rest, fragment
    end
    local scheme, behind = text:match("^([%w][%w%+%-%.]*):(.*)$")
    if scheme and (behind:sub(1, 2) == "//" or not behind:match("^%d+")) then
        url.scheme, text = scheme:lower(), behind
    end
    local before, query = text:match("^([^?]*)%?(.*)$")
    if before then
        text, url.query = before, M.parseQuery(query)
    end
    local authority, path = text:match("^//([^/]*)(.*)$")
    if authority then
        M.setAuthority(url, authority)
        text = path
    end
    url.path = normal_path(text)
    return url
end

function M:build()
    local parts = {}
    local function add(text)
        parts[#parts + 1] = text
    end
    if self.scheme then
        add(self.scheme .. ":")
    end
    if self.host then
        add("//" .. (self.userinfo and self.userinfo .. "@" or "") .. self.host)
        if self.port and self.port ~= PORTS[self.scheme] then
            add(":" .. self.port)
        end
    end
    add(normal_path(self.path or ""))
    local query = type(self.query) == "table" and M.buildQuery(self.query) or self.query
    if query and query ~= "" then
        add("?" .. query)
    end
    if self.fragment then
        add("#" .. self.fragment)
    end
    return concat(parts)
end
of_urls.__tostring = M.build

function M:addSegment(segment)
    self.path = (self.path or ""):gsub("/$", "") .. "/" .. normal_path((tostring(segment):gsub("/", "%%2F")))
    return self
end

return M
