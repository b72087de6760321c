-- pl.path: paths as texts. Scripts have no files, so that nothing is looked up.
local _, native = ...

local M = { sep = "/", dirsep = ":", is_windows = false }

function M.splitpath(path)
    local folder, name = path:match("^(.*)/([^/]*)$")
    if not folder then
        return "", path
    end
    return folder, name
end

function M.splitext(path)
    local stem, extension = path:match("^(.*[^/])(%.[^./]*)$")
    if not stem then
        return path, ""
    end
    return stem, extension
end

function M.dirname(path) return (M.splitpath(path)) end
function M.basename(path) return (select(2, M.splitpath(path))) end
function M.extension(path) return (select(2, M.splitext(path))) end
function M.isabs(path) return path:sub(1, 1) == "/" end

function M.join(first, ...)
    local path = first
    for index = 1, select("#", ...) do
        local part = (select(index, ...))
        if M.isabs(part) then
            path = part
        else
            path = (path == "" or path:sub(-1) == "/") and path .. part or path .. "/" .. part
        end
    end
    return path
end

function M.normpath(path)
    local kept = {}
    for part in path:gmatch("[^/]+") do
        if part == ".." and #kept > 0 and kept[#kept] ~= ".." then
            kept[#kept] = nil
        elseif part ~= "." and not (part == ".." and M.isabs(path)) then
            kept[#kept + 1] = part
        end
    end
    local made = (M.isabs(path) and "/" or "") .. table.concat(kept, "/")
    return made == "" and "." or made
end

return native.complete("pl.path", M)
