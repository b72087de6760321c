-- resty.sha1: the digest SHA-1 of parts.
local _, native = ...

return require("weir.digest")(function(data) return native.digest("sha1", data) end)
