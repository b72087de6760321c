-- weir.http_reader: reads the head and the body of an HTTP/1 response from a socket, for `resty.http`.
local http_headers = require("resty.http_headers")
local find, lower, match, sub = string.find, string.lower, string.match, string.sub
local insert, tonumber, type = table.insert, tonumber, type

local M = {}

-- Lines of a head or of trailers, and bytes of one line: servers that send more are broken or hostile.
local LINES_MAX, LINE_BYTES_MAX = 256, 16384
-- Informational heads before the response.
local INFORMATIONAL_MAX = 8
-- Bytes of a body that is read as a whole: the interpreter of a worker holds at most a few of them.
local BODY_BYTES_MAX = 33554432
-- Bytes of one part of a body.
local CHUNK_BYTES = 65536

local function line_of(socket)
    local line, reason, partial = socket:receive("*l")
    if not line then
        return nil, reason, partial
    elseif #line > LINE_BYTES_MAX then
        return nil, "header line too long"
    end
    return line
end

local function add(headers, name, value)
    local known = headers[name]
    if known == nil then
        headers[name] = value
    elseif type(known) == "table" then
        insert(known, value)
    else
        headers[name] = { known, value }
    end
end

-- Reads fields up to the empty line into `headers`.
local function read_fields(socket, headers)
    for _ = 1, LINES_MAX do
        local line, reason = line_of(socket)
        if not line then
            return nil, reason
        elseif line == "" then
            return headers
        end
        local name, value = match(line, "^([^%s:]+):%s*(.-)%s*$")
        if not name then
            return nil, "malformed header line"
        end
        add(headers, name, value)
    end
    return nil, "too many header lines"
end

local function status_of(line)
    local version, status, reason = match(line, "^HTTP/(%d%.%d) (%d%d%d) ?(.*)$")
    if not version then
        return nil, "couldn't parse HTTP response head: " .. sub(line, 1, 100)
    end
    return { version = tonumber(version), status = tonumber(status), reason = reason }
end

-- The status line and the headers of the response; informational heads before it are skipped.
function M.head(socket)
    for _ = 1, INFORMATIONAL_MAX do
        local line, reason = line_of(socket)
        if not line then
            return nil, reason
        end
        local head, fault = status_of(line)
        if not head then
            return nil, fault
        end
        head.headers, fault = read_fields(socket, http_headers.new())
        if not head.headers then
            return nil, fault
        end
        if head.status >= 200 or head.status == 101 then
            return head
        end
    end
    return nil, "too many informational responses"
end

local function chunk_size(socket)
    local line, reason = line_of(socket)
    if not line then
        return nil, reason
    end
    local size = match(line, "^%s*(%x+)")
    size = size and #size <= 8 and tonumber(size, 16)
    if not size then
        return nil, "unable to read chunksize"
    end
    return size
end

-- Reads a body in chunks. A function that gives the next part, at most as many bytes as it is asked for; nothing at the end.
local function chunked_reader(socket, headers, finish)
    local left, is_over = 0, false
    return function(bytes_max)
        if is_over then
            return nil
        end
        if left == 0 then
            local size, reason = chunk_size(socket)
            if not size then
                return nil, reason
            elseif size == 0 then
                is_over = true
                local ok, fault = read_fields(socket, headers)
                if not ok then
                    return nil, fault
                end
                finish()
                return nil
            end
            left = size
        end
        local part, reason = socket:receive(math.min(left, bytes_max or CHUNK_BYTES))
        if not part then
            return nil, reason
        end
        left = left - #part
        if left == 0 then
            local line, fault = line_of(socket)
            if line ~= "" then
                return nil, fault or "malformed chunk"
            end
        end
        return part
    end
end

local function length_reader(socket, length, finish)
    local left = length
    if left == 0 then
        finish()
    end
    return function(bytes_max)
        if left == 0 then
            return nil
        end
        local part, reason, partial = socket:receive(math.min(left, bytes_max or CHUNK_BYTES))
        if not part then
            return nil, reason, partial
        end
        left = left - #part
        if left == 0 then
            finish()
        end
        return part
    end
end

-- Reads to the end of the connection, which cannot be kept then.
local function closing_reader(socket)
    local is_over = false
    return function(bytes_max)
        if is_over then
            return nil
        end
        local part, reason, partial = socket:receive(bytes_max or CHUNK_BYTES)
        if part then
            return part
        end
        is_over = true
        if reason == "closed" then
            if partial and partial ~= "" then
                return partial
            end
            return nil
        end
        return nil, reason, partial
    end
end

-- The reader of the body of `head`; nothing where there is none. `finish` is called once the body is read.
function M.body(socket, head, method, finish)
    local headers, status = head.headers, head.status
    if method == "HEAD" or status == 204 or status == 304 or status == 101 then
        finish()
        return nil
    end
    local coding = headers["Transfer-Encoding"]
    if type(coding) == "table" then
        coding = coding[#coding]
    end
    if coding and find(lower(coding), "chunked", 1, true) then
        return chunked_reader(socket, headers, finish)
    end
    local length = headers["Content-Length"]
    if type(length) == "table" then
        return nil, "more than one Content-Length"
    elseif length then
        if not match(length, "^%d+$") or #length > 15 then
            return nil, "invalid Content-Length"
        end
        return length_reader(socket, tonumber(length), finish)
    end
    return closing_reader(socket)
end

-- The whole body that `reader` gives.
function M.all(reader)
    local parts, bytes = {}, 0
    while true do
        local part, reason = reader(CHUNK_BYTES)
        if reason then
            return nil, reason, table.concat(parts)
        elseif not part then
            return table.concat(parts)
        end
        bytes = bytes + #part
        if bytes > BODY_BYTES_MAX then
            return nil, "body larger than " .. BODY_BYTES_MAX .. " bytes"
        end
        parts[#parts + 1] = part
    end
end

return M
