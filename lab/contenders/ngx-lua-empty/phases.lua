-- What runs in each phase of a request: the calls that no gateway on this module can do without, and nothing of its own.
local set_current_peer = require("ngx.balancer").set_current_peer
local variable = ngx.var

local phases = {}

function phases.for_origin(host, port)
  -- The origin, whom a real gateway would choose here.
  function phases.balancer()
    local done, problem = set_current_peer(host, port)
    if not done then
      ngx.log(ngx.ERR, problem)
      ngx.exit(500)
    end
  end
  return phases
end

-- The prefix that is taken off the path, as the others do.
function phases.rewrite()
  local path = variable.uri
  if path:sub(1, 7) == "/sodik/" then
    ngx.req.set_uri(path:sub(7))
  end
end

-- What a router would look at.
function phases.access()
  ngx.ctx.matched = variable.uri ~= nil and variable.request_method ~= nil and variable.host ~= nil
end

function phases.header_filter()
  local _ = ngx.ctx.matched
end

function phases.body_filter() end

function phases.log()
  local _ = variable.status
end

return phases
