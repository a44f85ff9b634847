// What is read online is what the point-in-time join finds at the same time, known at the commit
// that the reply named, windows included: over random pushes, backfills, late rows, corrections and
// restarts. FALAJ_PARITY_REQUESTS=1000000 makes it long; the default is a share for every day.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "features/internal/segments.h"
#include "features/point_in_time_join.h"
#include "features/testing/feature_world.h"

namespace falaj::features {
namespace {

using enum FeatureStatus;
using table::Type;

constexpr std::uint64_t kSeed = 20261116;
constexpr int kCustomers = 60;
constexpr int kMerchants = 4;

std::size_t requests_wanted() {
  const char* text = std::getenv("FALAJ_PARITY_REQUESTS");
  return text == nullptr ? 20'000 : static_cast<std::size_t>(std::atoll(text));
}

// One logged read of a customer at a merchant.
struct Logged {
  std::int64_t customer = 0;
  std::string merchant;
  Timestamp at{};
  std::uint64_t commit = 0;
  std::vector<FeatureStatus> statuses;
  std::vector<std::uint64_t> words;
  std::vector<std::string> texts;
};

class Parity : public testing::Test {
 protected:
  void SetUp() override {
    world_.apply("Entity", "customer", R"({"keys":[{"name":"customer_id","type":"int64"}]})");
    world_.apply("Entity", "pair",
                 R"({"keys":[{"name":"customer_id","type":"int64"},)"
                 R"({"name":"merchant","type":"string"}]})");
    world_.apply("Source", "tx",
                 R"({"format":"csv","event_time":"at","created_time":"loaded_at"})");
    world_.apply("FeatureView", "activity",
                 R"({"entity":"customer","source":"tx","ttl":"2h","features":[)"
                 R"({"name":"amount","type":"float64"},{"name":"count","type":"int64"},)"
                 R"({"name":"n","type":"int64","aggregate":{"count":"*","window":"45m"}},)"
                 R"({"name":"s","type":"float64","aggregate":{"sum":"amount","window":"3h"}},)"
                 R"({"name":"i","type":"int64","aggregate":{"sum":"count","window":"20m"}},)"
                 R"({"name":"m","type":"float64","aggregate":{"mean":"amount","window":"90m"}},)"
                 R"({"name":"v","type":"float64","aggregate":{"var":"amount","window":"2h"}},)"
                 R"({"name":"x","type":"int64","aggregate":{"max":"count","window":"1h"}},)"
                 R"({"name":"q","type":"float64",)"
                 R"("aggregate":{"quantile":"amount","q":0.7,"window":"150m"}}]})");
    world_.apply("FeatureView", "visits",
                 R"({"entity":"pair","source":"tx","event_id":"city","features":[)"
                 R"({"name":"city","type":"string"},{"name":"paid","type":"bool"},)"
                 R"({"name":"d","type":"int64","aggregate":{"distinct":"city","window":"2h"}},)"
                 R"({"name":"l","type":"string","aggregate":{"last":"city","window":"70m"}},)"
                 R"({"name":"f","type":"bool","aggregate":{"first":"paid","window":"4h"}}]})");
    world_.apply("FeatureService", "svc", R"({"features":["activity","visits"]})");
  }

  std::int64_t any(std::int64_t below) {
    return std::uniform_int_distribution<std::int64_t>(0, below - 1)(chance_);
  }
  bool once_in(std::int64_t times) { return any(times) == 0; }

