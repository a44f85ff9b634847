#include "security/residency/scrape_filter.h"

#include <map>
#include <memory>

namespace falaj::security::residency {

std::function<bool(const std::string&)> scrape_filter(Exits& exits, const Principal& scraper,
                                                      Caller caller) {
  auto known = std::make_shared<std::map<std::string, bool>>();
  return [&exits, scraper, caller, known](const std::string& project) {
    if (project.empty()) return true;  // The whole server's: nobody's data.
    const auto found = known->find(project);
    if (found != known->end()) return found->second;
    Flow flow;
    flow.exit = Exit::kMetric;
    flow.project = project;
    flow.data = exits.zone_of(project);
    flow.destination = exits.caller_zone(flow.data, scraper.zone, caller);
    flow.object = "Project/" + project;
    RequestContext context;
    context.principal = scraper;
    context.project = ProjectName(project);
    return (*known)[project] = exits.pass(context, std::move(flow)).ok();
  };
}

}  // namespace falaj::security::residency
