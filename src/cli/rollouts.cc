// rollout start|status|hold|resume|approve|promote|abort.
#include "cli/rollouts.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <thread>

namespace falaj::cli {
namespace {

constexpr int kBarWidth = 40;
constexpr std::chrono::milliseconds kRedrawn{500};

std::string path_of(const std::string& name) { return "/api/v1/rollouts/" + url_encode(name); }

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g %%", share * 100);
  return text;
}

std::string step_name(const Value& share) {
  return share.is_number() && share.as_double() > 0 ? percent(share.as_double()) : "shadow";
}

// shadow ━ 1 % ━ [5 %] ─ 25 %
std::string steps_line(const Value& rollout) {
  std::string line;
  const std::int64_t at = rollout.integer("step");
  std::int64_t i = 0;
  for (const Value& share : items(rollout["steps"])) {
    const std::string name = step_name(share);
    if (i > 0) line += i <= at ? " ━ " : " ─ ";
    line += i == at ? bold("[" + name + "]") : name;
    ++i;
  }
  return line;
}

// What is known of one guard, from no harm at the left to twice the margin at the right:
//   ━ where the harm may lie, ┃ the margin.
std::string guard_bar(const Value& finding) {
  const double margin = std::max(finding.number("margin"), 1e-9);
  const auto column = [&](double harm) {
    const double at = std::clamp(harm / (2 * margin), 0.0, 1.0) * (kBarWidth - 1);
    return static_cast<int>(std::lround(at));
  };
  const int from = column(finding.number("least", 0));
  const int to = column(finding.number("most", 2 * margin));
  std::string bar;
  for (int i = 0; i < kBarWidth; ++i) {
    bar += i == column(margin) ? "┃" : i >= from && i <= to ? "━" : "·";
  }
  return bar;
}

// What the replay before the first step found; "" without one.
std::string replay_line(const Value& replay) {
  if (!replay.is_object()) return "";
  const Value& found = replay["evidence"];
  char line[200];
  std::snprintf(line, sizeof line,
                "  replay     %12lld requests %10lld failed %8lld NaN  differ by %.4g in the mean,"
                " %.4g at most: %s\n",
                static_cast<long long>(found.integer("answered")),
                static_cast<long long>(found.integer("failed")),
                static_cast<long long>(found.integer("nans")), found.number("difference"),
                found.number("largest"), replay["decision"].text("outcome").c_str());
  return line;
}

std::string arm_line(const char* name, const Value& arm) {
  char line[160];
  std::snprintf(
      line, sizeof line, "  %-10s %12lld requests %10lld units %8lld errors %8lld NaN\n", name,
      static_cast<long long>(arm.integer("requests")), static_cast<long long>(arm.integer("units")),
      static_cast<long long>(arm.integer("errors")), static_cast<long long>(arm.integer("nans")));
  return line;
}

Result<Value> order(const Session& session, const std::string& name, const std::string& verb) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  return connection->call(net::Method::kPost, path_of(name) + ":" + verb, Value::object());
}

// Draws over what it drew before, until the rollout has ended.
Status follow(const Session& session, const std::string& name) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  std::int64_t lines = 0;
  std::string last;
  for (;;) {
    const Value rollout = FALAJ_TRY(connection->get(path_of(name)));
    const std::string chart = rollout_chart(rollout);
    if (stdout_is_terminal()) {
      if (lines > 0) std::printf("\x1b[%lldA\x1b[J", static_cast<long long>(lines));
      std::fputs(chart.c_str(), stdout);
      lines = std::count(chart.begin(), chart.end(), '\n');
    } else if (rollout.text("reason") != last) {
      std::printf("%s\n", rollout.text("reason").c_str());
    }
    last = rollout.text("reason");
    std::fflush(stdout);
    if (rollout.text("state") == "promoted") return {};
    if (rollout.text("state") != "running") {
      return Error{ErrorId::kFailedPrecondition,
                   "rollout '" + name + "' is " + rollout.text("state") + ": " + last};
    }
    std::this_thread::sleep_for(kRedrawn);
  }
}

}  // namespace

std::string rollout_chart(const Value& rollout) {
  std::string chart = bold(rollout.text("name")) + "  " + rollout.text("deployment") +
                      "  version " + cell(rollout["champion"]) + " → " +
                      cell(rollout["candidate"]) + "  " + rollout.text("state");
  for (const char* order : {"held", "approved"}) {
    if (rollout[order] == Value(true)) chart += std::string(", ") + order;
  }
  chart += "\n  " + steps_line(rollout) + "\n" + replay_line(rollout["replay"]);
  if (rollout["evidence"].is_object()) {
    chart += arm_line("champion", rollout["evidence"]["champion"]);
    chart += arm_line("candidate", rollout["evidence"]["candidate"]);
  }
  for (const Value& finding : items(rollout["decision"]["findings"])) {
    char tail[96];
    std::snprintf(tail, sizeof tail, "  %.4g … %.4g of %.4g", finding.number("least", -INFINITY),
                  finding.number("most", INFINITY), finding.number("margin"));
    std::string name = finding.text("guard");
    name.resize(std::max<std::size_t>(name.size(), 10), ' ');
    chart +=
        "  " + name + " " + guard_bar(finding) + tail + "  harm " + finding.text("harm") + "\n";
  }
  for (const Value& guard : items(rollout["left_out"])) {
    chart += "  " + cell(guard) + " is not judged: the model gives no scores\n";
  }
  return chart + "  " + rollout.text("reason") + "\n";
}

Status show_rollouts(const Session& session, const std::string& name) {
  auto connection = FALAJ_TRY(Connection::open(session.target));
  if (!name.empty()) {
    const Value rollout = FALAJ_TRY(connection->get(path_of(name)));
    print(session.format, rollout, rollout_chart(rollout));
    return {};
  }
  const Value reply = FALAJ_TRY(connection->get("/api/v1/rollouts"));
  Table table({"NAME", "DEPLOYMENT", "FROM", "TO", "STATE", "STEP", "REASON"});
  for (const Value& each : items(reply["rollouts"])) {
    const Value::Array& steps = items(each["steps"]);
    const auto at = static_cast<std::size_t>(each.integer("step"));
    table.add({each.text("name"), each.text("deployment"), cell(each["champion"]),
               cell(each["candidate"]), each.text("state"),
               at < steps.size() ? step_name(steps[at]) : "-", each.text("reason")});
  }
  print(session.format, reply,
        table.empty() ? "no rollout was started in project '" + session.target.project + "'\n"
                      : table.str());
  return {};
}

Status follow_rollout(const Session& session, const std::string& name) {
  return follow(session, name);
}

Status order_rollout(const Session& session, const std::string& name, const std::string& verb,
                     Wait wait) {
  const Value rollout = FALAJ_TRY(order(session, name, verb));
  if (wait == Wait::kWait) return follow(session, name);
  print(session.format, rollout, rollout_chart(rollout));
  return {};
}

}  // namespace falaj::cli
