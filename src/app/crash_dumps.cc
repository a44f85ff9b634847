#include "app/crash_dumps.h"

namespace falaj::app {

bool dumps_allowed(security::residency::Exits& exits, const Zone& dump_folder) {
  if (!dump_folder.labelled()) return false;
  const auto snapshot = exits.snapshot();
  for (const auto& [name, project] : snapshot->projects) {
    security::residency::Flow flow;
    flow.exit = security::residency::Exit::kDump;
    flow.project = name;
    flow.data = project.zone;
    flow.destination = dump_folder;
    flow.object = "Project/" + name;
    const auto context =
        security::system_context("service:server", ProjectName(name), project.zone);
    if (!exits.pass(context, std::move(flow)).ok()) return false;
  }
  return true;
}

}  // namespace falaj::app
