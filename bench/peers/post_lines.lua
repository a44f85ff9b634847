-- wrk script: posts the lines of a file as JSON bodies, in turn, and prints what happened as JSON.
-- A file NAME.body is one body as it is.
--   wrk -t1 -c16 -d5s -s post_lines.lua URL -- FILE ["Header: value" ...]
local requests, turn = {}, 0

local function bodies(name)
  if not name:match("%.body$") then return io.lines(name) end
  return io.lines(name, "*a")
end

function init(args)
  for line in bodies(args[1]) do
    if line == "" then break end
    local headers = {["Content-Type"] = "application/json"}
    for i = 2, #args do
      local name, value = args[i]:match("^([^:]+):%s*(.*)$")
      headers[name] = value
    end
    requests[#requests + 1] = wrk.format("POST", wrk.path, headers, line)
  end
end

function request()
  turn = turn % #requests + 1
  return requests[turn]
end

function done(summary, latency, _)
  local e = summary.errors
  io.write(string.format(
    '\n{"requests": %d, "seconds": %.6f, "failed": %d, "p50_ms": %.4f, "p99_ms": %.4f}\n',
    summary.requests, summary.duration / 1e6, e.connect + e.read + e.write + e.status + e.timeout,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000))
end
