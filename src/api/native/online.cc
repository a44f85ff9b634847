// Features online: the newest values of entities, read, pushed and explained.
#include <algorithm>
#include <optional>

#include "api/native/exchange.h"
#include "api/native/online_codec.h"
#include "api/native/online_desk.h"
#include "base/decode.h"

namespace falaj::api {
namespace {

// What the requests of one thread use in turn, so that a small one costs no memory.
struct Scratch {
  ReadRequest parsed;
  std::vector<features::KeyPart> keys;
  features::OnlineAnswer answer;

  // What a large request needed is given back.
  void bound() {
    if (parsed.entities.size() > 16) *this = Scratch{};
  }
};

// Who may read a service may not read a view by it that they may not read themselves.
Status check_views(const net::Request& request, const features::OnlinePlan& plan) {
  const ProjectName project = project_of(request);
  for (const features::OnlinePlan::View& view : plan.views) {
    FALAJ_TRY(check(request, "data.read", {project.str(), "FeatureView", view.view, nullptr}));
  }
  return {};
}

// Nothing with OnLoop::kYes when that would wait for the disk.
Result<std::optional<std::string>> read(const OnlineDesk& desk, const net::Request& request,
                                        const features::OnlinePlan& plan, OnLoop on_loop,
                                        Scratch& scratch) {
  FALAJ_TRY(check_views(request, plan));
  const std::vector<std::size_t> columns = FALAJ_TRY(wanted_columns(scratch.parsed, plan));
  FALAJ_TRY(
      check_cells(scratch.parsed.entities.size(), std::max(plan.columns.size(), columns.size())));
  scratch.keys.clear();
  for (const features::EntityKeys& entity : scratch.parsed.entities) {
    FALAJ_TRY(features::append_keys(plan, entity, scratch.keys));
  }
  const Timestamp now = desk.clock.now();
  const features::OnlineAsk ask{now, scratch.parsed.max_age};
  if (!read_rows(desk.online, plan, scratch.keys, ask, on_loop, scratch.answer)) {
    return std::optional<std::string>();
  }
  FALAJ_TRY(check_answer(plan, columns, scratch.answer));
  return std::optional<std::string>(
      write_read(scratch.parsed, columns, {plan, scratch.answer, now}));
}

net::Response answer_of(const net::Request& request, Result<std::string> reply) {
  if (!reply.ok()) return net::problem(reply.error(), request);
  return net::Response::json(std::move(reply).value());
}

using PlanPtr = std::shared_ptr<const features::OnlinePlan>;
using FindPlan = std::function<Result<PlanPtr>(const ProjectName&, const std::string& name)>;

// On a thread that may wait for the disk.
Result<std::string> read_slowly(const OnlineDesk& desk, const net::Request& request,
                                const FindPlan& find) {
  Scratch scratch;
  FALAJ_TRY(parse_read(request.body, scratch.parsed));
  const PlanPtr plan = FALAJ_TRY(find(project_of(request), request.params.find("name")->second));
  return *FALAJ_TRY(read(desk, request, *plan, OnLoop::kNo, scratch));
}

// On the event loop when the plan is known, the answer is small and its rows are in memory;
// otherwise on the desk's pool.
void read_service(OnlineDesk& desk, const net::Request& request, const net::Reply& reply) {
  thread_local Scratch scratch;
  scratch.bound();
  const PlanPtr plan =
      desk.online.known_plan(project_of(request), request.params.find("name")->second);
  if (plan != nullptr) {
    const Status parsed = parse_read(request.body, scratch.parsed);
    if (!parsed.ok()) return reply(net::problem(parsed.error(), request));
    const std::size_t width = std::max(plan->columns.size(), scratch.parsed.features.size());
    if (scratch.parsed.entities.size() * width <= kLoopCells) {
      Result<std::optional<std::string>> now = read(desk, request, *plan, OnLoop::kYes, scratch);
      if (!now.ok()) return reply(net::problem(now.error(), request));
      if (*now) return reply(net::Response::json(std::move(**now)));
    }
  }
  const Status submitted = desk.pool.submit([&desk, &request, reply] {
    reply(answer_of(request, read_slowly(desk, request,
                                         [&](const ProjectName& project, const std::string& name) {
                                           return desk.online.plan(project, name);
                                         })));
  });
  if (!submitted.ok()) reply(net::problem(submitted.error(), request));
}

net::Route read_service_route(OnlineDesk& desk) {
  net::Route route(
      net::Method::kPost, "/api/v1/feature-services/{name}:read", net::Permission("data.read"),
      net::Target::object("FeatureService", "name"),
      "The newest features of some entities, with a status and an event time each, all "
      "of one commit, which the reply names. The body is {entities: [{key: id}], "
      "features, max_age}.",
      nullptr);
  route.handler = [&desk](const net::Request& request, const net::Reply& reply) {
    read_service(desk, request, reply);
  };
  route.runs_on = net::RunsOn::kLoop;
  route.body_bytes_max = 1 << 20;
  return route;
}

net::Route read_view_route(OnlineDesk& desk) {
  net::Route route(
      net::Method::kPost, "/api/v1/feature-views/{name}:read", net::Permission("data.read"),
      net::Target::object("FeatureView", "name"), "The same for all features of one view.",
      [&desk](const net::Request& request) {
        return answer_of(
            request,
            read_slowly(desk, request, [&](const ProjectName& project, const std::string& name) {
              return desk.online.plan(project, {{name, {}}}, features::NameStyle::kBare);
            }));
      });
  route.body_bytes_max = 1 << 20;
  return route;
}

struct PushBody {
  features::PushedRows rows;
  features::Reach to = features::Reach::kBoth;
};

Result<PushBody> push_body(const net::Request& request) {
  PushBody out;
  Value body = FALAJ_TRY(body_of(request));
  Fields fields(body, "push");
  const std::string to = FALAJ_TRY(fields.choice("to", {"both", "online", "offline"}));
  out.to = FALAJ_TRY(features::parse_reach(to));
  fields.any("rows");
  FALAJ_TRY(fields.finish());
  out.rows.rows = std::move(body["rows"]);
  return out;
}

net::Route push_route(OnlineDesk& desk) {
  net::Route route(net::Method::kPost, "/api/v1/feature-views/{name}:push",
                   net::Permission("data.ingest"), net::Target::object("FeatureView", "name"),
                   "Adds a few rows, all or none; the reply comes when they are durable and "
                   "visible. The body is "
                   "{rows: [{column: value}], to: both|online|offline}.",
                   nullptr);
  route.handler = [&desk](const net::Request& request, const net::Reply& reply) {
    Result<PushBody> body = push_body(request);
    if (!body.ok()) return reply(net::problem(body.error(), request));
    const auto context = context_of(request, desk.catalog);
    if (!context.ok()) return reply(net::problem(context.error(), request));
    desk.pushes.push(*context, request.params.find("name")->second, body->rows, body->to,
                     [&request, reply](Result<features::PushReport> report) {
                       if (!report.ok()) return reply(net::problem(report.error(), request));
                       reply(net::Response::json(to_json(to_value(*report))));
                     });
  };
  return route;
}

Result<features::EntityKeys> entity_of(const Value& value) {
  if (!value.is_object()) return Error{ErrorId::kWrongType, "entity must be an object of key: id"};
  features::EntityKeys out;
  for (const auto& [name, id] : value.as_object()) {
    if (!id.is_int() && !id.is_string()) {
      return Error{ErrorId::kWrongType, "key '" + name + "' must be a whole number or a text"};
    }
    out.emplace_back(
        name, id.is_int() ? features::KeyPart(id.as_int()) : features::KeyPart(id.as_string()));
  }
  return out;
}

Result<Value> explain(const OnlineDesk& desk, const net::Request& request) {
  const Value body = FALAJ_TRY(body_of(request));
  Fields fields(body, "explain");
  const features::EntityKeys entity = FALAJ_TRY(entity_of(fields.any("entity")));
  const std::string at = FALAJ_TRY(fields.text("at"));
  const std::int64_t commit = FALAJ_TRY(fields.integer("commit", -1, 0, INT64_MAX));
  FALAJ_TRY(fields.finish());
  features::ExplainAsk ask;
  if (!at.empty()) ask.at = FALAJ_TRY(parse_timestamp(at));
  if (commit >= 0) ask.commit = static_cast<std::uint64_t>(commit);
  return to_value(FALAJ_TRY(desk.explainer.explain(
      project_of(request), request.params.find("name")->second, entity, ask)));
}

net::Route explain_route(OnlineDesk& desk) {
  net::Route route = value_route(
      net::Method::kPost, "/api/v1/feature-views/{name}:explain",
      {"data.read", net::Target::object("FeatureView", "name")},
      "Where an entity's values come from: the row, its times, its commit and who "
      "brought it. The body is {entity: {key: id}, at, commit}: with both, what a reply "
      "of that commit read at that time.",
      [&desk](const net::Request& request) { return explain(desk, request); });
  route.body_bytes_max = 1 << 16;
  return route;
}

}  // namespace

Status check_cells(std::size_t rows, std::size_t columns) {
  if (rows * columns <= kCellsMax) return {};
  return Error{ErrorId::kOutOfRange, "entities times features are " +
                                         std::to_string(rows * columns) + ", over " +
                                         std::to_string(kCellsMax) + ": split the request"};
}

bool read_rows(const features::Online& online, const features::OnlinePlan& plan,
               std::span<const features::KeyPart> keys, const features::OnlineAsk& ask,
               OnLoop on_loop, features::OnlineAnswer& out) {
  if (on_loop == OnLoop::kYes) return online.read_now(plan, keys, ask, out);
  online.read(plan, keys, ask, out);
  return true;
}

Status check_answer(const features::OnlinePlan& plan, const std::vector<std::size_t>& columns,
                    const features::OnlineAnswer& answer) {
  if (answer.failed) return *answer.failed;
  std::size_t bytes = 0;
  for (const std::size_t column : columns) {
    if (plan.columns[column].type != table::Type::kString) continue;
    for (std::size_t cell = column; cell < answer.words.size(); cell += answer.columns) {
      bytes += answer.text(answer.words[cell]).size();
    }
  }
  if (!answer.too_large && bytes <= features::OnlineAnswer::kTextsMax) return {};
  return Error{ErrorId::kOutOfRange, "the texts of the answer are over " +
                                         std::to_string(features::OnlineAnswer::kTextsMax >> 20) +
                                         " MiB: split the request"};
}

std::vector<net::Route> online_routes(OnlineDesk& desk) {
  std::vector<net::Route> routes;
  routes.push_back(read_service_route(desk));
  routes.push_back(read_view_route(desk));
  routes.push_back(push_route(desk));
  routes.push_back(explain_route(desk));
  return routes;
}

}  // namespace falaj::api
