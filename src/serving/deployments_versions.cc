// Further versions of a deployment's model, which answer who names them.
#include <algorithm>

#include "serving/internal/deployments_impl.h"

namespace falaj::serving {
namespace {

// What runs this version already, alone; null when nothing does.
std::shared_ptr<const LiveModel> running(const LiveModel* before, std::int64_t version) {
  if (before == nullptr) return nullptr;
  for (const auto& other : before->others) {
    if (other->version.version == version) return other;
  }
  if (before->version.version != version) return nullptr;
  auto alone = std::make_shared<LiveModel>(*before);
  alone->split = nullptr;
  alone->fallback = nullptr;
  alone->others.clear();
  return alone;
}

}  // namespace

std::shared_ptr<const LiveModel> version_of(const std::shared_ptr<const LiveModel>& live,
                                            std::int64_t version) {
  if (live->version.version == version) return live;
  for (const auto& other : live->others) {
    if (other->version.version == version) return other;
  }
  return nullptr;
}

Result<std::vector<std::int64_t>> Deployments::Impl::wanted_versions(const ProjectName& project,
                                                                     const Deployment& declared,
                                                                     std::int64_t version) {
  using Which = Deployment::Versions::Which;
  std::vector<std::int64_t> wanted = declared.versions.listed;
  const Which which = declared.versions.which;
  if (which == Which::kAll || which == Which::kLatest) {
    for (const registry::ModelVersion& each : FALAJ_TRY(models.versions(project, declared.model))) {
      wanted.push_back(each.version);
    }
  }
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  if (which == Which::kLatest) {
    const std::size_t most = static_cast<std::size_t>(declared.versions.latest);
    if (wanted.size() > most) wanted.erase(wanted.begin(), wanted.end() - declared.versions.latest);
  }
  if (wanted.size() > kVersionsMax) {
    return Error(ErrorId::kOutOfRange,
                 "model '" + declared.model + "' has " + std::to_string(wanted.size()) +
                     " versions; name those to serve, at most " + std::to_string(kVersionsMax));
  }
  std::erase(wanted, version);
  return wanted;
}

Status Deployments::Impl::add_versions(const storage::Object& object, const Slot& slot,
                                       LiveModel& live) {
  live.others.clear();
  if (slot.declared.versions.which == Deployment::Versions::Which::kNone) return {};
  Slot beside;
  beside.answers = slot.answers;
  for (const std::int64_t version : FALAJ_TRY(
           wanted_versions(ProjectName(object.project), slot.declared, live.version.version))) {
    beside.declared = slot.declared;
    beside.declared.alias.clear();
    beside.declared.version = version;
    beside.declared.versions = {};
    beside.declared.fallback.reset();
    beside.live = running(slot.live.get(), version);
    Result<std::shared_ptr<const LiveModel>> loaded = load(object, beside, version);
    if (!loaded.ok()) return loaded.error().within("version " + std::to_string(version));
    live.others.push_back(std::move(loaded).value());
  }
  return {};
}

}  // namespace falaj::serving