  // A moment up to four hours ago, in whole minutes, so that many are equal.
  Timestamp moment() {
    const std::int64_t minute = world_.clock.now().nanos / 60'000'000'000 - any(240);
    return Timestamp{minute * 60'000'000'000};
  }

  struct Row {
    std::string customer, merchant, at, loaded_at, first, second;
  };
  Row row(bool visits) {
    const Timestamp at = moment();
    Row out;
    out.customer = std::to_string(any(kCustomers));
    out.merchant = "m" + std::to_string(any(kMerchants));
    out.at = to_rfc3339(at);
    if (!once_in(3)) out.loaded_at = to_rfc3339(at + Duration::minutes(any(5)));
    if (!once_in(5)) {
      out.first = visits ? "city " + std::to_string(any(50)) : std::to_string(any(1000)) + ".5";
    }
    if (!once_in(5)) {
      out.second = visits ? (once_in(2) ? "true" : "false")
                          : std::to_string((std::int64_t{1} << 53) + any(1000));
    }
    return out;
  }

  static std::string json_of(const Row& row, bool visits) {
    const auto text = [](const std::string& value) {
      return value.empty() ? std::string("null") : '"' + value + '"';
    };
    const auto bare = [](const std::string& value) { return value.empty() ? "null" : value; };
    std::string out = R"({"customer_id":)" + row.customer + R"(,"at":")" + row.at +
                      R"(","loaded_at":)" + text(row.loaded_at);
    if (!visits)
      return out + R"(,"amount":)" + bare(row.first) + R"(,"count":)" + bare(row.second) + "}";
    return out + R"(,"merchant":")" + row.merchant + R"(","city":)" + text(row.first) +
           R"(,"paid":)" + bare(row.second) + "}";
  }

  void push_some() {
    const bool visits = once_in(2);
    std::string rows = "[";
    const std::int64_t count = 1 + any(6);
    for (std::int64_t i = 0; i < count; ++i)
      rows += (i > 0 ? "," : "") + json_of(row(visits), visits);
    const Reach reach = once_in(6) ? Reach::kOnline : once_in(6) ? Reach::kOffline : Reach::kBoth;
    const auto report = world_.push(visits ? "visits" : "activity", rows + "]", reach);
    ASSERT_TRUE(report.ok()) << report.error().message;
  }

  void backfill() {
    const bool visits = once_in(2);
    std::string csv = visits ? "customer_id,merchant,at,loaded_at,city,paid\n"
                             : "customer_id,at,loaded_at,amount,count\n";
    for (int i = 0; i < 200; ++i) {
      const Row one = row(visits);
      csv += one.customer + (visits ? "," + one.merchant : "") + "," + one.at + "," +
             one.loaded_at + "," + one.first + "," + one.second + "\n";
    }
    const auto report = world_.append(visits ? "visits" : "activity", csv);
    ASSERT_TRUE(report.ok()) << report.error().message;
  }

  void read_some(std::size_t count, std::vector<Logged>& log) {
    const auto plan = world_.online->plan(world_.context.project, "svc");
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    OnlineAnswer answer;
    for (std::size_t i = 0; i < count; ++i) {
      Logged one;
      one.customer = any(kCustomers + 2);  // Some never come.
      one.merchant = "m" + std::to_string(any(kMerchants));
      one.at = world_.clock.now();
      const std::vector<KeyPart> keys{one.customer, one.merchant};
      world_.online->read(**plan, keys, {one.at, {}}, answer);
      one.commit = answer.commit;
      one.statuses = answer.statuses;
      one.words = answer.words;
      for (std::size_t c = 0; c < answer.columns; ++c) {
        const bool text = (*plan)->columns[c].type == Type::kString;
        one.texts.emplace_back(text ? answer.text(answer.words[c]) : std::string_view());
      }
      log.push_back(std::move(one));
    }
  }

  // The views as a join needs them, with all that is for online.
  std::vector<JoinView> join_views() {
    std::vector<JoinView> out;
    const Status read = world_.sql->read([&](storage::SqlTransaction& tx) -> Status {
      for (const std::string name : {"activity", "visits"}) {
        const ViewDefinition definition = FALAJ_TRY(load_view(tx, "pay", name));
        JoinView view;
        view.name = name;
        view.keys = definition.entity.keys;
        view.ttl = definition.view.ttl;
        for (const Feature& feature : definition.view.features) {
          view.features.push_back({{feature.name, feature.type}, feature.name});
        }
        for (const AggregatedFeature& feature : definition.view.aggregated) {
          view.features.push_back({{feature.name, feature.type}, feature.name, feature.aggregate});
        }
        view.event_id = definition.view.event_id;
        Commits commits;
        commits.use = Reach::kOnline;
        for (const Segment& segment : FALAJ_TRY(list_segments(tx, "pay", name, commits))) {
          SegmentFile file = FALAJ_TRY(open_segment(*world_.blobs, {"pay", name}, segment));
          view.segments.push_back(
              {std::make_shared<const SegmentFile>(std::move(file)), segment.commit});
        }
        out.push_back(std::move(view));
      }
      return {};
    });
    EXPECT_TRUE(read.ok()) << read.error().message;
    return out;
  }

