-- Adds to the decoded body what every template has. The names of it are taken out of the body first, because a client could
-- otherwise replace the functions that escape its own values.
local fields, ctx, body, multipart = ...

local helpers = { _ctx = ctx, _body = body, _multipart = multipart, _escape_json = require("cjson.safe").encode }

local entities = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ["'"] = "&apos;", ['"'] = "&quot;" }

function helpers._escape_xml(text)
    return (string.gsub(text, "[&<>'\"]", entities))
end

for _, name in ipairs({ "_ctx", "_body", "_multipart", "_escape_json", "_escape_xml" }) do
    rawset(fields, name, nil)
end
return setmetatable(fields, { __index = helpers })
