#include "exec/internal/ward_message.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/decode.h"
#include "base/json.h"

namespace falaj::exec {
namespace {

constexpr std::array<std::string_view, 8> kEndReasons = {"exited",    "signalled",  "out_of_memory",
                                                         "timed_out", "stopped",    "not_started",
                                                         "lost",      "out_of_disk"};

}  // namespace

std::string_view name_of(WardEndReason reason) {
  return kEndReasons[static_cast<std::size_t>(reason)];
}

namespace internal {
namespace {

constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::size_t kWordsMax = 16'384;
constexpr std::array<std::string_view, 8> kOps = {"greet", "start", "stop",   "list",
                                                  "get",   "curve", "forget", "dismiss"};

Error wrong(const std::string& what) { return Error(Code::kInvalidArgument, "a ward's " + what); }

// The place of a word in a list of them.
template <std::size_t N>
Result<std::size_t> place_of(std::string_view word, const std::array<std::string_view, N>& words) {
  const auto at = std::find(words.begin(), words.end(), word);
  if (at == words.end()) return wrong("message has the unknown word '" + std::string(word) + "'");
  return static_cast<std::size_t>(at - words.begin());
}

Value encode(const Limits& limits) {
  Value out;
  out["memory"] = limits.memory_bytes_max;
  out["run_time"] = limits.run_time_max.nanos;
  out["grace"] = limits.grace.nanos;
  out["file"] = limits.file_bytes_max;
  out["processes"] = limits.processes_max;
  out["cpus"] = limits.cpus_max;
  out["disk"] = limits.disk_bytes_max;
  out["bound"] = limits.bound_cpus;
  // A warden of an earlier version does not know it.
  if (limits.bound_node >= 0) out["bound_node"] = limits.bound_node;
  out["io"] = limits.io_bytes_max;
  if (!limits.disk_folders.empty()) out["disk_folders"] = value_of(limits.disk_folders);
  return out;
}

Result<Limits> parse_limits(const Value& value) {
  Fields fields(value, "a ward's limits");
  Limits limits;
  limits.memory_bytes_max = FALAJ_TRY(fields.integer("memory", 0, 0, kAny));
  limits.run_time_max.nanos = FALAJ_TRY(fields.integer("run_time", 0, 0, kAny / 2));
  limits.grace.nanos = FALAJ_TRY(fields.integer("grace", 0, 0, kAny / 4));
  limits.file_bytes_max = FALAJ_TRY(fields.integer("file", 0, 0, kAny));
  limits.processes_max = FALAJ_TRY(fields.integer("processes", 0, 0, kAny));
  limits.cpus_max = FALAJ_TRY(fields.number("cpus", 0));
  limits.disk_bytes_max = FALAJ_TRY(fields.integer("disk", 0, 0, kAny));
  limits.bound_cpus = FALAJ_TRY(fields.integer("bound", 0, 0, 4096));
  limits.bound_node = FALAJ_TRY(fields.integer("bound_node", -1, -1, 4096));
  limits.io_bytes_max = FALAJ_TRY(fields.integer("io", 0, 0, kAny));
  limits.disk_folders = FALAJ_TRY(fields.texts("disk_folders"));
  FALAJ_TRY(fields.finish());
  if (!(limits.cpus_max >= 0 && limits.cpus_max <= 1e6)) {
    return wrong("share of processors is out of range");
  }
  return limits;
}

Value encode(const Sandbox& sandbox) {
  Value out;
  out["enabled"] = sandbox.enabled;
  out["network"] = sandbox.network;
  out["interfaces"] = sandbox.interfaces;
  out["read_only"] = value_of(sandbox.read_only);
  out["read_write"] = value_of(sandbox.read_write);
  out["required"] = value_of(sandbox.required);
  return out;
}

Result<Sandbox> parse_sandbox(const Value& value) {
  Fields fields(value, "a ward's sandbox");
  Sandbox sandbox;
  sandbox.enabled = FALAJ_TRY(fields.boolean("enabled", false));
  sandbox.network = FALAJ_TRY(fields.boolean("network", false));
  sandbox.interfaces = FALAJ_TRY(fields.boolean("interfaces", false));
  sandbox.read_only = FALAJ_TRY(fields.texts("read_only"));
  sandbox.read_write = FALAJ_TRY(fields.texts("read_write"));
  sandbox.required = FALAJ_TRY(fields.texts("required"));
  FALAJ_TRY(fields.finish());
  return sandbox;
}

Value encode(const WardSpec& spec) {
  Value out;
  out["argv"] = value_of(spec.argv);
  Value env = Value::array();
  for (const auto& [name, value] : spec.env) env.push(Value::Array{Value(name), Value(value)});
  out["env"] = std::move(env);
  out["work_dir"] = spec.work_dir;
  out["log_path"] = spec.log_path;
  out["log_bytes_max"] = spec.log_bytes_max;
  out["limits"] = encode(spec.limits);
  out["sandbox"] = encode(spec.sandbox);
  // A warden of an earlier version does not know it.
  if (spec.gpus != 0) out["gpus"] = std::int64_t{spec.gpus};
  return out;
}

Result<std::pair<std::string, std::string>> parse_variable(const Value& value) {
  if (!value.is_array() || value.as_array().size() != 2 || !value.as_array()[0].is_string() ||
      !value.as_array()[1].is_string()) {
    return wrong("environment is a list of names and values");
  }
  const std::string& name = value.as_array()[0].as_string();
  if (name.empty() || name.find('=') != std::string::npos) {
    return wrong("environment has the impossible name '" + name + "'");
  }
  return std::pair(name, value.as_array()[1].as_string());
}

Result<WardSpec> parse_spec(const Value& value) {
  Fields fields(value, "a ward's spec");
  WardSpec spec;
  spec.argv = FALAJ_TRY(fields.texts("argv"));
  const Value::Array env = FALAJ_TRY(fields.list("env"));
  if (spec.argv.size() > kWordsMax || env.size() > kWordsMax) return wrong("words are too many");
  for (const Value& each : env) {
    auto variable = FALAJ_TRY(parse_variable(each));
    spec.env.push_back(std::move(variable));
  }
  spec.work_dir = FALAJ_TRY(fields.text("work_dir"));
  spec.log_path = FALAJ_TRY(fields.text("log_path"));
  spec.log_bytes_max = FALAJ_TRY(fields.integer("log_bytes_max", 0, 0, kAny));
  const Value limits = FALAJ_TRY(fields.object("limits"));
  spec.limits = FALAJ_TRY(parse_limits(limits));
  const Value sandbox = FALAJ_TRY(fields.object("sandbox"));
  spec.sandbox = FALAJ_TRY(parse_sandbox(sandbox));
  spec.gpus = static_cast<std::uint32_t>(FALAJ_TRY(fields.integer("gpus", 0, 0, UINT32_MAX)));
  FALAJ_TRY(fields.finish());
  if (spec.argv.empty() || !spec.argv.front().starts_with('/')) {
    return wrong("program must be an absolute path");
  }
  if (!spec.work_dir.starts_with('/')) return wrong("work folder must be an absolute path");
  if (!spec.log_path.starts_with('/')) return wrong("log must be an absolute path");
  return spec;
}

Value encode(const WardUsage& usage) {
  Value::Array out{Value(usage.at.nanos), Value(usage.cpu_time.nanos), Value(usage.memory_bytes),
                   Value(usage.read_bytes), Value(usage.written_bytes)};
  if (usage.gpu_milli >= 0 || usage.gpu_memory_bytes >= 0) {
    out.emplace_back(usage.gpu_milli);
    out.emplace_back(usage.gpu_memory_bytes);
  }
  return out;
}

Result<WardUsage> parse_usage(const Value& value) {
  if (!value.is_array() || (value.as_array().size() != 5 && value.as_array().size() != 7) ||
      !std::all_of(value.as_array().begin(), value.as_array().end(),
                   [](const Value& each) { return each.is_int(); })) {
    return wrong("usage is five integers, or seven with GPUs");
  }
  const Value::Array& n = value.as_array();
  const bool gpus = n.size() == 7;
  return WardUsage{Duration{n[0].as_int()},
                   Duration{n[1].as_int()},
                   n[2].as_int(),
                   n[3].as_int(),
                   n[4].as_int(),
                   gpus ? n[5].as_int() : -1,
                   gpus ? n[6].as_int() : -1};
}

Value encode(const Ward& ward) {
  Value out;
  out["id"] = ward.id;
  out["at"] = ward.started_at.nanos;
  out["pid"] = ward.pid;
  out["usage"] = encode(ward.usage);
  out["held"] = value_of(ward.protections);
  out["refused"] = value_of(ward.protections_refused);
  if (ward.end) out["end"] = value_of(*ward.end);
  return out;
}

Result<Ward> parse_ward(const Value& value) {
  Fields fields(value, "a ward");
  Ward ward;
  ward.id = FALAJ_TRY(fields.required_text("id"));
  FALAJ_TRY(check_ward_id(ward.id));
  ward.started_at.nanos = FALAJ_TRY(fields.integer("at", 0, kLeast, kAny));
  ward.pid = FALAJ_TRY(fields.integer("pid", 0, 0, kAny));
  ward.usage = FALAJ_TRY(parse_usage(fields.any("usage")));
  ward.protections = FALAJ_TRY(fields.texts("held"));
  ward.protections_refused = FALAJ_TRY(fields.texts("refused"));
  const Value& end = fields.any("end");
  if (!end.is_null()) ward.end = FALAJ_TRY(parse_end(end));
  FALAJ_TRY(fields.finish());
  return ward;
}

Result<std::optional<Error>> parse_error(const Value& value) {
  if (value.is_null()) return std::optional<Error>();
  Fields fields(value, "a warden's refusal");
  const std::int64_t code =
      FALAJ_TRY(fields.integer("code", 0, 1, static_cast<std::int64_t>(Code::kDeadlineExceeded)));
  std::string text = FALAJ_TRY(fields.text("message"));
  FALAJ_TRY(fields.finish());
  return std::optional<Error>(Error(static_cast<Code>(code), std::move(text)));
}

}  // namespace

Result<std::optional<std::string>> FrameReader::next() {
  if (bytes_.size() - at_ < 4) return std::optional<std::string>();
  std::size_t size = 0;
  for (int i = 3; i >= 0; --i) {
    size = size << 8 | static_cast<unsigned char>(bytes_[at_ + static_cast<std::size_t>(i)]);
  }
  if (size > kFrameBytesMax) {
    return Error(Code::kInvalidArgument,
                 "a message of " + std::to_string(size) + " bytes; at most 1 MiB is taken");
  }
  if (bytes_.size() - at_ - 4 < size) return std::optional<std::string>();
  std::optional<std::string> body = bytes_.substr(at_ + 4, size);
  at_ += 4 + size;
  // Moved rarely: a thousand small messages often come in one read.
  if (at_ == bytes_.size() || at_ > kFrameBytesMax) {
    bytes_.erase(0, at_);
    at_ = 0;
  }
  return body;
}

std::string frame_of(std::string_view body) {
  std::string out;
  out.reserve(body.size() + 4);
  for (unsigned shift = 0; shift < 32; shift += 8) {
    out.push_back(static_cast<char>(body.size() >> shift & 0xff));
  }
  return out.append(body);
}

std::size_t text_bytes(const Ward& ward) { return to_json(encode(ward)).size() + 1; }

std::string shortened(std::string_view text, std::size_t bytes_max) {
  if (text.size() > bytes_max) {
    text = text.substr(0, bytes_max);
    while (!text.empty() && !is_valid_utf8(text)) text.remove_suffix(1);
  }
  return std::string(text);
}

Status check_ward_id(std::string_view id) {
  const auto permitted = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == ':' || c == '-';
  };
  if (id.empty() || id.size() > 128 || !std::all_of(id.begin(), id.end(), permitted)) {
    return Error(Code::kInvalidArgument, "a ward's id is 1 to 128 of [A-Za-z0-9._:-]");
  }
  return {};
}

Value value_of(const std::vector<std::string>& texts) {
  Value out = Value::array();
  for (const std::string& text : texts) out.push(text);
  return out;
}

Value value_of(const WardEnd& end) {
  Value out;
  out["reason"] = name_of(end.reason);
  out["code"] = end.code;
  out["detail"] = end.detail;
  out["peak"] = end.memory_peak_bytes;
  out["cpu"] = end.cpu_time.nanos;
  out["cut"] = end.log_bytes_cut;
  out["at"] = end.ended_at.nanos;
  return out;
}

Result<WardEnd> parse_end(const Value& value) {
  Fields fields(value, "a ward's end");
  WardEnd end;
  const std::string reason = FALAJ_TRY(fields.required_text("reason"));
  end.reason = static_cast<WardEndReason>(FALAJ_TRY(place_of(reason, kEndReasons)));
  end.code = static_cast<int>(FALAJ_TRY(fields.integer("code", 0, 0, 255)));
  end.detail = FALAJ_TRY(fields.text("detail"));
  end.memory_peak_bytes = FALAJ_TRY(fields.integer("peak", 0, 0, kAny));
  end.cpu_time.nanos = FALAJ_TRY(fields.integer("cpu", 0, 0, kAny));
  end.log_bytes_cut = FALAJ_TRY(fields.integer("cut", 0, 0, kAny));
  end.ended_at.nanos = FALAJ_TRY(fields.integer("at", 0, kLeast, kAny));
  FALAJ_TRY(fields.finish());
  return end;
}

std::string to_text(const WardRequest& request) {
  Value out;
  out["n"] = request.number;
  out["op"] = kOps[static_cast<std::size_t>(request.op)];
  if (!request.id.empty()) out["id"] = request.id;
  if (request.op == WardOp::kGreet) {
    out["version"] = request.version;
    out["token"] = request.token;
  }
  if (request.op == WardOp::kStart) out["spec"] = encode(request.spec);
  return to_json(out);
}

Result<WardRequest> parse_request(std::string_view text) {
  const Value value = FALAJ_TRY(parse_json(text, {kFrameBytesMax, 8}));
  Fields fields(value, "a request to the warden");
  WardRequest request;
  request.number = FALAJ_TRY(fields.integer("n", 0, 1, kAny));
  const std::string op = FALAJ_TRY(fields.required_text("op"));
  request.op = static_cast<WardOp>(FALAJ_TRY(place_of(op, kOps)));
  request.id = FALAJ_TRY(fields.text("id"));
  if (request.op == WardOp::kGreet) {
    request.version = FALAJ_TRY(fields.integer("version", 0, 0, kAny));
    request.token = FALAJ_TRY(fields.text("token"));
  }
  if (request.op == WardOp::kStart) {
    const Value spec = FALAJ_TRY(fields.object("spec"));
    request.spec = FALAJ_TRY(parse_spec(spec));
  }
  FALAJ_TRY(fields.finish());
  const bool may_lack_id =
      request.op == WardOp::kGreet || request.op == WardOp::kList || request.op == WardOp::kDismiss;
  if (!may_lack_id || !request.id.empty()) FALAJ_TRY(check_ward_id(request.id));
  if (request.number < 1) return wrong("request has no number");
  return request;
}

std::string to_text(const WardReply& reply) {
  Value out;
  out["n"] = reply.number;
  if (reply.error) {
    out["error"]["code"] = static_cast<int>(reply.error->code);
    out["error"]["message"] = reply.error->message;
  }
  if (!reply.changed.empty()) out["changed"] = reply.changed;
  if (reply.version != 0) out["version"] = reply.version;
  for (const Ward& ward : reply.wards) out["wards"].push(encode(ward));
  if (reply.more) out["more"] = true;
  for (const WardUsage& usage : reply.curve) out["curve"].push(encode(usage));
  return to_json(out);
}

Result<WardReply> parse_reply(std::string_view text) {
  const Value value = FALAJ_TRY(parse_json(text, {kFrameBytesMax, 8}));
  Fields fields(value, "a warden's reply");
  WardReply reply;
  reply.number = FALAJ_TRY(fields.integer("n", 0, 0, kAny));
  reply.error = FALAJ_TRY(parse_error(fields.any("error")));
  reply.changed = FALAJ_TRY(fields.text("changed"));
  reply.version = FALAJ_TRY(fields.integer("version", 0, 0, kAny));
  const Value::Array wards = FALAJ_TRY(fields.list("wards"));
  for (const Value& each : wards) {
    Ward ward = FALAJ_TRY(parse_ward(each));
    reply.wards.push_back(std::move(ward));
  }
  reply.more = FALAJ_TRY(fields.boolean("more", false));
  const Value::Array curve = FALAJ_TRY(fields.list("curve"));
  for (const Value& each : curve) {
    const WardUsage usage = FALAJ_TRY(parse_usage(each));
    reply.curve.push_back(usage);
  }
  FALAJ_TRY(fields.finish());
  return reply;
}

}  // namespace internal
}  // namespace falaj::exec
