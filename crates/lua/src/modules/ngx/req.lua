-- ngx.req: adds values to headers of the request.
local M = { version = "0.1.29" }

function M.add_header(name, value)
    local known = ngx.req.get_headers(0)[name]
    if known == nil then
        ngx.req.set_header(name, value)
        return
    end
    local values = {}
    for _, from in ipairs({ known, value }) do
        for _, one in ipairs(type(from) == "table" and from or { from }) do
            values[#values + 1] = one
        end
    end
    ngx.req.set_header(name, values)
end

return M
