#include "api/feast/feast_routes.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <utility>

#include "api/feast/feast_codec.h"
#include "api/native/exchange.h"
#include "base/decode.h"
#include "base/json.h"
#include "net/feast_error.h"

namespace falaj::api {
namespace {

using net::Method;
using net::Request;
using net::Response;

int status_of(const Error& error) {
  if (error.code == Code::kInvalidArgument && error.id != ErrorId::kFeatureNameCollision) {
    return error.id == ErrorId::kBodyTooLarge ? 413 : 422;
  }
  if (error.id == ErrorId::kReferenceMissing) return 404;  // A feature that the view has not.
  switch (error.code) {
    case Code::kNotFound:
    case Code::kPermissionDenied:
    case Code::kUnauthenticated:
    case Code::kResourceExhausted:
    case Code::kUnavailable:
      return net::http_status(error.code);
    default:
      return 500;
  }
}

Response error_of(const Error& error) {
  const int status = status_of(error);
  std::string body;
  if (status == 422) {
    Value detail;
    detail["type"] = "value_error";
    detail["loc"].push("body");
    detail["msg"] = error.message;
    Value value;
    value["detail"].push(std::move(detail));
    body = to_json(value);
  } else {
    body = net::feast_body(error);
  }
  Response response = Response::json(std::move(body), status);
  response.error = error.id;
  return response;
}

Response answer_of(Result<Response> response) {
  return response.ok() ? std::move(response).value() : error_of(response.error());
}

Status check_view(const Request& request, std::string_view action, const std::string& view) {
  return check(request, action, {project_of(request).str(), "FeatureView", view, nullptr});
}

// --- reading ---

struct Planned {
  std::shared_ptr<const features::OnlinePlan> plan;
  std::vector<std::size_t> columns;
};
// What was planned before, or whatever it takes.
enum class Look : std::uint8_t { kKnown, kMake };

// Of the plan, not of the request: what is answered is what must be allowed.
Status check_views(const Request& request, const features::OnlinePlan& plan) {
  for (const features::OnlinePlan::View& view : plan.views) {
    FALAJ_TRY(check_view(request, "data.read", view.view));
  }
  return {};
}

// Values of a row that are read, or written: a request may name one twice.
std::size_t width_of(const Planned& planned) {
  return std::max(planned.plan->columns.size(), planned.columns.size());
}

Result<Planned> plan_service(const OnlineDesk& desk, const Request& request,
                             const std::string& service, Look look) {
  const ProjectName project = project_of(request);
  FALAJ_TRY(check(request, "data.read", {project.str(), "FeatureService", service, nullptr}));
  Planned out{desk.online.known_plan(project, service), {}};
  if (out.plan == nullptr && look == Look::kKnown) return out;
  if (out.plan == nullptr) out.plan = FALAJ_TRY(desk.online.plan(project, service));
  for (std::size_t i = 0; i < out.plan->columns.size(); ++i) out.columns.push_back(i);
  FALAJ_TRY(check_views(request, *out.plan));
  return out;
}

// With Look::kKnown the plan may be null: it must be made.
Result<Planned> plan_of(const OnlineDesk& desk, const Request& request, const FeastRead& read,
                        Look look) {
  if (!read.service.empty()) return plan_service(desk, request, read.service, look);
  const ProjectName project = project_of(request);
  FeastViews wanted = views_of(read);
  for (const features::ServiceView& view : wanted.views) {
    FALAJ_TRY(check_view(request, "data.read", view.view));
  }
  Planned out{desk.online.known_plan(project, wanted.views, read.names), std::move(wanted.columns)};
  if (out.plan == nullptr && look == Look::kMake) {
    out.plan = FALAJ_TRY(desk.online.plan(project, wanted.views, read.names));
  }
  if (out.plan != nullptr) FALAJ_TRY(check_views(request, *out.plan));
  return out;
}

Result<Response> read(const OnlineDesk& desk, const FeastRead& parsed, const Planned& planned) {
  FALAJ_TRY(check_cells(parsed.rows, width_of(planned)));
  const std::vector<features::KeyPart> keys = FALAJ_TRY(feast_keys(parsed, *planned.plan));
  features::OnlineAnswer answer;
  desk.online.read(*planned.plan, keys, {desk.clock.now(), {}}, answer);
  FALAJ_TRY(check_texts(*planned.plan, planned.columns, answer));
  Response response =
      Response::json(write_feast_read(parsed, *planned.plan, planned.columns, answer));
  response.headers.emplace_back("X-Falaj-Commit", std::to_string(answer.commit));
  return response;
}

Result<Response> read_slowly(const OnlineDesk& desk, const Request& request,
                             const FeastRead& parsed) {
  const Planned planned = FALAJ_TRY(plan_of(desk, request, parsed, Look::kMake));
  return read(desk, parsed, planned);
}

// On the event loop when the plan is known and the answer is small; otherwise on the desk's pool.
Status begin_read(OnlineDesk& desk, const Request& request, const net::Reply& reply) {
  auto parsed = std::make_shared<const FeastRead>(FALAJ_TRY(parse_feast_read(request.body)));
  const Planned known = FALAJ_TRY(plan_of(desk, request, *parsed, Look::kKnown));
  if (known.plan != nullptr && parsed->rows * width_of(known) <= kLoopCells) {
    reply(answer_of(read(desk, *parsed, known)));
    return {};
  }
  return desk.pool.submit(
      [&desk, &request, parsed, reply] { reply(answer_of(read_slowly(desk, request, *parsed))); });
}

// --- writing ---

struct Write {
  std::vector<std::string> views;  // At least one.
  Value columns;
  features::Reach reach = features::Reach::kOnline;
};

// Feast's own names of the times, as its remote store sends them, for those of the view's source.
void name_times(const storage::Object& source, Value& columns) {
  for (const auto& [theirs, ours] :
       {std::pair<std::string, std::string>{"event_timestamp", source.spec.text("event_time")},
        {"created", source.spec.text("created_time")}}) {
    if (ours.empty() || ours == theirs || columns.has(ours) || !columns.has(theirs)) continue;
    columns[ours] = columns[theirs];
  }
}

Status check_columns(const Value& columns) {
  if (columns.is_object() && !columns.as_object().empty()) return {};
  return Error{ErrorId::kWrongType, "df must be an object of column: values"};
}

// The views that have this source.
Result<Write> push_of(const OnlineDesk& desk, const Request& request) {
  const std::string project = project_of(request).str();
  const Value body = FALAJ_TRY(body_of(request));
  Write out;
  const std::string name = body.text("push_source_name");
  if (name.empty()) return Error{ErrorId::kMissingField, "push_source_name is missing"};
  out.reach = FALAJ_TRY(features::parse_reach(body.text("to", "online")));
  out.columns = body["df"];
  FALAJ_TRY(check_columns(out.columns));
  const storage::Object source = FALAJ_TRY(desk.catalog.get("Source", project, name));
  name_times(source, out.columns);
  for (const storage::Object& view : FALAJ_TRY(desk.catalog.list("FeatureView", project))) {
    if (view.spec.text("source") == name) out.views.push_back(view.name);
  }
  if (!out.views.empty()) return out;
  return Error{ErrorId::kObjectNotFound, "no FeatureView has the Source '" + name + "'"};
}

Result<Write> write_of(const OnlineDesk& desk, const Request& request) {
  const std::string project = project_of(request).str();
  const Value body = FALAJ_TRY(body_of(request));
  Write out;
  const std::string name = body.text("feature_view_name");
  if (name.empty()) return Error{ErrorId::kMissingField, "feature_view_name is missing"};
  out.views.push_back(name);
  out.columns = body["df"];
  FALAJ_TRY(check_columns(out.columns));
  const storage::Object view = FALAJ_TRY(desk.catalog.get("FeatureView", project, name));
  const storage::Object source =
      FALAJ_TRY(desk.catalog.get("Source", project, view.spec.text("source")));
  name_times(source, out.columns);
  return out;
}

// Answers when the last of several pushes has: with the first error, or with 200.
class Acknowledgement {
 public:
  Acknowledgement(std::size_t pushes, net::Reply reply) : left_(pushes), reply_(std::move(reply)) {}
  void done(const Result<features::PushReport>& report) {
    if (!report.ok() && !answered_.exchange(true)) reply_(error_of(report.error()));
    if (--left_ == 0 && !answered_.exchange(true)) reply_(Response::json("null"));
  }

