-- resty.cookie: reads the cookies of the request and sets one in the response.
local add_header = require("ngx.resp").add_header
local setmetatable, tostring = setmetatable, tostring

local Cookies = { _VERSION = "0.1.0" }
local of_cookies = { __index = Cookies, __metatable = false }

-- Cookies of one request that are read.
local COOKIES_MAX = 1000

function Cookies:new()
    return setmetatable({ text = ngx.var.http_cookie }, of_cookies)
end

function Cookies:get_all()
    if not self.text then
        return nil, "no cookie found in current request"
    end
    if not self.values then
        self.values = {}
        local count = 0
        for name, value in self.text:gmatch("%s*([^=;]+)=([^;]*)") do
            count = count + 1
            if count > COOKIES_MAX then
                break
            end
            self.values[name] = (value:gsub('^"(.*)"$', "%1"):gsub("%s+$", ""))
        end
    end
    return self.values
end

function Cookies:get(name)
    local values, reason = self:get_all()
    if not values then
        return nil, reason
    end
    return values[name]
end

-- Sets a cookie: `key`, `value`, and any of `expires`, `max_age`, `domain`, `path`, `secure`, `httponly`, `samesite`, `extension`.
function Cookies:set(cookie)
    if not cookie.key or not cookie.value then
        return nil, 'missing cookie field "key" or "value"'
    end
    local text = cookie.key .. "=" .. cookie.value
    local function add(name, value)
        if value then
            text = text .. "; " .. name .. (value == true and "" or "=" .. tostring(value))
        end
    end
    local max_age = cookie.max_age
    add("Expires", cookie.expires or (max_age and ngx.cookie_time and ngx.cookie_time(ngx.time() + max_age)))
    add("Max-Age", max_age)
    add("Domain", cookie.domain)
    add("Path", cookie.path)
    add("Secure", cookie.secure)
    add("HttpOnly", cookie.httponly)
    add("SameSite", cookie.samesite)
    if cookie.extension then
        text = text .. "; " .. cookie.extension
    end
    if text:find("[%c]") then
        return nil, "invalid character in cookie"
    end
    add_header("Set-Cookie", text)
    return true
end

return Cookies
