// Deployments that are several steps: which versions they are made of, and when that changes.
#include <algorithm>

#include "serving/internal/deployments_impl.h"

namespace falaj::serving {
namespace {

// A session among those of `live` that runs this very file; null when none does.
std::shared_ptr<Session> session_in(const LiveModel& live, const GraphPart& part) {
  if (live.graph == nullptr) {
    const bool own = live.version.model == part.model && live.version.onnx.str() == part.onnx;
    return own ? live.session : nullptr;
  }
  for (const GraphPart& each : live.graph->parts()) {
    if (each.model == part.model && each.onnx == part.onnx) return each.session;
  }
  return nullptr;
}

// What depended on the session before is made anew.
void take_session(std::shared_ptr<Session> session, std::shared_ptr<const GraphSession> graph,
                  LiveModel& live) {
  live.session = std::move(session);
  live.graph = std::move(graph);
  live.batcher = nullptr;
  live.plan = nullptr;
}

}  // namespace

std::string digest_of(const LiveModel& live) {
  return live.graph == nullptr ? live.version.onnx.str() : live.graph->digest();
}

bool has_rows_of_model(const LiveModel& live) {
  if (!live.stands_in_for.empty()) return false;
  return live.graph == nullptr || live.graph->features_of() == live.version.model;
}

bool uses_model(const LiveModel& live, const std::string& model) {
  if (live.version.model == model) return true;
  if (live.fallback != nullptr && live.fallback->version.model == model) return true;
  if (live.graph == nullptr) return false;
  const std::vector<GraphPart>& parts = live.graph->parts();
  return std::any_of(parts.begin(), parts.end(),
                     [&](const GraphPart& part) { return part.model == model; });
}

Value steps_value(const GraphSession& graph) {
  Value steps = Value::object();
  for (std::size_t i = 0; i < graph.parts().size(); ++i) {
    const GraphPart& part = graph.parts()[i];
    if (part.session == nullptr) continue;
    Value& step = steps[graph.graph().steps[i].name];
    step["model"] = part.model;
    step["version"] = part.version;
    step["onnx"] = part.onnx;
  }
  return steps;
}

// The parts as they are wanted now, without their sessions.
Result<std::vector<GraphPart>> Deployments::Impl::wanted_parts(const Deployment& declared,
                                                               const LiveModel& live) {
  const ProjectName project(live.project);
  std::vector<GraphPart> parts;
  for (const GraphStep& step : declared.graph.steps) {
    GraphPart& part = parts.emplace_back();
    if (step.model.empty()) continue;
    Deployment other;
    other.model = step.model;
    other.alias = step.alias;
    other.version = step.version;
    const registry::ModelVersion version =
        step.model == declared.model
            ? live.version
            : FALAJ_TRY(
                  models.get(project, step.model, FALAJ_TRY(desired_version(project, other))));
    part = {version.model, version.version, version.onnx.str(), nullptr,
            version.signature.features};
  }
  return parts;
}

Status Deployments::Impl::open_parts(const LiveModel* before, const LiveModel& live,
                                     std::vector<GraphPart>& parts) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    GraphPart& part = parts[i];
    if (part.model.empty()) continue;
    part.session = session_in(live, part);
    if (part.session == nullptr && before != nullptr && before->runtime == live.runtime) {
      part.session = session_in(*before, part);
    }
    // One file that several steps use is loaded once.
    for (std::size_t other = 0; part.session == nullptr && other < i; ++other) {
      const GraphPart& opened = parts[other];
      if (opened.model == part.model && opened.onnx == part.onnx) part.session = opened.session;
    }
    if (part.session == nullptr) {
      part.session = FALAJ_TRY(
          open_session(FALAJ_TRY(models.get(ProjectName(live.project), part.model, part.version)),
                       live.runtime));
    }
    if (part.features.empty()) part.features = part.session->signature().features;
  }
  return {};
}

Status Deployments::Impl::add_graph(const Deployment& declared, const LiveModel* before,
                                    LiveModel& live) {
  if (declared.graph.empty()) {
    if (live.graph == nullptr) return {};
    std::vector<GraphPart> own{
        {live.version.model, live.version.version, live.version.onnx.str(), nullptr, {}}};
    FALAJ_TRY(open_parts(before, live, own));
    take_session(own[0].session, nullptr, live);
    return {};
  }
  std::vector<GraphPart> parts = FALAJ_TRY(wanted_parts(declared, live));
  if (live.graph != nullptr && graph_digest(declared.graph, parts) == live.graph->digest()) {
    return {};
  }
  FALAJ_TRY(open_parts(before, live, parts));
  const std::shared_ptr<GraphSession> graph =
      FALAJ_TRY(make_graph_session(declared.graph, std::move(parts)));
  take_session(graph, graph, live);
  return {};
}

}  // namespace falaj::serving