 private:
  std::atomic<std::size_t> left_;
  std::atomic<bool> answered_{false};
  net::Reply reply_;
};

using ReadWrite = Result<Write> (*)(const OnlineDesk&, const Request&);

Status write(OnlineDesk& desk, const Request& request, ReadWrite read_body,
             const net::Reply& reply) {
  const Write wanted = FALAJ_TRY(read_body(desk, request));
  for (const std::string& view : wanted.views) {
    FALAJ_TRY(check_view(request, "data.ingest", view));
  }
  const security::RequestContext context = FALAJ_TRY(context_of(request, desk.catalog));
  const auto all = std::make_shared<Acknowledgement>(wanted.views.size(), reply);
  for (const std::string& view : wanted.views) {
    desk.pushes.push(context, view, {features::PushedRows::Form::kColumns, wanted.columns},
                     wanted.reach,
                     [all](const Result<features::PushReport>& report) { all->done(report); });
  }
  return {};
}

// --- materializing ---

// A time of the body; nothing when it is not there.
Result<std::optional<Timestamp>> time_of(const Value& body, const std::string& name) {
  const Value& given = body[name];
  if (given.is_null()) return std::optional<Timestamp>();
  if (!given.is_string()) return Error{ErrorId::kWrongType, name + " must be a time as a text"};
  const Result<Timestamp> time = parse_timestamp(given.as_string());
  if (!time.ok()) return Error(ErrorId::kInvalidArgument, name + ": " + time.error().message);
  return std::optional<Timestamp>(*time);
}

// The period that a client wants materialized. What is committed is online whatever its time, but a
// period that is none is a mistake of the caller.
Status check_period(const Value& body) {
  const auto start = FALAJ_TRY(time_of(body, "start_ts"));
  const auto end = FALAJ_TRY(time_of(body, "end_ts"));
  if (!start || !end || *start <= *end) return {};
  return Error{ErrorId::kOutOfRange, "start_ts is after end_ts"};
}

// Everything that was committed is online, or the error says why not.
Result<Response> materialize(const OnlineDesk& desk, const Request& request) {
  const ProjectName project = project_of(request);
  const Value body = FALAJ_TRY(body_of(request));
  FALAJ_TRY(check_period(body));
  std::vector<std::string> views;
  if (body["feature_views"].is_array()) {
    for (const Value& name : body["feature_views"].as_array()) {
      if (!name.is_string()) return Error{ErrorId::kWrongType, "feature_views must be texts"};
      views.push_back(name.as_string());
    }
  } else {
    for (const storage::Object& view : FALAJ_TRY(desk.catalog.list("FeatureView", project.str()))) {
      const bool online = !view.spec["online"].is_bool() || view.spec["online"].as_bool();
      if (online && may(request, "data.ingest", {project.str(), "FeatureView", view.name, nullptr}))
        views.push_back(view.name);
    }
  }
  Value done;
  done["status"] = "accepted";
  done["feature_views"] = Value::array();
  for (const std::string& view : views) {
    FALAJ_TRY(check_view(request, "data.ingest", view));
    FALAJ_TRY(desk.online.make_sure(project, view));
    done["feature_views"].push(view);
  }
  const bool later = request.query_param("async").value_or("") == "true";
  return later ? Response::json(to_json(done), 202) : Response::json("null");
}

// --- routes ---

net::Route route(std::string_view path, std::string_view action, std::string_view summary,
                 net::SyncHandler handler) {
  net::Route made(Method::kPost, path, net::Permission(action), net::Target::listed("FeatureView"),
                  summary, std::move(handler));
  made.dialect = "feast";
  return made;
}

void add_routes(OnlineDesk& desk, const std::string& base, std::vector<net::Route>& routes) {
  net::Route get =
      route(base + "/get-online-features", "data.read",
            "Feast's online read: {features or feature_service, entities: {key: [ids]}}.", nullptr);
  get.handler = [&desk](const Request& request, const net::Reply& reply) {
    const Status begun = begin_read(desk, request, reply);
    if (!begun.ok()) reply(error_of(begun.error()));
  };
  get.runs_on = net::RunsOn::kLoop;
  get.body_bytes_max = 1 << 20;
  routes.push_back(std::move(get));
  const auto add_write = [&](const char* path, std::string_view summary, ReadWrite read_body) {
    net::Route made = route(base + path, "data.ingest", summary, nullptr);
    made.handler = [&desk, read_body](const Request& request, const net::Reply& reply) {
      const Status begun = write(desk, request, read_body, reply);
      if (!begun.ok()) reply(error_of(begun.error()));
    };
    routes.push_back(std::move(made));
  };
  add_write("/push", "Feast's push: {push_source_name, df: {column: [values]}, to}.", push_of);
  add_write("/write-to-online-store",
            "Feast's write of its remote store: {feature_view_name, df: {column: [values]}}.",
            write_of);
  for (const char* path : {"/materialize", "/materialize-incremental"}) {
    routes.push_back(
        route(base + path, "data.ingest",
              "Feast's materialization: rows are online when they are acknowledged, so it only "
              "makes sure.",
              [&desk](const Request& request) { return answer_of(materialize(desk, request)); }));
  }
}

}  // namespace

std::vector<net::Route> feast_routes(OnlineDesk& desk) {
  std::vector<net::Route> routes;
  add_routes(desk, "", routes);
  add_routes(desk, "/feast/{project}", routes);
  return routes;
}

}  // namespace falaj::api
