-- wrk: asks for the paths of a file in turn. LAB_PATHS names the file, LAB_DELAY_MS (optional) the pause of each
-- connection between two requests, for a load that leaves room beside it.
local requests, at = {}, 0

function init()
  for path in io.lines(os.getenv("LAB_PATHS")) do
    requests[#requests + 1] = wrk.format("GET", path)
  end
end

function request()
  at = at % #requests + 1
  return requests[at]
end

local pause = tonumber(os.getenv("LAB_DELAY_MS") or "")
if pause then
  function delay()
    return pause
  end
end
