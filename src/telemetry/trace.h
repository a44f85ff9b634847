// telemetry/trace.h — W3C trace context: which request of whom a piece of work belongs to.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace falaj::telemetry {

struct TraceContext {
  std::array<std::uint8_t, 16> trace_id{};  // The whole journey; never all zero.
  std::array<std::uint8_t, 8> span_id{};    // This hop; never all zero.
  bool sampled = true;

  bool operator==(const TraceContext&) const = default;
};

// Reads "00-<32 hex>-<16 hex>-<2 hex>" as Trace Context level 1 says: lower case only, all-zero ids
// and version ff refused, later versions read as far as version 00 goes. nullopt otherwise: the
// caller starts a new trace.
std::optional<TraceContext> parse_traceparent(std::string_view text);

// "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
std::string to_traceparent(const TraceContext& context);

// A new journey, and a new hop of the same journey. Random from the kernel. Thread-safe.
TraceContext new_trace();
TraceContext child_of(const TraceContext& parent);

// 32 lower-case hex digits, for X-Request-Id.
std::string new_request_id();

// What may be taken over from a client's X-Request-Id: 1 to 128 of [A-Za-z0-9._:-].
enum class RequestIdCheck : std::uint8_t { kTakenOver, kRefused };
RequestIdCheck check_request_id(std::string_view text);

}  // namespace falaj::telemetry
