-- weir.digest: digests of data that comes in parts; the modules of the digests are made of it.
local concat, setmetatable, tostring, type = table.concat, setmetatable, tostring, type

return function(digest)
    local Digest = { _VERSION = "0.16" }
    local of_digests = { __index = Digest, __metatable = false }

    function Digest.new()
        return setmetatable({ parts = {} }, of_digests)
    end

    function Digest:update(part)
        if type(part) ~= "string" and type(part) ~= "number" then
            return nil
        end
        self.parts[#self.parts + 1] = tostring(part)
        return true
    end

    function Digest:final()
        return digest(concat(self.parts))
    end

    function Digest:reset()
        self.parts = {}
        return true
    end

    return Digest
end
