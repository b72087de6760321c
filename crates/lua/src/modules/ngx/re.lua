-- ngx.re: splits texts by patterns.
local sub = string.sub

local M = { version = "0.1.29" }

-- Parts of one text where no limit is given.
local PARTS_MAX = 100000

local function bytes_of(text, from, count_max, parts)
    local count = 0
    while from <= #text and count < count_max - 1 do
        count = count + 1
        parts[count] = sub(text, from, from)
        from = from + 1
    end
    if from <= #text then
        count = count + 1
        parts[count] = sub(text, from)
    end
    parts[count + 1] = nil
    return parts
end

-- The parts of `text` between matches of `pattern`, with the first capture of each match as a part. At most `count_max` parts
-- between matches; they are put into `parts` if it is given.
function M.split(text, pattern, options, ctx, count_max, parts)
    text, parts = tostring(text), parts or {}
    local from = ctx and ctx.pos or 1
    local limit = count_max and count_max > 0 and count_max or PARTS_MAX
    if from > #text then
        parts[1] = nil
        return parts
    elseif pattern == "" then
        return bytes_of(text, from, limit, parts)
    end
    local count, between, place = 0, 1, { pos = from }
    while between < limit do
        local match, reason = ngx.re.match(text, pattern, options, place)
        if reason then
            return nil, reason
        elseif not match or match[0] == "" then
            -- A match of nothing would be found again and again.
            break
        end
        between, count = between + 1, count + 1
        parts[count] = sub(text, from, place.pos - 1 - #match[0])
        if match[1] then
            count = count + 1
            parts[count] = match[1]
        end
        from = place.pos
    end
    if ctx then
        ctx.pos = from
    end
    parts[count + 1], parts[count + 2] = sub(text, from), nil
    return parts
end

-- Settings of the pattern engine are those of the gateway.
function M.opt() end

return M
