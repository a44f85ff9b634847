// api/native/online_codec.h — the bytes of :read, read once and written without a tree.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "features/online.h"

namespace falaj::api {

struct ReadRequest {
  std::vector<features::EntityKeys> entities;
  std::vector<std::string> features;  // Empty: all that there are.
  Duration max_age{};                 // 0: as the views' ttl says.
  static constexpr std::size_t kEntitiesMax = 1000;
  static constexpr std::size_t kFeaturesMax = 4096;
};

// {"entities": [{…}, …], "features": ["amount", …], "max_age": "1h"}; only entities must be there.
// FJ-1001 malformed, FJ-1003 unknown member, FJ-1005 wrong type, FJ-1006 too many or no duration.
// `into` is overwritten: given again and again, it costs no memory.
Status parse_read(std::string_view body, ReadRequest& into);

// The columns that the request wants, in its order. FJ-2003 for one that the plan does not have.
Result<std::vector<std::size_t>> wanted_columns(const ReadRequest& request,
                                                const features::OnlinePlan& plan);

struct OnlineReply {
  const features::OnlinePlan& plan;
  const features::OnlineAnswer& answer;
  Timestamp at{};
};
// {"commit","at","features":[…],"rows":[{"entity","values":[…],"statuses":[…],"event_times":[…]}]}:
// a value, a status and a time for each feature, in its order. Null unless PRESENT; a number that
// is not finite is null and NULL_VALUE.
std::string write_read(const ReadRequest& request, const std::vector<std::size_t>& columns,
                       const OnlineReply& reply);

// One value in JSON; null unless it is present. Times are written by `to_time`.
enum class TimeForm : std::uint8_t { kRfc3339, kUnixSeconds };
void append_online_value(std::string& out, const features::OnlineAnswer& answer, std::size_t cell,
                         table::Type type, TimeForm times);
// As it is told beside such a value.
features::FeatureStatus told_status(const features::OnlineAnswer& answer, std::size_t cell,
                                    table::Type type);

}  // namespace falaj::api
