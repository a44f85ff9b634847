#include "cli/explain.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/json.h"
#include "base/units.h"
#include "cli/local_file.h"

namespace falaj::cli {
namespace {

constexpr std::size_t kHalf = 16;  // Columns of a bar on each side.
constexpr std::size_t kShown = 20;

struct Bar {
  std::string name;
  double amount = 0;
  double error = 0;
};

std::string signed_text(double amount) {
  char text[40];
  std::snprintf(text, sizeof text, "%+.4g", amount);
  return text;
}

// In half columns, so that small ones are seen too.
std::string bar_text(double amount, double largest) {
  const auto halves = static_cast<std::size_t>(
      largest > 0 ? std::lround(std::abs(amount) / largest * 2 * kHalf) : 0);
  std::string full;
  for (std::size_t i = 0; i < halves / 2; ++i) full += "█";
  const std::size_t used = halves / 2 + halves % 2;
  const std::string blank(kHalf - used, ' ');
  const std::string empty(kHalf, ' ');
  if (amount < 0) return blank + (halves % 2 == 1 ? "▐" : "") + full + "│" + empty;
  return empty + "│" + full + (halves % 2 == 1 ? "▌" : "") + blank;
}

std::vector<Bar> bars_of(const Value& explanation, std::size_t most) {
  std::vector<Bar> bars;
  const Value& contributions = explanation["contributions"];
  if (!contributions.is_object()) return bars;
  for (const auto& [name, amount] : contributions.as_object()) {
    if (!amount.is_number()) continue;
    bars.push_back({name, amount.as_double(), explanation["standard_errors"].number(name)});
  }
  std::stable_sort(bars.begin(), bars.end(), [](const Bar& a, const Bar& b) {
    return std::abs(a.amount) > std::abs(b.amount);
  });
  if (bars.size() <= most) return bars;
  Bar others{std::to_string(bars.size() - most) + " others", 0, 0};
  for (std::size_t i = most; i < bars.size(); ++i) others.amount += bars[i].amount;
  bars.resize(most);
  bars.push_back(std::move(others));
  return bars;
}

Result<Value> ask_entities(Connection& connection, const ExplainChoice& choice,
                           std::int64_t budget_ms) {
  Value body;
  body["entities"] = Value::array();
  body["entities"].push(FALAJ_TRY(entity_of(choice.keys)));
  for (const std::string& each : choice.against) {
    std::vector<std::string> keys;
    for (std::size_t at = 0; at <= each.size();) {
      const std::size_t comma = std::min(each.find(',', at), each.size());
      keys.push_back(each.substr(at, comma - at));
      at = comma + 1;
    }
    body["entities"].push(FALAJ_TRY(entity_of(keys)));
  }
  return connection.call(net::Method::kPost,
                         "/api/v1/deployments/" + url_encode(choice.deployment) +
                             ":explain?budget_ms=" + std::to_string(budget_ms) +
                             "&samples=" + std::to_string(choice.samples) +
                             "&background_rows=" + std::to_string(choice.against.size()),
                         body);
}

Result<Value> ask_tensors(Connection& connection, const ExplainChoice& choice) {
  const Value body = FALAJ_TRY(parse_json(FALAJ_TRY(read_text(choice.file))));
  return connection.call(net::Method::kPost,
                         "/v2/models/" + url_encode(choice.deployment) + "/explain", body);
}

std::string text_of(const Value& reply, const std::string& deployment) {
  std::string text = bold(deployment) + " " + reply.text("output") + "[" + cell(reply["column"]) +
                     "] in " + reply.text("scale") + ", by " + reply.text("method") + "\n";
  const Value::Array& explanations = items(reply["explanations"]);
  for (std::size_t i = 0; i < explanations.size(); ++i) {
    text += "\n";
    if (explanations.size() > 1) text += bold("row " + std::to_string(i)) + "\n";
    text += contribution_bars(explanations[i], kShown);
  }
  return text;
}

}  // namespace

std::string contribution_bars(const Value& explanation, std::size_t most) {
  const std::vector<Bar> bars = bars_of(explanation, most);
  double largest = 0;
  std::size_t width = 0;
  for (const Bar& bar : bars) {
    largest = std::max(largest, std::abs(bar.amount));
    width = std::max(width, display_width(bar.name));
  }
  std::string text;
  for (const Bar& bar : bars) {
    text += "  " + bar.name + std::string(width - display_width(bar.name) + 1, ' ') +
            bar_text(bar.amount, largest) + " " + signed_text(bar.amount);
    if (bar.error > 0) text += " ±" + signed_text(bar.error).substr(1);
    text += "\n";
  }
  text += "  " + cell(explanation["base_value"]) + " without knowing anything, " +
          bold(cell(explanation["value"])) + " with all of it\n";
  return text;
}

Status explain_prediction(const Session& session, const ExplainChoice& choice) {
  if (choice.keys.empty() == choice.file.empty()) {
    return Error{ErrorId::kUsage, "give the keys of an entity, or a request with -f"};
  }
  const Duration budget = FALAJ_TRY(parse_duration(choice.budget));
  auto connection = FALAJ_TRY(Connection::open(session.target));
  const Value reply = choice.file.empty()
                          ? FALAJ_TRY(ask_entities(*connection, choice, budget.nanos / 1'000'000))
                          : FALAJ_TRY(ask_tensors(*connection, choice));
  print(session.format, reply, text_of(reply, choice.deployment));
  return {};
}

}  // namespace falaj::cli
