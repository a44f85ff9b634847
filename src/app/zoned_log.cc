#include "app/zoned_log.h"

namespace falaj::app {
namespace {

const std::string* project_of(const std::vector<log::Field>& fields) {
  for (const log::Field& field : fields) {
    if (field.key == "project") return std::get_if<std::string>(&field.value);
  }
  return nullptr;
}

}  // namespace

void ZonedLog::write(log::Level level, std::string_view event,
                     const std::vector<log::Field>& fields) {
  security::residency::Exits* exits = exits_.load();
  const std::string* project = project_of(fields);
  if (exits == nullptr || project == nullptr || project->empty()) {
    return inner_->write(level, event, fields);
  }
  security::residency::Flow flow;
  flow.exit = security::residency::Exit::kLog;
  flow.project = *project;
  flow.data = exits->zone_of(*project);
  flow.destination = exits->machine_for(flow.data);
  flow.object = "Project/" + *project;
  const auto context = security::system_context("service:log", ProjectName(*project), flow.data);
  const bool passes = exits->pass(context, std::move(flow)).ok();
  if (passes) return inner_->write(level, event, fields);
  inner_->write(level, event, {{"withheld", "its project's zone does not reach here"}});
}

}  // namespace falaj::app
