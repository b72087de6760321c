-- apisix.utils.content-decode: decoders of coded bodies.
local _, native = ...

local decoders = {
    gzip = function(data)
        local text, reason = native.gunzip(data)
        if not text then
            return nil, "inflate gzip err: " .. reason
        end
        return text
    end,
}

return {
    -- The decoder of a content coding; nothing where there is none.
    dispatch_decoder = function(coding)
        return decoders[coding]
    end,
}
