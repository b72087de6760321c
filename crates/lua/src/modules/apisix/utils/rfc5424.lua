-- apisix.utils.rfc5424: lines of syslog.
local timestamp = require("apisix.utils.log-util").get_rfc3339_zulu_timestamp
local format, ipairs = string.format, ipairs

local FACILITIES = {
    KERN = 0, USER = 1, MAIL = 2, DAEMON = 3, AUTH = 4, SYSLOG = 5, LPR = 6, NEWS = 7, UUCP = 8, CRON = 9, AUTHPRIV = 10,
    FTP = 11, LOCAL0 = 16, LOCAL1 = 17, LOCAL2 = 18, LOCAL3 = 19, LOCAL4 = 20, LOCAL5 = 21, LOCAL6 = 22, LOCAL7 = 23,
}
local SEVERITIES = {
    EMEGR = 0, EMERG = 0, ALERT = 1, CRIT = 2, ERR = 3, WARNING = 4, NOTICE = 5, INFO = 6, DEBUG = 7,
}

local M = { version = 0.1 }

-- The line of one message; `parameters` is a list of `{ name = ..., value = ... }`.
function M.encode(facility, severity, hostname, application, pid, message, parameters)
    local priority = FACILITIES[facility] * 8 + SEVERITIES[severity]
    local data = "-"
    if parameters then
        data = "[logservice"
        for _, parameter in ipairs(parameters) do
            data = data .. format(' %s="%s"', parameter.name, parameter.value)
        end
        data = data .. "]"
    end
    return format("<%d>1 %s %s %s %d - %s %s\n", priority, timestamp(), hostname or "-", application or "-", pid, data, message)
end

return M