  static table::Batch spine_of(std::span<const Logged> log) {
    table::Batch spine(table::Schema{
        {{"customer_id", Type::kInt64}, {"merchant", Type::kString}, {"at", Type::kTimestamp}}});
    for (const Logged& one : log) {
      spine.columns[0].push_int(one.customer);
      spine.columns[1].push_string(one.merchant);
      spine.columns[2].push_int(one.at.nanos);
    }
    return spine;
  }

  static bool same(const Logged& one, const table::Batch& joined, std::size_t row) {
    for (std::size_t column = 0; column < joined.columns.size(); ++column) {
      const table::Column& value = joined.columns[column];
      const bool present = one.statuses[column] == kPresent;
      if (present == value.is_null(row)) return false;
      if (!present) continue;
      switch (value.type()) {
        case Type::kString:
          if (value.strings()[row] != one.texts[column]) return false;
          break;
        case Type::kFloat64:
          if (std::bit_cast<std::uint64_t>(value.doubles()[row]) != one.words[column]) return false;
          break;
        case Type::kBool:
          if (value.bools()[row] != one.words[column]) return false;
          break;
        default:
          if (static_cast<std::uint64_t>(value.ints()[row]) != one.words[column]) return false;
      }
    }
    return true;
  }

  std::size_t mismatches(std::span<const Logged> log) {
    const std::vector<JoinView> views = join_views();
    std::size_t wrong = 0;
    for (std::size_t begin = 0; begin < log.size();) {
      std::size_t end = begin;
      while (end < log.size() && log[end].commit == log[begin].commit) ++end;
      const std::span<const Logged> part = log.subspan(begin, end - begin);
      JoinOptions options;
      options.time_column = "at";
      options.known_at = part.front().commit;
      options.threads = 1;
      const auto joined = point_in_time_join(spine_of(part), views, options);
      EXPECT_TRUE(joined.ok()) << joined.error().message;
      if (!joined.ok()) return log.size();
      for (std::size_t i = 0; i < part.size(); ++i) wrong += same(part[i], *joined, i) ? 0 : 1;
      begin = end;
    }
    return wrong;
  }

  void replay(std::size_t wanted) {
    const std::size_t at_once = std::max<std::size_t>(wanted / 400, 20);
    std::vector<Logged> log;
    while (log.size() < wanted) {
      world_.clock.advance(Duration::seconds(any(900)));
      if (once_in(12)) backfill();
      if (!once_in(4)) push_some();
      if (once_in(15)) world_.restart();
      read_some(at_once, log);
      if (HasFatalFailure()) return;
    }
    std::size_t present = 0;
    for (const Logged& one : log) {
      present +=
          static_cast<std::size_t>(std::count(one.statuses.begin(), one.statuses.end(), kPresent));
    }
    EXPECT_GT(present, log.size() / 2) << "a test of nothing";
    EXPECT_EQ(mismatches(log), 0u) << "of " << log.size() << ", seed " << kSeed;
  }

  FeatureWorld world_;
  std::mt19937_64 chance_{kSeed};
};

TEST_F(Parity, what_was_read_online_is_what_the_join_finds) { replay(requests_wanted()); }

// The same with rows that are not in memory: all that were copied are let go.
TEST_F(Parity, what_was_read_from_the_durable_copy_is_what_the_join_finds) {
  world_.online_options.memory_max = 1;
  world_.restart();
  replay(requests_wanted() / 4);
}

// The comparison itself must be able to fail.
TEST_F(Parity, a_wrong_value_in_the_log_is_found) {
  backfill();
  backfill();
  std::vector<Logged> log;
  read_some(200, log);
  ASSERT_EQ(mismatches(log), 0u);
  const auto present = std::find_if(log.begin(), log.end(),
                                    [](const Logged& one) { return one.statuses[1] == kPresent; });
  ASSERT_NE(present, log.end());
  ++present->words[1];
  EXPECT_EQ(mismatches(log), 1u);
}

}  // namespace
}  // namespace falaj::features
